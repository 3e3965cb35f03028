/* The two threads of ours: the helper, which waits for the policy and watches over a stop, and the
 * walker, which makes the driver calls of a stop, so that a driver that hangs cannot keep the
 * helper from saying so. Both block all signals. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

/* Starts them, once; what cuInit does after it has claimed the slot. */
void helper_start(void);

/* Makes the helper look up at once. Async-signal-safe. */
void helper_wake(void);

/* The calling thread is about to end the process: gate, quiesce, release, and return. Returns at
 * once where no CUDA was used. The caller itself may pass the gate from here on. */
void helper_leave(void);

/* True once the contexts are released: a call of the thread that leaves must not reach the driver
 * any more, it gets CUDA_ERROR_DEINITIALIZED as it would from a driver that has shut down. */
extern _Atomic bool contexts_released;
