/* Kernels, host functions and copies. */
#include <stdlib.h>
#include <string.h>

#include "handles.h"

#define COPY_START_NS 2000.0
#define UNKNOWN_COPY_BYTES (UINT64_C(1) << 20) /* of copies that a structure describes */

struct work kernel_work(const CUDA_KERNEL_NODE_PARAMS *kernel)
{
    double blocks = (double)kernel->gridDimX * kernel->gridDimY * kernel->gridDimZ;
    double part = blocks / GPU_SLOTS;
    double block_ns = kernel->func ? kernel->func->block_ns : process.block_ns;
    return (struct work){
        .type = CU_GRAPH_NODE_TYPE_KERNEL,
        .kernel = *kernel,
        .item = {.kind = ITEM_KERNEL,
                 .left = part * block_ns,
                 .width = (float)(part < 1 ? part : 1)},
    };
}

struct work copy_work(uint64_t bytes, bool from_host)
{
    return (struct work){
        .type = CU_GRAPH_NODE_TYPE_MEMCPY,
        .item = {.kind = ITEM_COPY,
                 .width = from_host,
                 .left = COPY_START_NS + (double)bytes * process.copy_ns_per_byte},
    };
}

static CUresult launch(const CUDA_KERNEL_NODE_PARAMS *kernel, CUstream stream)
{
    if (!kernel->gridDimX || !kernel->gridDimY || !kernel->gridDimZ)
        return CUDA_ERROR_INVALID_VALUE;
    struct work work = kernel_work(kernel);
    return stream_submit(stream, &work);
}

#define GRID                                                                                       \
    CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,             \
        unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **parameters
#define KERNEL                                                                                     \
    (&(CUDA_KERNEL_NODE_PARAMS){f, gx, gy, gz, bx, by, bz, shared, parameters, NULL, NULL, NULL})

EXPORT CUresult cuLaunchKernel(GRID, void **extra)
{
    if (!is_special())
        return CUDA_SUCCESS;
    ENTER();
    (void)extra;
    return launch(KERNEL, stream_of(stream, false));
}

EXPORT CUresult cuLaunchKernel_ptsz(GRID, void **extra)
{
    if (!is_special())
        return CUDA_SUCCESS;
    ENTER();
    (void)extra;
    return launch(KERNEL, stream_of(stream, true));
}

EXPORT CUresult cuLaunchCooperativeKernel(GRID)
{
    ENTER();
    return launch(KERNEL, stream_of(stream, false));
}

EXPORT CUresult cuLaunchCooperativeKernel_ptsz(GRID)
{
    ENTER();
    return launch(KERNEL, stream_of(stream, true));
}

static CUresult launch_config(const CUlaunchConfig *config, CUfunction f, void **parameters,
                              bool per_thread)
{
    CUDA_KERNEL_NODE_PARAMS kernel = {
        f,
        config->gridDimX,
        config->gridDimY,
        config->gridDimZ,
        config->blockDimX,
        config->blockDimY,
        config->blockDimZ,
        config->sharedMemBytes,
        parameters,
        NULL,
        NULL,
        NULL,
    };
    return launch(&kernel, stream_of(config->hStream, per_thread));
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **parameters,
                                 void **extra)
{
    ENTER();
    (void)extra;
    return launch_config(config, f, parameters, false);
}

EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f,
                                      void **parameters, void **extra)
{
    ENTER();
    (void)extra;
    return launch_config(config, f, parameters, true);
}

EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned int count,
                                                     unsigned int flags)
{
    ENTER();
    (void)flags;
    CUresult result = CUDA_SUCCESS;
    for (unsigned int at = 0; at < count && !result; at++) {
        CUDA_KERNEL_NODE_PARAMS kernel = {.func = list[at].function,
                                          .gridDimX = list[at].gridDimX,
                                          .gridDimY = list[at].gridDimY,
                                          .gridDimZ = list[at].gridDimZ};
        result = launch(&kernel, stream_of(list[at].hStream, false));
    }
    return result;
}

static CUresult launch_grid(CUfunction f, int width, int height, CUstream stream)
{
    CUDA_KERNEL_NODE_PARAMS kernel = {
        .func = f, .gridDimX = (unsigned)width, .gridDimY = (unsigned)height, .gridDimZ = 1};
    return launch(&kernel, stream_of(stream, false));
}

EXPORT CUresult cuLaunch(CUfunction f)
{
    ENTER();
    return launch_grid(f, 1, 1, NULL);
}

EXPORT CUresult cuLaunchGrid(CUfunction f, int width, int height)
{
    ENTER();
    return launch_grid(f, width, height, NULL);
}

EXPORT CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream)
{
    ENTER();
    return launch_grid(f, width, height, stream);
}

static CUresult host_function(CUstream stream, CUhostFn function, void *data)
{
    struct work work = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = function, .data = data};
    return stream_submit(stream, &work);
}

EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    ENTER();
    return host_function(stream_of(stream, false), function, data);
}

EXPORT CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data)
{
    ENTER();
    return host_function(stream_of(stream, true), function, data);
}

struct callback {
    CUstreamCallback function;
    CUstream stream;
    void *data;
};

static void call_back(void *data)
{
    struct callback callback = *(struct callback *)data;
    free(data);
    callback.function(callback.stream, CUDA_SUCCESS, callback.data);
}

static CUresult add_callback(CUstream stream, struct callback callback)
{
    if (stream->capture)
        return capture_invalidate(stream);
    struct callback *kept = malloc(sizeof *kept);
    *kept = callback;
    return host_function(stream, call_back, kept);
}

EXPORT CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *data,
                                    unsigned int flags)
{
    ENTER();
    (void)flags;
    return add_callback(stream_of(stream, false), (struct callback){function, stream, data});
}

EXPORT CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback function, void *data,
                                         unsigned int flags)
{
    ENTER();
    (void)flags;
    return add_callback(stream_of(stream, true), (struct callback){function, stream, data});
}

/* Copies and fills. No bytes move: device memory has no content. */

static bool from_host(const char *symbol)
{
    return strncmp(symbol, "cuMemcpyHto", strlen("cuMemcpyHto")) == 0;
}

static CUresult copy_now(const char *symbol, uint64_t bytes, bool per_thread)
{
    CUstream stream = stream_of(NULL, per_thread);
    struct work work = copy_work(bytes, from_host(symbol));
    CUresult result = stream_submit(stream, &work);
    return result == CUDA_SUCCESS ? stream_finish(stream) : result;
}

static CUresult copy_later(const char *symbol, uint64_t bytes, CUstream handle, bool per_thread)
{
    struct work work = copy_work(bytes, from_host(symbol));
    return stream_submit(stream_of(handle, per_thread), &work);
}

#define NOW(name, per_thread, parameters, bytes)                                                   \
    EXPORT CUresult name parameters                                                                \
    {                                                                                              \
        ENTER();                                                                                   \
        return copy_now(__func__, bytes, per_thread);                                              \
    }
#define LATER(name, per_thread, parameters, bytes)                                                 \
    EXPORT CUresult name parameters                                                                \
    {                                                                                              \
        ENTER();                                                                                   \
        return copy_later(__func__, bytes, stream, per_thread);                                    \
    }
/* _v2 and its per-thread variant, or the plain name and its. */
#define NOW_PAIR(name, parameters, bytes)                                                          \
    NOW(name, false, parameters, bytes)                                                            \
    NOW(name##_ptds, true, parameters, bytes)
#define LATER_PAIR(name, parameters, bytes)                                                        \
    LATER(name, false, parameters, bytes)                                                          \
    LATER(name##_ptsz, true, parameters, bytes)

#pragma GCC diagnostic ignored "-Wunused-parameter"

NOW_PAIR(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes), bytes)
NOW_PAIR(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes), bytes)
NOW_PAIR(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes), bytes)
NOW_PAIR(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes), bytes)
NOW_PAIR(cuMemcpyPeer,
         (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes), bytes)
NOW_PAIR(cuMemcpyHtoA_v2, (CUarray to, size_t at, const void *from, size_t bytes), bytes)
NOW_PAIR(cuMemcpyAtoH_v2, (void *to, CUarray from, size_t at, size_t bytes), bytes)
NOW_PAIR(cuMemcpyDtoA_v2, (CUarray to, size_t at, CUdeviceptr from, size_t bytes), bytes)
NOW_PAIR(cuMemcpyAtoD_v2, (CUdeviceptr to, CUarray from, size_t at, size_t bytes), bytes)
NOW_PAIR(cuMemcpyAtoA_v2, (CUarray to, size_t at, CUarray from, size_t there, size_t bytes), bytes)
NOW_PAIR(cuMemcpy2D_v2, (const void *copy), UNKNOWN_COPY_BYTES)
NOW_PAIR(cuMemcpy2DUnaligned_v2, (const void *copy), UNKNOWN_COPY_BYTES)
NOW_PAIR(cuMemcpy3D_v2, (const void *copy), UNKNOWN_COPY_BYTES)
NOW_PAIR(cuMemcpy3DPeer, (const void *copy), UNKNOWN_COPY_BYTES)
NOW_PAIR(cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t count), count / 8)
NOW_PAIR(cuMemsetD16_v2, (CUdeviceptr to, unsigned short value, size_t count), count / 4)
NOW_PAIR(cuMemsetD32_v2, (CUdeviceptr to, unsigned int value, size_t count), count / 2)
NOW_PAIR(cuMemsetD2D8_v2,
         (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height),
         width * height / 8)
NOW_PAIR(cuMemsetD2D16_v2,
         (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height),
         width * height / 4)
NOW_PAIR(cuMemsetD2D32_v2,
         (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height),
         width * height / 2)

LATER_PAIR(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), bytes)
LATER_PAIR(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
           bytes)
LATER_PAIR(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream), bytes)
LATER_PAIR(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
           bytes)
LATER_PAIR(cuMemcpyPeerAsync,
           (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes,
            CUstream stream),
           bytes)
LATER_PAIR(cuMemcpyHtoAAsync_v2,
           (CUarray to, size_t at, const void *from, size_t bytes, CUstream stream), bytes)
LATER_PAIR(cuMemcpyAtoHAsync_v2, (void *to, CUarray from, size_t at, size_t bytes, CUstream stream),
           bytes)
LATER_PAIR(cuMemcpy2DAsync_v2, (const void *copy, CUstream stream), UNKNOWN_COPY_BYTES)
LATER_PAIR(cuMemcpy3DAsync_v2, (const void *copy, CUstream stream), UNKNOWN_COPY_BYTES)
LATER_PAIR(cuMemcpy3DPeerAsync, (const void *copy, CUstream stream), UNKNOWN_COPY_BYTES)
LATER_PAIR(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream),
           count / 8)
LATER_PAIR(cuMemsetD16Async, (CUdeviceptr to, unsigned short value, size_t count, CUstream stream),
           count / 4)
LATER_PAIR(cuMemsetD32Async, (CUdeviceptr to, unsigned int value, size_t count, CUstream stream),
           count / 2)
LATER_PAIR(cuMemsetD2D8Async,
           (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
            CUstream stream),
           width * height / 8)
LATER_PAIR(cuMemsetD2D16Async,
           (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
            CUstream stream),
           width * height / 4)
LATER_PAIR(cuMemsetD2D32Async,
           (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,
            CUstream stream),
           width * height / 2)

/* The interface of before CUDA 3.2, with 32-bit addresses and sizes. */
NOW(cuMemcpyHtoD, false, (CUdeviceptr_v1 to, const void *from, unsigned int bytes), bytes)
NOW(cuMemcpyDtoH, false, (void *to, CUdeviceptr_v1 from, unsigned int bytes), bytes)
NOW(cuMemcpyDtoD, false, (CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int bytes), bytes)
NOW(cuMemsetD8, false, (CUdeviceptr_v1 to, unsigned char value, unsigned int count), count / 8)
NOW(cuMemsetD16, false, (CUdeviceptr_v1 to, unsigned short value, unsigned int count), count / 4)
NOW(cuMemsetD32, false, (CUdeviceptr_v1 to, unsigned int value, unsigned int count), count / 2)
LATER(cuMemcpyHtoDAsync, false,
      (CUdeviceptr_v1 to, const void *from, unsigned int bytes, CUstream stream), bytes)
LATER(cuMemcpyDtoHAsync, false,
      (void *to, CUdeviceptr_v1 from, unsigned int bytes, CUstream stream), bytes)
LATER(cuMemcpyDtoDAsync, false,
      (CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int bytes, CUstream stream), bytes)
