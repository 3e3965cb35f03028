/* Hooks of linear memory, of the device and page-locked of the host. */
#include "capture.h"
#include "charge.h"
#include "pools.h"

#define PITCH_BYTES 512 /* that rows are at least padded to, before the driver has said */

/* --- of the device ---------------------------------------------------------------------------- */

static struct allocation linear(enum block_kind kind, uint64_t pointer, uint64_t bytes)
{
    return (struct allocation){.space = SPACE_DEVICE,
                               .kind = kind,
                               .value = pointer,
                               .bytes = bytes,
                               .context = current_context()};
}

/* `made`: where the driver has put the pointer, read only if it did. */
static CUresult end_linear(CUresult result, enum block_kind kind, uint64_t bytes,
                           const CUdeviceptr *made)
{
    struct allocation allocation = {.kind = kind, .bytes = bytes};
    if (result == CUDA_SUCCESS)
        allocation = linear(kind, *made, bytes);
    return end_charged(result, &allocation);
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    CUresult result;
    if (!begin_charged(KIND_DEVICE, bytes, &result))
        return result;
    return end_linear(REAL(cuMemAlloc_v2)(pointer, bytes), KIND_DEVICE, bytes, pointer);
}

CUresult cuMemAlloc(CUdeviceptr_v1 *pointer, unsigned int bytes)
{
    CUresult result;
    if (!begin_charged(KIND_DEVICE, bytes, &result))
        return result;
    result = REAL(cuMemAlloc)(pointer, bytes);
    CUdeviceptr made = result == CUDA_SUCCESS ? *pointer : 0;
    return end_linear(result, KIND_DEVICE, bytes, &made);
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    CUresult result;
    if (!begin_charged(KIND_MANAGED, bytes, &result))
        return result;
    result = REAL(cuMemAllocManaged)(pointer, bytes, flags);
    return end_linear(result, KIND_MANAGED, bytes, pointer);
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t padded_row(uint64_t bytes)
{
    return times(bytes / PITCH_BYTES + (bytes % PITCH_BYTES != 0), PITCH_BYTES);
}

/* The driver chooses the pitch, so the size is known only afterwards. */
static CUresult end_pitch(CUresult result, uint64_t reserved, uint64_t bytes, CUdeviceptr made)
{
    if (result == CUDA_SUCCESS && bytes < reserved)
        quota_release(KIND_DEVICE, reserved - bytes);
    else if (result == CUDA_SUCCESS && quota_reserve(KIND_DEVICE, bytes - reserved)) {
        REAL(cuMemFree_v2)(made);
        quota_release(KIND_DEVICE, reserved);
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    return end_linear(result, KIND_DEVICE, result == CUDA_SUCCESS ? bytes : reserved, &made);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                            unsigned int element_bytes)
{
    uint64_t reserved = times(padded_row(width), height);
    CUresult result;
    if (!begin_charged(KIND_DEVICE, reserved, &result))
        return result;
    result = REAL(cuMemAllocPitch_v2)(pointer, pitch, width, height, element_bytes);
    bool made = result == CUDA_SUCCESS;
    return end_pitch(result, reserved, made ? times(*pitch, height) : 0, made ? *pointer : 0);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *pointer, unsigned int *pitch, unsigned int width,
                         unsigned int height, unsigned int element_bytes)
{
    uint64_t reserved = times(padded_row(width), height);
    CUresult result;
    if (!begin_charged(KIND_DEVICE, reserved, &result))
        return result;
    result = REAL(cuMemAllocPitch)(pointer, pitch, width, height, element_bytes);
    bool made = result == CUDA_SUCCESS;
    return end_pitch(result, reserved, made ? times(*pitch, height) : 0, made ? *pointer : 0);
}

/* Every free function takes every kind of pointer, as the driver's do. */

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    FREE(SPACE_DEVICE, pointer, REAL(cuMemFree_v2)(pointer));
}

CUresult cuMemFree(CUdeviceptr_v1 pointer)
{
    FREE(SPACE_DEVICE, pointer, REAL(cuMemFree)(pointer));
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    FREE(SPACE_DEVICE, pointer, REAL(cuMemFreeAsync)(pointer, stream));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
    FREE(SPACE_DEVICE, pointer, REAL(cuMemFreeAsync_ptsz)(pointer, stream));
}

/* --- in the order of a stream ----------------------------------------------------------------- */

/* The pool that cuMemAllocAsync takes from. */
static CUmemoryPool current_pool(void)
{
    CUmemoryPool pool = NULL;
    CUdevice device;
    if (BORROWED(cuCtxGetDevice)(&device) == CUDA_SUCCESS)
        BORROWED(cuDeviceGetMemPool)(&pool, device);
    return pool;
}

/* The quota's part before and after the driver's; `stream` is as cuMemFreeAsync takes it. */
static CUresult end_async(CUresult result, struct pool *pool, const struct pool_charge *charge,
                          CUdeviceptr pointer, uint64_t bytes, CUstream stream)
{
    if (result != CUDA_SUCCESS) {
        pool_roll_back(pool, charge);
        return leave(result);
    }
    struct allocation made = linear(KIND_ASYNC, pointer, bytes);
    made.pool = pool;
    allocations_add(&made);
    result = pool_allocated(pool, bytes, charge);
    if (result != CUDA_SUCCESS && allocations_take(SPACE_DEVICE, pointer, &made)) {
        REAL(cuMemFreeAsync)(pointer, stream);
        pool_freed(pool, bytes);
        pools_trim();
    }
    return leave(result);
}

/* On a capturing stream the driver records the allocation, and the graph is charged for it when it
 * is instantiated. */
#define ALLOCATE_ASYNC(handle, same_stream, real_call)                                     \
    do {                                                                                   \
        CUresult result = enter(ENTRY_MEMORY);                                             \
        if (result != CUDA_SUCCESS)                                                        \
            return result;                                                                 \
        if (capture_any() && capture_on(same_stream))                                      \
            return leave(real_call);                                                       \
        struct pool_charge charge;                                                         \
        struct pool *pool = pool_of(handle);                                               \
        result = pool_reserve(pool, bytes, &charge);                                       \
        if (result != CUDA_SUCCESS)                                                        \
            return leave(result);                                                          \
        result = (real_call);                                                              \
        return end_async(result, pool, &charge, result == CUDA_SUCCESS ? *pointer : 0,     \
                         bytes, (same_stream));                                            \
    } while (0)

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    ALLOCATE_ASYNC(current_pool(), stream, REAL(cuMemAllocAsync)(pointer, bytes, stream));
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    ALLOCATE_ASYNC(current_pool(), PER_THREAD(stream),
                   REAL(cuMemAllocAsync_ptsz)(pointer, bytes, stream));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool handle,
                                 CUstream stream)
{
    ALLOCATE_ASYNC(handle, stream,
                   REAL(cuMemAllocFromPoolAsync)(pointer, bytes, handle, stream));
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool handle,
                                      CUstream stream)
{
    ALLOCATE_ASYNC(handle, PER_THREAD(stream),
                   REAL(cuMemAllocFromPoolAsync_ptsz)(pointer, bytes, handle, stream));
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(cuMemPoolCreate)(pool, properties);
    if (result == CUDA_SUCCESS && properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE &&
        properties->allocType != CU_MEM_ALLOCATION_TYPE_MANAGED) /* that may move to the device */
        pool_set_on_host(*pool);
    return leave(result);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(cuMemPoolTrimTo)(pool, keep);
    if (result == CUDA_SUCCESS)
        pool_trimmed(pool);
    return leave(result);
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(cuMemPoolDestroy)(pool);
    if (result == CUDA_SUCCESS)
        pool_destroyed(pool);
    return leave(result);
}

/* --- of the host: counted, never refused ------------------------------------------------------ */

static CUresult end_host(CUresult result, const void *pointer, uint64_t bytes)
{
    if (result == CUDA_SUCCESS) {
        atomic_fetch_add_explicit(&slot->host_bytes, bytes, memory_order_relaxed);
        allocations_add(&(struct allocation){.space = SPACE_HOST,
                                             .value = (uintptr_t)pointer,
                                             .bytes = bytes,
                                             .context = current_context()});
    }
    return leave(result);
}

#define HOST(pointer, bytes, real_call)                                               \
    do {                                                                              \
        CUresult result = enter(ENTRY_MEMORY);                                        \
        if (result != CUDA_SUCCESS)                                                   \
            return result;                                                            \
        result = (real_call);                                                         \
        return end_host(result, result == CUDA_SUCCESS ? (pointer) : NULL, (bytes));  \
    } while (0)

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    HOST(*pointer, bytes, REAL(cuMemHostAlloc)(pointer, bytes, flags));
}

CUresult cuMemAllocHost_v2(void **pointer, size_t bytes)
{
    HOST(*pointer, bytes, REAL(cuMemAllocHost_v2)(pointer, bytes));
}

CUresult cuMemAllocHost(void **pointer, unsigned int bytes)
{
    HOST(*pointer, bytes, REAL(cuMemAllocHost)(pointer, bytes));
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
    HOST(pointer, bytes, REAL(cuMemHostRegister_v2)(pointer, bytes, flags));
}

CUresult cuMemHostRegister(void *pointer, size_t bytes, unsigned int flags)
{
    HOST(pointer, bytes, REAL(cuMemHostRegister)(pointer, bytes, flags));
}

CUresult cuMemFreeHost(void *pointer)
{
    FREE(SPACE_HOST, pointer, REAL(cuMemFreeHost)(pointer));
}

CUresult cuMemHostUnregister(void *pointer)
{
    FREE(SPACE_HOST, pointer, REAL(cuMemHostUnregister)(pointer));
}
