/* What a launch of an instantiated graph costs, and which streams capture. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda.h"
#include "pace.h"

/* Kernels and their blocks, those of child graphs included; one launch of one block for a graph
 * that was not instantiated through us. */
struct amount graph_cost(CUgraphExec exec);

/* --- captures ------------------------------------------------------------------------------ */

extern _Atomic uint32_t captures_active; /* streams of this process on which a capture was begun */

static inline bool capture_any(void)
{
    return atomic_load_explicit(&captures_active, memory_order_acquire) != 0;
}

/* Whether a launch on this stream would be recorded rather than run. Asks the driver only while
 * something captures. */
bool capture_on(CUstream stream);

void graph_fork_child(void);
