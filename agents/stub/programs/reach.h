/* How a program of this folder comes by the driver's functions, and what all of them need.
 *
 * `--via direct` uses what the linker bound, `--via dlsym` asks the dynamic linker by exported
 * name, `--via proc` asks cuGetProcAddress by base name and version, as CUDA's runtime does.
 */
#pragma once

#include <dlfcn.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../driver/stub.h"

#define CALLS(F)                                                                                   \
    F(cuInit, cuInit, 2000, (unsigned int))                                                        \
    F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, (CUcontext *, CUdevice))           \
    F(cuCtxSetCurrent, cuCtxSetCurrent, 4000, (CUcontext))                                         \
    F(cuCtxSynchronize, cuCtxSynchronize, 2000, (void))                                            \
    F(cuModuleLoadData, cuModuleLoadData, 2000, (CUmodule *, const void *))                        \
    F(cuModuleGetFunction, cuModuleGetFunction, 2000, (CUfunction *, CUmodule, const char *))      \
    F(cuLaunchKernel, cuLaunchKernel, 4000,                                                        \
      (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,           \
       unsigned int, unsigned int, CUstream, void **, void **))                                    \
    F(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000,                                  \
      (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,           \
       unsigned int, unsigned int, CUstream, void **))                                             \
    F(cuStreamCreate, cuStreamCreate, 2000, (CUstream *, unsigned int))                            \
    F(cuStreamSynchronize, cuStreamSynchronize, 2000, (CUstream))                                  \
    F(cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010, (CUstream, int))                       \
    F(cuStreamEndCapture, cuStreamEndCapture, 10000, (CUstream, CUgraph *))                        \
    F(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040,                             \
      (CUgraphExec *, CUgraph, unsigned long long))                                                \
    F(cuGraphLaunch, cuGraphLaunch, 10000, (CUgraphExec, CUstream))                                \
    F(cuEventCreate, cuEventCreate, 2000, (CUevent *, unsigned int))                               \
    F(cuEventRecord, cuEventRecord, 2000, (CUevent, CUstream))                                     \
    F(cuEventElapsedTime, cuEventElapsedTime, 2000, (float *, CUevent, CUevent))                   \
    F(cuMemAlloc, cuMemAlloc_v2, 3020, (CUdeviceptr *, size_t))                                    \
    F(cuMemAllocPitch, cuMemAllocPitch_v2, 3020,                                                   \
      (CUdeviceptr *, size_t *, size_t, size_t, unsigned int))                                     \
    F(cuMemAllocManaged, cuMemAllocManaged, 6000, (CUdeviceptr *, size_t, unsigned int))           \
    F(cuMemFree, cuMemFree_v2, 3020, (CUdeviceptr))                                                \
    F(cuMemAllocAsync, cuMemAllocAsync, 11020, (CUdeviceptr *, size_t, CUstream))                  \
    F(cuMemFreeAsync, cuMemFreeAsync, 11020, (CUdeviceptr, CUstream))                              \
    F(cuMemCreate, cuMemCreate, 10020,                                                             \
      (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long))   \
    F(cuMemRelease, cuMemRelease, 10020, (CUmemGenericAllocationHandle))                           \
    F(cuMemAddressReserve, cuMemAddressReserve, 10020,                                             \
      (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))                            \
    F(cuMemAddressFree, cuMemAddressFree, 10020, (CUdeviceptr, size_t))                            \
    F(cuMemMap, cuMemMap, 10020,                                                                   \
      (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))             \
    F(cuMemUnmap, cuMemUnmap, 10020, (CUdeviceptr, size_t))                                        \
    F(cuArrayCreate, cuArrayCreate_v2, 3020, (CUarray *, const CUDA_ARRAY_DESCRIPTOR *))           \
    F(cuArrayDestroy, cuArrayDestroy, 2000, (CUarray))                                             \
    F(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000,                                        \
      (CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned int))                         \
    F(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, (CUmipmappedArray))                  \
    F(cuMemHostAlloc, cuMemHostAlloc, 2020, (void **, size_t, unsigned int))                       \
    F(cuMemFreeHost, cuMemFreeHost, 2000, (void *))                                                \
    F(cuMemGetInfo, cuMemGetInfo_v2, 3020, (size_t *, size_t *))                                   \
    F(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020,                                               \
      (CUdeviceptr, const void *, size_t, CUstream))                                               \
    F(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020, (void *, CUdeviceptr, size_t))

#define DECLARE(base, symbol, version, parameters) extern CUresult symbol parameters;
CALLS(DECLARE)
extern CUresult cuGetProcAddress_v2(const char *, void **, int, unsigned long long, void *);

#define MEMBER(base, symbol, version, parameters) CUresult(*base) parameters;
static struct {
    CALLS(MEMBER)
} cu;

typedef CUresult (*get_address)(const char *, void **, int, unsigned long long, void *);

static void check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s returned %d\n", what, (int)result);
    exit(3);
}

static void *by_name(const char *symbol)
{
    static void *library;
    library = library ? library : dlopen("libcuda.so.1", RTLD_NOW);
    void *found = library ? dlsym(library, symbol) : NULL;
    check(found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND, symbol);
    return found;
}

static void *by_request(const char *base, int version)
{
    void *found = NULL;
    get_address get;
    *(void **)&get = by_name("cuGetProcAddress_v2");
    check(get(base, &found, version, 0, NULL), base);
    check(found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND, base);
    return found;
}

#define DIRECT(base, symbol, version, parameters) cu.base = symbol;
#define BY_NAME(base, symbol, version, parameters) *(void **)&cu.base = by_name(#symbol);
#define BY_REQUEST(base, symbol, version, parameters)                                              \
    *(void **)&cu.base = by_request(#base, version);

static void reach(const char *via)
{
    if (strcmp(via, "direct") == 0) {
        CALLS(DIRECT)
    } else if (strcmp(via, "dlsym") == 0) {
        CALLS(BY_NAME)
    } else if (strcmp(via, "proc") == 0) {
        CALLS(BY_REQUEST)
    } else {
        fprintf(stderr, "--via direct, dlsym or proc\n");
        exit(2);
    }
}

/* Reach the driver and make its device's primary context current. */
static inline CUcontext begin(const char *via)
{
    CUcontext context;
    reach(via);
    check(cu.cuInit(0), "cuInit");
    check(cu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    return context;
}

static inline CUfunction kernel(const char *name)
{
    CUmodule module;
    CUfunction function;
    check(cu.cuModuleLoadData(&module, ""), "cuModuleLoadData");
    check(cu.cuModuleGetFunction(&function, module, name), "cuModuleGetFunction");
    return function;
}

static inline CUresult launch(CUfunction function, unsigned int blocks, CUstream stream)
{
    return cu.cuLaunchKernel(function, blocks, 1, 1, 128, 1, 1, 0, stream, NULL, NULL);
}

static inline double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline void sleep_until_s(double when)
{
    struct timespec at = {.tv_sec = (time_t)when};
    at.tv_nsec = (long)((when - (double)at.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL))
        ;
}

/* Tells whoever started the program that its work has begun. */
static inline void say_ready(void)
{
    printf("ready\n");
    fflush(stdout);
}
