/* cuGetProcAddress as a driver of CUDA 13.0 answers it. */
#include <stdlib.h>
#include <string.h>

#include "process.h"

#define DRIVER_VERSION 13000

enum status { FOUND = 0, UNKNOWN_SYMBOL = 1, TOO_OLD = 2 };

struct entry {
    const char *base;
    int version;
    int per_thread;
    const char *address, *trampoline;
};

#if defined __x86_64__
#define JUMP "jmp "
#define PLT "@PLT"
#else
#define JUMP "b "
#define PLT ""
#endif

/* Only their addresses matter here, so each is given a name and no type. The second is of one
 * instruction that jumps to the first. */
#define NAME(base, version, per_thread) at_##base##_##version##_##per_thread
#define WAY_TO(base, version, per_thread) to_##base##_##version##_##per_thread
#define TEXT(name) #name
#define LABEL(name) TEXT(name)
#define ENTRY(base, version, per_thread, symbol)                                                   \
    extern const char NAME(base, version, per_thread)[] __asm__(#symbol);                          \
    extern const char WAY_TO(base, version, per_thread)[]                                          \
        __attribute__((visibility("hidden")));                                                     \
    __asm__(".text\n.balign 16\n.hidden " LABEL(WAY_TO(base, version, per_thread)) "\n.globl "      \
            LABEL(WAY_TO(base, version, per_thread)) "\n"                                          \
            LABEL(WAY_TO(base, version, per_thread)) ": " JUMP #symbol PLT);
#include "entry_points.inc"
#include "graphics_points.inc"
#undef ENTRY
#define ENTRY(base, version, per_thread, symbol)                                                   \
    {#base, version, per_thread, NAME(base, version, per_thread), WAY_TO(base, version, per_thread)},

/* Each in the order of base name, version, stream. An entry without a name ends it. */
static const struct entry entries[] = {
#include "entry_points.inc"
    {0},
};
static const struct entry graphics[] = {
#include "graphics_points.inc"
    {0},
};

static int by_base(const void *name, const void *entry)
{
    return strcmp(name, ((const struct entry *)entry)->base);
}

static const struct entry *first_in(const struct entry *table, size_t size, const char *base)
{
    const struct entry *found =
        bsearch(base, table, size / sizeof *table - 1, sizeof *table, by_base);
    while (found && found > table && strcmp(found[-1].base, base) == 0)
        found--;
    return found;
}

static const struct entry *first_of(const char *base)
{
    const struct entry *found = first_in(entries, sizeof entries, base);
    return found ? found : first_in(graphics, sizeof graphics, base);
}

/* The newest that is not newer than asked for; of its per-thread kind where that is wanted and
 * there is one. */
static const struct entry *newest(const struct entry *at, const char *base, int version,
                                  int per_thread)
{
    const struct entry *best = NULL;
    for (; at->base && strcmp(at->base, base) == 0; at++)
        if (at->per_thread == per_thread && at->version <= version &&
            (!best || at->version > best->version))
            best = at;
    return best;
}

static enum status find(const char *base, int version, unsigned long long flags, void **out)
{
    const struct entry *first = first_of(base), *best = NULL;
    *out = NULL;
    if (!first)
        return UNKNOWN_SYMBOL;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        best = newest(first, base, version, 1);
    if (!best)
        best = newest(first, base, version, 0);
    if (!best)
        return TOO_OLD;
    *out = (void *)(uintptr_t)(process.trampolines ? best->trampoline : best->address);
    return FOUND;
}

EXPORT CUresult cuGetProcAddress_v2(const char *base, void **out, int version,
                                    unsigned long long flags, void *status)
{
    ENTER_WITH(NEEDS_NOTHING);
    if (!base || !out || version > DRIVER_VERSION)
        return CUDA_ERROR_INVALID_VALUE;
    enum status found = find(base, version, flags, out);
    if (status)
        *(int *)status = (int)found;
    return CUDA_SUCCESS;
}

/* The first version had no status to tell it by. */
EXPORT CUresult cuGetProcAddress(const char *base, void **out, int version,
                                 unsigned long long flags)
{
    ENTER_WITH(NEEDS_NOTHING);
    if (!base || !out || version > DRIVER_VERSION)
        return CUDA_ERROR_INVALID_VALUE;
    return find(base, version, flags, out) == FOUND ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* NVIDIA's private tables: none of them is here. */
EXPORT CUresult cuGetExportTable(const void **table, const void *id)
{
    ENTER_WITH(NEEDS_NOTHING);
    (void)id;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
