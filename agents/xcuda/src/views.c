/* Hooks of what an application sizes itself by: it sees the quota, and never more than there is. */
#include "driver.h"
#include "gate.h"
#include "quota.h"

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The device as the job sees it: as large as its quota. */
static uint64_t seen_total(uint64_t total)
{
    uint64_t quota = policy_now()->memory_quota_bytes;
    return quota ? lower(total, quota) : total;
}

static uint64_t seen_free(uint64_t free)
{
    return lower(free, quota_free_bytes());
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(cuMemGetInfo_v2)(free, total);
    if (result == CUDA_SUCCESS) {
        *free = seen_free(*free);
        *total = seen_total(*total);
    }
    return leave(result);
}

CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(cuMemGetInfo)(free, total);
    if (result == CUDA_SUCCESS) {
        *free = (unsigned int)seen_free(*free);
        *total = (unsigned int)seen_total(*total);
    }
    return leave(result);
}

CUresult cuDeviceTotalMem_v2(size_t *total, CUdevice device)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(cuDeviceTotalMem_v2)(total, device);
    if (result == CUDA_SUCCESS)
        *total = seen_total(*total);
    return leave(result);
}

CUresult cuDeviceTotalMem(unsigned int *total, CUdevice device)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(cuDeviceTotalMem)(total, device);
    if (result == CUDA_SUCCESS)
        *total = (unsigned int)seen_total(*total);
    return leave(result);
}

/* NVML, which some allocators ask instead. What others use of the device stays part of `used`, so
 * that the three figures agree as they do without us. */

/* A process that asks NVML need not use CUDA: then nothing of ours runs in it that would have opened
 * the block, or would follow its policy. */
static bool quota_holds(void)
{
    block_standing();
    policy_refresh();
    return policy_now()->memory_quota_bytes != 0;
}

CUresult nvmlDeviceGetMemoryInfo(void *device, nvmlMemory_t *memory)
{
    nvml_ready();
    CUresult result = REAL(nvmlDeviceGetMemoryInfo)(device, memory);
    if (result == CUDA_SUCCESS && quota_holds()) {
        memory->total = seen_total(memory->total);
        memory->free = lower(seen_free(memory->free), memory->total);
        memory->used = memory->total - memory->free;
    }
    return result;
}

CUresult nvmlDeviceGetMemoryInfo_v2(void *device, nvmlMemory_v2_t *memory)
{
    nvml_ready();
    CUresult result = REAL(nvmlDeviceGetMemoryInfo_v2)(device, memory);
    if (result == CUDA_SUCCESS && quota_holds()) {
        memory->total = seen_total(memory->total);
        memory->free = lower(seen_free(memory->free), memory->total);
        memory->used = memory->total - memory->free;
        memory->reserved = 0;
    }
    return result;
}
