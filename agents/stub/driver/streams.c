/* Streams: their queues on the simulated GPU, and the waiting for them. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "handles.h"

#define SHORTEST_NS 20000.0 /* to sleep; what a wake-up costs */
#define LONGEST_NS 5000000.0
#define SWEEP_EVERY_NS 10000000u

static struct CUstream_st legacy = {.queue = 0, .id = 1};
static _Thread_local struct CUstream_st per_thread;
static _Atomic uint64_t stream_ids = 2;
static _Atomic uint32_t streams_on[GPU_QUEUES]; /* streams that were given this queue */
static _Atomic uint32_t blocking_on[GPU_QUEUES]; /* of them, those that the legacy stream waits for */

static uint32_t least_used_queue(void)
{
    uint32_t best = 1;
    for (uint32_t queue = 2; queue < GPU_QUEUES; queue++)
        if (streams_on[queue] < streams_on[best])
            best = queue;
    return best;
}

static void begin_stream(CUstream stream, uint32_t flags)
{
    stream->queue = least_used_queue();
    stream->flags = flags;
    stream->id = atomic_fetch_add(&stream_ids, 1);
    stream->context = context_current();
    streams_on[stream->queue] += 1;
    blocking_on[stream->queue] += !(flags & STREAM_NON_BLOCKING);
}

CUstream stream_of(CUstream handle, bool per_thread_default)
{
    if (handle == NULL)
        handle = per_thread_default ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    if (handle == CU_STREAM_LEGACY)
        return &legacy;
    if (handle != CU_STREAM_PER_THREAD)
        return handle;
    if (!per_thread.id)
        begin_stream(&per_thread, 0);
    return &per_thread;
}

static struct gpu *gpu(void)
{
    return &process.server->gpu;
}

static struct gpu_client *mine(void)
{
    return &gpu()->client[process.seat];
}

static struct server_client *seat(void)
{
    return &process.server->client[process.seat];
}

/* With the lock held: bring the device to now, and note what this process thereby learns. */
static void look(void)
{
    uint64_t now = monotonic_ns();
    if (process.special & SPECIAL_SHARED && now - process.server->swept_ns > SWEEP_EVERY_NS)
        server_sweep(process.server);
    gpu_advance(gpu(), now);
    if (!mine()->busy)
        seat()->unseen = 0;
}

/* With the lock held: why nothing more may be done, if so. After exit() the seat is another's. */
static CUresult trouble(void)
{
    if (process.special & SPECIAL_ENDED)
        return CUDA_ERROR_DEINITIALIZED;
    look();
    return (CUresult)seat()->error;
}

static void sleep_ns(double ns)
{
    static _Thread_local bool exact;
    if (!exact)
        exact = prctl(PR_SET_TIMERSLACK, 1000) == 0;
    ns = ns < SHORTEST_NS ? SHORTEST_NS : ns > LONGEST_NS ? LONGEST_NS : ns;
    struct timespec time = {.tv_nsec = (long)ns};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

CUresult queue_wait(uint32_t queue, uint64_t position)
{
    for (;;) {
        server_lock(process.server);
        CUresult error = trouble();
        bool done = mine()->queue[queue].completed >= position;
        double least = gpu_least_ns(gpu(), (uint32_t)process.seat, queue, position);
        server_unlock(process.server);
        if (error || done)
            return error;
        sleep_ns(least);
    }
}

/* Host functions run on a thread of the driver, when their turn has come. */
struct host_call {
    uint32_t queue;
    uint64_t position;
    CUhostFn function;
    void *data;
    struct host_call *next;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct host_call *first, **last;
    bool started;
} host = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .last = &host.first};

/* Take the first call whose queue has come to it. */
static struct host_call *take_ready(void)
{
    struct host_call *found = NULL;
    server_lock(process.server);
    bool idle = trouble() != CUDA_SUCCESS;
    for (struct host_call **at = &host.first; *at && !found && !idle;
         at = found ? at : &(*at)->next)
        if (mine()->queue[(*at)->queue].completed + 1 == (*at)->position) {
            found = *at;
            *at = found->next;
            if (!*at)
                host.last = at;
        }
    server_unlock(process.server);
    return found;
}

static void *serve_host_calls(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&host.lock);
        while (!host.first)
            pthread_cond_wait(&host.more, &host.lock);
        struct host_call *call = take_ready();
        pthread_mutex_unlock(&host.lock);
        if (!call) {
            sleep_ns(5 * SHORTEST_NS);
            continue;
        }
        call->function(call->data);
        server_lock(process.server);
        if (!(process.special & SPECIAL_ENDED))
            mine()->queue[call->queue].host_done = call->position;
        server_unlock(process.server);
        free(call);
    }
    return unused;
}

static void start_serving(void)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    host.started = pthread_create(&thread, NULL, serve_host_calls, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (host.started)
        pthread_detach(thread);
}

static void serve(uint32_t queue, uint64_t position, const struct work *work)
{
    struct host_call *call = malloc(sizeof *call);
    *call = (struct host_call){queue, position, work->host, work->data, NULL};
    pthread_mutex_lock(&host.lock);
    if (!host.started)
        start_serving();
    *host.last = call;
    host.last = &call->next;
    pthread_cond_signal(&host.more);
    pthread_mutex_unlock(&host.lock);
}

/* With the lock held: append, or return 0 when the queue is full. */
static uint64_t append(uint32_t queue, struct gpu_item item)
{
    return gpu_submit(gpu(), (uint32_t)process.seat, queue, item);
}

static void append_wait(uint32_t queue, uint32_t other)
{
    append(queue, (struct gpu_item){.kind = ITEM_WAIT,
                                    .wait_queue = (uint16_t)other,
                                    .wait_position = mine()->queue[other].submitted});
}

/* The legacy stream and those that block on it take turns. */
static void take_turns(CUstream stream)
{
    if (stream != &legacy) {
        if (!(stream->flags & STREAM_NON_BLOCKING) && mine()->busy & 1)
            append_wait(stream->queue, 0);
        return;
    }
    for (uint32_t queue = 1; queue < GPU_QUEUES; queue++)
        if (mine()->busy & 1u << queue && blocking_on[queue])
            append_wait(0, queue);
}

static bool has_room(uint32_t queue)
{
    const struct gpu_queue *at = &mine()->queue[queue];
    return at->submitted - at->completed <= GPU_QUEUE_DEPTH - GPU_QUEUES;
}

CUresult queue_submit(CUstream stream, struct gpu_item item, uint64_t *position)
{
    for (;;) {
        server_lock(process.server);
        CUresult error = trouble();
        bool room = has_room(stream->queue);
        if (!error && room) {
            take_turns(stream);
            *position = append(stream->queue, item);
            seat()->unseen |= item.kind <= ITEM_HOST;
            seat()->launches += item.kind == ITEM_KERNEL;
        }
        server_unlock(process.server);
        if (error || room)
            return error;
        sleep_ns(5 * SHORTEST_NS);
    }
}

static CUresult act_at_once(const struct work *work)
{
    if (work->type == CU_GRAPH_NODE_TYPE_HOST)
        work->host(work->data);
    if (work->type == CU_GRAPH_NODE_TYPE_KERNEL && process.special & SPECIAL_SHARED)
        __atomic_fetch_add(&seat()->launches, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult stream_submit(CUstream stream, const struct work *work)
{
    if (stream->capture)
        return capture_add(stream, work);
    if (stream == &legacy && process.special & SPECIAL_CAPTURE && capture_implicit())
        return ERROR_CAPTURE_IMPLICIT;
    if (!process.timed)
        return act_at_once(work);
    uint64_t position = 0;
    struct gpu_item item = work->item;
    if (work->type == CU_GRAPH_NODE_TYPE_HOST)
        item = (struct gpu_item){.kind = ITEM_HOST};
    CUresult result = queue_submit(stream, item, &position);
    if (result == CUDA_SUCCESS && work->type == CU_GRAPH_NODE_TYPE_HOST)
        serve(stream->queue, position, work);
    return result;
}

CUresult stream_finish(CUstream stream)
{
    if (!process.timed || process.seat < 0)
        return CUDA_SUCCESS;
    return queue_wait(stream->queue, mine()->queue[stream->queue].submitted);
}

CUresult streams_finish(void)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t queue = 0; process.timed && queue < GPU_QUEUES && !result; queue++)
        result = queue_wait(queue, mine()->queue[queue].submitted);
    return result;
}

/* Streams */

static CUresult create(CUstream *stream, uint32_t flags, int priority)
{
    *stream = calloc(1, sizeof **stream);
    begin_stream(*stream, flags);
    (*stream)->priority = priority;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    ENTER();
    return create(stream, flags, 0);
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    ENTER();
    return create(stream, flags, priority);
}

static CUresult destroy(CUstream stream)
{
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture)
        capture_invalidate(stream);
    streams_on[stream->queue] -= 1;
    blocking_on[stream->queue] -= !(stream->flags & STREAM_NON_BLOCKING);
    free(stream);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy(CUstream stream)
{
    ENTER();
    return destroy(stream);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
    ENTER();
    return destroy(stream);
}

static CUresult synchronise(CUstream stream)
{
    if (stream->capture)
        return capture_invalidate(stream);
    CUresult result = stream_finish(stream);
    pools_trim();
    return result;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    ENTER_UNSAFE();
    return synchronise(stream_of(stream, false));
}

EXPORT CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
    ENTER_UNSAFE();
    return synchronise(stream_of(stream, true));
}

CUresult queue_query(uint32_t queue, uint64_t position)
{
    if (!process.timed)
        return CUDA_SUCCESS;
    server_lock(process.server);
    CUresult error = trouble();
    bool done = mine()->queue[queue].completed >= position;
    server_unlock(process.server);
    return error ? error : done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult query(CUstream stream)
{
    if (stream->capture)
        return capture_invalidate(stream);
    return queue_query(stream->queue,
                          process.timed ? mine()->queue[stream->queue].submitted : 0);
}

EXPORT CUresult cuStreamQuery(CUstream stream)
{
    ENTER_UNSAFE();
    return query(stream_of(stream, false));
}

EXPORT CUresult cuStreamQuery_ptsz(CUstream stream)
{
    ENTER_UNSAFE();
    return query(stream_of(stream, true));
}

#define STREAM_GETTER(name, type, value)                                                           \
    static CUresult get_##name(CUstream stream, type *out)                                         \
    {                                                                                              \
        *out = value;                                                                              \
        return CUDA_SUCCESS;                                                                       \
    }                                                                                              \
    EXPORT CUresult name(CUstream stream, type *out)                                               \
    {                                                                                              \
        ENTER();                                                                                   \
        return get_##name(stream_of(stream, false), out);                                          \
    }                                                                                              \
    EXPORT CUresult name##_ptsz(CUstream stream, type *out)                                        \
    {                                                                                              \
        ENTER();                                                                                   \
        return get_##name(stream_of(stream, true), out);                                           \
    }

STREAM_GETTER(cuStreamGetPriority, int, stream->priority)
STREAM_GETTER(cuStreamGetFlags, unsigned int, stream->flags)
STREAM_GETTER(cuStreamGetId, unsigned long long, stream->id)
STREAM_GETTER(cuStreamGetDevice, CUdevice, ((void)stream, 0))
STREAM_GETTER(cuStreamGetCtx, CUcontext, stream->context ? stream->context : context_current())

static CUresult get_context_v2(CUstream stream, CUcontext *context, CUgreenCtx *green)
{
    *green = NULL;
    return get_cuStreamGetCtx(stream, context);
}

EXPORT CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green)
{
    ENTER();
    return get_context_v2(stream_of(stream, false), context, green);
}

EXPORT CUresult cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext *context, CUgreenCtx *green)
{
    ENTER();
    return get_context_v2(stream_of(stream, true), context, green);
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    ENTER();
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}
