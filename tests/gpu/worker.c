/* A client of the driver for `make gpu-xcuda`, on a real GPU and on the stand-in driver alike. It
 * finds the driver as most programs do, by dlopen and dlsym, and says what it sees as JSON lines.
 *
 *   worker device                   what GPU there is
 *   worker resolve FILE             where each line of FILE leads: `S symbol`, or a request to
 *                                   cuGetProcAddress, `R name version flags`
 *   worker cost KIND                thread CPU time of one `launch`, or of one `alloc` and free
 *   worker habits                   what the documentation of drivers leaves open, and what the
 *                                   calls cost that xCUDA adds
 *   worker quota BYTES              half of it and too much of it, by every kind of allocation
 *   worker runtime LIBRARY BYTES    the same through the CUDA runtime in LIBRARY
 *   worker run KIND MICROSECONDS    kernels of that length, until its standard input ends:
 *                                   launch, sync, copy, graph, alloc, poll, capture, or latency:
 *                                   one each 5 ms
 *
 * Exit status 4: there is no GPU to work with; 3: a call failed, and a line says which.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda.h"

enum { NO_GPU = 4, CALL_FAILED = 3, MULTIPROCESSORS = 16, MANAGED_GLOBAL = 1 };
enum { COPY_BYTES = 4 << 20, ALLOC_BYTES = 32 << 20, GRAPH_KERNELS = 8, QUEUE = 256 };

static void *driver;

static void *find(const char *name)
{
    void *function = dlsym(driver, name);
    if (!function) {
        printf("{\"failed\": \"%s\", \"code\": 500}\n", name);
        exit(CALL_FAILED);
    }
    return function;
}

/* The variadic call of a driver's function: all of them return CUresult. */
#define CALL(name, types, ...) ((CUresult(*) types)find(#name))(__VA_ARGS__)
#define CHECK(name, types, ...) check(#name, CALL(name, types, __VA_ARGS__))

static void check(const char *call, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("{\"failed\": \"%s\", \"code\": %d}\n", call, (int)result);
    exit(CALL_FAILED);
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *values, size_t count, double part)
{
    qsort(values, count, sizeof *values, compare);
    return count ? values[(size_t)(part * (double)(count - 1))] : 0;
}

/* --- the device --------------------------------------------------------------------------------- */

static void open_device(void)
{
    CUcontext context;
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    CUresult result = driver ? CALL(cuInit, (unsigned), 0) : CUDA_ERROR_NO_DEVICE;
    if (result == CUDA_ERROR_NO_DEVICE) {
        printf("{\"missing\": \"%s\"}\n", driver ? "the driver sees no GPU" : "no NVIDIA driver");
        exit(NO_GPU);
    }
    check("cuInit", result);
    CHECK(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), &context, 0);
    CHECK(cuCtxSetCurrent, (CUcontext), context);
}

static size_t free_bytes(size_t *total)
{
    size_t free;
    CHECK(cuMemGetInfo_v2, (size_t *, size_t *), &free, total);
    return free;
}

static int multiprocessors(void)
{
    int count;
    CHECK(cuDeviceGetAttribute, (int *, int, CUdevice), &count, MULTIPROCESSORS, 0);
    return count;
}

static int show_device(void)
{
    char name[128] = "";
    int version;
    size_t total, free;
    open_device();
    free = free_bytes(&total);
    CHECK(cuDeviceGetName, (char *, int, CUdevice), name, sizeof name, 0);
    CHECK(cuDriverGetVersion, (int *), &version);
    printf("{\"name\": \"%s\", \"cuda\": %d, \"multiprocessors\": %d, \"total_bytes\": %zu, "
           "\"free_bytes\": %zu}\n", name, version, multiprocessors(), total, free);
    return 0;
}

/* --- kernels ------------------------------------------------------------------------------------ */

/* Every block looks at the clock until the time is over, or until it has looked more often than the
 * time has nanoseconds. The stand-in driver, which runs no code, takes the time from the name. */
static const char ptx[] = /* name in µs, ns, looks */
    ".version 6.4\n"
    ".target sm_75\n"
    ".address_size 64\n"
    ".visible .entry spin_%uus()\n"
    "{\n"
    "    .reg .pred %%early, %%few;\n"
    "    .reg .u64 %%began, %%now;\n"
    "    .reg .u32 %%looks;\n"
    "    mov.u32 %%looks, 0;\n"
    "    mov.u64 %%began, %%globaltimer;\n"
    "LOOK:\n"
    "    mov.u64 %%now, %%globaltimer;\n"
    "    sub.u64 %%now, %%now, %%began;\n"
    "    setp.lt.u64 %%early, %%now, %u;\n"
    "    add.u32 %%looks, %%looks, 1;\n"
    "    setp.lt.and.u32 %%few, %%looks, %u, %%early;\n"
    "    @%%few bra LOOK;\n"
    "    ret;\n"
    "}\n";

static CUfunction load_kernel(unsigned us)
{
    char text[sizeof ptx + 64], name[32];
    CUmodule module;
    CUfunction kernel;
    snprintf(text, sizeof text, ptx, us, us * 1000, us * 1000);
    snprintf(name, sizeof name, "spin_%uus", us);
    CHECK(cuModuleLoadData, (CUmodule *, const void *), &module, text);
    CHECK(cuModuleGetFunction, (CUfunction *, CUmodule, const char *), &kernel, module, name);
    return kernel;
}

static CUresult (*launch_kernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, unsigned, CUstream, void **, void **);

static struct {
    CUfunction kernel;
    CUstream stream;
    unsigned blocks;
    CUgraphExec graph;
    CUdeviceptr memory;
    void *host;
    uint64_t done;
} work;

static void launch(void)
{
    check("cuLaunchKernel", launch_kernel(work.kernel, work.blocks, 1, 1, 256, 1, 1, 0,
                                          work.stream, NULL, NULL));
}

static void wait_stream(void)
{
    CHECK(cuStreamSynchronize, (CUstream), work.stream);
}

static void prepare(unsigned us, unsigned blocks_per_multiprocessor)
{
    open_device();
    launch_kernel = find("cuLaunchKernel");
    work.kernel = load_kernel(us);
    work.blocks = (unsigned)multiprocessors() * blocks_per_multiprocessor;
    CHECK(cuStreamCreate, (CUstream *, unsigned), &work.stream, 1);
}

/* --- resolving ---------------------------------------------------------------------------------- */

static void show_place(void *function)
{
    Dl_info place = {0};
    if (!function || !dladdr(function, &place)) {
        printf("\"library\": null, \"symbol\": null, \"offset\": 0}\n");
        return;
    }
    const char *slash = strrchr(place.dli_fname, '/');
    bool exact = place.dli_saddr == function;
    printf("\"library\": \"%s\", \"symbol\": \"%s\", \"offset\": %td}\n",
           slash ? slash + 1 : place.dli_fname, exact && place.dli_sname ? place.dli_sname : "",
           (char *)function - (char *)place.dli_fbase);
}

static int resolve(const char *path)
{
    FILE *file = fopen(path, "r");
    char kind, name[128];
    int version, status;
    unsigned long long flags;
    open_device();
    CUresult (*ask)(const char *, void **, int, unsigned long long, int *) =
        find("cuGetProcAddress_v2");
    while (file && fscanf(file, " %c %127s", &kind, name) == 2) {
        void *function = NULL;
        if (kind == 'S') {
            printf("{\"exported\": \"%s\", ", name);
            show_place(dlsym(driver, name));
        } else if (fscanf(file, "%d %llu", &version, &flags) == 2) {
            status = -1;
            CUresult result = ask(name, &function, version, flags, &status);
            printf("{\"request\": \"%s %d %llu\", \"result\": %d, \"status\": %d, ", name, version,
                   flags, (int)result, status);
            show_place(function);
        }
    }
    return 0;
}

/* --- cost --------------------------------------------------------------------------------------- */

static void allocate_and_free(void)
{
    static CUresult (*allocate)(CUdeviceptr *, size_t), (*release)(CUdeviceptr);
    CUdeviceptr pointer;
    if (!allocate) {
        allocate = find("cuMemAlloc_v2");
        release = find("cuMemFree_v2");
    }
    check("cuMemAlloc", allocate(&pointer, 4096));
    check("cuMemFree", release(pointer));
}

/* Each slice is short enough for the driver's queue, so that no launch waits for the device. */
static int show_cost(const char *kind)
{
    enum { SLICES = 101 };
    double slice_ns[SLICES];
    void (*call)(void) = strcmp(kind, "launch") == 0 ? launch : allocate_and_free;
    prepare(1, 1);
    call();
    for (int slice = 0; slice < SLICES; slice++) {
        wait_stream();
        uint64_t began_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < QUEUE; i++)
            call();
        slice_ns[slice] = (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns) / QUEUE;
    }
    wait_stream();
    printf("{\"ns\": %.2f}\n", quantile(slice_ns, SLICES, 0.5));
    return 0;
}

/* --- habits ------------------------------------------------------------------------------------- */

static CUevent first_event, second_event;

static void record_event(void)
{
    CHECK(cuEventRecord, (CUevent, CUstream), first_event, work.stream);
}

static void query_event(void)
{
    CHECK(cuEventQuery, (CUevent), first_event);
}

static void measure_events(void)
{
    float ms;
    CHECK(cuEventElapsedTime, (float *, CUevent, CUevent), &ms, first_event, second_event);
}

static void ask_for_capture(void)
{
    CUstreamCaptureStatus status;
    CHECK(cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus *), work.stream, &status);
}

static void ask_pool(void)
{
    CUmemoryPool pool;
    uint64_t held;
    CHECK(cuDeviceGetMemPool, (CUmemoryPool *, CUdevice), &pool, 0);
    CHECK(cuMemPoolGetAttribute, (CUmemoryPool, int, void *), pool,
          CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held);
}

static double call_ns(void (*call)(void))
{
    call();
    wait_stream();
    uint64_t began_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < QUEUE; i++)
        call();
    double each_ns = (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns) / QUEUE;
    wait_stream();
    return each_ns;
}

static void make_events(void)
{
    CHECK(cuEventCreate, (CUevent *, unsigned), &first_event, 0);
    CHECK(cuEventCreate, (CUevent *, unsigned), &second_event, 0);
    CHECK(cuEventRecord, (CUevent, CUstream), first_event, work.stream);
    CHECK(cuEventRecord, (CUevent, CUstream), second_event, work.stream);
    wait_stream();
}

/* Whether a context can be waited for while a thread captures, as who releases it would. */
static void show_wait_beside_capture(void)
{
    int relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUgraph graph = NULL;
    CHECK(cuStreamBeginCapture_v2, (CUstream, int), work.stream, 0);
    CHECK(cuThreadExchangeStreamCaptureMode, (int *), &relaxed);
    int waited = CALL(cuCtxSynchronize, (void));
    CHECK(cuThreadExchangeStreamCaptureMode, (int *), &relaxed);
    int ended = CALL(cuStreamEndCapture, (CUstream, CUgraph *), work.stream, &graph);
    printf("{\"wait_beside_capture\": %d, \"capture_ended\": %d}\n", waited, ended);
}

/* Registered before cuInit, so it runs after what cuInit registers. */
static void show_driver_at_exit(void)
{
    printf("{\"at_exit\": %d}\n", (int)CALL(cuCtxSynchronize, (void)));
    fflush(stdout);
}

static int show_habits(void)
{
    atexit(show_driver_at_exit);
    prepare(1, 1);
    make_events();
    printf("{\"record_ns\": %.0f, \"query_ns\": %.0f, \"elapsed_ns\": %.0f, "
           "\"capturing_ns\": %.0f, \"pool_ns\": %.0f}\n",
           call_ns(record_event), call_ns(query_event), call_ns(measure_events),
           call_ns(ask_for_capture), call_ns(ask_pool));
    show_wait_beside_capture();
    return 0;
}

static void wait_for_input_to_end(void)
{
    printf("{\"waits\": true}\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
}

/* --- quota -------------------------------------------------------------------------------------- */

static CUresult make_plain(CUdeviceptr *pointer, size_t bytes)
{
    return CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), pointer, bytes);
}

static CUresult make_managed(CUdeviceptr *pointer, size_t bytes)
{
    return CALL(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned), pointer, bytes,
                MANAGED_GLOBAL);
}

static CUresult make_async(CUdeviceptr *pointer, size_t bytes)
{
    return CALL(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream), pointer, bytes, NULL);
}

static CUresult drop_plain(CUdeviceptr pointer)
{
    return CALL(cuMemFree_v2, (CUdeviceptr), pointer);
}

static CUresult drop_async(CUdeviceptr pointer)
{
    CUresult result = CALL(cuMemFreeAsync, (CUdeviceptr, CUstream), pointer, NULL);
    CHECK(cuStreamSynchronize, (CUstream), NULL);
    return result;
}

static CUresult make_physical(CUdeviceptr *handle, size_t bytes)
{
    CUmemAllocationProp properties = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    return CALL(cuMemCreate, (CUdeviceptr *, size_t, const void *, unsigned long long), handle,
                bytes & ~((size_t)(2 << 20) - 1), &properties, 0);
}

static CUresult drop_physical(CUdeviceptr handle)
{
    return CALL(cuMemRelease, (CUdeviceptr), handle);
}

static const struct {
    const char *name;
    CUresult (*make)(CUdeviceptr *, size_t), (*drop)(CUdeviceptr);
} kinds[] = {
    {"cuMemAlloc", make_plain, drop_plain},
    {"cuMemAllocManaged", make_managed, drop_plain},
    {"cuMemAllocAsync", make_async, drop_async},
    {"cuMemCreate", make_physical, drop_physical},
};

static int try_quota(size_t quota_bytes)
{
    size_t total, free;
    open_device();
    free = free_bytes(&total);
    printf("{\"total_bytes\": %zu, \"free_bytes\": %zu}\n", total, free);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        CUdeviceptr half = 0, more = 0;
        CUresult made = kinds[i].make(&half, quota_bytes / 2);
        CUresult refused = kinds[i].make(&more, quota_bytes / 4 * 3);
        CUresult dropped = made == CUDA_SUCCESS ? kinds[i].drop(half) : made;
        printf("{\"kind\": \"%s\", \"made\": %d, \"refused\": %d, \"freed\": %d}\n", kinds[i].name,
               (int)made, (int)refused, (int)dropped);
    }
    wait_for_input_to_end();
    return 0;
}

static int try_runtime(const char *path, size_t quota_bytes)
{
    size_t free = 0, total = 0;
    void *pointer = NULL;
    void *runtime = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!runtime) {
        printf("{\"missing\": \"the runtime cannot be loaded\"}\n");
        return NO_GPU;
    }
    int (*info)(size_t *, size_t *) = dlsym(runtime, "cudaMemGetInfo");
    int (*allocate)(void **, size_t) = dlsym(runtime, "cudaMalloc");
    int (*release)(void *) = dlsym(runtime, "cudaFree");
    int asked = info(&free, &total);
    int made = allocate(&pointer, quota_bytes / 2);
    int refused = allocate(&(void *){NULL}, quota_bytes / 4 * 3);
    int freed = release(pointer);
    printf("{\"asked\": %d, \"total_bytes\": %zu, \"made\": %d, \"refused\": %d, \"freed\": %d}\n",
           asked, total, made, refused, freed);
    wait_for_input_to_end();
    return 0;
}

/* --- loops -------------------------------------------------------------------------------------- */

static _Atomic bool stopped;

static void *watch_input(void *unused)
{
    while (getchar() != EOF)
        ;
    stopped = true;
    return unused;
}

static void launch_and_wait(void)
{
    launch();
    wait_stream();
}

static void copy_once(void)
{
    CHECK(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream), work.memory,
          work.host, COPY_BYTES, work.stream);
    if (work.done % 16 == 15)
        wait_stream();
}

static void launch_graph(void)
{
    CHECK(cuGraphLaunch, (CUgraphExec, CUstream), work.graph, work.stream);
}

static void allocate_around_launch(void)
{
    CUdeviceptr pointer;
    CHECK(cuMemAlloc_v2, (CUdeviceptr *, size_t), &pointer, ALLOC_BYTES);
    launch();
    CHECK(cuMemFree_v2, (CUdeviceptr), pointer);
}

static double latencies_us[4096];
static size_t latency_count;

static void launch_each_5_ms(void)
{
    uint64_t began_ns = now_ns(CLOCK_MONOTONIC);
    launch_and_wait();
    if (latency_count < sizeof latencies_us / sizeof *latencies_us)
        latencies_us[latency_count++] = (double)(now_ns(CLOCK_MONOTONIC) - began_ns) / 1e3;
    usleep(5000);
}

static void capture_graph(void)
{
    CUgraph graph;
    CHECK(cuStreamBeginCapture_v2, (CUstream, int), work.stream, 2);
    for (int i = 0; i < GRAPH_KERNELS; i++)
        launch();
    CHECK(cuStreamEndCapture, (CUstream, CUgraph *), work.stream, &graph);
    CHECK(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long), &work.graph,
          graph, 0);
}

static void *poll_for_ever(void *unused)
{
    CUresult (*query)(CUevent) = find("cuEventQuery");
    while (query(first_event) != CUDA_ERROR_DEINITIALIZED)
        ;
    return unused;
}

/* As the watchdogs of communication libraries do. */
static void start_polling(void)
{
    pthread_t poller;
    make_events();
    pthread_create(&poller, NULL, poll_for_ever, NULL);
}

static void launch_and_poll(void)
{
    CUresult (*query)(CUstream) = find("cuStreamQuery");
    launch();
    CHECK(cuEventRecord, (CUevent, CUstream), second_event, work.stream);
    while (query(work.stream) == CUDA_ERROR_NOT_READY)
        ;
}

static void capture_and_launch(void)
{
    capture_graph();
    launch_graph();
    wait_stream();
    CHECK(cuGraphExecDestroy, (CUgraphExec), work.graph);
}

static void make_buffers(void)
{
    CHECK(cuMemAlloc_v2, (CUdeviceptr *, size_t), &work.memory, COPY_BYTES);
    CHECK(cuMemAllocHost_v2, (void **, size_t), &work.host, COPY_BYTES);
}

static const struct {
    const char *name;
    void (*once)(void), (*before)(void);
} loops[] = {
    {"launch", launch, NULL},
    {"sync", launch_and_wait, NULL},
    {"copy", copy_once, make_buffers},
    {"graph", launch_graph, capture_graph},
    {"alloc", allocate_around_launch, NULL},
    {"poll", launch_and_poll, start_polling},
    {"capture", capture_and_launch, NULL},
    {"latency", launch_each_5_ms, NULL},
};

static void show_progress(void)
{
    printf("{\"done\": %lu, \"p50_us\": %.1f, \"p99_us\": %.1f}\n", work.done,
           quantile(latencies_us, latency_count, 0.5), quantile(latencies_us, latency_count, 0.99));
    fflush(stdout);
    latency_count = 0;
}

static int run(const char *name, unsigned us)
{
    size_t which = 0;
    pthread_t watcher;
    while (which < sizeof loops / sizeof *loops && strcmp(loops[which].name, name) != 0)
        which++;
    if (which == sizeof loops / sizeof *loops)
        return 2;
    prepare(us, 8);
    if (loops[which].before)
        loops[which].before();
    pthread_create(&watcher, NULL, watch_input, NULL);
    show_progress();
    for (uint64_t shown_ns = now_ns(CLOCK_MONOTONIC); !stopped; work.done++) {
        loops[which].once();
        if (now_ns(CLOCK_MONOTONIC) - shown_ns > 200000000u) {
            shown_ns = now_ns(CLOCK_MONOTONIC);
            show_progress();
        }
    }
    wait_stream();
    show_progress();
    return 0;
}

int main(int count, char **argument)
{
    if (count == 2 && !strcmp(argument[1], "device"))
        return show_device();
    if (count == 3 && !strcmp(argument[1], "resolve"))
        return resolve(argument[2]);
    if (count == 3 && !strcmp(argument[1], "cost"))
        return show_cost(argument[2]);
    if (count == 2 && !strcmp(argument[1], "habits"))
        return show_habits();
    if (count == 3 && !strcmp(argument[1], "quota"))
        return try_quota(strtoull(argument[2], NULL, 10));
    if (count == 4 && !strcmp(argument[1], "runtime"))
        return try_runtime(argument[2], strtoull(argument[3], NULL, 10));
    if (count == 4 && !strcmp(argument[1], "run"))
        return run(argument[2], (unsigned)strtoul(argument[3], NULL, 10));
    fprintf(stderr, "usage: worker device | resolve FILE | cost KIND | habits | quota BYTES | "
                    "runtime LIBRARY BYTES | run KIND MICROSECONDS\n");
    return 2;
}
