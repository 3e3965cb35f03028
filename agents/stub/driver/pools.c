/* Stream-ordered memory. A pool holds whole chunks of the device; what it holds beyond what is
 * allocated from it goes back at a synchronisation, down to its release threshold. */
#include <pthread.h>
#include <stdlib.h>

#include "handles.h"

#define CHUNK_BYTES (UINT64_C(2) << 20)
#define UNIT_BYTES 512

enum attribute {
    REUSE_EVENTS = 1,
    REUSE_OPPORTUNISTIC,
    REUSE_INTERNAL,
    THRESHOLD,
    RESERVED,
    RESERVED_HIGH,
    USED,
    USED_HIGH,
};

struct CUmemPoolHandle_st {
    atomic_flag busy; /* held for a few instructions */
    uint64_t value[USED_HIGH + 1];
    CUmemoryPool next;
};

static struct CUmemPoolHandle_st default_pool = {.busy = ATOMIC_FLAG_INIT};
static CUmemoryPool current = &default_pool;
static CUmemoryPool all = &default_pool; /* a pool once made stays in the list */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock(CUmemoryPool pool)
{
    while (atomic_flag_test_and_set_explicit(&pool->busy, memory_order_acquire))
        ;
}

static void unlock(CUmemoryPool pool)
{
    atomic_flag_clear_explicit(&pool->busy, memory_order_release);
}

static void raise_high(CUmemoryPool pool, enum attribute of)
{
    if (pool->value[of] > pool->value[of + 1])
        pool->value[of + 1] = pool->value[of];
}

/* With the pool locked. */
static CUresult grow(CUmemoryPool pool, uint64_t used)
{
    uint64_t missing = rounded(used, CHUNK_BYTES) - pool->value[RESERVED];
    CUresult result = memory_take(missing);
    if (result != CUDA_SUCCESS)
        return result;
    pool->value[RESERVED] += missing;
    raise_high(pool, RESERVED);
    return result;
}

static CUresult pool_take(CUmemoryPool pool, uint64_t bytes)
{
    CUresult result = CUDA_SUCCESS;
    if (memory_exceeds(bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    lock(pool);
    uint64_t used = pool->value[USED] + rounded(bytes, UNIT_BYTES);
    if (used > pool->value[RESERVED])
        result = grow(pool, used);
    if (result == CUDA_SUCCESS) {
        pool->value[USED] = used;
        raise_high(pool, USED);
    }
    unlock(pool);
    return result;
}

static void pool_give(CUmemoryPool pool, uint64_t bytes)
{
    lock(pool);
    pool->value[USED] -= rounded(bytes, UNIT_BYTES);
    unlock(pool);
}

static void trim(CUmemoryPool pool, uint64_t keep)
{
    lock(pool);
    uint64_t least = rounded(pool->value[USED], CHUNK_BYTES);
    uint64_t stays = least > keep ? least : rounded(keep, CHUNK_BYTES);
    uint64_t surplus = pool->value[RESERVED] > stays ? pool->value[RESERVED] - stays : 0;
    if (surplus)
        memory_give(surplus); /* first: a pool never holds more than it says */
    pool->value[RESERVED] -= surplus;
    unlock(pool);
}

void pools_trim(void)
{
    for (CUmemoryPool pool = all; pool; pool = pool->next)
        if (pool->value[RESERVED] > pool->value[THRESHOLD])
            trim(pool, pool->value[THRESHOLD]);
}

static CUresult allocate(CUdeviceptr *address, uint64_t bytes, CUmemoryPool pool, CUstream stream)
{
    if (!bytes || !pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture) {
        struct work work = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .alloc.bytesize = bytes};
        work.alloc.dptr = *address = allocation_add(ALLOCATION_FOREIGN, bytes, context_current());
        return stream_submit(stream, &work);
    }
    CUresult result = pool_take(pool, bytes);
    if (result != CUDA_SUCCESS) {
        pools_trim();
        result = pool_take(pool, bytes);
    }
    if (result != CUDA_SUCCESS)
        return result;
    *address = allocation_add(ALLOCATION_POOL, bytes, pool);
    if (*address)
        return CUDA_SUCCESS;
    pool_give(pool, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    ENTER();
    return allocate(address, bytes, current, stream_of(stream, false));
}

EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    ENTER();
    return allocate(address, bytes, current, stream_of(stream, true));
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
                                        CUstream stream)
{
    ENTER();
    return allocate(address, bytes, pool, stream_of(stream, false));
}

EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
                                             CUstream stream)
{
    ENTER();
    return allocate(address, bytes, pool, stream_of(stream, true));
}

CUresult pool_free(CUdeviceptr address)
{
    struct allocation *it = allocation_at(address, false);
    uint64_t bytes = it->bytes;
    CUmemoryPool pool = it->owner;
    allocation_remove(address);
    pool_give(pool, bytes);
    return CUDA_SUCCESS;
}

static CUresult free_later(CUdeviceptr address, CUstream stream)
{
    struct allocation *it = allocation_at(address, false);
    if (stream->capture) {
        struct work work = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .alloc.dptr = address};
        return stream_submit(stream, &work);
    }
    if (!it || it->kind == ALLOCATION_FOREIGN)
        return CUDA_ERROR_INVALID_VALUE;
    if (it->kind == ALLOCATION_POOL)
        return pool_free(address);
    uint64_t bytes = it->bytes;
    allocation_remove(address);
    memory_give(bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    ENTER();
    return free_later(address, stream_of(stream, false));
}

EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream)
{
    ENTER();
    return free_later(address, stream_of(stream, true));
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    ENTER();
    (void)properties;
    *pool = calloc(1, sizeof **pool);
    pthread_mutex_lock(&list_lock);
    (*pool)->next = all;
    all = *pool;
    pthread_mutex_unlock(&list_lock);
    return CUDA_SUCCESS;
}

static void end_of_pool(CUdeviceptr address, struct allocation *it, void *pool)
{
    if (it->kind == ALLOCATION_POOL && it->owner == pool)
        allocation_remove(address);
}

/* The memory goes at once here; a real pool keeps it until what is allocated from it is freed. */
EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    ENTER();
    if (pool == &default_pool)
        return CUDA_ERROR_INVALID_VALUE;
    allocations_each(end_of_pool, pool);
    lock(pool);
    pool->value[USED] = 0;
    unlock(pool);
    trim(pool, 0);
    if (current == pool)
        current = &default_pool;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    ENTER();
    trim(pool, keep);
    return CUDA_SUCCESS;
}

static bool is_wide(enum attribute attribute)
{
    return attribute >= THRESHOLD;
}

EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, enum attribute attribute, void *value)
{
    ENTER();
    if (attribute < REUSE_EVENTS || attribute > USED_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_wide(attribute))
        *(uint64_t *)value = pool->value[attribute];
    else
        *(int *)value = (int)pool->value[attribute];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, enum attribute attribute,
                                      const void *value)
{
    ENTER();
    if (attribute < REUSE_EVENTS || attribute > USED_HIGH || attribute == RESERVED ||
        attribute == USED)
        return CUDA_ERROR_INVALID_VALUE;
    pool->value[attribute] = is_wide(attribute) ? *(const uint64_t *)value
                                                : (uint64_t) * (const int *)value;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const void *list, size_t count)
{
    ENTER();
    (void)pool, (void)list, (void)count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolGetAccess(int *access, CUmemoryPool pool, const CUmemLocation *location)
{
    ENTER();
    (void)pool, (void)location;
    *access = 3; /* read and write */
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    *pool = &default_pool;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    *pool = current;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    ENTER_WITH(NEEDS_INIT);
    (void)device;
    current = pool;
    return CUDA_SUCCESS;
}
