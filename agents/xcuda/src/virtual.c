/* Hooks of virtual memory management and of memory that another interface made. Reserving addresses
 * costs nothing; what cuMemCreate makes is charged (physical.h). What is imported by a shareable
 * handle is charged where it was made, and passes through here as unknown. */
#include "charge.h"
#include "physical.h"

static CUresult end_create(CUresult result, bool on_device,
                           const CUmemGenericAllocationHandle *handle, uint64_t bytes)
{
    struct physical *physical = NULL;
    if (result == CUDA_SUCCESS)
        physical = physical_new(bytes, on_device);
    if (physical)
        allocations_add(&(struct allocation){.space = SPACE_PHYSICAL,
                                             .kind = KIND_PHYSICAL,
                                             .value = *handle,
                                             .bytes = bytes,
                                             .physical = physical,
                                             .references = 1});
    if (result != CUDA_SUCCESS && on_device)
        quota_release(KIND_PHYSICAL, bytes);
    return leave(result);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *properties, unsigned long long flags)
{
    bool on_device = properties && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    CUresult result;
    if (!begin_charged(KIND_PHYSICAL, on_device ? bytes : 0, &result))
        return result;
    result = REAL(cuMemCreate)(handle, bytes, properties, flags);
    return end_create(result, on_device, handle, bytes);
}

/* The handle leaves the table before the driver is asked, since its value may be given out again at
 * once. */
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    struct allocation found;
    bool last = false, known = allocations_refer(handle, -1, &found, &last);
    result = REAL(cuMemRelease)(handle);
    if (known && last && result == CUDA_SUCCESS) {
        physical_drop(found.physical);
    } else if (known && last) {
        found.references = 1;
        allocations_add(&found);
    } else if (known && result != CUDA_SUCCESS) {
        allocations_refer(handle, 1, &found, &last);
    }
    return leave(result);
}

/* Another reference to memory that is mapped at the address, through its old handle or, where that
 * was released, through a new one. */
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(cuMemRetainAllocationHandle)(handle, address);
    struct allocation found;
    bool taken;
    if (result == CUDA_SUCCESS && !allocations_refer(*handle, 1, &found, &taken) &&
        allocations_find(SPACE_MAPPING, (uintptr_t)address, &found) && found.physical)
        allocations_add(&(struct allocation){.space = SPACE_PHYSICAL,
                                             .kind = KIND_PHYSICAL,
                                             .value = *handle,
                                             .bytes = found.bytes,
                                             .physical = found.physical,
                                             .references = 1});
    return leave(result);
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    struct allocation of = {0};
    allocations_find(SPACE_PHYSICAL, handle, &of);
    result = REAL(cuMemMap)(address, bytes, offset, handle, flags);
    if (result != CUDA_SUCCESS)
        physical_drop(of.physical);
    else /* unknown memory too, so that cuMemUnmap can walk over it */
        allocations_add(&(struct allocation){.space = SPACE_MAPPING,
                                             .kind = KIND_PHYSICAL,
                                             .value = address,
                                             .bytes = bytes,
                                             .physical = of.physical});
    return leave(result);
}

/* A range may hold several mappings, each of them whole. */
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    CUresult result = enter(ENTRY_MEMORY);
    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(cuMemUnmap)(address, bytes);
    struct allocation mapping;
    for (CUdeviceptr at = address; result == CUDA_SUCCESS && at < address + bytes;
         at += mapping.bytes) {
        if (!allocations_take(SPACE_MAPPING, at, &mapping))
            break;
        physical_drop(mapping.physical);
    }
    return leave(result);
}

CUresult cuImportExternalMemory(CUexternalMemory *memory,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description)
{
    uint64_t bytes = description ? description->size : 0;
    CUresult result;
    if (!begin_charged(KIND_PHYSICAL, bytes, &result))
        return result;
    result = REAL(cuImportExternalMemory)(memory, description);
    return end_charged(result, &(struct allocation){
                                   .space = SPACE_EXTERNAL,
                                   .kind = KIND_PHYSICAL,
                                   .value = result == CUDA_SUCCESS ? (uintptr_t)*memory : 0,
                                   .bytes = bytes});
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
    FREE(SPACE_EXTERNAL, memory, REAL(cuDestroyExternalMemory)(memory));
}
