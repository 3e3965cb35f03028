/* Launches of kernels and host functions; those of graphs are in graph.c. */
#include "driver.h"
#include "gate.h"
#include "launch.h"

#define KERNEL(name, stream_of)                                                                  \
    CUresult name(CUfunction kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,          \
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,   \
                  CUstream stream, void **parameters, void **extra)                              \
    {                                                                                            \
        CUresult result =                                                                        \
            enter_launch(kernel, stream_of(stream), 1, grid_blocks(grid_x, grid_y, grid_z));     \
        if (__builtin_expect(result != CUDA_SUCCESS, 0))                                         \
            return result;                                                                       \
        return leave_launch(stream_of(stream),                                                   \
                            REAL(name)(kernel, grid_x, grid_y, grid_z, block_x, block_y,         \
                                       block_z, shared_bytes, stream, parameters, extra));       \
    }
KERNEL(cuLaunchKernel, )
KERNEL(cuLaunchKernel_ptsz, per_thread_stream)

#define COOPERATIVE(name, stream_of)                                                             \
    CUresult name(CUfunction kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,          \
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,   \
                  CUstream stream, void **parameters)                                            \
    {                                                                                            \
        CUresult result =                                                                        \
            enter_launch(kernel, stream_of(stream), 1, grid_blocks(grid_x, grid_y, grid_z));     \
        if (result != CUDA_SUCCESS)                                                              \
            return result;                                                                       \
        return leave_launch(stream_of(stream),                                                   \
                            REAL(name)(kernel, grid_x, grid_y, grid_z, block_x, block_y,         \
                                       block_z, shared_bytes, stream, parameters));              \
    }
COOPERATIVE(cuLaunchCooperativeKernel, )
COOPERATIVE(cuLaunchCooperativeKernel_ptsz, per_thread_stream)

static int64_t config_blocks(const CUlaunchConfig *config)
{
    return config ? grid_blocks(config->gridDimX, config->gridDimY, config->gridDimZ) : 0;
}

#define KERNEL_EX(name, stream_of)                                                               \
    CUresult name(const CUlaunchConfig *config, CUfunction kernel, void **parameters,            \
                  void **extra)                                                                  \
    {                                                                                            \
        CUstream stream = stream_of(config ? config->hStream : NULL);                            \
        CUresult result = enter_launch(kernel, stream, 1, config_blocks(config));                \
        if (result != CUDA_SUCCESS)                                                              \
            return result;                                                                       \
        return leave_launch(stream, REAL(name)(config, kernel, parameters, extra));              \
    }
KERNEL_EX(cuLaunchKernelEx, )
KERNEL_EX(cuLaunchKernelEx_ptsz, per_thread_stream)

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned count,
                                              unsigned flags)
{
    int64_t blocks = 0;
    for (unsigned i = 0; list && i < count; i++)
        blocks += grid_blocks(list[i].gridDimX, list[i].gridDimY, list[i].gridDimZ);
    CUstream stream = list && count ? list[0].hStream : NULL;
    CUresult result = enter_launch(list ? list->function : NULL, stream, count, blocks);
    if (result != CUDA_SUCCESS)
        return result;
    return leave_launch(stream, REAL(cuLaunchCooperativeKernelMultiDevice)(list, count, flags));
}

/* Before CUDA 4; still exported. */

static int64_t area(int width, int height)
{
    return width > 0 && height > 0 ? (int64_t)width * height : 0;
}

CUresult cuLaunch(CUfunction kernel)
{
    CUresult result = enter_launch(kernel, NULL, 1, 1);
    return result ? result : leave_launch(NULL, REAL(cuLaunch)(kernel));
}

CUresult cuLaunchGrid(CUfunction kernel, int width, int height)
{
    CUresult result = enter_launch(kernel, NULL, 1, area(width, height));
    return result ? result : leave_launch(NULL, REAL(cuLaunchGrid)(kernel, width, height));
}

CUresult cuLaunchGridAsync(CUfunction kernel, int width, int height, CUstream stream)
{
    CUresult result = enter_launch(kernel, stream, 1, area(width, height));
    return result ? result
                  : leave_launch(stream, REAL(cuLaunchGridAsync)(kernel, width, height, stream));
}

/* A host function puts nothing on the device but is in flight all the same. */
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    CUresult result = enter_stream(ENTRY_LAUNCH, stream);
    return result ? result : leave(REAL(cuLaunchHostFunc)(stream, function, data));
}

CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data)
{
    CUresult result = enter_stream(ENTRY_LAUNCH, per_thread_stream(stream));
    return result ? result : leave(REAL(cuLaunchHostFunc_ptsz)(stream, function, data));
}
