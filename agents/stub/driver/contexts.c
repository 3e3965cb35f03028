/* The device, its attributes, and contexts. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices.h"
#include "handles.h"

#define DRIVER_VERSION 13000
#define STACK 64
#define CONTEXTS 256

static struct {
    pthread_mutex_t lock;
    CUcontext live[CONTEXTS];
    uint32_t count;
    uint64_t ids;
    struct CUctx_st primary;
    uint32_t retained;
    uint32_t primary_flags;
} contexts = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local CUcontext stack[STACK];
static _Thread_local int depth;

CUcontext context_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

EXPORT CUresult cuInit(unsigned int flags)
{
    ENTER_WITH(NEEDS_NOTHING);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (process.special & SPECIAL_FORKED)
        return CUDA_ERROR_NOT_INITIALIZED;
    special_clear(SPECIAL_NO_INIT);
    process_initialised();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    ENTER_WITH(NEEDS_NOTHING);
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    ENTER_WITH(NEEDS_INIT);
    *count = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER_WITH(NEEDS_INIT);
    *device = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    snprintf(name, (size_t)length, "Simulated GPU");
    return CUDA_SUCCESS;
}

static CUresult uuid(char *bytes)
{
    device_uuid(device_visible(), bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(char *bytes, CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    return uuid(bytes);
}

EXPORT CUresult cuDeviceGetUuid_v2(char *bytes, CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    return uuid(bytes);
}

EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    uint64_t total = memory_total_bytes();
    *bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned int)total;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    *bytes = memory_total_bytes();
    return CUDA_SUCCESS;
}

/* Numbers of CUdevice_attribute, and what this device says; of the others it says 0. */
static const struct {
    int attribute, value;
} attributes[] = {
    {1, 1024},        {2, 1024},  {3, 1024}, {4, 64},   {5, 2147483647}, {6, 65535}, {7, 65535},
    {8, 49152},       {9, 65536}, {10, 32},  {12, 65536}, {13, 1500000}, {15, 1},    {18, 0},
    {19, 1},          {20, 0},    {31, 1},   {32, 0},   {33, 1},         {34, 0},    {36, 2600000},
    {37, 5120},       {38, 52428800}, {39, 2048}, {40, 3}, {41, 1},      {75, 9},    {76, 0},
    {78, 1},          {79, 1},    {80, 1},   {81, 233472}, {82, 65536},  {83, 1},    {89, 1},
    {95, 1},          {97, 232448}, {102, 1}, {103, 1}, {106, GPU_BLOCKS_PER_SM}, {115, 1},
};

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = 0;
    if (attribute == 16) /* multiprocessors, as MPS leaves them to this client */
        *value = (int)(process.share * GPU_SMS + 0.5);
    for (size_t at = 0; at < sizeof attributes / sizeof *attributes; at++)
        if (attributes[at].attribute == attribute)
            *value = attributes[at].value;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    *major = 9;
    *minor = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    snprintf(text, (size_t)length, "0000:01:00.0");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    ENTER_WITH(NEEDS_INIT);
    *device = 0;
    return strcmp(text, "0000:01:00.0") == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* Contexts */

static void push(CUcontext context)
{
    if (depth < STACK)
        stack[depth++] = context;
}

/* With the lock held. */
static CUresult add(CUcontext context, bool primary)
{
    CUresult result = process_connect();
    if (result == CUDA_SUCCESS && process.server->client[process.seat].error)
        result = (CUresult)process.server->client[process.seat].error;
    if (result != CUDA_SUCCESS)
        return result;
    context->id = ++contexts.ids;
    context->primary = primary;
    context->alive = true;
    contexts.live[contexts.count++] = context;
    process_contexts(contexts.count);
    return CUDA_SUCCESS;
}

static void drop_from_stack(CUcontext context)
{
    int kept = 0;
    for (int at = 0; at < depth; at++)
        if (stack[at] != context)
            stack[kept++] = stack[at];
    depth = kept;
}

/* With the lock held: what it had queued is finished first, then all it held is free. */
static CUresult end_context(CUcontext context)
{
    uint32_t at = 0;
    while (at < contexts.count && contexts.live[at] != context)
        at++;
    if (at == contexts.count)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = streams_finish();
    memory_end_context(context);
    pools_trim();
    context->alive = false;
    contexts.live[at] = contexts.live[--contexts.count];
    process_contexts(contexts.count);
    drop_from_stack(context);
    return result;
}

static CUresult create(CUcontext *context, unsigned int flags, CUdevice device)
{
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *context = calloc(1, sizeof **context);
    (*context)->flags = flags;
    pthread_mutex_lock(&contexts.lock);
    CUresult result = contexts.count < CONTEXTS ? add(*context, false) : CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&contexts.lock);
    if (result == CUDA_SUCCESS)
        push(*context);
    return result;
}

EXPORT CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    return create(context, flags, device);
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    return create(context, flags, device);
}

EXPORT CUresult cuCtxCreate_v3(CUcontext *context, void *affinity, int count, unsigned int flags,
                               CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)affinity, (void)count;
    return create(context, flags, device);
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned int flags,
                               CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)parameters;
    return create(context, flags, device);
}

static CUresult destroy(CUcontext context)
{
    pthread_mutex_lock(&contexts.lock);
    CUresult result = context && !context->primary ? end_context(context)
                                                   : CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_unlock(&contexts.lock);
    return result;
}

EXPORT CUresult cuCtxDestroy(CUcontext context)
{
    ENTER_WITH(NEEDS_INIT);
    return destroy(context);
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
    ENTER_WITH(NEEDS_INIT);
    return destroy(context);
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&contexts.lock);
    CUresult result =
        contexts.primary.alive ? CUDA_SUCCESS : add(&contexts.primary, true);
    contexts.retained += result == CUDA_SUCCESS;
    pthread_mutex_unlock(&contexts.lock);
    *context = &contexts.primary;
    return result;
}

static CUresult release(uint32_t by)
{
    pthread_mutex_lock(&contexts.lock);
    CUresult result = contexts.retained ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    contexts.retained -= by < contexts.retained ? by : contexts.retained;
    if (!contexts.retained && contexts.primary.alive)
        result = end_context(&contexts.primary);
    pthread_mutex_unlock(&contexts.lock);
    return result;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    return release(1);
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    return release(1);
}

static CUresult reset(void)
{
    release(UINT32_MAX);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    return reset();
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    return reset();
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    *flags = contexts.primary_flags;
    *active = contexts.primary.alive;
    return CUDA_SUCCESS;
}

static CUresult set_primary_flags(unsigned int flags)
{
    contexts.primary_flags = flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    return set_primary_flags(flags);
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    return set_primary_flags(flags);
}

static CUresult push_checked(CUcontext context)
{
    if (!context || !context->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    push(context);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent(CUcontext context)
{
    ENTER_WITH(NEEDS_INIT);
    return push_checked(context);
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    ENTER_WITH(NEEDS_INIT);
    return push_checked(context);
}

static CUresult pop(CUcontext *context)
{
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth -= 1;
    if (context)
        *context = stack[depth];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent(CUcontext *context)
{
    ENTER_WITH(NEEDS_INIT);
    return pop(context);
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    ENTER_WITH(NEEDS_INIT);
    return pop(context);
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER_WITH(NEEDS_INIT);
    if (context && !context->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth -= depth > 0;
    if (context)
        push(context);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    ENTER_WITH(NEEDS_INIT);
    *context = context_current();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    ENTER();
    *device = 0;
    return context_current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
    ENTER();
    (void)context;
    *device = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetFlags(unsigned int *flags)
{
    ENTER();
    *flags = context_current() ? context_current()->flags : 0;
    return context_current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    ENTER();
    context = context ? context : context_current();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    *id = context->id;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    ENTER();
    (void)context;
    *version = 3020;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetLimit(size_t *value, int limit)
{
    ENTER();
    (void)limit;
    *value = 1024;
    return CUDA_SUCCESS;
}

static CUresult synchronise(void)
{
    CUresult result = streams_finish();
    pools_trim();
    return result;
}

EXPORT CUresult cuCtxSynchronize(void)
{
    ENTER_UNSAFE();
    return context_current() ? synchronise() : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext context)
{
    ENTER_UNSAFE();
    return context || context_current() ? synchronise() : CUDA_ERROR_INVALID_CONTEXT;
}

/* A green context is a context of its own; its part of the device is not simulated. */
EXPORT CUresult cuGreenCtxCreate(CUgreenCtx *green, void *resources, CUdevice device,
                                 unsigned int flags)
{
    ENTER_WITH(NEEDS_INIT);
    (void)resources, (void)flags;
    CUcontext context;
    CUresult result = create(&context, 0, device);
    if (result == CUDA_SUCCESS)
        pop(NULL);
    *green = (CUgreenCtx)context;
    return result;
}

EXPORT CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
    ENTER_WITH(NEEDS_INIT);
    *context = (CUcontext)green;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    ENTER_WITH(NEEDS_INIT);
    return destroy((CUcontext)green);
}

/* Error texts */

static const struct {
    int code;
    const char *name;
} errors[] = {
    {0, "CUDA_SUCCESS"},
    {1, "CUDA_ERROR_INVALID_VALUE"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
    {3, "CUDA_ERROR_NOT_INITIALIZED"},
    {4, "CUDA_ERROR_DEINITIALIZED"},
    {100, "CUDA_ERROR_NO_DEVICE"},
    {201, "CUDA_ERROR_INVALID_CONTEXT"},
    {400, "CUDA_ERROR_INVALID_HANDLE"},
    {500, "CUDA_ERROR_NOT_FOUND"},
    {600, "CUDA_ERROR_NOT_READY"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {801, "CUDA_ERROR_NOT_SUPPORTED"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
    {806, "CUDA_ERROR_MPS_RPC_FAILURE"},
    {807, "CUDA_ERROR_MPS_SERVER_NOT_READY"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
};

static CUresult error_name(CUresult code, const char **name)
{
    *name = "CUDA_ERROR_UNKNOWN";
    for (size_t at = 0; at < sizeof errors / sizeof *errors; at++)
        if (errors[at].code == (int)code)
            *name = errors[at].name;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult code, const char **name)
{
    ENTER_WITH(NEEDS_NOTHING);
    return error_name(code, name);
}

EXPORT CUresult cuGetErrorString(CUresult code, const char **text)
{
    ENTER_WITH(NEEDS_NOTHING);
    return error_name(code, text);
}
