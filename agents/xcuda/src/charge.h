/* What the hooks of allocations have in common: enter the gate, reserve, ask the driver, and list
 * what it gave or give the bytes back; and of frees: unlist, ask the driver, and uncharge. */
#pragma once

#include "allocations.h"
#include "driver.h"
#include "gate.h"
#include "quota.h"

static inline CUcontext current_context(void)
{
    CUcontext context = NULL;
    BORROWED(cuCtxGetCurrent)(&context);
    return context;
}

/* True: the call may go to the driver, has `bytes` reserved and must end with leave(). */
static inline bool begin_charged(enum block_kind kind, uint64_t bytes, CUresult *result)
{
    *result = enter(ENTRY_MEMORY);
    if (*result != CUDA_SUCCESS)
        return false;
    *result = quota_reserve(kind, bytes);
    if (*result == CUDA_SUCCESS)
        return true;
    leave(*result);
    return false;
}

/* After the driver's answer to what was reserved. */
static inline CUresult end_charged(CUresult result, const struct allocation *made)
{
    if (result == CUDA_SUCCESS)
        allocations_add(made);
    else
        quota_release(made->kind, made->bytes);
    return leave(result);
}

/* After the driver's answer to a free; `known` if the table had it. */
static inline CUresult end_free(CUresult result, bool known, const struct allocation *freed)
{
    if (known && result == CUDA_SUCCESS)
        allocation_release(freed);
    else if (known)
        allocations_add(freed); /* it is still there, then */
    return leave(result);
}

/* The whole of a hook that frees. */
#define FREE(space, value, real_call)                                          \
    do {                                                                       \
        struct allocation freed;                                               \
        CUresult held = enter(ENTRY_MEMORY);                                   \
        if (held != CUDA_SUCCESS)                                              \
            return held;                                                       \
        bool known = allocations_take((space), (uint64_t)(value), &freed);     \
        return end_free((real_call), known, &freed);                           \
    } while (0)
