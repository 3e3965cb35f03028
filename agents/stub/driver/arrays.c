/* Arrays and mipmapped arrays, which the device pads to whole pages. */
#include <pthread.h>
#include <stdlib.h>

#include "handles.h"

#define PAGE_BYTES 65536

struct CUarray_st {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    uint64_t bytes;
    CUcontext context;
    CUarray next;
};

/* A mipmapped array is kept in the same list. */
static struct {
    pthread_mutex_t lock;
    CUarray first;
} arrays = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* CUarray_format: 8, 16 or 32 bits are told by the number. */
static uint64_t element_bytes(int format)
{
    switch (format) {
    case 0x01:
    case 0x08:
        return 1;
    case 0x02:
    case 0x09:
    case 0x10:
        return 2;
    default:
        return 4;
    }
}

static uint64_t at_least_one(uint64_t value)
{
    return value ? value : 1;
}

static uint64_t content_bytes(const CUDA_ARRAY3D_DESCRIPTOR *of, unsigned int level)
{
    return at_least_one(of->Width >> level) * at_least_one(of->Height >> level) *
           at_least_one(of->Depth >> level) * of->NumChannels * element_bytes(of->Format);
}

static CUresult create(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                       unsigned int levels)
{
    if (!descriptor->Width || !descriptor->NumChannels)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t bytes = 0;
    for (unsigned int level = 0; level < levels; level++)
        bytes += rounded(content_bytes(descriptor, level), PAGE_BYTES);
    bool deferred = descriptor->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING);
    CUresult result = deferred ? CUDA_SUCCESS : memory_take_or_trim(bytes);
    if (result != CUDA_SUCCESS)
        return result;
    CUarray it = malloc(sizeof *it);
    *it = (struct CUarray_st){*descriptor, deferred ? 0 : bytes, context_current(), NULL};
    pthread_mutex_lock(&arrays.lock);
    it->next = arrays.first;
    arrays.first = it;
    pthread_mutex_unlock(&arrays.lock);
    *array = it;
    return CUDA_SUCCESS;
}

static CUresult destroy(CUarray array)
{
    CUarray found = NULL;
    pthread_mutex_lock(&arrays.lock);
    for (CUarray *at = &arrays.first; *at && !found;)
        if (*at == array) {
            found = *at;
            *at = found->next;
        } else {
            at = &(*at)->next;
        }
    pthread_mutex_unlock(&arrays.lock);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    memory_give(found->bytes);
    free(found);
    return CUDA_SUCCESS;
}

void arrays_end_context(CUcontext context)
{
    pthread_mutex_lock(&arrays.lock);
    for (CUarray *at = &arrays.first; *at;) {
        CUarray it = *at;
        if (it->context != context) {
            at = &it->next;
            continue;
        }
        *at = it->next;
        memory_give(it->bytes);
        free(it);
    }
    pthread_mutex_unlock(&arrays.lock);
}

EXPORT CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *of)
{
    ENTER_UNSAFE();
    CUDA_ARRAY3D_DESCRIPTOR full = {of->Width, of->Height, 0, of->Format, of->NumChannels, 0};
    return create(array, &full, 1);
}

EXPORT CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *of)
{
    ENTER_UNSAFE();
    CUDA_ARRAY3D_DESCRIPTOR full = {of->Width, of->Height, 0, of->Format, of->NumChannels, 0};
    return create(array, &full, 1);
}

EXPORT CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *of)
{
    ENTER_UNSAFE();
    CUDA_ARRAY3D_DESCRIPTOR full = {of->Width,  of->Height,      of->Depth,
                                    of->Format, of->NumChannels, of->Flags};
    return create(array, &full, 1);
}

EXPORT CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *of)
{
    ENTER_UNSAFE();
    return create(array, of, 1);
}

EXPORT CUresult cuArrayDestroy(CUarray array)
{
    ENTER_UNSAFE();
    return destroy(array);
}

EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *of,
                                       unsigned int levels)
{
    ENTER_UNSAFE();
    return create((CUarray *)array, of, levels ? levels : 1);
}

EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    ENTER_UNSAFE();
    return destroy((CUarray)array);
}

static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray array)
{
    if (!array)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = array->bytes, .alignment = PAGE_BYTES};
    return CUDA_SUCCESS;
}

EXPORT CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray array,
                                             CUdevice device)
{
    ENTER();
    (void)device;
    return requirements(out, array);
}

EXPORT CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out,
                                                      CUmipmappedArray array, CUdevice device)
{
    ENTER();
    (void)device;
    return requirements(out, (CUarray)array);
}

EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray array)
{
    ENTER();
    *out = array->descriptor;
    return CUDA_SUCCESS;
}
