#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINE_BYTES 64
#define PAGE_BYTES ((size_t)2 << 20)
#define FIRST_ROOM 16

void *memory_room(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX - PAGE_BYTES)
        return NULL;
    if (bytes < PAGE_BYTES)
        return aligned_alloc(LINE_BYTES, (bytes / LINE_BYTES + 1) * LINE_BYTES);
    bytes = (bytes / PAGE_BYTES + 1) * PAGE_BYTES;
    void *room = aligned_alloc(PAGE_BYTES, bytes);
#ifdef MADV_HUGEPAGE
    /* Rows are read in no order, and small pages would be looked up for each of them. */
    if (room)
        madvise(room, bytes, MADV_HUGEPAGE);
#endif
    return room;
}

void *memory_take(size_t count, size_t size)
{
    void *taken = memory_room(count, size);
    return taken ? memset(taken, 0, count * size) : NULL;
}

bool memory_grow(void **array, int32_t *room, size_t size)
{
    if (*room > INT32_MAX / 2)
        return false;
    int32_t wanted = *room ? 2 * *room : FIRST_ROOM;
    void *grown = realloc(*array, (size_t)wanted * size);
    if (!grown)
        return false;
    *array = grown;
    *room = wanted;
    return true;
}
