/* What this process holds of the device, by the pointer or handle that it is freed with.
 *
 * One table for every kind, so that any free function finds what any allocation function made.
 * Adding and taking cost the same however much is held.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "block.h"
#include "cuda.h"

/* Values that may be equal and yet name different things are told apart by their space. */
enum space {
    SPACE_NONE, /* an empty place of the table */
    SPACE_DEVICE,
    SPACE_HOST,
    SPACE_PHYSICAL, /* handles of cuMemCreate */
    SPACE_MAPPING,  /* addresses that such memory is mapped at */
    SPACE_ARRAY,
    SPACE_MIPMAP,
    SPACE_EXTERNAL,
    SPACE_MODULE,
    SPACE_LIBRARY,
};

struct allocation {
    uint64_t value; /* pointer or handle */
    uint64_t bytes;
    CUcontext context; /* goes with it; NULL: with none */
    union {
        struct pool *pool;         /* of KIND_ASYNC; NULL: none that we know */
        struct physical *physical; /* of SPACE_PHYSICAL and SPACE_MAPPING; see physical.h */
    };
    uint32_t references; /* of SPACE_PHYSICAL: the driver's own count for the handle */
    uint16_t kind;       /* enum block_kind */
    uint16_t space;
};

/* Whatever is still listed under the same value is released: the driver has handed the value out
 * again, so that must be gone. False: no memory for the table; it then goes unlisted. */
bool allocations_add(const struct allocation *allocation);

/* Removes it and returns true; false: it is not ours. To be called before the driver frees it, or
 * another thread might be given the same value first. */
bool allocations_take(enum space space, uint64_t value, struct allocation *taken);

/* Copies it; false: it is not ours. Its physical memory, if any, is then held for the caller too. */
bool allocations_find(enum space space, uint64_t value, struct allocation *found);

/* Adds `by` to the references of a handle. The last one takes it, and `taken` is set; false: it is
 * not ours. */
bool allocations_refer(uint64_t handle, int by, struct allocation *found, bool *taken);

/* Uncharges what was freed. */
void allocation_release(const struct allocation *allocation);

/* The context has been destroyed, and with it what was allocated in it. */
void allocations_forget_context(CUcontext context);

/* In a child of fork, which holds nothing; pools included. */
void allocations_fork_child(void);
