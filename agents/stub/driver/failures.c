#include "failures.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "server.h"

#define RULES 32
#define LOOK_EVERY_NS 1000000u

struct rule {
    char name[64];
    CUresult code;
    uint64_t first, last; /* calls that fail, counted from 1 */
    uint64_t calls;
};

static struct {
    pthread_mutex_t lock;
    struct rule rule[RULES];
    int count;
    const char *path;
    struct timespec changed;
    uint64_t looked_ns;
} failures = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* NAME:CODE[@N[+]] */
static void add(const char *text)
{
    struct rule rule = {.first = 1, .last = UINT64_MAX};
    unsigned long long first;
    char more = 0;
    int code;
    int read = sscanf(text, " %63[^:]:%d@%llu%c", rule.name, &code, &first, &more);
    if (read < 2 || failures.count == RULES) {
        fprintf(stderr, "stub driver: not NAME:CODE[@N[+]]: %s\n", text);
        abort();
    }
    rule.code = (CUresult)code;
    if (read >= 3)
        rule.first = first, rule.last = more == '+' ? UINT64_MAX : first;
    failures.rule[failures.count++] = rule;
}

static void add_all(char *text)
{
    char *rest;
    for (char *each = strtok_r(text, ", \n", &rest); each; each = strtok_r(NULL, ", \n", &rest))
        add(each);
}

static void read_file(void)
{
    struct stat status;
    if (stat(failures.path, &status) != 0 ||
        memcmp(&status.st_mtim, &failures.changed, sizeof failures.changed) == 0)
        return;
    failures.changed = status.st_mtim;
    failures.count = 0;
    char text[4096];
    FILE *file = fopen(failures.path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = '\0';
    add_all(text);
}

bool failures_read(void)
{
    const char *stated = getenv("STUB_FAIL");
    failures.path = getenv("STUB_FAIL_FILE");
    if (stated) {
        char *copy = strdup(stated);
        add_all(copy);
        free(copy);
    }
    return stated || failures.path;
}

/* The rule's name with any suffix of a variant: _v2, _ptsz, _v2_ptds. */
static bool names(const struct rule *rule, const char *symbol)
{
    size_t length = strlen(rule->name);
    if (strncmp(symbol, rule->name, length) != 0)
        return false;
    const char *rest = symbol + length;
    return *rest == '\0' || strncmp(rest, "_v", 2) == 0 || strncmp(rest, "_pt", 3) == 0;
}

CUresult failure_due(const char *symbol)
{
    CUresult code = CUDA_SUCCESS;
    pthread_mutex_lock(&failures.lock);
    if (failures.path && monotonic_ns() - failures.looked_ns > LOOK_EVERY_NS) {
        failures.looked_ns = monotonic_ns();
        read_file();
    }
    for (struct rule *rule = failures.rule; rule < failures.rule + failures.count; rule++)
        if (names(rule, symbol)) {
            rule->calls += 1;
            if (rule->calls >= rule->first && rule->calls <= rule->last)
                code = rule->code;
        }
    pthread_mutex_unlock(&failures.lock);
    return code;
}

bool is_fatal(CUresult code)
{
    int number = (int)code;
    return number == 214 || number == 226 || number == 700 || number == 702 || number == 710 ||
           (number >= 714 && number <= 719);
}
