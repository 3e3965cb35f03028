/* loop KIND [options]: the same calls again and again until the time or the count is up.
 *
 *   KIND   launch  kernels, never waited for      launch-sync  each kernel waited for
 *          copy    host to device, asynchronous   graph        a captured graph of eight kernels
 *          alloc   every kind of allocation       mixed        one of the above, at random
 *
 *   --via ROUTE --threads N --seconds S --count N --grid BLOCKS --kernel NAME --bytes N
 *   --on-term default|flag|exit|ignore   what the program itself does at SIGTERM and SIGINT
 *
 * Prints "ready", then one line of JSON: calls made, those that failed, the first error.
 */
#include <pthread.h>
#include <signal.h>

#include "reach.h"

#define GRAPH_KERNELS 8
#define MAX_THREADS 64
#define GRANULE_BYTES ((size_t)2 << 20)

enum kind { LAUNCH, LAUNCH_SYNC, COPY, GRAPH, ALLOC, MIXED };
static const char *const kinds[] = {"launch", "launch-sync", "copy", "graph", "alloc", "mixed"};

static struct {
    enum kind kind;
    const char *via, *kernel, *on_term;
    int threads;
    double seconds;
    long count;
    unsigned int grid;
    size_t bytes;
} options = {.via = "direct", .kernel = "step_20us", .on_term = "default", .threads = 1,
             .seconds = 1, .grid = 100, .bytes = 1 << 20};

struct worker {
    pthread_t thread;
    unsigned int seed;
    long calls, failed;
    CUresult first_error;
    CUstream stream;
    CUgraphExec graph;
    CUdeviceptr target;
    void *source;
};

static CUcontext context;
static CUfunction function;
static double end_s;
static volatile sig_atomic_t told;

static void note(struct worker *worker, CUresult result)
{
    worker->calls += 1;
    worker->failed += result != CUDA_SUCCESS;
    if (!worker->first_error)
        worker->first_error = result;
}

static void prepare(struct worker *worker)
{
    CUgraph graph;
    check(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(cu.cuStreamCreate(&worker->stream, 1), "cuStreamCreate");
    check(cu.cuMemAlloc(&worker->target, options.bytes), "cuMemAlloc");
    worker->source = calloc(1, options.bytes);
    check(cu.cuStreamBeginCapture(worker->stream, 1), "cuStreamBeginCapture");
    for (int at = 0; at < GRAPH_KERNELS; at++)
        check(launch(function, options.grid, worker->stream), "cuLaunchKernel");
    check(cu.cuStreamEndCapture(worker->stream, &graph), "cuStreamEndCapture");
    check(cu.cuGraphInstantiateWithFlags(&worker->graph, graph, 0), "cuGraphInstantiate");
}

static void allocate_physical(struct worker *worker)
{
    CUmemAllocationProp properties = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    CUresult result = cu.cuMemCreate(&handle, GRANULE_BYTES, &properties, 0);
    note(worker, result);
    if (result != CUDA_SUCCESS)
        return;
    note(worker, cu.cuMemAddressReserve(&at, GRANULE_BYTES, 0, 0, 0));
    note(worker, cu.cuMemMap(at, GRANULE_BYTES, 0, handle, 0));
    note(worker, cu.cuMemRelease(handle));
    note(worker, cu.cuMemUnmap(at, GRANULE_BYTES));
    note(worker, cu.cuMemAddressFree(at, GRANULE_BYTES));
}

static void allocate_array(struct worker *worker, bool levels)
{
    CUDA_ARRAY_DESCRIPTOR flat = {256, 256, 0x20, 4};
    CUDA_ARRAY3D_DESCRIPTOR deep = {256, 256, 0, 0x20, 4, 0};
    CUarray array;
    CUmipmappedArray mipmap;
    CUresult result = levels ? cu.cuMipmappedArrayCreate(&mipmap, &deep, 4)
                             : cu.cuArrayCreate(&array, &flat);
    note(worker, result);
    if (result == CUDA_SUCCESS)
        note(worker, levels ? cu.cuMipmappedArrayDestroy(mipmap) : cu.cuArrayDestroy(array));
}

static void allocate_linear(struct worker *worker, unsigned int way)
{
    CUdeviceptr at;
    size_t pitch;
    CUresult result = way == 0   ? cu.cuMemAlloc(&at, options.bytes)
                      : way == 1 ? cu.cuMemAllocPitch(&at, &pitch, 1000, 64, 4)
                      : way == 2 ? cu.cuMemAllocManaged(&at, options.bytes, 1)
                                 : cu.cuMemAllocAsync(&at, options.bytes, worker->stream);
    note(worker, result);
    if (result == CUDA_SUCCESS)
        note(worker, way == 3 ? cu.cuMemFreeAsync(at, worker->stream) : cu.cuMemFree(at));
}

static void allocate(struct worker *worker)
{
    unsigned int way = (unsigned int)rand_r(&worker->seed) % 7;
    if (way < 4)
        allocate_linear(worker, way);
    else if (way < 6)
        allocate_array(worker, way == 5);
    else
        allocate_physical(worker);
}

static void act(struct worker *worker, enum kind kind)
{
    switch (kind) {
    case LAUNCH:
        note(worker, launch(function, options.grid, worker->stream));
        break;
    case LAUNCH_SYNC:
        note(worker, launch(function, options.grid, worker->stream));
        note(worker, cu.cuStreamSynchronize(worker->stream));
        break;
    case COPY:
        note(worker, cu.cuMemcpyHtoDAsync(worker->target, worker->source, options.bytes,
                                          worker->stream));
        break;
    case GRAPH:
        note(worker, cu.cuGraphLaunch(worker->graph, worker->stream));
        break;
    case ALLOC:
        allocate(worker);
        break;
    case MIXED:
        act(worker, (enum kind)(rand_r(&worker->seed) % MIXED));
        break;
    }
}

static bool over(const struct worker *worker)
{
    return told || (options.count ? worker->calls >= options.count : now_s() >= end_s);
}

static void *work(void *with)
{
    struct worker *worker = with;
    check(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    while (!over(worker))
        act(worker, options.kind);
    return NULL;
}

static void set_flag(int signal)
{
    told = signal;
}

static void leave(int signal)
{
    exit(128 + signal);
}

static void handle_signals(void)
{
    void (*handler)(int) = strcmp(options.on_term, "flag") == 0     ? set_flag
                           : strcmp(options.on_term, "exit") == 0   ? leave
                           : strcmp(options.on_term, "ignore") == 0 ? SIG_IGN
                                                                    : SIG_DFL;
    if (handler == SIG_DFL)
        return;
    signal(SIGTERM, handler);
    signal(SIGINT, handler);
}

static void parse(int count, char **arguments)
{
    static const struct option names[] = {
        {"via", 1, 0, 'v'},   {"threads", 1, 0, 't'}, {"seconds", 1, 0, 's'},
        {"count", 1, 0, 'c'}, {"grid", 1, 0, 'g'},    {"kernel", 1, 0, 'k'},
        {"bytes", 1, 0, 'b'}, {"on-term", 1, 0, 'o'}, {0},
    };
    int option, kind = 0;
    while ((option = getopt_long(count, arguments, "", names, NULL)) != -1)
        switch (option) {
        case 'v': options.via = optarg; break;
        case 't': options.threads = atoi(optarg); break;
        case 's': options.seconds = atof(optarg); break;
        case 'c': options.count = atol(optarg); break;
        case 'g': options.grid = (unsigned int)atol(optarg); break;
        case 'k': options.kernel = optarg; break;
        case 'b': options.bytes = (size_t)atoll(optarg); break;
        case 'o': options.on_term = optarg; break;
        default: exit(2);
        }
    while (kind <= MIXED && (optind >= count || strcmp(arguments[optind], kinds[kind]) != 0))
        kind++;
    if (kind > MIXED || options.threads < 1 || options.threads > MAX_THREADS) {
        fprintf(stderr, "usage: %s launch|launch-sync|copy|graph|alloc|mixed\n", arguments[0]);
        exit(2);
    }
    options.kind = (enum kind)kind;
}

int main(int count, char **arguments)
{
    static struct worker workers[MAX_THREADS];
    struct worker total = {0};
    parse(count, arguments);
    handle_signals();
    context = begin(options.via);
    function = kernel(options.kernel);
    for (int at = 0; at < options.threads; at++) {
        workers[at].seed = (unsigned int)at + 1;
        prepare(&workers[at]);
    }
    double begun_s = now_s();
    end_s = begun_s + options.seconds;
    say_ready();
    for (int at = 1; at < options.threads; at++)
        pthread_create(&workers[at].thread, NULL, work, &workers[at]);
    work(&workers[0]);
    for (int at = 0; at < options.threads; at++) {
        if (at)
            pthread_join(workers[at].thread, NULL);
        total.calls += workers[at].calls;
        total.failed += workers[at].failed;
        total.first_error = total.first_error ? total.first_error : workers[at].first_error;
    }
    double seconds = now_s() - begun_s;
    CUresult end = cu.cuCtxSynchronize();
    printf("{\"kind\": \"%s\", \"via\": \"%s\", \"calls\": %ld, \"failed\": %ld, "
           "\"first_error\": %d, \"seconds\": %.6f, \"synchronised\": %d, \"signal\": %d}\n",
           kinds[options.kind], options.via, total.calls, total.failed, (int)total.first_error,
           seconds, (int)end, (int)told);
    return total.failed ? 1 : 0;
}
