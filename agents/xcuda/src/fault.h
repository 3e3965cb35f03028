/* Codes of the driver after which the process cannot go on. */
#pragma once

#include "cuda.h"

/* Gates the process and wakes the agent when the code is fatal; nothing else otherwise. */
void fault_seen(CUresult result);

/* The first fatal code, or CUDA_SUCCESS. While it is set a shut gate does not hold a thread: the
 * call returns this code, as the driver would go on doing. */
CUresult fault_code(void);
