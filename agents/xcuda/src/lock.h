/* A lock for a few instructions at a time, never held across a call of the driver. Unlike a mutex
 * it costs one atomic instruction, and a child of fork may just open it. */
#pragma once

#include <sched.h>
#include <stdatomic.h>

typedef struct {
    _Atomic int held;
} lock;

static inline void lock_take(lock *it)
{
    while (atomic_exchange_explicit(&it->held, 1, memory_order_acquire) != 0)
        for (int tries = 0; atomic_load_explicit(&it->held, memory_order_relaxed) != 0; tries++)
            if (tries > 100) /* who holds it may be waiting for this processor */
                sched_yield();
}

static inline void lock_give(lock *it)
{
    atomic_store_explicit(&it->held, 0, memory_order_release);
}
