/* Linear, managed and host memory, memory of other processes, and what is told of them all. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "handles.h"

#define PITCH_BYTES 512

CUresult memory_take_or_trim(uint64_t bytes)
{
    CUresult result = memory_take(bytes);
    if (result == CUDA_SUCCESS)
        return result;
    pools_trim();
    return memory_take(bytes);
}

static CUresult allocate(CUdeviceptr *address, uint64_t bytes)
{
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = memory_take_or_trim(bytes);
    if (__builtin_expect(result != CUDA_SUCCESS, 0))
        return result;
    *address = allocation_add(ALLOCATION_DEVICE, bytes, context_current());
    if (*address)
        return CUDA_SUCCESS;
    memory_give(bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    ENTER_UNSAFE();
    return allocate(address, bytes);
}

/* Addresses of this driver do not fit into 32 bits. */
EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *address, unsigned int bytes)
{
    ENTER_UNSAFE();
    (void)address, (void)bytes;
    return CUDA_ERROR_NOT_SUPPORTED;
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
                                   unsigned int element)
{
    ENTER_UNSAFE();
    (void)element;
    size_t bytes;
    *pitch = rounded(width, PITCH_BYTES);
    if (memory_exceeds(width) || __builtin_mul_overflow(*pitch, height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return allocate(address, bytes);
}

/* Managed memory is really there, since the host may touch it; the device counts it whole. */
struct managed {
    void *at;
    uint64_t bytes;
    CUcontext context;
    struct managed *next;
};

static struct {
    pthread_mutex_t lock;
    struct managed *first;
} managed = {.lock = PTHREAD_MUTEX_INITIALIZER};

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned int flags)
{
    ENTER_UNSAFE();
    (void)flags;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = memory_take_or_trim(bytes);
    if (result != CUDA_SUCCESS)
        return result;
    struct managed *it = malloc(sizeof *it);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        free(it);
        memory_give(bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&managed.lock);
    *it = (struct managed){at, bytes, context_current(), managed.first};
    managed.first = it;
    pthread_mutex_unlock(&managed.lock);
    *address = (CUdeviceptr)(uintptr_t)at;
    return CUDA_SUCCESS;
}

static void free_managed(struct managed *it)
{
    memory_give(it->bytes);
    munmap(it->at, it->bytes);
    free(it);
}

static CUresult take_managed(CUdeviceptr address, struct managed **found)
{
    *found = NULL;
    pthread_mutex_lock(&managed.lock);
    for (struct managed **at = &managed.first; *at; at = &(*at)->next)
        if ((CUdeviceptr)(uintptr_t)(*at)->at == address) {
            *found = *at;
            *at = (*at)->next;
            break;
        }
    pthread_mutex_unlock(&managed.lock);
    return *found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A free of memory that kernels may still use waits for them, as a real one does. */
static CUresult release(CUdeviceptr address)
{
    if (!address)
        return CUDA_SUCCESS;
    CUresult result = process.timed ? streams_finish() : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        return result;
    struct allocation *it = allocation_at(address, false);
    if (it && it->kind == ALLOCATION_POOL)
        return pool_free(address);
    if (it && it->kind == ALLOCATION_DEVICE) {
        uint64_t bytes = it->bytes;
        allocation_remove(address);
        memory_give(bytes);
        return CUDA_SUCCESS;
    }
    struct managed *found;
    result = it ? CUDA_ERROR_INVALID_VALUE : take_managed(address, &found);
    if (result == CUDA_SUCCESS)
        free_managed(found);
    return result;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
    ENTER_UNSAFE();
    return release(address);
}

EXPORT CUresult cuMemFree(CUdeviceptr_v1 address)
{
    ENTER_UNSAFE();
    return release(address);
}

/* Contexts */

static void end_allocation(CUdeviceptr address, struct allocation *it, void *context)
{
    if (it->kind == ALLOCATION_POOL || it->owner != context)
        return;
    if (it->kind == ALLOCATION_DEVICE)
        memory_give(it->bytes);
    allocation_remove(address);
}

void memory_end_context(CUcontext context)
{
    allocations_each(end_allocation, context);
    pthread_mutex_lock(&managed.lock);
    for (struct managed **at = &managed.first; *at;) {
        struct managed *it = *at;
        if (it->context == context) {
            *at = it->next;
            free_managed(it);
        } else {
            at = &it->next;
        }
    }
    pthread_mutex_unlock(&managed.lock);
    arrays_end_context(context);
    modules_end_context(context);
}

/* Views */

EXPORT CUresult cuMemGetInfo_v2(size_t *left, size_t *total)
{
    ENTER();
    *left = memory_free_bytes();
    *total = memory_total_bytes();
    return CUDA_SUCCESS;
}

static unsigned int narrow(uint64_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes;
}

EXPORT CUresult cuMemGetInfo(unsigned int *left, unsigned int *total)
{
    ENTER();
    *left = narrow(memory_free_bytes());
    *total = narrow(memory_total_bytes());
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *begin, size_t *bytes, CUdeviceptr address)
{
    ENTER();
    struct allocation *it = allocation_at(address, true);
    if (!it)
        return CUDA_ERROR_NOT_FOUND;
    if (begin)
        *begin = allocation_begin(address);
    if (bytes)
        *bytes = it->bytes;
    return CUDA_SUCCESS;
}

/* Host memory */

struct host {
    void *at;
    uint64_t bytes;
    bool registered;
    struct host *next;
};

static struct {
    pthread_mutex_t lock;
    struct host *first;
} host = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note_host(void *at, uint64_t bytes, bool registered)
{
    struct host *it = malloc(sizeof *it);
    pthread_mutex_lock(&host.lock);
    *it = (struct host){at, bytes, registered, host.first};
    host.first = it;
    pthread_mutex_unlock(&host.lock);
}

static CUresult forget_host(void *at, bool registered)
{
    struct host *found = NULL;
    pthread_mutex_lock(&host.lock);
    for (struct host **each = &host.first; *each && !found;)
        if ((*each)->at == at && (*each)->registered == registered) {
            found = *each;
            *each = found->next;
        } else {
            each = &(*each)->next;
        }
    pthread_mutex_unlock(&host.lock);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    if (!registered)
        free(at);
    free(found);
    return CUDA_SUCCESS;
}

static CUresult allocate_host(void **at, size_t bytes)
{
    *at = bytes ? malloc(bytes) : NULL;
    if (!*at)
        return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    note_host(*at, bytes, false);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void **at, size_t bytes, unsigned int flags)
{
    ENTER_UNSAFE();
    (void)flags;
    return allocate_host(at, bytes);
}

EXPORT CUresult cuMemAllocHost_v2(void **at, size_t bytes)
{
    ENTER_UNSAFE();
    return allocate_host(at, bytes);
}

EXPORT CUresult cuMemAllocHost(void **at, unsigned int bytes)
{
    ENTER_UNSAFE();
    return allocate_host(at, bytes);
}

EXPORT CUresult cuMemFreeHost(void *at)
{
    ENTER_UNSAFE();
    return forget_host(at, false);
}

static CUresult register_host(void *at, size_t bytes)
{
    note_host(at, bytes, true);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostRegister(void *at, size_t bytes, unsigned int flags)
{
    ENTER_UNSAFE();
    (void)flags;
    return register_host(at, bytes);
}

EXPORT CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned int flags)
{
    ENTER_UNSAFE();
    (void)flags;
    return register_host(at, bytes);
}

EXPORT CUresult cuMemHostUnregister(void *at)
{
    ENTER_UNSAFE();
    return forget_host(at, true);
}

static CUresult device_pointer(CUdeviceptr *address, void *at)
{
    *address = (CUdeviceptr)(uintptr_t)at;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *at, unsigned int flags)
{
    ENTER();
    (void)flags;
    return device_pointer(address, at);
}

/* Memory of another process */

struct ipc {
    uint64_t bytes;
    CUdeviceptr address;
    int32_t pid;
};

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    ENTER();
    struct allocation *it = allocation_at(address, true);
    if (!it)
        return CUDA_ERROR_INVALID_VALUE;
    struct ipc ipc = {it->bytes, allocation_begin(address), getpid()};
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &ipc, sizeof ipc);
    return CUDA_SUCCESS;
}

static CUresult open_ipc(CUdeviceptr *address, const CUipcMemHandle *handle)
{
    struct ipc ipc;
    memcpy(&ipc, handle, sizeof ipc);
    if (ipc.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    *address = allocation_add(ALLOCATION_FOREIGN, ipc.bytes, context_current());
    return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
    ENTER_UNSAFE();
    (void)flags;
    return open_ipc(address, &handle);
}

EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle,
                                      unsigned int flags)
{
    ENTER_UNSAFE();
    (void)flags;
    return open_ipc(address, &handle);
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    ENTER_UNSAFE();
    struct allocation *it = allocation_at(address, false);
    if (!it || it->kind != ALLOCATION_FOREIGN)
        return CUDA_ERROR_INVALID_VALUE;
    allocation_remove(address);
    return CUDA_SUCCESS;
}

struct CUextMemory_st {
    uint64_t bytes;
};

/* The descriptor begins with a type, then a union of handles, then the size. */
struct external_descriptor {
    int type;
    void *handle[2];
    unsigned long long size;
};

struct external_buffer {
    unsigned long long offset, size;
};

EXPORT CUresult cuImportExternalMemory(CUexternalMemory *memory, const void *descriptor)
{
    ENTER_UNSAFE();
    *memory = malloc(sizeof **memory);
    (*memory)->bytes = ((const struct external_descriptor *)descriptor)->size;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
    ENTER_UNSAFE();
    free(memory);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *address, CUexternalMemory memory,
                                                const struct external_buffer *buffer)
{
    ENTER_UNSAFE();
    if (buffer->offset + buffer->size > memory->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *address = allocation_add(ALLOCATION_FOREIGN, buffer->size, context_current());
    return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
