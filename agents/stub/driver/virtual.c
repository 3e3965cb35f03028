/* Virtual memory management: addresses, physical memory, and the one mapped to the other. Physical
 * memory is held until it is neither referred to nor mapped. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "handles.h"

#define GRANULE_BYTES (UINT64_C(2) << 20)
#define VIRTUAL_BASE (UINT64_C(1) << 61)

struct physical {
    uint64_t bytes;
    uint32_t references, maps;
    bool foreign; /* counted by the process that made it */
    CUmemAllocationProp properties;
};

struct map {
    CUdeviceptr address;
    uint64_t bytes;
    struct physical *physical;
    struct map *next;
};

static struct {
    pthread_mutex_t lock;
    CUdeviceptr next_address;
    struct map *maps;
} space = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_address = VIRTUAL_BASE};

static struct physical *physical_of(CUmemGenericAllocationHandle handle)
{
    return (struct physical *)(uintptr_t)handle;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment,
                                    CUdeviceptr wanted, unsigned long long flags)
{
    ENTER_UNSAFE();
    (void)wanted, (void)flags;
    if (!bytes || bytes % GRANULE_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t unit = alignment > GRANULE_BYTES ? alignment : GRANULE_BYTES;
    pthread_mutex_lock(&space.lock);
    *address = rounded(space.next_address, unit);
    space.next_address = *address + bytes;
    pthread_mutex_unlock(&space.lock);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    ENTER_UNSAFE();
    (void)bytes;
    return address >= VIRTUAL_BASE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                            const CUmemAllocationProp *properties, unsigned long long flags)
{
    ENTER_UNSAFE();
    (void)flags;
    if (!bytes || bytes % GRANULE_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    bool foreign = properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    CUresult result = foreign ? CUDA_SUCCESS : memory_take_or_trim(bytes);
    if (result != CUDA_SUCCESS)
        return result;
    struct physical *it = malloc(sizeof *it);
    *it = (struct physical){bytes, 1, 0, foreign, *properties};
    *handle = (uintptr_t)it;
    return CUDA_SUCCESS;
}

/* With the lock held. */
static void let_go(struct physical *it)
{
    if (it->references || it->maps)
        return;
    if (!it->foreign)
        memory_give(it->bytes);
    free(it);
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    ENTER_UNSAFE();
    struct physical *it = physical_of(handle);
    if (!it || !it->references)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&space.lock);
    it->references -= 1;
    let_go(it);
    pthread_mutex_unlock(&space.lock);
    return CUDA_SUCCESS;
}

static struct map **map_at(CUdeviceptr address)
{
    struct map **at = &space.maps;
    while (*at && !(address >= (*at)->address && address < (*at)->address + (*at)->bytes))
        at = &(*at)->next;
    return at;
}

EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    ENTER_UNSAFE();
    (void)flags;
    struct physical *physical = physical_of(handle);
    if (!physical || address < VIRTUAL_BASE || offset || bytes > physical->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = ERROR_ALREADY_MAPPED;
    pthread_mutex_lock(&space.lock);
    if (!*map_at(address)) {
        struct map *it = malloc(sizeof *it);
        *it = (struct map){address, bytes, physical, space.maps};
        space.maps = it;
        physical->maps += 1;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&space.lock);
    return result;
}

/* The range may hold several maps; each lies in it whole. */
EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    ENTER_UNSAFE();
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&space.lock);
    for (struct map **at = &space.maps; *at;) {
        struct map *it = *at;
        if (it->address < address || it->address + it->bytes > address + bytes) {
            at = &it->next;
            continue;
        }
        *at = it->next;
        it->physical->maps -= 1;
        let_go(it->physical);
        free(it);
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&space.lock);
    return result;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    ENTER_UNSAFE();
    pthread_mutex_lock(&space.lock);
    struct map *it = *map_at((CUdeviceptr)(uintptr_t)address);
    if (it) {
        it->physical->references += 1;
        *handle = (uintptr_t)it->physical;
    }
    pthread_mutex_unlock(&space.lock);
    return it ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const void *list, size_t count)
{
    ENTER_UNSAFE();
    (void)address, (void)bytes, (void)list, (void)count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                              int option)
{
    ENTER();
    (void)properties, (void)option;
    *bytes = GRANULE_BYTES;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                       CUmemGenericAllocationHandle handle)
{
    ENTER();
    *properties = physical_of(handle)->properties;
    return CUDA_SUCCESS;
}

/* A file descriptor that says how large the memory is; passed on to another process. */
EXPORT CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                             int type, unsigned long long flags)
{
    ENTER();
    (void)type, (void)flags;
    struct physical *it = physical_of(handle);
    int file = memfd_create("stub-memory", MFD_CLOEXEC);
    if (file < 0 || pwrite(file, &it->bytes, sizeof it->bytes, 0) != sizeof it->bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *(int *)shareable = file;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os,
                                               int type)
{
    ENTER();
    (void)type;
    uint64_t bytes;
    if (pread((int)(intptr_t)os, &bytes, sizeof bytes, 0) != sizeof bytes)
        return CUDA_ERROR_INVALID_VALUE;
    struct physical *it = malloc(sizeof *it);
    *it = (struct physical){.bytes = bytes, .references = 1, .foreign = true};
    *handle = (uintptr_t)it;
    return CUDA_SUCCESS;
}
