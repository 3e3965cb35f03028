/* Stream-ordered memory pools, which keep what is freed into them for the next allocation.
 *
 * What a pool keeps beyond what is allocated from it, its slack, is memory of the job too: it stays
 * charged, is used up first, and is compared with what the driver says the pool holds whenever the
 * pool must have grown, and now and then besides.
 */
#pragma once

#include <stdint.h>

#include "cuda.h"

struct pool;

/* What one allocation was charged, between the quota and the driver. */
struct pool_charge {
    uint64_t from_slack;
    uint64_t grown; /* by as much the pool may have to grow */
};

/* The pool of that handle. NULL: no handle, or more pools than are tracked; such have no slack. */
struct pool *pool_of(CUmemoryPool handle);

/* A pool was made whose memory is the host's: nothing of it is charged. */
void pool_set_on_host(CUmemoryPool handle);

/* Charges an allocation before the driver is asked. */
CUresult pool_reserve(struct pool *pool, uint64_t bytes, struct pool_charge *charge);

/* After the driver has refused. */
void pool_roll_back(struct pool *pool, const struct pool_charge *charge);

/* After the driver has allocated. CUDA_ERROR_OUT_OF_MEMORY: the pool has grown by more than was
 * charged and the quota does not allow it; then the allocation must be freed again. */
CUresult pool_allocated(struct pool *pool, uint64_t bytes, const struct pool_charge *charge);

void pool_freed(struct pool *pool, uint64_t bytes);

/* After the driver has trimmed or destroyed one. */
void pool_trimmed(CUmemoryPool handle);
void pool_destroyed(CUmemoryPool handle);

/* After a synchronisation, at which the driver gives back what a pool need not keep. */
void pools_settle(void);

/* Lets the driver give back what no pool of this process needs; what quota.c does before it
 * refuses. Not while a stream captures. */
void pools_trim(void);

void pools_fork_child(void);
