/* Stream-ordered memory pools, which keep what is freed into them for the next allocation.
 *
 * What a pool keeps beyond what is allocated from it, its slack, is memory of the job too: it stays
 * charged, is used up first, and is compared with what the driver says the pool holds.
 */
#pragma once

#include <stdint.h>

#include "cuda.h"

struct pool;

/* The pool of that handle, made on first sight; NULL: too many pools, they then have no slack. */
struct pool *pool_of(CUmemoryPool handle);

/* Charges an allocation: the slack first, the rest of the quota. */
CUresult pool_reserve(struct pool *pool, uint64_t bytes);

/* After the driver's call: an allocation that failed, one that was made, one that was freed. */
void pool_roll_back(struct pool *pool, uint64_t bytes);
void pool_allocated(struct pool *pool, uint64_t bytes);
void pool_freed(struct pool *pool, uint64_t bytes);

/* The pool is destroyed: its slack is gone. What is still allocated goes when it is freed. */
void pool_destroyed(CUmemoryPool handle);

/* Compares a pool with the driver now: it was trimmed. */
void pool_reconcile(CUmemoryPool handle);

/* Gives back what the pools do not hold any more; what quota.c does before it refuses. */
void pools_trim(void);

/* In a child of fork: the parent's other threads, which may have held a lock, are not there. */
void pools_fork_child(void);
