#include "capture.h"

#include <stdlib.h>

#include "batch.h"
#include "driver.h"
#include "gate.h"
#include "launch.h"
#include "lock.h"

_Atomic uint32_t captures_active;

static struct capture {
    struct capture *next;
    CUstream stream; /* on which it was begun; 2 stands for one stream of each thread */
    CUcontext context;
    struct thread *thread;
} *captures;
static lock guard;

bool capture_on(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return capture_any() && BORROWED(cuStreamIsCapturing)(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Counted before the driver knows, and when no thread looks at events: a look by another thread
 * would spoil the capture. The raised word brings every launch to the slow path. */
static struct capture *announce(CUstream stream)
{
    struct capture *capture = calloc(1, sizeof *capture);
    CUcontext context = NULL;
    BORROWED(cuStreamGetCtx)(stream, &context);
    bool mine = batch_hold();
    atomic_fetch_add(&captures_active, 1);
    if (mine)
        batch_release();
    gate_review();
    if (capture)
        *capture = (struct capture){.stream = stream,
                                    .context = context,
                                    .thread = stream == CU_STREAM_PER_THREAD ? &self : NULL};
    return capture;
}

static void revoke(void)
{
    atomic_fetch_sub(&captures_active, 1);
    gate_review();
}

static CUresult begun(struct capture *capture, CUresult result)
{
    if (result != CUDA_SUCCESS || !capture) {
        free(capture);
        revoke(); /* without memory to remember it by, it could never be ended */
        return leave(result);
    }
    lock_take(&guard);
    capture->next = captures;
    captures = capture;
    lock_give(&guard);
    return leave(result);
}

static bool forget(CUstream stream)
{
    struct thread *thread = stream == CU_STREAM_PER_THREAD ? &self : NULL;
    lock_take(&guard);
    struct capture **at = &captures, *found;
    while (*at && ((*at)->stream != stream || (*at)->thread != thread))
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    lock_give(&guard);
    free(found);
    return found != NULL;
}

/* Also one that has failed ends a capture, except when the wrong thread tried. */
static CUresult ended(CUstream stream, CUresult result)
{
    if (!capture_on(stream) && forget(stream))
        revoke();
    return leave(result);
}

#define BEGIN(name, stream_of, parameters, arguments)                \
    CUresult name parameters                                         \
    {                                                                \
        CUresult result = enter(ENTRY_MEMORY);                       \
        if (result != CUDA_SUCCESS)                                  \
            return result;                                           \
        struct capture *capture = announce(stream_of(stream));       \
        return begun(capture, REAL(name) arguments);                 \
    }

#define TO_GRAPH                                                                                \
    (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const void *edges,        \
     size_t count, int mode)

BEGIN(cuStreamBeginCapture, , (CUstream stream), (stream))
BEGIN(cuStreamBeginCapture_ptsz, per_thread_stream, (CUstream stream), (stream))
BEGIN(cuStreamBeginCapture_v2, , (CUstream stream, int mode), (stream, mode))
BEGIN(cuStreamBeginCapture_v2_ptsz, per_thread_stream, (CUstream stream, int mode), (stream, mode))
BEGIN(cuStreamBeginCaptureToGraph, , TO_GRAPH, (stream, graph, dependencies, edges, count, mode))
BEGIN(cuStreamBeginCaptureToGraph_ptsz, per_thread_stream, TO_GRAPH,
      (stream, graph, dependencies, edges, count, mode))

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    CUresult result = enter(ENTRY_MEMORY);
    return result ? result : ended(stream, REAL(cuStreamEndCapture)(stream, graph));
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    CUresult result = enter(ENTRY_MEMORY);
    return result ? result
                  : ended(per_thread_stream(stream), REAL(cuStreamEndCapture_ptsz)(stream, graph));
}

/* A stream that is destroyed while it captures will not end its capture. */
static CUresult destroyed(CUstream stream, CUresult result)
{
    if (result == CUDA_SUCCESS && capture_any() && forget(stream))
        revoke();
    return leave(result);
}

CUresult cuStreamDestroy(CUstream stream)
{
    CUresult result = enter(ENTRY_MEMORY);
    return result ? result : destroyed(stream, REAL(cuStreamDestroy)(stream));
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    CUresult result = enter(ENTRY_MEMORY);
    return result ? result : destroyed(stream, REAL(cuStreamDestroy_v2)(stream));
}

/* --- captures that nobody can end any more --------------------------------------------------- */

typedef bool condition(const struct capture *capture, const void *of);

static bool is_in_context(const struct capture *capture, const void *context)
{
    return capture->context == context;
}

static bool is_of_thread(const struct capture *capture, const void *thread)
{
    return capture->thread == thread;
}

static void forget_where(condition *holds, const void *of)
{
    struct capture *gone = NULL;
    lock_take(&guard);
    for (struct capture **at = &captures, *next; *at;) {
        if (!holds(*at, of)) {
            at = &(*at)->next;
            continue;
        }
        next = (*at)->next;
        (*at)->next = gone;
        gone = *at;
        *at = next;
    }
    lock_give(&guard);
    for (struct capture *next; gone; gone = next) {
        next = gone->next;
        free(gone);
        revoke();
    }
}

void capture_forget_context(CUcontext context)
{
    if (context && capture_any())
        forget_where(is_in_context, context);
}

void capture_forget_thread(struct thread *thread)
{
    if (capture_any())
        forget_where(is_of_thread, thread);
}

void capture_fork_child(void)
{
    captures = NULL; /* the parent's streams do not exist here */
    atomic_store(&captures_active, 0);
    lock_give(&guard);
}
