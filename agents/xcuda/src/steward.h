/* The two threads of ours, which block all signals. The steward takes the policy over and steers the
 * gate: freeze, checkpoint window, stop (stop.h). The walker waits for what is in flight and makes
 * the driver calls of a stop, since those may take for ever: a driver that hangs cannot keep the
 * steward from saying so. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

/* Starts them, once; what cuInit does after it has claimed the slot. False: they cannot be had. */
bool steward_start(void);

/* Makes the steward look up at once. Async-signal-safe. */
void steward_wake(void);

/* A signal asks for the stop of this process; `handled`: the application has a handler for it, and
 * so gets its checkpoint window. The first one counts. Async-signal-safe. */
void steward_stop(int signal, bool handled);

/* The application wants no more of its window. Async-signal-safe. */
void steward_end_window(void);

/* The calling thread is about to end the process: gate, quiesce, release, and return. Returns at
 * once where no context is left. The caller itself may pass the gate from here on. */
void steward_leave(void);

/* In a child there are no such threads. */
void steward_fork_child(void);

/* True once the contexts are released: a call of the thread that leaves must not reach the driver
 * any more, it gets CUDA_ERROR_DEINITIALIZED as it would from a driver that has shut down. */
extern _Atomic bool contexts_released;
