/* What a launch of an instantiated graph costs. */
#pragma once

#include "cuda.h"
#include "pace.h"

/* Kernels and their blocks, those of child graphs included; one launch of one block for a graph
 * that was not instantiated through us. */
struct amount graph_cost(CUgraphExec exec);

void graph_fork_child(void);
