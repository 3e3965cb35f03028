#include "pools.h"
#include "quota.h"

CUresult quota_reserve(enum block_kind kind, uint64_t bytes)
{
    if (__builtin_expect(quota_try(kind, bytes, false), 1))
        return CUDA_SUCCESS;
    policy_refresh();
    slots_reap(stats);
    quota_recount(stats);
    pools_trim();
    if (quota_try(kind, bytes, false))
        return CUDA_SUCCESS;
    atomic_fetch_add_explicit(&slot->denied, 1, memory_order_relaxed);
    return CUDA_ERROR_OUT_OF_MEMORY;
}
