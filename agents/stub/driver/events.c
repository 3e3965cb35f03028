/* Events: marks in the queue of a stream. */
#include <pthread.h>
#include <stdlib.h>

#include "handles.h"

static struct {
    pthread_mutex_t lock;
    uint8_t taken[GPU_EVENTS];
    uint32_t next;
} events = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int take_index(void)
{
    int found = -1;
    pthread_mutex_lock(&events.lock);
    for (uint32_t tried = 0; tried < GPU_EVENTS && found < 0; tried++) {
        uint32_t index = events.next++ % GPU_EVENTS;
        if (!events.taken[index]) {
            events.taken[index] = 1;
            found = (int)index;
        }
    }
    pthread_mutex_unlock(&events.lock);
    return found;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    ENTER();
    int index = take_index();
    if (index < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *event = calloc(1, sizeof **event);
    (*event)->flags = flags;
    (*event)->index = (uint32_t)index;
    return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&events.lock);
    events.taken[event->index] = 0;
    pthread_mutex_unlock(&events.lock);
    free(event);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy(CUevent event)
{
    ENTER();
    return destroy_event(event);
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
    ENTER();
    return destroy_event(event);
}

static struct gpu_event *own_event(CUevent event)
{
    return &process.server->gpu.client[process.seat].event[event->index];
}

static CUresult record(CUevent event, CUstream stream)
{
    if (stream->capture)
        return capture_event(event, stream);
    event->capture = NULL;
    event->recorded = true;
    event->queue = stream->queue;
    if (!process.timed) {
        event->ns = event->flags & CU_EVENT_DISABLE_TIMING ? 0 : monotonic_ns();
        return CUDA_SUCCESS;
    }
    server_lock(process.server);
    event->generation = ++own_event(event)->generation;
    server_unlock(process.server);
    return queue_submit(stream,
                  (struct gpu_item){.kind = ITEM_EVENT,
                                    .event = event->index,
                                    .generation = event->generation},
                  &event->position);
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    ENTER();
    return record(event, stream_of(stream, false));
}

EXPORT CUresult cuEventRecord_ptsz(CUevent event, CUstream stream)
{
    ENTER();
    return record(event, stream_of(stream, true));
}

EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    ENTER();
    (void)flags;
    return record(event, stream_of(stream, false));
}

EXPORT CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags)
{
    ENTER();
    (void)flags;
    return record(event, stream_of(stream, true));
}

EXPORT CUresult cuEventQuery(CUevent event)
{
    ENTER_UNSAFE();
    if (event->capture)
        return ERROR_CAPTURED_EVENT;
    return queue_query(event->queue, event->position);
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    ENTER_UNSAFE();
    if (event->capture)
        return ERROR_CAPTURED_EVENT;
    CUresult result = process.timed ? queue_wait(event->queue, event->position) : CUDA_SUCCESS;
    pools_trim();
    return result;
}

static uint64_t time_of(CUevent event)
{
    return process.timed ? own_event(event)->ns : event->ns;
}

static CUresult elapsed(float *ms, CUevent from, CUevent to)
{
    if (!from->recorded || !to->recorded || (from->flags | to->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = queue_query(from->queue, from->position);
    if (result == CUDA_SUCCESS)
        result = queue_query(to->queue, to->position);
    if (result == CUDA_SUCCESS)
        *ms = (float)((double)(int64_t)(time_of(to) - time_of(from)) / 1e6);
    return result;
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    ENTER_UNSAFE();
    return elapsed(ms, from, to);
}

EXPORT CUresult cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to)
{
    ENTER_UNSAFE();
    return elapsed(ms, from, to);
}

static CUresult wait_event(CUstream stream, CUevent event)
{
    if (event->capture || stream->capture)
        return capture_wait(stream, event);
    if (!process.timed || !event->recorded)
        return CUDA_SUCCESS;
    uint64_t position;
    return queue_submit(stream,
                  (struct gpu_item){.kind = ITEM_WAIT,
                                    .wait_queue = (uint16_t)event->queue,
                                    .wait_position = event->position},
                  &position);
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    ENTER();
    (void)flags;
    return wait_event(stream_of(stream, false), event);
}

EXPORT CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags)
{
    ENTER();
    (void)flags;
    return wait_event(stream_of(stream, true), event);
}
