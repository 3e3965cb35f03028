#include "complain.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 512 };

/* What comes from outside (a path, a setting) must not break the line. */
static size_t append(char *line, size_t length, const char *part)
{
    for (; *part && length < LINE_BYTES - 1; part++)
        line[length++] = (unsigned char)*part >= ' ' && *part != 127 ? *part : '?';
    return length;
}

/* Settings are read once, and each wrong one is worth its line. */
static bool told_before(enum trouble kind)
{
    static atomic_flag told[TROUBLE_COUNT];
    return kind != TROUBLE_ENVIRONMENT && atomic_flag_test_and_set(&told[kind]);
}

/* A reader that has gone must not end the process (SIGPIPE), and one that does not read must not
 * hold it up: then the line is lost. A pipe that can be written to takes a line of this length. */
static void write_line(const char *line, size_t length)
{
    sigset_t pipe, before, waiting;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe, &before);
    sigpending(&waiting);
    if (poll(&(struct pollfd){STDERR_FILENO, POLLOUT, 0}, 1, 0) == 1 &&
        write(STDERR_FILENO, line, length) < 0 && errno == EPIPE && !sigismember(&waiting, SIGPIPE))
        sigtimedwait(&pipe, NULL, &(struct timespec){0, 0});
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void complain(enum trouble kind, ...)
{
    if (told_before(kind))
        return;
    int before = errno;
    char line[LINE_BYTES];
    size_t length = append(line, 0, "xcuda: ");
    va_list parts;
    va_start(parts, kind);
    for (const char *part; (part = va_arg(parts, const char *));)
        length = append(line, length, part);
    va_end(parts);
    line[length++] = '\n';
    write_line(line, length);
    errno = before;
}

const char *decimal(struct decimal *into, int64_t number)
{
    char *at = into->text + sizeof into->text;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    *--at = '\0';
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        *--at = '-';
    return at;
}
