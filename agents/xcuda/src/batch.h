/* What is unfinished on the device, and how long it takes, by events.
 *
 * Every launch that comes through the slow path has an event before and one after it; those that
 * a grant lets through without are counted with the next that does. The second event says when all
 * of them are done, the two together how long one launch takes. Nothing is recorded or queried
 * while a stream of the process captures: it would end up in the graph, or spoil it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda.h"
#include "pace.h"

/* Of the process. */
extern struct pace pace;

/* Counts a launch of so many kernels as in flight; false: the cap does not allow it now. When
 * nothing has finished for long it does: what is in flight may be waiting for this very launch. */
bool batch_reserve(const struct limits *limits, int64_t launches, uint32_t threads, bool force,
                   uint64_t now_ns);

/* Records the event before a launch that was counted. `kernel` is any number that stands for what
 * is launched. */
void batch_open(CUstream stream, uint64_t kernel, int64_t launches);

/* Records the one after it; called by leave_launch(). */
void batch_close(CUstream stream, CUresult result);

/* Looks which have finished and lets the controller take its step. */
void batch_settle(const struct limits *limits, uint64_t now_ns);

/* How long to wait before looking again. */
uint64_t batch_nap_ns(const struct limits *limits);

/* Keeps all threads from looking at events until batch_release(). False, and nothing is kept: one
 * was in the driver for too long. */
bool batch_hold(void);
void batch_release(void);

/* The context and its events are about to go; call it before the driver's own function. */
void batch_forget_context(CUcontext context);

void batch_fork_child(void);
