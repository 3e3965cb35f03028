/* Hooks of arrays and mipmapped arrays. How much one takes is the driver's secret until it exists,
 * and of most drivers even then; so what its elements need is charged, in whole pages, and more as
 * soon as the driver says more. */
#include "charge.h"

#define PAGE_BYTES UINT64_C(65536)
#define BYTES_MOST (UINT64_MAX / 64) /* of a level: more than there is of memory anywhere */

/* Bytes of one channel; of a format that packs several, what is common to them. */
static uint64_t channel_bytes(int format)
{
    switch (format) {
    case 0x03: /* 32 bits: unsigned, signed, float */
    case 0x0a:
    case 0x20:
        return 4;
    case 0x02: /* 16 bits: unsigned, signed, half, normalised */
    case 0x09:
    case 0x10:
    case 0xc3:
    case 0xc4:
    case 0xc5:
    case 0xc9:
    case 0xca:
    case 0xcb:
        return 2;
    default: /* 8 bits, or compressed to no more */
        return 1;
    }
}

static uint64_t at_least_one(uint64_t extent)
{
    return extent ? extent : 1;
}

static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *of, unsigned int level)
{
    bool layered = of->Flags & CUDA_ARRAY3D_LAYERED;
    uint64_t bytes = channel_bytes(of->Format) * of->NumChannels;
    uint64_t extent[] = {at_least_one(of->Width >> level), at_least_one(of->Height >> level),
                         at_least_one(layered ? of->Depth : of->Depth >> level)};
    for (int i = 0; i < 3; i++)
        if (__builtin_mul_overflow(bytes, extent[i], &bytes) || bytes > BYTES_MOST)
            return BYTES_MOST;
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *of, unsigned int levels)
{
    uint64_t bytes = 0;
    if (of->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        return 0; /* memory of cuMemCreate is put behind it */
    for (unsigned int level = 0; level < levels && level < 32; level++)
        bytes += level_bytes(of, level);
    return bytes;
}

static uint64_t stated_bytes(enum space space, void *made, uint64_t otherwise)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS stated = {0};
    CUdevice device;
    if (otherwise == 0 || BORROWED(cuCtxGetDevice)(&device) != CUDA_SUCCESS)
        return otherwise;
    CUresult result =
        space == SPACE_ARRAY
            ? BORROWED(cuArrayGetMemoryRequirements)(&stated, made, device)
            : BORROWED(cuMipmappedArrayGetMemoryRequirements)(&stated, made, device);
    return result == CUDA_SUCCESS && stated.size > otherwise ? stated.size : otherwise;
}

static CUresult end_array(CUresult result, enum space space, void *made, uint64_t reserved)
{
    struct allocation allocation = {
        .space = space, .kind = KIND_ARRAY, .value = (uintptr_t)made, .bytes = reserved};
    if (result == CUDA_SUCCESS) {
        allocation.context = current_context();
        allocation.bytes = stated_bytes(space, made, reserved);
        result = quota_reserve(KIND_ARRAY, allocation.bytes - reserved);
        if (result != CUDA_SUCCESS) {
            if (space == SPACE_ARRAY)
                REAL(cuArrayDestroy)(made);
            else
                REAL(cuMipmappedArrayDestroy)(made);
            allocation.bytes = reserved;
        }
    }
    return end_charged(result, &allocation);
}

/* `array` may be read only once the driver has written it. */
#define CREATE(space, array, bytes, real_call)                                         \
    do {                                                                               \
        CUresult result;                                                               \
        uint64_t reserved = (bytes);                                                   \
        if (!begin_charged(KIND_ARRAY, reserved, &result))                             \
            return result;                                                             \
        result = (real_call);                                                          \
        return end_array(result, (space), result == CUDA_SUCCESS ? *(array) : NULL,    \
                         reserved);                                                    \
    } while (0)

#define AS_3D(of, depth, flags)                                               \
    (of) ? (CUDA_ARRAY3D_DESCRIPTOR){.Width = (of)->Width,                    \
                                     .Height = (of)->Height,                  \
                                     .Depth = (depth),                        \
                                     .Format = (of)->Format,                  \
                                     .NumChannels = (of)->NumChannels,        \
                                     .Flags = (flags)}                        \
         : (CUDA_ARRAY3D_DESCRIPTOR){0}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *of)
{
    CUDA_ARRAY3D_DESCRIPTOR full = AS_3D(of, 0, 0);
    CREATE(SPACE_ARRAY, array, array_bytes(&full, 1), REAL(cuArrayCreate_v2)(array, of));
}

CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *of)
{
    CUDA_ARRAY3D_DESCRIPTOR full = AS_3D(of, 0, 0);
    CREATE(SPACE_ARRAY, array, array_bytes(&full, 1), REAL(cuArrayCreate)(array, of));
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *of)
{
    CUDA_ARRAY3D_DESCRIPTOR full = AS_3D(of, of->Depth, of->Flags);
    CREATE(SPACE_ARRAY, array, array_bytes(&full, 1), REAL(cuArray3DCreate_v2)(array, of));
}

CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *of)
{
    CUDA_ARRAY3D_DESCRIPTOR full = AS_3D(of, of->Depth, of->Flags);
    CREATE(SPACE_ARRAY, array, array_bytes(&full, 1), REAL(cuArray3DCreate)(array, of));
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *of,
                                unsigned int levels)
{
    CUDA_ARRAY3D_DESCRIPTOR full = AS_3D(of, of->Depth, of->Flags);
    CREATE(SPACE_MIPMAP, array, array_bytes(&full, levels),
           REAL(cuMipmappedArrayCreate)(array, of, levels));
}

CUresult cuArrayDestroy(CUarray array)
{
    FREE(SPACE_ARRAY, array, REAL(cuArrayDestroy)(array));
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    FREE(SPACE_MIPMAP, array, REAL(cuMipmappedArrayDestroy)(array));
}
