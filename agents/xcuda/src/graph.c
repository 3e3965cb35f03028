#include "graph.h"

#include <stdlib.h>

#include "driver.h"
#include "gate.h"
#include "launch.h"
#include "lock.h"
#include "quota.h"

/* --- what a graph contains ----------------------------------------------------------------- */

/* Kernel nodes in the order in which the driver lists them, those of child graphs in their place.
 * The order is that of creation, so graphs of equal shape list equal nodes at equal places. */
struct contents {
    size_t count, room;
    struct kernel {
        CUgraphNode node;
        int64_t blocks;
    } *kernels;
    uint64_t memory_bytes; /* of allocation nodes */
};

static bool add_kernel(struct contents *contents, CUgraphNode node, int64_t blocks)
{
    if (contents->count == contents->room) {
        size_t room = contents->room ? 2 * contents->room : 16;
        void *grown = realloc(contents->kernels, room * sizeof *contents->kernels);
        if (!grown)
            return false;
        contents->kernels = grown;
        contents->room = room;
    }
    contents->kernels[contents->count++] = (struct kernel){node, blocks};
    return true;
}

static int64_t kernel_blocks(CUgraphNode node)
{
    CUDA_KERNEL_NODE_PARAMS params = {0};
    CUresult result =
        driver_has(FUNCTION_cuGraphKernelNodeGetParams_v2)
            ? BORROWED(cuGraphKernelNodeGetParams_v2)(node, &params)
            : BORROWED(cuGraphKernelNodeGetParams)(node, (CUDA_KERNEL_NODE_PARAMS_v1 *)&params);
    return result ? 1 : grid_blocks(params.gridDimX, params.gridDimY, params.gridDimZ);
}

static bool read_graph(struct contents *contents, CUgraph graph, int depth);

static bool read_node(struct contents *contents, CUgraphNode node, int depth)
{
    CUgraphNodeType type;
    CUgraph child;
    CUDA_MEM_ALLOC_NODE_PARAMS allocation = {0};
    if (BORROWED(cuGraphNodeGetType)(node, &type) != CUDA_SUCCESS)
        return true;
    switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return add_kernel(contents, node, kernel_blocks(node));
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return add_kernel(contents, node, 1); /* body unknown */
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return BORROWED(cuGraphChildGraphNodeGetGraph)(node, &child) != CUDA_SUCCESS ||
               read_graph(contents, child, depth + 1);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        if (BORROWED(cuGraphMemAllocNodeGetParams)(node, &allocation) == CUDA_SUCCESS)
            contents->memory_bytes += allocation.bytesize;
        return true;
    default: return true;
    }
}

#define DEPTH_MOST 64 /* of child graphs; far beyond what drivers take */

static bool read_graph(struct contents *contents, CUgraph graph, int depth)
{
    size_t count = 0;
    if (depth > DEPTH_MOST || BORROWED(cuGraphGetNodes)(graph, NULL, &count) != CUDA_SUCCESS)
        return true; /* the driver will say what is wrong with it */
    CUgraphNode *nodes = malloc((count ? count : 1) * sizeof *nodes);
    bool complete = nodes != NULL;
    if (complete && BORROWED(cuGraphGetNodes)(graph, nodes, &count) == CUDA_SUCCESS)
        for (size_t i = 0; complete && i < count; i++)
            complete = read_node(contents, nodes[i], depth);
    free(nodes);
    return complete;
}

/* --- executable graphs --------------------------------------------------------------------- */

struct executable {
    struct executable *next;
    CUgraphExec exec;
    struct contents contents;
    struct amount cost;
};

#define BUCKETS 1024

static lock guard;
static struct executable *buckets[BUCKETS];

static struct executable **bucket_of(CUgraphExec exec)
{
    uint64_t key = (uint64_t)(uintptr_t)exec >> 4;
    return &buckets[key * UINT64_C(0x9E3779B97F4A7C15) >> 54];
}

static struct executable **find(CUgraphExec exec)
{
    struct executable **at = bucket_of(exec);
    while (*at && (*at)->exec != exec)
        at = &(*at)->next;
    return at;
}

static struct executable *detach(CUgraphExec exec)
{
    lock_take(&guard);
    struct executable **at = find(exec), *found = *at;
    if (found)
        *at = found->next;
    lock_give(&guard);
    return found;
}

static void attach(struct executable *executable)
{
    lock_take(&guard);
    struct executable **at = bucket_of(executable->exec);
    executable->next = *at;
    *at = executable;
    lock_give(&guard);
}

static void discard(struct executable *executable)
{
    if (!executable)
        return;
    quota_release(KIND_GRAPH, executable->contents.memory_bytes);
    free(executable->contents.kernels);
    free(executable);
}

/* A graph puts at least its own launch on the device. */
static struct amount cost_of(const struct contents *contents)
{
    struct amount cost = {contents->count ? (int64_t)contents->count : 1, 0};
    for (size_t i = 0; i < contents->count; i++)
        cost.blocks += contents->kernels[i].blocks;
    return cost;
}

/* Marked as a call, so that no handler of the application runs while the lock is held. */
struct amount graph_cost(CUgraphExec exec)
{
    mark_busy(1);
    lock_take(&guard);
    struct executable *found = *find(exec);
    struct amount cost = found ? found->cost : (struct amount){1, 1};
    lock_give(&guard);
    mark_busy(-1u);
    return cost;
}

/* Reads the graph and reserves its memory; what is to be attached when the driver agrees. */
static CUresult prepare(CUgraph graph, struct executable **prepared)
{
    struct executable *made = calloc(1, sizeof *made);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (made && read_graph(&made->contents, graph, 0))
        result = quota_reserve(KIND_GRAPH, made->contents.memory_bytes);
    if (result == CUDA_SUCCESS) {
        made->cost = cost_of(&made->contents);
        *prepared = made;
    } else if (made) {
        free(made->contents.kernels);
        free(made);
    }
    return result;
}

static CUresult conclude(struct executable *prepared, CUgraphExec *exec, CUresult result)
{
    if (result == CUDA_SUCCESS) {
        prepared->exec = *exec;
        discard(detach(*exec)); /* that name belonged to one destroyed behind our back */
        attach(prepared);
    } else {
        discard(prepared);
    }
    return leave(result);
}

#define INSTANTIATE(name, parameters, arguments)                      \
    CUresult name parameters                                          \
    {                                                                 \
        struct executable *prepared = NULL;                           \
        CUresult result = enter(ENTRY_MEMORY);                        \
        if (result != CUDA_SUCCESS)                                   \
            return result;                                            \
        result = prepare(graph, &prepared);                           \
        if (result != CUDA_SUCCESS)                                   \
            return leave(result);                                     \
        return conclude(prepared, exec, REAL(name) arguments);        \
    }

INSTANTIATE(cuGraphInstantiate,
            (CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *log, size_t log_bytes),
            (exec, graph, node, log, log_bytes))
INSTANTIATE(cuGraphInstantiate_v2,
            (CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *log, size_t log_bytes),
            (exec, graph, node, log, log_bytes))
INSTANTIATE(cuGraphInstantiateWithFlags,
            (CUgraphExec * exec, CUgraph graph, unsigned long long flags), (exec, graph, flags))
INSTANTIATE(cuGraphInstantiateWithParams,
            (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
            (exec, graph, params))
INSTANTIATE(cuGraphInstantiateWithParams_ptsz,
            (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
            (exec, graph, params))

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    /* Out of the table first: the driver may give the name to another thread's graph at once. */
    struct executable *executable = detach(exec);
    result = REAL(cuGraphExecDestroy)(exec);
    if (result == CUDA_SUCCESS || !executable)
        discard(executable);
    else
        attach(executable);
    return leave(result);
}

/* --- changes of an executable graph -------------------------------------------------------- */

/* An update keeps the shape of the graph, so its kernels take the places of the old ones; the
 * nodes keep the names that they had when it was instantiated. */
static void replace_blocks(struct executable *executable, const struct contents *contents)
{
    size_t count = executable->contents.count;
    for (size_t i = 0; i < count && i < contents->count; i++)
        executable->contents.kernels[i].blocks = contents->kernels[i].blocks;
    executable->cost = cost_of(&executable->contents);
}

static CUresult updated(CUgraphExec exec, CUgraph graph, CUresult result)
{
    struct contents contents = {0};
    if (result == CUDA_SUCCESS && read_graph(&contents, graph, 0)) {
        lock_take(&guard);
        struct executable *found = *find(exec);
        if (found)
            replace_blocks(found, &contents);
        lock_give(&guard);
    }
    free(contents.kernels);
    return leave(result);
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *node, void *outcome)
{
    CUresult result = enter(ENTRY_MEMORY);
    return result ? result
                  : updated(exec, graph, REAL(cuGraphExecUpdate)(exec, graph, node, outcome));
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    CUresult result = enter(ENTRY_MEMORY);
    return result ? result : updated(exec, graph, REAL(cuGraphExecUpdate_v2)(exec, graph, info));
}

static CUresult set_blocks(CUgraphExec exec, CUgraphNode node, int64_t blocks, CUresult result)
{
    if (result != CUDA_SUCCESS)
        return leave(result);
    lock_take(&guard);
    struct executable *found = *find(exec);
    for (size_t i = 0; found && i < found->contents.count; i++) {
        struct kernel *kernel = &found->contents.kernels[i];
        if (kernel->node != node)
            continue;
        found->cost.blocks += blocks - kernel->blocks;
        kernel->blocks = blocks;
        break;
    }
    lock_give(&guard);
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(cuGraphExecKernelNodeSetParams)(exec, node, params);
    if (result != CUDA_SUCCESS)
        return leave(result);
    return set_blocks(exec, node, grid_blocks(params->gridDimX, params->gridDimY, params->gridDimZ),
                      result);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *params)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(cuGraphExecKernelNodeSetParams_v2)(exec, node, params);
    if (result != CUDA_SUCCESS)
        return leave(result);
    return set_blocks(exec, node, grid_blocks(params->gridDimX, params->gridDimY, params->gridDimZ),
                      result);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(cuGraphExecNodeSetParams)(exec, node, params);
    if (result != CUDA_SUCCESS || params->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return leave(result);
    const CUDA_KERNEL_NODE_PARAMS *kernel = &params->kernel;
    return set_blocks(exec, node,
                      grid_blocks(kernel->gridDimX, kernel->gridDimY, kernel->gridDimZ), result);
}

/* --- launches ------------------------------------------------------------------------------ */

#define LAUNCH(name, stream_of)                                                              \
    CUresult name(CUgraphExec exec, CUstream stream)                                         \
    {                                                                                        \
        struct amount cost = graph_cost(exec);                                               \
        CUresult result = enter_launch(exec, stream_of(stream), cost.launches, cost.blocks); \
        return result ? result                                                               \
                      : leave_launch(stream_of(stream), REAL(name)(exec, stream));           \
    }
LAUNCH(cuGraphLaunch, )
LAUNCH(cuGraphLaunch_ptsz, per_thread_stream)

#define UPLOAD(name, stream_of)                                          \
    CUresult name(CUgraphExec exec, CUstream stream)                     \
    {                                                                    \
        CUresult result = enter_stream(ENTRY_COPY, stream_of(stream));   \
        return result ? result : leave(REAL(name)(exec, stream));        \
    }
UPLOAD(cuGraphUpload, )
UPLOAD(cuGraphUpload_ptsz, per_thread_stream)

void graph_fork_child(void)
{
    lock_give(&guard);
}
