/* How a launch is told to the gate. */
#pragma once

#include <stdint.h>

#include "cuda.h"

/* More than any device takes, and sums do not overflow. */
#define GRID_BLOCKS_MOST (UINT64_C(1) << 40)

static inline int64_t grid_blocks(unsigned x, unsigned y, unsigned z)
{
    uint64_t blocks;
    if (__builtin_mul_overflow((uint64_t)x * y, (uint64_t)z, &blocks) || blocks > GRID_BLOCKS_MOST)
        return GRID_BLOCKS_MOST;
    return (int64_t)blocks;
}

/* The stream that a function with _ptsz is told, as one without would be. */
static inline CUstream per_thread_stream(CUstream stream)
{
    return stream ? stream : CU_STREAM_PER_THREAD;
}
