/* Something that is done once in a process. Unlike pthread_once it is bound to no version of glibc,
 * and a child that is forked while another thread is at it does not wait for that thread for ever:
 * it does it itself. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "futex.h"

#define ONCE_DONE UINT32_MAX

typedef _Atomic uint32_t once; /* 0: not done; else the process that is at it, or ONCE_DONE */

/* True: the caller does it and calls once_end. False: it is done. */
static inline bool once_begin(once *once)
{
    for (;;) {
        uint32_t state = atomic_load_explicit(once, memory_order_acquire);
        if (state == ONCE_DONE)
            return false;
        uint32_t self = (uint32_t)getpid();
        if (state != self && atomic_compare_exchange_strong(once, &state, self))
            return true;
        nap(NS_PER_MS / 10);
    }
}

static inline void once_end(once *once)
{
    atomic_store_explicit(once, ONCE_DONE, memory_order_release);
}
