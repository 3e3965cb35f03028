/* What one call costs its thread: `cost CALL [--threads N] [--live N]`, CALL one of launch, alloc,
 * memgetinfo, init. Prints {"call", "ns"}: the median over slices of calls of the thread's own CPU
 * time, which other processes on the machine disturb less than the clock on the wall.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda.h"

extern CUresult cuInit(unsigned int flags);
extern CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
extern CUresult cuCtxSetCurrent(CUcontext context);
extern CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                               unsigned int bx, unsigned int by, unsigned int bz,
                               unsigned int shared, CUstream stream, void **parameters,
                               void **extra);
extern CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
extern CUresult cuMemFree_v2(CUdeviceptr pointer);
extern CUresult cuMemGetInfo_v2(size_t *free, size_t *total);

enum { SLICES = 201, CALLS = 1000, BYTES = 4096, MAX_THREADS = 16 };

static CUcontext context;

static double now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "cost: %s returned %d\n", what, result);
    exit(1);
}

static void launch(void)
{
    check(cuLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), "cuLaunchKernel");
}

static void alloc(void)
{
    CUdeviceptr pointer;
    check(cuMemAlloc_v2(&pointer, BYTES), "cuMemAlloc");
    check(cuMemFree_v2(pointer), "cuMemFree");
}

static void memgetinfo(void)
{
    size_t free_bytes, total_bytes;
    check(cuMemGetInfo_v2(&free_bytes, &total_bytes), "cuMemGetInfo");
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct worker {
    pthread_t thread;
    void (*call)(void);
    double median_ns;
};

static void *measure(void *argument)
{
    struct worker *worker = argument;
    double slice_ns[SLICES];
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    for (int slice = 0; slice < SLICES; slice++) {
        double before_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
        for (int call = 0; call < CALLS; call++)
            worker->call();
        slice_ns[slice] = (now_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns) / CALLS;
    }
    qsort(slice_ns, SLICES, sizeof *slice_ns, ascending);
    worker->median_ns = slice_ns[SLICES / 2];
    return NULL;
}

/* The median of the slowest thread. */
static double cost_ns(void (*call)(void), int threads)
{
    struct worker worker[MAX_THREADS];
    double slowest_ns = 0;
    for (int at = 0; at < threads; at++) {
        worker[at].call = call;
        if (pthread_create(&worker[at].thread, NULL, measure, &worker[at]))
            exit(1);
    }
    for (int at = 0; at < threads; at++) {
        pthread_join(worker[at].thread, NULL);
        if (worker[at].median_ns > slowest_ns)
            slowest_ns = worker[at].median_ns;
    }
    return slowest_ns;
}

static int option(int argc, char **argv, const char *name, int otherwise)
{
    for (int at = 2; at + 1 < argc; at++)
        if (!strcmp(argv[at], name))
            return atoi(argv[at + 1]);
    return otherwise;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    void (*call)(void) = !strcmp(name, "launch")       ? launch
                         : !strcmp(name, "alloc")      ? alloc
                         : !strcmp(name, "memgetinfo") ? memgetinfo
                                                       : NULL;
    int threads = option(argc, argv, "--threads", 1);
    if ((!call && strcmp(name, "init")) || threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: cost launch|alloc|memgetinfo|init [--threads N] [--live N]\n");
        return 2;
    }
    double before_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    check(cuInit(0), "cuInit");
    double ns = now_ns(CLOCK_PROCESS_CPUTIME_ID) - before_ns;
    if (call) {
        check(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
        check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
        for (int live = option(argc, argv, "--live", 0); live > 0; live--) {
            CUdeviceptr kept;
            check(cuMemAlloc_v2(&kept, BYTES), "cuMemAlloc");
        }
        ns = cost_ns(call, threads);
    }
    printf("{\"call\": \"%s\", \"ns\": %.2f}\n", name, ns);
    return 0;
}
