/* Graphs. Their nodes run one after the other. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "handles.h"

#define CHUNK_BYTES (UINT64_C(2) << 20)

struct CUgraphNode_st {
    struct work work;
    CUgraph graph;
    CUgraphNode next;
};

struct CUgraph_st {
    CUgraphNode first, *last;
    size_t count;
};

/* A copy of the work, children unfolded; `from` tells which node it came from. */
struct step {
    struct work work;
    CUgraphNode from;
};

struct CUgraphExec_st {
    struct step *steps;
    size_t count;
    uint64_t memory_bytes; /* of its allocation nodes */
    bool committed;        /* and that memory is there */
    CUgraph source;
};

CUgraph graph_new(void)
{
    CUgraph graph = calloc(1, sizeof *graph);
    graph->last = &graph->first;
    return graph;
}

CUgraphNode graph_add(CUgraph graph, const struct work *work)
{
    CUgraphNode node = calloc(1, sizeof *node);
    node->work = *work;
    node->graph = graph;
    *graph->last = node;
    graph->last = &node->next;
    graph->count += 1;
    return node;
}

static CUgraph copy_of(CUgraph graph)
{
    CUgraph copy = graph_new();
    for (CUgraphNode node = graph->first; node; node = node->next) {
        CUgraphNode new = graph_add(copy, &node->work);
        if (node->work.child)
            new->work.child = copy_of(node->work.child);
    }
    return copy;
}

void graph_destroy(CUgraph graph)
{
    for (CUgraphNode node = graph->first, next; node; node = next) {
        next = node->next;
        if (node->work.child)
            graph_destroy(node->work.child);
        if (node->work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            allocation_remove(node->work.alloc.dptr);
        free(node);
    }
    free(graph);
}

/* Building a graph */

EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    ENTER();
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = graph_new();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    ENTER();
    graph_destroy(graph);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphClone(CUgraph *copy, CUgraph graph)
{
    ENTER();
    *copy = copy_of(graph);
    return CUDA_SUCCESS;
}

static CUresult add(CUgraphNode *node, CUgraph graph, const struct work *work)
{
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNode added = graph_add(graph, work);
    if (node)
        *node = added;
    return CUDA_SUCCESS;
}

static CUresult add_kernel(CUgraphNode *node, CUgraph graph, const void *parameters, bool v2)
{
    CUDA_KERNEL_NODE_PARAMS kernel = {0};
    memcpy(&kernel, parameters, v2 ? sizeof kernel : sizeof(CUDA_KERNEL_NODE_PARAMS_v1));
    struct work work = kernel_work(&kernel);
    return add(node, graph, &work);
}

static CUresult add_allocation(CUgraphNode *node, CUgraph graph, CUDA_MEM_ALLOC_NODE_PARAMS *of)
{
    if (!of->bytesize)
        return CUDA_ERROR_INVALID_VALUE;
    of->dptr = allocation_add(ALLOCATION_FOREIGN, of->bytesize, NULL);
    struct work work = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .alloc = *of};
    return add(node, graph, &work);
}

static CUresult add_child(CUgraphNode *node, CUgraph graph, CUgraph child)
{
    struct work work = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .child = copy_of(child)};
    return add(node, graph, &work);
}

static CUresult add_plain(CUgraphNode *node, CUgraph graph, CUgraphNodeType type)
{
    struct work work = copy_work(type == CU_GRAPH_NODE_TYPE_EMPTY ? 0 : 1 << 20, false);
    work.type = type;
    return add(node, graph, &work);
}

static CUresult add_host(CUgraphNode *node, CUgraph graph, const void *parameters)
{
    struct work work = {.type = CU_GRAPH_NODE_TYPE_HOST};
    memcpy(&work.host, parameters, sizeof work.host);
    memcpy(&work.data, (const char *)parameters + sizeof work.host, sizeof work.data);
    return add(node, graph, &work);
}

static CUresult add_free(CUgraphNode *node, CUgraph graph, CUdeviceptr address)
{
    struct work work = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .alloc.dptr = address};
    return add(node, graph, &work);
}

static CUresult add_any(CUgraphNode *node, CUgraph graph, CUgraphNodeParams *of)
{
    switch (of->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return add_kernel(node, graph, &of->kernel, true);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return add_allocation(node, graph, &of->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return add_free(node, graph, (CUdeviceptr)of->reserved1[0]);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return add_child(node, graph, of->graph);
    case CU_GRAPH_NODE_TYPE_HOST:
        return add_host(node, graph, of->reserved1);
    default:
        return add_plain(node, graph, of->type);
    }
}

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define AFTER const CUgraphNode *after, size_t count

EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, AFTER, const void *kernel)
{
    ENTER();
    return add_kernel(node, graph, kernel, false);
}

EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, AFTER, const void *kernel)
{
    ENTER();
    return add_kernel(node, graph, kernel, true);
}

EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, AFTER,
                                       CUDA_MEM_ALLOC_NODE_PARAMS *of)
{
    ENTER();
    return add_allocation(node, graph, of);
}

EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, AFTER, CUdeviceptr address)
{
    ENTER();
    return add_free(node, graph, address);
}

EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, AFTER, CUgraph child)
{
    ENTER();
    return add_child(node, graph, child);
}

EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, AFTER)
{
    ENTER();
    return add_plain(node, graph, CU_GRAPH_NODE_TYPE_EMPTY);
}

EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, AFTER, const void *copy,
                                     CUcontext context)
{
    ENTER();
    return add_plain(node, graph, CU_GRAPH_NODE_TYPE_MEMCPY);
}

EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, AFTER, const void *fill,
                                     CUcontext context)
{
    ENTER();
    return add_plain(node, graph, CU_GRAPH_NODE_TYPE_MEMSET);
}

EXPORT CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, AFTER, const void *function)
{
    ENTER();
    return add_host(node, graph, function);
}

EXPORT CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, AFTER, CUgraphNodeParams *of)
{
    ENTER();
    return add_any(node, graph, of);
}

EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                  const void *edges, size_t count, CUgraphNodeParams *of)
{
    ENTER();
    return add_any(node, graph, of);
}

EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
                                       const CUgraphNode *to, size_t count)
{
    ENTER();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                          const CUgraphNode *to, const void *edges, size_t count)
{
    ENTER();
    return CUDA_SUCCESS;
}

/* Looking at a graph */

static CUresult nodes(CUgraph graph, CUgraphNode *out, size_t *count, size_t most)
{
    size_t at = 0, room = *count;
    for (CUgraphNode node = graph->first; node && at < most; node = node->next, at++)
        if (out && at < room)
            out[at] = node;
    for (size_t rest = at; out && rest < room; rest++)
        out[rest] = NULL;
    *count = at;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *out, size_t *count)
{
    ENTER();
    return nodes(graph, out, count, SIZE_MAX);
}

EXPORT CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *out, size_t *count)
{
    ENTER();
    return nodes(graph, out, count, 1);
}

EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    ENTER();
    *type = node->work.type;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *kernel)
{
    ENTER();
    memcpy(kernel, &node->work.kernel, sizeof *kernel);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *kernel)
{
    ENTER();
    *kernel = node->work.kernel;
    return CUDA_SUCCESS;
}

static CUresult set_kernel(struct work *work, const void *parameters, bool v2)
{
    if (work->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS kernel = {0};
    memcpy(&kernel, parameters, v2 ? sizeof kernel : sizeof(CUDA_KERNEL_NODE_PARAMS_v1));
    *work = kernel_work(&kernel);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const void *kernel)
{
    ENTER();
    return set_kernel(&node->work, kernel, false);
}

EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const void *kernel)
{
    ENTER();
    return set_kernel(&node->work, kernel, true);
}

EXPORT CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *of)
{
    ENTER();
    *of = node->work.alloc;
    return node->work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *address)
{
    ENTER();
    *address = node->work.alloc.dptr;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child)
{
    ENTER();
    *child = node->work.child;
    return *child ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Memory of graphs: held by the device's graph pool until it is trimmed. */

static struct {
    pthread_mutex_t lock;
    uint64_t used, used_high, reserved, reserved_high;
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

static CUresult commit(CUgraphExec exec)
{
    if (exec->committed || !exec->memory_bytes)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&memory.lock);
    uint64_t used = memory.used + exec->memory_bytes;
    uint64_t missing = used > memory.reserved ? rounded(used, CHUNK_BYTES) - memory.reserved : 0;
    if (missing)
        result = memory_take_or_trim(missing);
    if (result == CUDA_SUCCESS) {
        memory.reserved += missing;
        memory.used = used;
        exec->committed = true;
    }
    memory.used_high = memory.used > memory.used_high ? memory.used : memory.used_high;
    memory.reserved_high =
        memory.reserved > memory.reserved_high ? memory.reserved : memory.reserved_high;
    pthread_mutex_unlock(&memory.lock);
    return result;
}

static void uncommit(CUgraphExec exec)
{
    pthread_mutex_lock(&memory.lock);
    memory.used -= exec->committed ? exec->memory_bytes : 0;
    pthread_mutex_unlock(&memory.lock);
    exec->committed = false;
}

EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    ENTER();
    pthread_mutex_lock(&memory.lock);
    uint64_t surplus = memory.reserved - rounded(memory.used, CHUNK_BYTES);
    memory_give(surplus);
    memory.reserved -= surplus;
    pthread_mutex_unlock(&memory.lock);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value)
{
    ENTER();
    const uint64_t values[] = {memory.used, memory.used_high, memory.reserved,
                               memory.reserved_high};
    if (attribute < 0 || attribute > 3)
        return CUDA_ERROR_INVALID_VALUE;
    *(uint64_t *)value = values[attribute];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, void *value)
{
    ENTER();
    memory.used_high = memory.used;
    memory.reserved_high = memory.reserved;
    return CUDA_SUCCESS;
}

/* Running a graph */

static size_t count_steps(CUgraph graph)
{
    size_t count = 0;
    for (CUgraphNode node = graph->first; node; node = node->next)
        count += node->work.child ? count_steps(node->work.child) : 1;
    return count;
}

static void unfold(CUgraphExec exec, CUgraph graph)
{
    for (CUgraphNode node = graph->first; node; node = node->next) {
        if (node->work.child) {
            unfold(exec, node->work.child);
            continue;
        }
        exec->steps[exec->count++] = (struct step){node->work, node};
        if (node->work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            exec->memory_bytes += rounded(node->work.alloc.bytesize, 512);
    }
}

static CUresult instantiate(CUgraphExec *exec, CUgraph graph)
{
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    *exec = calloc(1, sizeof **exec);
    (*exec)->steps = calloc(count_steps(graph) + 1, sizeof(struct step));
    (*exec)->source = graph;
    unfold(*exec, graph);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log,
                                   size_t size)
{
    ENTER();
    return instantiate(exec, graph);
}

EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error,
                                      char *log, size_t size)
{
    ENTER();
    return instantiate(exec, graph);
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                            unsigned long long flags)
{
    ENTER();
    return instantiate(exec, graph);
}

#define UPLOAD 2 /* CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD */

static CUresult instantiate_with(CUgraphExec *exec, CUgraph graph,
                                 CUDA_GRAPH_INSTANTIATE_PARAMS *with)
{
    CUresult result = instantiate(exec, graph);
    if (result == CUDA_SUCCESS && with->flags & UPLOAD)
        result = commit(*exec);
    with->result_out = result != CUDA_SUCCESS;
    return result;
}

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                             CUDA_GRAPH_INSTANTIATE_PARAMS *with)
{
    ENTER();
    return instantiate_with(exec, graph, with);
}

EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
                                                  CUDA_GRAPH_INSTANTIATE_PARAMS *with)
{
    ENTER();
    return instantiate_with(exec, graph, with);
}

static CUresult launch(CUgraphExec exec, CUstream stream)
{
    CUresult result = stream->capture ? CUDA_SUCCESS : commit(exec);
    for (size_t at = 0; at < exec->count && !result; at++) {
        CUgraphNodeType type = exec->steps[at].work.type;
        bool works = type <= CU_GRAPH_NODE_TYPE_HOST;
        if (works || stream->capture)
            result = stream_submit(stream, &exec->steps[at].work);
    }
    return result;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    ENTER();
    return launch(exec, stream_of(stream, false));
}

EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
    ENTER();
    return launch(exec, stream_of(stream, true));
}

EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    ENTER();
    return commit(exec);
}

EXPORT CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
    ENTER();
    return commit(exec);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    ENTER();
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    uncommit(exec);
    free(exec->steps);
    free(exec);
    return CUDA_SUCCESS;
}

/* Same shape, new work. */
static CUresult update(CUgraphExec exec, CUgraph graph)
{
    CUgraphExec fresh;
    instantiate(&fresh, graph);
    bool same = fresh->count == exec->count && fresh->memory_bytes == exec->memory_bytes;
    for (size_t at = 0; same && at < exec->count; at++) {
        same = fresh->steps[at].work.type == exec->steps[at].work.type;
        fresh->steps[at].from = exec->steps[at].from;
    }
    if (same)
        memcpy(exec->steps, fresh->steps, exec->count * sizeof *exec->steps);
    free(fresh->steps);
    free(fresh);
    return same ? CUDA_SUCCESS : (CUresult)910; /* CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE */
}

EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error, int *info)
{
    ENTER();
    CUresult result = update(exec, graph);
    if (error)
        *error = NULL;
    if (info)
        *info = result != CUDA_SUCCESS;
    return result;
}

EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                     CUgraphExecUpdateResultInfo *info)
{
    ENTER();
    CUresult result = update(exec, graph);
    if (info)
        *info = (CUgraphExecUpdateResultInfo){.result = result != CUDA_SUCCESS};
    return result;
}

static CUresult set_step(CUgraphExec exec, CUgraphNode node, const void *kernel, bool v2)
{
    for (size_t at = 0; at < exec->count; at++)
        if (exec->steps[at].from == node)
            return set_kernel(&exec->steps[at].work, kernel, v2);
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                               const void *kernel)
{
    ENTER();
    return set_step(exec, node, kernel, false);
}

EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                  const void *kernel)
{
    ENTER();
    return set_step(exec, node, kernel, true);
}

EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *of)
{
    ENTER();
    return of->type == CU_GRAPH_NODE_TYPE_KERNEL ? set_step(exec, node, &of->kernel, true)
                                                 : CUDA_SUCCESS;
}
