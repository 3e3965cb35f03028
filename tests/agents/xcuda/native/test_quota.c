/* The job's memory: threads, processes, and processes that are killed at any instruction. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "complain.h"
#include "quota.c"
#include "reserve.c"
#include "check.h"

#define UNIT BLOCK_UNIT_BYTES

static struct policy policy;
static unsigned complaints;
struct block_stats *stats;
struct block_slot *slot;

const struct policy *policy_now(void)
{
    return &policy;
}

bool policy_refresh(void)
{
    return false;
}

void pools_trim(void) {}

void complain(enum trouble kind, ...)
{
    (void)kind;
    complaints++;
}

/* Of slots that the test has marked as their process being gone. */
unsigned slots_reap(struct block_stats *of)
{
    unsigned reaped = 0;
    for (int i = 0; i < BLOCK_SLOTS; i++) {
        if (of->slot[i].owner != UINT64_MAX)
            continue;
        for (int kind = 0; kind < KIND_COUNT; kind++)
            of->slot[i].used_bytes[kind] = 0;
        of->slot[i].transit = 0;
        of->slot[i].owner = 0;
        reaped++;
    }
    return reaped;
}

static void fresh(uint64_t quota_bytes)
{
    memset(stats, 0, sizeof *stats);
    slot = &stats->slot[0];
    policy.memory_quota_bytes = quota_bytes;
    complaints = 0;
}

static void what_is_reserved_is_used_until_it_is_released(void)
{
    fresh(100 * UNIT);
    CHECK(quota_reserve(KIND_DEVICE, 1) == CUDA_SUCCESS, "one byte");
    CHECK(quota_used_bytes(stats) == UNIT, "a whole unit is taken");
    CHECK(quota_reserve(KIND_ARRAY, 99 * UNIT) == CUDA_SUCCESS, "up to the quota");
    CHECK(quota_reserve(KIND_DEVICE, 1) == CUDA_ERROR_OUT_OF_MEMORY, "not beyond it");
    CHECK(slot->denied == 1 && quota_free_bytes() == 0, "full");
    quota_release(KIND_DEVICE, 1);
    quota_release(KIND_ARRAY, 99 * UNIT);
    CHECK(quota_used_bytes(stats) == 0 && quota_free_bytes() == 100 * UNIT, "empty");
    CHECK(stats->peak_bytes == 100 * UNIT, "the peak stays");
}

static void absurd_sizes_are_refused(void)
{
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 511, UINT64_C(1) << 63,
                                     UINT64_C(1) << 49};
    for (int quota = 0; quota < 2; quota++)
        for (int i = 0; i < 4; i++) {
            fresh(quota * 100 * UNIT);
            CHECK(quota_reserve(KIND_DEVICE, sizes[i]) == CUDA_ERROR_OUT_OF_MEMORY, "%d", i);
            CHECK(quota_used_bytes(stats) == 0, "%d", i);
        }
}

static void a_quota_below_the_use_refuses_new_memory_alone(void)
{
    fresh(100 * UNIT);
    CHECK(quota_reserve(KIND_DEVICE, 80 * UNIT) == CUDA_SUCCESS, "within");
    policy.memory_quota_bytes = 50 * UNIT;
    CHECK(quota_reserve(KIND_DEVICE, UNIT) == CUDA_ERROR_OUT_OF_MEMORY, "above");
    CHECK(quota_free_bytes() == 0, "nothing, not less than nothing");
    quota_release(KIND_DEVICE, 40 * UNIT);
    CHECK(quota_reserve(KIND_DEVICE, 10 * UNIT) == CUDA_SUCCESS, "within again");
}

static void nothing_falls_below_zero(void)
{
    fresh(0);
    CHECK(quota_reserve(KIND_DEVICE, 3 * UNIT) == CUDA_SUCCESS, "no quota");
    quota_release(KIND_DEVICE, 5 * UNIT);
    quota_release(KIND_MANAGED, UNIT);
    CHECK(quota_used_bytes(stats) == 0 && slot->used_bytes[KIND_DEVICE] == 0 &&
              slot->used_bytes[KIND_MANAGED] == 0, "saturated");
    CHECK(complaints == 2, "%u", complaints);
    CHECK(quota_reserve(KIND_DEVICE, UNIT) == CUDA_SUCCESS, "and usable");
}

static void the_dead_make_room(void)
{
    fresh(100 * UNIT);
    slot = &stats->slot[1];
    CHECK(quota_reserve(KIND_DEVICE, 90 * UNIT) == CUDA_SUCCESS, "by the one that dies");
    slot->transit = 1;
    slot->owner = UINT64_MAX;
    slot = &stats->slot[0];
    CHECK(quota_reserve(KIND_DEVICE, 100 * UNIT) == CUDA_SUCCESS, "after it");
    CHECK(quota_used_bytes(stats) == 100 * UNIT, "%lu", (unsigned long)quota_used_bytes(stats));
}

static void a_change_under_way_forbids_a_recount(void)
{
    fresh(0);
    stats->used = 7;
    stats->slot[3].transit = 1;
    CHECK(!quota_recount(stats) && (stats->used & UNITS_MASK) == 7, "left alone");
    stats->slot[3].transit = 0;
    CHECK(quota_recount(stats) && (stats->used & UNITS_MASK) == 0, "counted");
}

/* --- threads ---------------------------------------------------------------------------------- */

static _Atomic bool counting;
static _Atomic uint64_t held; /* what the driver would know */

#ifdef __SANITIZE_THREAD__ /* sees a race without having to meet it */
#define ROUNDS 2000
#else
#define ROUNDS 20000
#endif

static void *change(void *argument)
{
    uint32_t seed = (uint32_t)(uintptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t bytes = (below(&seed, 30) + 1) * UNIT;
        if (quota_reserve(KIND_DEVICE, bytes) != CUDA_SUCCESS)
            continue;
        CHECK((held += bytes) <= 64 * UNIT, "%lu held", (unsigned long)held);
        quota_move(KIND_DEVICE, KIND_ARRAY, bytes);
        held -= bytes;
        quota_release(KIND_ARRAY, bytes);
    }
    return NULL;
}

static void *recount(void *argument)
{
    while (counting) {
        quota_recount(stats);
        CHECK(quota_used_bytes(stats) <= 64 * UNIT, "over the quota");
    }
    return argument;
}

static void threads_and_recounts_agree(int changers)
{
    pthread_t threads[3], counter;
    fresh(64 * UNIT);
    counting = true;
    pthread_create(&counter, NULL, recount, NULL);
    for (int i = 0; i < changers; i++)
        pthread_create(&threads[i], NULL, change, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < changers; i++)
        pthread_join(threads[i], NULL);
    counting = false;
    pthread_join(counter, NULL);
    CHECK(quota_used_bytes(stats) == 0 && slot->used_bytes[KIND_ARRAY] == 0, "all given back");
    CHECK(complaints == 0, "%u", complaints);
}

/* --- processes that are killed ---------------------------------------------------------------- */

#define QUOTA (64 * UNIT)

/* What a process really holds, which the device would know: never more than the quota together. */
struct device {
    _Atomic int64_t held[BLOCK_SLOTS];
};
static struct device *device;

static void hold(int64_t bytes)
{
    device->held[slot - stats->slot] += bytes;
}

static void allocate_for_ever(int number)
{
    uint32_t seed = (uint32_t)number * 2654435761u;
    slot = &stats->slot[number % BLOCK_SLOTS];
    for (;;) {
        uint64_t bytes = (below(&seed, 30) + 1) * UNIT;
        if (quota_reserve(KIND_DEVICE, bytes) != CUDA_SUCCESS)
            continue;
        hold((int64_t)bytes);
        hold(-(int64_t)bytes);
        quota_release(KIND_DEVICE, bytes);
    }
}

static int64_t held_by_all(void)
{
    int64_t sum = 0;
    for (int i = 0; i < BLOCK_SLOTS; i++)
        sum += device->held[i];
    return sum;
}

static void killed_processes_leave_nothing(int kills)
{
    fresh(QUOTA);
    pid_t running[2] = {0};
    uint32_t seed = 5;
    for (int number = 0; number < kills; number++) {
        int which = number % 2;
        if (running[which]) {
            kill(running[which], SIGKILL);
            waitpid(running[which], NULL, 0);
            device->held[(number - 2) % BLOCK_SLOTS] = 0;
            stats->slot[(number - 2) % BLOCK_SLOTS].owner = UINT64_MAX;
        }
        running[which] = fork();
        if (running[which] == 0)
            allocate_for_ever(number);
        for (uint32_t look = below(&seed, 20); look; look--) {
            usleep(50);
            CHECK(held_by_all() <= (int64_t)QUOTA, "%ld held", (long)held_by_all());
        }
    }
    for (int which = 0; which < 2; which++) {
        kill(running[which], SIGKILL);
        waitpid(running[which], NULL, 0);
    }
    for (int i = 0; i < BLOCK_SLOTS; i++)
        stats->slot[i].owner = UINT64_MAX;
    slots_reap(stats);
    CHECK(quota_recount(stats), "nobody is amid a change");
    CHECK(quota_used_bytes(stats) == 0, "%lu", (unsigned long)quota_used_bytes(stats));
    slot = &stats->slot[0];
    CHECK(quota_reserve(KIND_DEVICE, QUOTA) == CUDA_SUCCESS, "the whole quota is there");
}

int main(int count, char **argument)
{
    stats = mmap(NULL, sizeof *stats, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    device = mmap(NULL, sizeof *device, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    what_is_reserved_is_used_until_it_is_released();
    absurd_sizes_are_refused();
    a_quota_below_the_use_refuses_new_memory_alone();
    nothing_falls_below_zero();
    the_dead_make_room();
    a_change_under_way_forbids_a_recount();
    threads_and_recounts_agree(1);
    threads_and_recounts_agree(3);
    killed_processes_leave_nothing(count > 1 ? atoi(argument[1]) : 100);
    return 0;
}
