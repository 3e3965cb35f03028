/* The capture of streams into graphs, and what disturbs it. */
#include <pthread.h>
#include <stdlib.h>

#include "handles.h"

enum mode { MODE_GLOBAL, MODE_THREAD_LOCAL, MODE_RELAXED };

struct capture {
    CUgraph graph;
    enum mode mode;
    bool invalidated, own_graph;
    CUstream origin;
    uint64_t id;
    pthread_t thread;
    CUstream joined[GPU_QUEUES]; /* that work of other streams waited for into the capture */
    bool rejoined[GPU_QUEUES];
    int joins;
    struct capture *next;
};

static struct {
    pthread_mutex_t lock;
    struct capture *first;
    uint64_t ids;
} captures = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local enum mode thread_mode = MODE_GLOBAL;

/* Whether a call of this thread that could disturb a capture may not be made because of it. */
static bool forbids(const struct capture *capture)
{
    bool own = pthread_equal(capture->thread, pthread_self());
    if (thread_mode == MODE_RELAXED || capture->mode == MODE_RELAXED)
        return false;
    return own || (thread_mode == MODE_GLOBAL && capture->mode == MODE_GLOBAL);
}

CUresult capture_disturbed(void)
{
    bool any = false;
    pthread_mutex_lock(&captures.lock);
    for (struct capture *each = captures.first; each; each = each->next)
        if (forbids(each))
            each->invalidated = any = true;
    pthread_mutex_unlock(&captures.lock);
    return any ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

bool capture_implicit(void)
{
    bool any = false;
    pthread_mutex_lock(&captures.lock);
    for (struct capture *each = captures.first; each; each = each->next)
        if (!(each->origin->flags & STREAM_NON_BLOCKING))
            each->invalidated = any = true;
    pthread_mutex_unlock(&captures.lock);
    return any;
}

CUresult capture_invalidate(CUstream stream)
{
    stream->capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_add(CUstream stream, const struct work *work)
{
    struct capture *capture = stream->capture;
    if (capture->invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    pthread_mutex_lock(&captures.lock);
    graph_add(capture->graph, work);
    for (int at = 0; at < capture->joins; at++)
        if (capture->joined[at] == stream)
            capture->rejoined[at] = false;
    pthread_mutex_unlock(&captures.lock);
    return CUDA_SUCCESS;
}

CUresult capture_event(CUevent event, CUstream stream)
{
    if (stream->capture->invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture = stream->capture;
    event->queue = stream->queue;
    event->recorded = false;
    return CUDA_SUCCESS;
}

/* A stream that waits for an event of a capture joins it; one of the capture that waits for an
 * event of a joined stream takes its work back. */
CUresult capture_wait(CUstream stream, CUevent event)
{
    struct capture *capture = event->capture;
    if (!capture || (stream->capture && stream->capture != capture)) {
        capture_invalidate(stream);
        return ERROR_CAPTURE_ISOLATION;
    }
    if (capture->invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    pthread_mutex_lock(&captures.lock);
    if (!stream->capture && capture->joins < GPU_QUEUES) {
        stream->capture = capture;
        capture->rejoined[capture->joins] = false;
        capture->joined[capture->joins++] = stream;
    }
    for (int at = 0; at < capture->joins; at++)
        if (capture->joined[at]->queue == event->queue && capture->joined[at] != stream)
            capture->rejoined[at] = true;
    pthread_mutex_unlock(&captures.lock);
    return CUDA_SUCCESS;
}

static CUresult begin_capture(CUstream stream, CUgraph into, enum mode mode)
{
    if (stream->id == 1)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct capture *capture = calloc(1, sizeof *capture);
    capture->own_graph = !into;
    capture->graph = into ? into : graph_new();
    capture->mode = mode;
    capture->origin = stream;
    capture->thread = pthread_self();
    pthread_mutex_lock(&captures.lock);
    capture->id = ++captures.ids;
    capture->next = captures.first;
    captures.first = capture;
    stream->capture = capture;
    special_set(SPECIAL_CAPTURE);
    pthread_mutex_unlock(&captures.lock);
    return CUDA_SUCCESS;
}

static void forget(struct capture *capture)
{
    pthread_mutex_lock(&captures.lock);
    struct capture **at = &captures.first;
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    if (!captures.first)
        special_clear(SPECIAL_CAPTURE);
    pthread_mutex_unlock(&captures.lock);
    capture->origin->capture = NULL;
    for (int join = 0; join < capture->joins; join++)
        capture->joined[join]->capture = NULL;
}

static CUresult outcome(const struct capture *capture)
{
    if (capture->invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (int join = 0; join < capture->joins; join++)
        if (!capture->rejoined[join])
            return ERROR_CAPTURE_UNJOINED;
    return CUDA_SUCCESS;
}

static CUresult end_capture(CUstream stream, CUgraph *graph)
{
    struct capture *capture = stream->capture;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream)
        return ERROR_CAPTURE_UNMATCHED;
    if (capture->mode != MODE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
        return ERROR_CAPTURE_WRONG_THREAD;
    CUresult result = outcome(capture);
    forget(capture);
    *graph = result == CUDA_SUCCESS ? capture->graph : NULL;
    if (result != CUDA_SUCCESS && capture->own_graph)
        graph_destroy(capture->graph);
    free(capture);
    return result;
}

EXPORT CUresult cuStreamBeginCapture(CUstream stream)
{
    ENTER();
    return begin_capture(stream_of(stream, false), NULL, MODE_GLOBAL);
}

EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
    ENTER();
    return begin_capture(stream_of(stream, true), NULL, MODE_GLOBAL);
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    ENTER();
    return begin_capture(stream_of(stream, false), NULL, (enum mode)mode);
}

EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
    ENTER();
    return begin_capture(stream_of(stream, true), NULL, (enum mode)mode);
}

EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                            const void *edges, size_t count, int mode)
{
    ENTER();
    (void)after, (void)edges, (void)count;
    return begin_capture(stream_of(stream, false), graph, (enum mode)mode);
}

EXPORT CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                                 const CUgraphNode *after, const void *edges,
                                                 size_t count, int mode)
{
    ENTER();
    (void)after, (void)edges, (void)count;
    return begin_capture(stream_of(stream, true), graph, (enum mode)mode);
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    ENTER();
    return end_capture(stream_of(stream, false), graph);
}

EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    ENTER();
    return end_capture(stream_of(stream, true), graph);
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    ENTER_WITH(NEEDS_INIT);
    enum mode before = thread_mode;
    thread_mode = (enum mode) * mode;
    *mode = (int)before;
    return CUDA_SUCCESS;
}

static CUresult capture_status(CUstream stream, CUstreamCaptureStatus *status,
                               unsigned long long *id, CUgraph *graph)
{
    struct capture *capture = stream->capture;
    *status = !capture               ? CU_STREAM_CAPTURE_STATUS_NONE
              : capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                     : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (id && capture)
        *id = capture->id;
    if (graph && capture)
        *graph = capture->graph;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    ENTER();
    return capture_status(stream_of(stream, false), status, NULL, NULL);
}

EXPORT CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus *status)
{
    ENTER();
    return capture_status(stream_of(stream, true), status, NULL, NULL);
}

#define CAPTURE_INFO(name, per_thread)                                                             \
    EXPORT CUresult name(CUstream stream, CUstreamCaptureStatus *status, unsigned long long *id)   \
    {                                                                                              \
        ENTER();                                                                                   \
        return capture_status(stream_of(stream, per_thread), status, id, NULL);                    \
    }
#define CAPTURE_INFO_V2(name, per_thread)                                                          \
    EXPORT CUresult name(CUstream stream, CUstreamCaptureStatus *status, unsigned long long *id,   \
                         CUgraph *graph, const CUgraphNode **nodes, size_t *count)                 \
    {                                                                                              \
        ENTER();                                                                                   \
        if (nodes)                                                                                 \
            *nodes = NULL;                                                                         \
        if (count)                                                                                 \
            *count = 0;                                                                            \
        return capture_status(stream_of(stream, per_thread), status, id, graph);                   \
    }
#define CAPTURE_INFO_V3(name, per_thread)                                                          \
    EXPORT CUresult name(CUstream stream, CUstreamCaptureStatus *status, unsigned long long *id,   \
                         CUgraph *graph, const CUgraphNode **nodes, const void **edges,            \
                         size_t *count)                                                            \
    {                                                                                              \
        ENTER();                                                                                   \
        if (nodes)                                                                                 \
            *nodes = NULL;                                                                         \
        if (edges)                                                                                 \
            *edges = NULL;                                                                         \
        if (count)                                                                                 \
            *count = 0;                                                                            \
        return capture_status(stream_of(stream, per_thread), status, id, graph);                   \
    }

CAPTURE_INFO(cuStreamGetCaptureInfo, false)
CAPTURE_INFO(cuStreamGetCaptureInfo_ptsz, true)
CAPTURE_INFO_V2(cuStreamGetCaptureInfo_v2, false)
CAPTURE_INFO_V2(cuStreamGetCaptureInfo_v2_ptsz, true)
CAPTURE_INFO_V3(cuStreamGetCaptureInfo_v3, false)
CAPTURE_INFO_V3(cuStreamGetCaptureInfo_v3_ptsz, true)
