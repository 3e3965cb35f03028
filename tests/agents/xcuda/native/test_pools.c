/* Memory pools: what they hold is charged, whoever uses it; what the driver gave back is not. */
#include <pthread.h>
#include <string.h>

#include "pools.c"
#include "quota.c"
#include "reserve.c"
#include "check.h"

#define MIB (UINT64_C(1) << 20)
#define HANDLE ((CUmemoryPool)8)

static struct policy policy;
static struct block_stats the_stats;
struct block_stats *stats = &the_stats;
struct block_slot *slot = &the_stats.slot[0];
_Atomic uint32_t captures_active;
void *real_function[FUNCTION_COUNT];

const struct policy *policy_now(void)
{
    return &policy;
}

bool policy_refresh(void)
{
    return false;
}

unsigned slots_reap(struct block_stats *of)
{
    (void)of;
    return 0;
}

void complain(enum trouble kind, ...)
{
    CHECK(false, "complaint %d", kind);
}

/* --- a driver's pool, which holds whole chunks ------------------------------------------------ */

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uint64_t chunk, live, reserved;
    int questions;
} driver;

static uint64_t used(void)
{
    return quota_used_bytes(stats);
}

static CUresult get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    CHECK(pool == HANDLE && attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, "%d", attribute);
    pthread_mutex_lock(&driver_lock);
    driver.questions++;
    memcpy(value, &driver.reserved, sizeof driver.reserved);
    pthread_mutex_unlock(&driver_lock);
    return CUDA_SUCCESS;
}

static CUresult trim_to(CUmemoryPool pool, size_t keep)
{
    (void)pool, (void)keep;
    pthread_mutex_lock(&driver_lock);
    driver.reserved = round_up(driver.live, driver.chunk);
    pthread_mutex_unlock(&driver_lock);
    return CUDA_SUCCESS;
}

/* At no instant may a pool of ordinary chunks hold what is not charged yet. */
static void driver_take(uint64_t bytes)
{
    pthread_mutex_lock(&driver_lock);
    driver.live += bytes;
    if (driver.live > driver.reserved)
        driver.reserved = round_up(driver.live, driver.chunk);
    CHECK(driver.chunk > GRANULE || driver.reserved <= used(), "%lu held, %lu charged",
          (unsigned long)driver.reserved, (unsigned long)used());
    pthread_mutex_unlock(&driver_lock);
}

static void driver_give(uint64_t bytes)
{
    pthread_mutex_lock(&driver_lock);
    driver.live -= bytes;
    pthread_mutex_unlock(&driver_lock);
}

static CUresult allocate(uint64_t bytes)
{
    struct pool *pool = pool_of(HANDLE);
    struct pool_charge charge;
    CUresult result = pool_reserve(pool, bytes, &charge);
    if (result != CUDA_SUCCESS)
        return result;
    driver_take(bytes);
    result = pool_allocated(pool, bytes, &charge);
    if (result != CUDA_SUCCESS) {
        driver_give(bytes);
        pool_freed(pool, bytes);
        pools_trim();
    }
    return result;
}

static void release(uint64_t bytes)
{
    driver_give(bytes);
    pool_freed(pool_of(HANDLE), bytes);
}

static void fresh(uint64_t quota, uint64_t chunk)
{
    memset(&the_stats, 0, sizeof the_stats);
    pools_fork_child();
    memset(&driver, 0, sizeof driver);
    driver.chunk = chunk;
    policy.memory_quota_bytes = quota;
    real_function[FUNCTION_cuMemPoolGetAttribute] = (void *)get_attribute;
    real_function[FUNCTION_cuMemPoolTrimTo] = (void *)trim_to;
}

static void what_a_pool_holds_is_charged(void)
{
    fresh(0, 32 * MIB);
    CHECK(allocate(MIB) == CUDA_SUCCESS && used() == 32 * MIB, "%lu", (unsigned long)used());
    CHECK(slot->used_bytes[KIND_ASYNC] == MIB, "one is allocated");
    CHECK(slot->used_bytes[KIND_SLACK] == 31 * MIB, "the rest is slack");
    release(MIB);
    CHECK(used() == 32 * MIB, "the pool keeps it");
}

static void slack_is_used_up_without_another_question(void)
{
    fresh(0, 32 * MIB);
    allocate(MIB);
    int questions = driver.questions;
    for (int i = 0; i < 31; i++)
        allocate(MIB);
    CHECK(used() == 32 * MIB && driver.questions == questions, "%d questions", driver.questions);
    allocate(MIB);
    CHECK(used() == 64 * MIB, "the pool has grown");
}

static void what_the_driver_gave_back_is_seen_in_time(void)
{
    fresh(0, 2 * MIB);
    allocate(20 * MIB);
    release(20 * MIB);
    trim_to(HANDLE, 0); /* the driver does that at a synchronisation */
    allocate(MIB);
    for (int i = 0; i < RECONCILE_EVERY; i++)
        release(allocate(512) == CUDA_SUCCESS ? 512 : 0);
    CHECK(used() == 2 * MIB, "%lu", (unsigned long)used());
}

static void a_refusal_first_takes_back_what_pools_keep(void)
{
    fresh(40 * MIB, 2 * MIB);
    allocate(30 * MIB);
    release(30 * MIB);
    CHECK(quota_reserve(KIND_DEVICE, 40 * MIB) == CUDA_SUCCESS, "nothing is allocated");
    CHECK(allocate(MIB) == CUDA_ERROR_OUT_OF_MEMORY, "now there is");
    CHECK(driver.reserved == 0 && used() == 40 * MIB, "the driver was not asked");
}

static void a_pool_that_grows_too_far_is_refused(void)
{
    fresh(40 * MIB, 32 * MIB);
    CHECK(allocate(MIB) == CUDA_SUCCESS, "one chunk");
    CHECK(allocate(33 * MIB) == CUDA_ERROR_OUT_OF_MEMORY, "two chunks are more than the quota");
    CHECK(used() == 32 * MIB && driver.reserved == 32 * MIB, "%lu", (unsigned long)used());
    CHECK(slot->used_bytes[KIND_ASYNC] == MIB, "%lu", (unsigned long)slot->used_bytes[KIND_ASYNC]);
}

static void *use_at_random(void *argument)
{
    uint64_t bytes[32] = {0};
    uint32_t seed = (uint32_t)(uintptr_t)argument;
    for (int step = 0; step < 5000; step++) {
        uint32_t i = below(&seed, 32);
        if (bytes[i]) {
            release(bytes[i]);
            bytes[i] = 0;
        } else {
            uint64_t wanted = (below(&seed, 4096) + 1) * 512;
            bytes[i] = allocate(wanted) == CUDA_SUCCESS ? wanted : 0;
        }
        if (below(&seed, 50) == 0) {
            trim_to(HANDLE, 0); /* the driver, at a synchronisation */
            pools_settle();
        }
        CHECK(used() <= 48 * MIB, "%lu charged", (unsigned long)used());
    }
    for (int i = 0; i < 32; i++)
        if (bytes[i])
            release(bytes[i]);
    return NULL;
}

static void random_use_is_charged_within_the_quota(int users)
{
    pthread_t threads[4];
    fresh(48 * MIB, 2 * MIB);
    for (int i = 0; i < users; i++)
        pthread_create(&threads[i], NULL, use_at_random, (void *)(uintptr_t)(i + 3));
    for (int i = 0; i < users; i++)
        pthread_join(threads[i], NULL);
    pools_trim();
    CHECK(used() == 0, "%lu", (unsigned long)used());
}

static void a_capture_forbids_questions(void)
{
    fresh(0, 2 * MIB);
    captures_active = 1;
    for (int i = 0; i < 2 * RECONCILE_EVERY; i++)
        allocate(MIB);
    pools_trim();
    CHECK(driver.questions == 0, "%d", driver.questions);
    captures_active = 0;
}

static void a_destroyed_pool_goes_with_its_last_allocation(void)
{
    fresh(0, 2 * MIB);
    struct pool *pool = pool_of(HANDLE);
    allocate(MIB);
    pool_destroyed(HANDLE);
    CHECK(used() == MIB, "what is allocated stays");
    CHECK(pool_of(HANDLE) != pool, "a new pool of the same handle is another");
    pool_freed(pool, MIB);
    CHECK(used() == 0 && pool->handle == NULL, "all is gone");
}

static void a_pool_of_the_host_costs_nothing(void)
{
    fresh(MIB, 32 * MIB);
    pool_set_on_host(HANDLE);
    CHECK(allocate(20 * MIB) == CUDA_SUCCESS && used() == 0, "%lu", (unsigned long)used());
    release(20 * MIB);
    CHECK(used() == 0, "%lu", (unsigned long)used());
}

static void a_failed_allocation_costs_nothing(void)
{
    struct pool_charge charge;
    fresh(0, 2 * MIB);
    allocate(MIB);
    uint64_t before = used(), slack = slot->used_bytes[KIND_SLACK];
    pool_reserve(pool_of(HANDLE), 10 * MIB, &charge);
    pool_roll_back(pool_of(HANDLE), &charge);
    CHECK(used() == before && slot->used_bytes[KIND_SLACK] == slack, "%lu",
          (unsigned long)used());
}

int main(void)
{
    what_a_pool_holds_is_charged();
    slack_is_used_up_without_another_question();
    what_the_driver_gave_back_is_seen_in_time();
    a_refusal_first_takes_back_what_pools_keep();
    a_pool_that_grows_too_far_is_refused();
    random_use_is_charged_within_the_quota(1);
    random_use_is_charged_within_the_quota(4);
    a_capture_forbids_questions();
    a_destroyed_pool_goes_with_its_last_allocation();
    a_pool_of_the_host_costs_nothing();
    a_failed_allocation_costs_nothing();
    return 0;
}
