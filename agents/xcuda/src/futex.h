/* Waiting and time without the C library's locks; all of it is async-signal-safe. */
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

static inline uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Sleeps while the word holds `value`, for at most `timeout_ns`; may return early. The word may lie
 * in memory that other processes share. Leaves errno as it was. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
    struct timespec timeout = {(time_t)(timeout_ns / NS_PER_S), (long)(timeout_ns % NS_PER_S)};
    int before = errno;
    syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
    errno = before;
}

static inline void futex_wake(_Atomic uint32_t *word)
{
    int before = errno;
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    errno = before;
}

static inline void nap(uint64_t ns)
{
    struct timespec length = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};
    int before = errno;
    nanosleep(&length, NULL);
    errno = before;
}
