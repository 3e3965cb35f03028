/* The table of allocations: what was added is found and taken once, whatever happened between. */
#include <pthread.h>

#include "allocations.c"
#include "check.h"

#define VALUES 3000

static struct block_slot one_slot;
struct block_slot *slot = &one_slot;
static _Atomic uint64_t released;

void quota_release(enum block_kind kind, uint64_t bytes)
{
    (void)kind;
    released += bytes;
}

void pool_freed(struct pool *pool, uint64_t bytes)
{
    (void)pool;
    released += bytes;
}

void physical_hold(struct physical *physical)
{
    (void)physical;
}

void physical_drop(struct physical *physical)
{
    (void)physical;
}

void pools_fork_child(void) {}
void complain(enum trouble kind, ...)
{
    (void)kind;
}

static struct allocation device(uint64_t value, uint64_t bytes)
{
    return (struct allocation){.space = SPACE_DEVICE, .value = value, .bytes = bytes};
}

/* Strides that addresses really have, and a small one that makes long runs of neighbours. */
static const uint64_t strides[] = {1, 256, 512, 4096, UINT64_C(2) << 20, UINT64_C(1) << 33};

static void random_changes_agree_with_a_plain_array(uint64_t stride)
{
    static uint64_t bytes[VALUES]; /* 0: not there */
    struct allocation found;
    uint32_t seed = 7;
    for (int step = 0; step < 40000; step++) {
        uint32_t i = below(&seed, VALUES);
        uint64_t value = UINT64_C(0x7f0000000000) + i * stride;
        if (bytes[i] == 0) {
            CHECK(!allocations_take(SPACE_DEVICE, value, &found), "%u was never added", i);
            bytes[i] = below(&seed, 1000) + 1;
            CHECK(allocations_add(&(struct allocation){.space = SPACE_DEVICE, .value = value,
                                                       .bytes = bytes[i]}), "%u", i);
        } else if (below(&seed, 2)) {
            CHECK(allocations_take(SPACE_DEVICE, value, &found), "%u is lost", i);
            CHECK(found.bytes == bytes[i], "%u", i);
            bytes[i] = 0;
        } else {
            CHECK(allocations_find(SPACE_DEVICE, value, &found), "%u is lost", i);
            CHECK(found.bytes == bytes[i], "%u", i);
        }
    }
    for (int i = 0; i < VALUES; i++)
        if (bytes[i])
            CHECK(allocations_take(SPACE_DEVICE, UINT64_C(0x7f0000000000) + i * stride, &found),
                  "%d is lost", i);
    memset(bytes, 0, sizeof bytes);
}

static void no_stride_makes_long_probes(uint64_t stride)
{
    struct allocation taken;
    uint64_t far = 0;
    for (uint64_t i = 1; i <= 10000; i++)
        allocations_add(
            &(struct allocation){.space = SPACE_DEVICE, .value = i * stride, .bytes = 1});
    for (int s = 0; s < 1 << SHARD_BITS; s++)
        for (uint64_t at = 0; at < shards[s].capacity; at++)
            if (shards[s].entries[at].space != SPACE_NONE)
                far += (at - home(&shards[s], &shards[s].entries[at])) & (shards[s].capacity - 1);
    CHECK(far < 20000, "stride %lu: %lu steps", (unsigned long)stride, (unsigned long)far);
    for (uint64_t i = 1; i <= 10000; i++)
        allocations_take(SPACE_DEVICE, i * stride, &taken);
}

static void equal_values_of_two_spaces_are_two_things(void)
{
    struct allocation found;
    allocations_add(&(struct allocation){.space = SPACE_ARRAY, .value = 5, .bytes = 1});
    allocations_add(&(struct allocation){.space = SPACE_MODULE, .value = 5, .bytes = 2});
    CHECK(allocations_take(SPACE_MODULE, 5, &found) && found.bytes == 2, "module");
    CHECK(allocations_take(SPACE_ARRAY, 5, &found) && found.bytes == 1, "array");
}

static void a_value_that_is_given_out_again_releases_the_stale_one(void)
{
    struct allocation found, first = device(64, 100), second = device(64, 7);
    released = 0;
    allocations_add(&first);
    allocations_add(&second);
    CHECK(released == 100, "%lu", (unsigned long)released);
    CHECK(allocations_take(SPACE_DEVICE, 64, &found) && found.bytes == 7, "the new one");
    CHECK(!allocations_take(SPACE_DEVICE, 64, &found), "only one");
}

static void a_context_takes_all_of_its_own_and_nothing_else(void)
{
    CUcontext mine = (CUcontext)16, other = (CUcontext)32;
    struct allocation found;
    released = 0;
    for (uint64_t i = 1; i <= 2000; i++) {
        struct allocation it = device(i * 512, i);
        it.context = i % 2 ? mine : i % 4 ? other : NULL;
        allocations_add(&it);
    }
    allocations_forget_context(mine);
    CHECK(released == 1000 * 1000, "%lu", (unsigned long)released);
    for (uint64_t i = 1; i <= 2000; i++)
        CHECK(allocations_take(SPACE_DEVICE, i * 512, &found) == (i % 2 == 0), "%lu",
              (unsigned long)i);
}

static void the_last_reference_takes_a_handle(void)
{
    struct allocation found;
    bool taken;
    allocations_add(
        &(struct allocation){.space = SPACE_PHYSICAL, .value = 9, .bytes = 1, .references = 1});
    CHECK(allocations_refer(9, 1, &found, &taken) && !taken, "a second one");
    CHECK(allocations_refer(9, -1, &found, &taken) && !taken, "one is left");
    CHECK(allocations_refer(9, -1, &found, &taken) && taken, "none is left");
    CHECK(!allocations_refer(9, -1, &found, &taken), "it is gone");
}

static void *add_and_take(void *argument)
{
    uint32_t number = (uint32_t)(uintptr_t)argument;
    struct allocation found;
    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < 200; i++) {
            struct allocation it = device((i * 8 + number) * UINT64_C(512), number + 1);
            allocations_add(&it);
        }
        for (uint32_t i = 0; i < 200; i++)
            CHECK(allocations_take(SPACE_DEVICE, (i * 8 + number) * UINT64_C(512), &found) &&
                      found.bytes == number + 1, "thread %u, %u", number, i);
    }
    return NULL;
}

static void threads_find_their_own(void)
{
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, add_and_take, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        random_changes_agree_with_a_plain_array(strides[i]);
        no_stride_makes_long_probes(strides[i]);
    }
    equal_values_of_two_spaces_are_two_things();
    a_value_that_is_given_out_again_releases_the_stale_one();
    a_context_takes_all_of_its_own_and_nothing_else();
    the_last_reference_takes_a_handle();
    threads_find_their_own();
    for (int i = 0; i < 1 << SHARD_BITS; i++)
        free(shards[i].entries);
    return 0;
}
