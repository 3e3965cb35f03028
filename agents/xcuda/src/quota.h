/* The job's memory, counted in one word that all its processes share (block.h).
 *
 * Bytes are reserved before the driver is asked and given back when it refuses or has freed, so the
 * job is never above its quota, whatever its processes do at the same moment. Any thread may call
 * these; none of them waits for another process. Bytes are counted in whole BLOCK_UNIT_BYTES.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "block.h"
#include "cuda.h"

/* CUDA_ERROR_OUT_OF_MEMORY when the quota does not allow it, not even after what dead processes
 * left and what our memory pools merely keep was given back. */
CUresult quota_reserve(enum block_kind kind, uint64_t bytes);

/* Without those second thoughts; for what has been allocated already, `force` passes the quota. */
bool quota_try(enum block_kind kind, uint64_t bytes, bool force);

void quota_release(enum block_kind kind, uint64_t bytes);

/* Of this process, from one kind to another; the job's sum stays as it is. */
void quota_move(enum block_kind from, enum block_kind to, uint64_t bytes);

/* What the job may still allocate; UINT64_MAX without a quota. */
uint64_t quota_free_bytes(void);

/* What the job has. */
uint64_t quota_used_bytes(const struct block_stats *stats);

/* Counts the job's memory anew from what the slots state, after slots_reap. Returns false when a
 * process was amid a change; what it holds may then be counted too high until the next time. */
bool quota_recount(struct block_stats *stats);
