/* What STUB_NVML states of the devices: a file of lines "INDEX NAME VALUE", later ones holding. */
#include "nvml.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define XIDS_MOST 64

static const struct {
    const char *name;
    size_t offset;
} names[] = {
    {"temperature_c", offsetof(struct stated, temperature_c)},
    {"power_mw", offsetof(struct stated, power_mw)},
    {"sm_clock_mhz", offsetof(struct stated, sm_clock_mhz)},
    {"clocks_event_reasons", offsetof(struct stated, clocks_event_reasons)},
    {"mig", offsetof(struct stated, mig)},
    {"compute_mode", offsetof(struct stated, compute_mode)},
    {"gpm", offsetof(struct stated, gpm)},
};

static const struct stated nothing = {-1, -1, -1, -1, -1, -1, -1};

static struct {
    pthread_mutex_t lock;
    struct timespec changed;
    struct stated of[DEVICES_MOST];
    unsigned int xids[DEVICES_MOST], xid[DEVICES_MOST][XIDS_MOST];
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void take(unsigned int index, const char *name, long value)
{
    if (strcmp(name, "xid") == 0 && told.xids[index] < XIDS_MOST)
        told.xid[index][told.xids[index]++] = (unsigned int)value;
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (strcmp(name, names[at].name) == 0)
            *(long *)((char *)&told.of[index] + names[at].offset) = value;
}

static void read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    unsigned int index;
    char line[128], name[64];
    long value;
    for (index = 0; index < DEVICES_MOST; index++) {
        told.of[index] = nothing;
        told.xids[index] = 0;
    }
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%u %63s %ld", &index, name, &value) == 3 && index < DEVICES_MOST)
            take(index, name, value);
    if (file)
        fclose(file);
}

/* Under the lock. False: nothing is stated. */
static bool refresh(void)
{
    const char *path = getenv("STUB_NVML");
    struct stat status;
    if (!path || stat(path, &status) != 0)
        return false;
    if (memcmp(&status.st_mtim, &told.changed, sizeof told.changed) != 0) {
        told.changed = status.st_mtim;
        read_file(path);
    }
    return true;
}

struct stated stated(unsigned int index)
{
    pthread_mutex_lock(&told.lock);
    struct stated of = refresh() ? told.of[index] : nothing;
    pthread_mutex_unlock(&told.lock);
    return of;
}

bool stated_xid(unsigned int index, unsigned int number, unsigned int *code)
{
    pthread_mutex_lock(&told.lock);
    bool there = refresh() && number < told.xids[index];
    if (there)
        *code = told.xid[index][number];
    pthread_mutex_unlock(&told.lock);
    return there;
}
