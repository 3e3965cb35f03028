/* The job's memory, counted in one word that all its processes share (block.h).
 *
 * Bytes are reserved before the driver is asked and given back when it refuses or has freed, so the
 * job is never above its quota, whatever its processes do at the same moment. Any thread may call
 * these; none of them waits for another process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "block.h"
#include "cuda.h"

/* CUDA_ERROR_OUT_OF_MEMORY when the quota does not allow it, after what dead processes left and
 * what our memory pools merely keep has been given back. */
CUresult quota_reserve(enum block_kind kind, uint64_t bytes);
void quota_release(enum block_kind kind, uint64_t bytes);

/* Of this process, from one kind to another; the job's sum stays as it is. */
void quota_move(enum block_kind from, enum block_kind to, uint64_t bytes);

/* What the job may still allocate; UINT64_MAX without a quota. */
uint64_t quota_free_bytes(void);

/* Frees the slots of processes that have ended and counts the job's memory anew from what the
 * living ones state. Returns false when a living process was amid a change; then try again. */
bool quota_reap(struct block_stats *stats);
