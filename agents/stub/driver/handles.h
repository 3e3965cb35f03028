/* What the handles of this driver point to, and what its files do for one another. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "process.h"

/* Codes of the interface that xCUDA itself has no name for. */
#define ERROR_ALREADY_MAPPED ((CUresult)208)
#define ERROR_CONTEXT_IS_DESTROYED ((CUresult)709)
#define ERROR_CAPTURE_UNMATCHED ((CUresult)903)
#define ERROR_CAPTURE_UNJOINED ((CUresult)904)
#define ERROR_CAPTURE_ISOLATION ((CUresult)905)
#define ERROR_CAPTURE_IMPLICIT ((CUresult)906)
#define ERROR_CAPTURED_EVENT ((CUresult)907)
#define ERROR_CAPTURE_WRONG_THREAD ((CUresult)908)

#define STREAM_NON_BLOCKING 1

struct CUctx_st {
    uint64_t id;
    uint32_t flags;
    bool primary, alive;
};

struct CUfunc_st {
    char name[96];
    double block_ns;
    void *owner; /* module or library */
    struct CUfunc_st *next;
};

struct capture;

struct CUstream_st {
    uint32_t queue;
    uint32_t flags;
    int priority;
    uint64_t id;
    CUcontext context;
    struct capture *capture; /* NULL unless it captures */
};

struct CUevent_st {
    uint32_t flags;
    uint32_t index, generation; /* in the table of the simulated GPU */
    uint32_t queue;
    uint64_t position; /* 0: nothing to wait for */
    uint64_t ns;       /* without simulated time: when it was recorded */
    bool recorded;
    struct capture *capture; /* recorded on a capturing stream: */
    CUgraphNode node;        /* after this node */
};

/* A piece of work, whether it is queued now or becomes a node of a graph. */
struct work {
    CUgraphNodeType type;
    struct gpu_item item; /* kernels and copies */
    CUhostFn host;
    void *data;
    CUDA_KERNEL_NODE_PARAMS kernel;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    CUgraph child;
};

struct work kernel_work(const CUDA_KERNEL_NODE_PARAMS *kernel);
struct work copy_work(uint64_t bytes, bool from_host);

/* streams.c. `per_thread` is what a handle of 0 means. */
CUstream stream_of(CUstream handle, bool per_thread);
CUresult stream_submit(CUstream stream, const struct work *work);
CUresult stream_finish(CUstream stream);

/* The queues of this process on the simulated GPU: append an item, waiting while there is no room;
 * wait until a queue is past a position; ask whether it is. */
CUresult queue_submit(CUstream stream, struct gpu_item item, uint64_t *position);
CUresult queue_wait(uint32_t queue, uint64_t position);
CUresult queue_query(uint32_t queue, uint64_t position);

/* graphs.c */
CUgraph graph_new(void);
CUgraphNode graph_add(CUgraph graph, const struct work *work);
void graph_destroy(CUgraph graph);

/* capture.c */
CUresult capture_add(CUstream stream, const struct work *work);
CUresult capture_event(CUevent event, CUstream stream);
CUresult capture_wait(CUstream stream, CUevent event);
CUresult capture_invalidate(CUstream stream);
bool capture_implicit(void); /* work on the legacy stream: whether it disturbed a capture */

/* contexts.c */
CUcontext context_current(void);

/* memory.c, arrays.c, modules.c: what a context holds ends with it. */
void memory_end_context(CUcontext context);
void arrays_end_context(CUcontext context);
void modules_end_context(CUcontext context);
CUresult memory_take_or_trim(uint64_t bytes);

/* pools.c */
CUresult pool_free(CUdeviceptr address);
void pools_trim(void); /* what a synchronisation lets go */

/* allocations.c: one table of everything that has a device address. */
enum allocation_kind { ALLOCATION_FREE, ALLOCATION_DEVICE, ALLOCATION_POOL, ALLOCATION_FOREIGN };

struct allocation {
    uint64_t bytes;
    void *owner; /* the context, or the pool */
    uint32_t next_free;
    uint16_t kind;
};

CUdeviceptr allocation_add(enum allocation_kind kind, uint64_t bytes, void *owner);

/* The allocation that begins here; with `inside` also the one that the address lies in. */
struct allocation *allocation_at(CUdeviceptr address, bool inside);
CUdeviceptr allocation_begin(CUdeviceptr address);
void allocation_remove(CUdeviceptr address);
void allocations_each(void (*act)(CUdeviceptr, struct allocation *, void *), void *with);
