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

/* Records the event before a launch of `launches` kernels, where the limits need it. */
void batch_open(CUstream stream, const struct limits *limits, int64_t launches);

/* Records the one after it; called by leave_launch(). */
void batch_close(CUstream stream, CUresult result);

/* Looks which have finished and lets the controller take its step. */
void batch_settle(const struct limits *limits, uint64_t now_ns);

/* Launches that are known to be unfinished. */
uint64_t batch_inflight(void);

/* Runs the change when no thread is recording or querying events. */
void batch_exclude(void (*change)(void *), void *argument);

/* The context and its events are about to go; call it before the driver's own function. */
void batch_forget_context(CUcontext context);

void batch_fork_child(void);
