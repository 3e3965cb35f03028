#include "allocations.h"

#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "lock.h"
#include "physical.h"
#include "pools.h"
#include "quota.h"

/* Open addressing with linear probing; an entry that goes is replaced by the next that may move up,
 * so that nothing of it remains to be probed. Shards, so that threads rarely meet. */
#define SHARD_BITS 5
#define FIRST_CAPACITY 64

static struct shard {
    _Alignas(64) lock lock;
    uint32_t count;
    uint64_t capacity; /* a power of two, at least twice the count; 0 at first */
    struct allocation *entries;
} shards[1 << SHARD_BITS];

/* Multiplied twice: addresses come in strides, and for every single factor there is a stride that
 * it does not spread. */
static uint64_t hash(enum space space, uint64_t value)
{
    uint64_t mixed = (value ^ (uint64_t)space << 56) * UINT64_C(0x9e3779b97f4a7c15);
    return (mixed ^ mixed >> 32) * UINT64_C(0xd6e8feb86659fd93);
}

/* The highest bits spread best: they choose the shard, and the next ones the place in it. */
static struct shard *shard_of(uint64_t hash)
{
    return &shards[hash >> (64 - SHARD_BITS)];
}

static uint64_t home(const struct shard *shard, const struct allocation *entry)
{
    uint64_t rest = hash(entry->space, entry->value) << SHARD_BITS;
    return rest >> (64 - __builtin_ctzll(shard->capacity));
}

static uint64_t next(const struct shard *shard, uint64_t at)
{
    return (at + 1) & (shard->capacity - 1);
}

static struct allocation *find(const struct shard *shard, const struct allocation *key)
{
    if (shard->capacity == 0)
        return NULL;
    for (uint64_t at = home(shard, key);; at = next(shard, at)) {
        struct allocation *entry = &shard->entries[at];
        if (entry->space == SPACE_NONE)
            return NULL;
        if (entry->value == key->value && entry->space == key->space)
            return entry;
    }
}

static void put(struct shard *shard, const struct allocation *allocation)
{
    uint64_t at = home(shard, allocation);
    while (shard->entries[at].space != SPACE_NONE)
        at = next(shard, at);
    shard->entries[at] = *allocation;
}

static bool grow(struct shard *shard)
{
    struct shard bigger = {.capacity = shard->capacity ? shard->capacity * 2 : FIRST_CAPACITY};
    bigger.entries = calloc(bigger.capacity, sizeof *bigger.entries);
    if (bigger.entries == NULL)
        return false;
    for (uint64_t at = 0; at < shard->capacity; at++)
        if (shard->entries[at].space != SPACE_NONE)
            put(&bigger, &shard->entries[at]);
    free(shard->entries);
    shard->entries = bigger.entries;
    shard->capacity = bigger.capacity;
    return true;
}

static void erase(struct shard *shard, struct allocation *entry)
{
    uint64_t hole = (uint64_t)(entry - shard->entries), mask = shard->capacity - 1;
    for (uint64_t at = next(shard, hole); shard->entries[at].space != SPACE_NONE;
         at = next(shard, at)) {
        /* It may move into the hole if that is not before its home. */
        if (((at - home(shard, &shard->entries[at])) & mask) < ((at - hole) & mask))
            continue;
        shard->entries[hole] = shard->entries[at];
        hole = at;
    }
    shard->entries[hole].space = SPACE_NONE;
    shard->count--;
}

bool allocations_add(const struct allocation *allocation)
{
    struct shard *shard = shard_of(hash(allocation->space, allocation->value));
    struct allocation stale = {0};
    lock_take(&shard->lock);
    struct allocation *entry = find(shard, allocation);
    bool room = entry || shard->count * 2 < shard->capacity || grow(shard);
    if (entry) {
        stale = *entry;
        *entry = *allocation;
    } else if (room) {
        put(shard, allocation);
        shard->count++;
    }
    lock_give(&shard->lock);
    if (stale.space != SPACE_NONE)
        allocation_release(&stale);
    if (!room)
        COMPLAIN(TROUBLE_MEMORY, "no host memory to list an allocation; it stays charged");
    return room;
}

bool allocations_take(enum space space, uint64_t value, struct allocation *taken)
{
    struct shard *shard = shard_of(hash(space, value));
    lock_take(&shard->lock);
    struct allocation *entry = find(shard, &(struct allocation){.space = space, .value = value});
    if (entry) {
        *taken = *entry;
        erase(shard, entry);
    }
    lock_give(&shard->lock);
    return entry != NULL;
}

bool allocations_find(enum space space, uint64_t value, struct allocation *found)
{
    struct shard *shard = shard_of(hash(space, value));
    lock_take(&shard->lock);
    struct allocation *entry = find(shard, &(struct allocation){.space = space, .value = value});
    if (entry) {
        *found = *entry;
        if (space == SPACE_PHYSICAL || space == SPACE_MAPPING)
            physical_hold(found->physical);
    }
    lock_give(&shard->lock);
    return entry != NULL;
}

bool allocations_refer(uint64_t handle, int by, struct allocation *found, bool *taken)
{
    struct shard *shard = shard_of(hash(SPACE_PHYSICAL, handle));
    lock_take(&shard->lock);
    struct allocation *entry =
        find(shard, &(struct allocation){.space = SPACE_PHYSICAL, .value = handle});
    if (entry) {
        entry->references += (uint32_t)by;
        *found = *entry;
        *taken = entry->references == 0;
        if (*taken)
            erase(shard, entry);
    }
    lock_give(&shard->lock);
    return entry != NULL;
}

void allocation_release(const struct allocation *allocation)
{
    if (allocation->space == SPACE_HOST)
        atomic_fetch_sub_explicit(&slot->host_bytes, allocation->bytes, memory_order_relaxed);
    else if (allocation->space == SPACE_PHYSICAL || allocation->space == SPACE_MAPPING)
        physical_drop(allocation->physical);
    else if (allocation->kind == KIND_ASYNC)
        pool_freed(allocation->pool, allocation->bytes);
    else
        quota_release(allocation->kind, allocation->bytes);
}

static void forget_in(struct shard *shard, CUcontext context)
{
    lock_take(&shard->lock);
    for (uint64_t at = 0; at < shard->capacity; at++) {
        struct allocation *entry = &shard->entries[at];
        /* Again and again: another may have moved up. */
        while (entry->space != SPACE_NONE && entry->context == context) {
            allocation_release(entry);
            erase(shard, entry);
        }
    }
    lock_give(&shard->lock);
}

void allocations_forget_context(CUcontext context)
{
    for (int i = 0; context && i < 1 << SHARD_BITS; i++)
        forget_in(&shards[i], context);
}

void allocations_fork_child(void)
{
    memset(shards, 0, sizeof shards);
    pools_fork_child();
}
