/* Which streams capture: what is launched on them is recorded, not run, and meanwhile the driver
 * forbids what might synchronise. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda.h"

extern _Atomic uint32_t captures_active; /* begun in this process and not ended */

static inline bool capture_any(void)
{
    return atomic_load_explicit(&captures_active, memory_order_acquire) != 0;
}

/* Whether a launch on this stream would be recorded. Asks the driver only while one captures. */
bool capture_on(CUstream stream);

/* With a context go its streams, and with a thread its own stream: what they were capturing. */
void capture_forget_context(CUcontext context);
struct thread;
void capture_forget_thread(struct thread *thread);

void capture_fork_child(void);
