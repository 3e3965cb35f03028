#include "pools.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "block.h"
#include "capture.h"
#include "driver.h"
#include "lock.h"
#include "quota.h"

#define POOLS 64
#define GRANULE (UINT64_C(2) << 20) /* a device maps no less */
#define RECONCILE_EVERY 256         /* operations that need no growth */
#define RECONCILE_TRIES 3
#define DESTROYED ((CUmemoryPool)-1)

static struct pool {
    CUmemoryPool handle; /* NULL: a free place */
    bool on_host;
    uint64_t live; /* bytes allocated from it */
    uint64_t slack;
    uint32_t growing;    /* allocations on their way that are charged beyond live and slack */
    uint32_t operations; /* since it was last compared */
    uint32_t changes;    /* of the others, ever */
} pools[POOLS];

static _Atomic uint32_t pools_known; /* no more than so many places were ever taken */

/* Over all of them, there are one or two; and over the job's counters of KIND_SLACK, so that these
 * always have what a pool says. */
static lock pools_lock;

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
    return bytes > UINT64_MAX - to ? bytes : (bytes + to - 1) / to * to;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct pool *find(CUmemoryPool handle)
{
    for (struct pool *pool = pools; pool < pools + POOLS; pool++)
        if (pool->handle == handle)
            return pool;
    return NULL;
}

static struct pool *find_or_make(CUmemoryPool handle)
{
    struct pool *pool = find(handle);
    if (pool == NULL && (pool = find(NULL)) != NULL) {
        *pool = (struct pool){.handle = handle};
        if (pool == pools + pools_known)
            pools_known++;
    }
    return pool;
}

struct pool *pool_of(CUmemoryPool handle)
{
    if (handle == NULL)
        return NULL;
    lock_take(&pools_lock);
    struct pool *pool = find_or_make(handle);
    lock_give(&pools_lock);
    return pool;
}

void pool_set_on_host(CUmemoryPool handle)
{
    struct pool *pool = pool_of(handle);
    if (pool)
        pool->on_host = true;
}

/* --- under the lock --------------------------------------------------------------------------- */

static void use_slack(struct pool *pool, uint64_t bytes)
{
    pool->changes++;
    pool->slack -= bytes;
    pool->live += bytes;
    quota_move(KIND_SLACK, KIND_ASYNC, bytes);
}

static void back_to_slack(struct pool *pool, uint64_t bytes)
{
    pool->changes++;
    pool->live -= bytes < pool->live ? bytes : pool->live;
    pool->slack += bytes;
    quota_move(KIND_ASYNC, KIND_SLACK, bytes);
}

/* False: it would have to be charged more than the quota allows, and was not. */
static bool set_slack(struct pool *pool, uint64_t slack, bool force)
{
    if (slack > pool->slack && !quota_try(KIND_SLACK, slack - pool->slack, force))
        return false;
    if (slack < pool->slack)
        quota_release(KIND_SLACK, pool->slack - slack);
    pool->slack = slack;
    pool->operations = 0;
    return true;
}

/* --- comparing with the driver ---------------------------------------------------------------- */

static uint64_t driver_holds(CUmemoryPool handle)
{
    uint64_t bytes = 0;
    CUresult result = BORROWED(cuMemPoolGetAttribute)(
        handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes);
    return result == CUDA_SUCCESS ? round_up(bytes, BLOCK_UNIT_BYTES) : 0;
}

/* What the pool must hold soon, if not yet: some of `live` may still be on its way to the driver. */
static uint64_t needed(const struct pool *pool)
{
    return round_up(pool->live, GRANULE);
}

/* The driver is asked without the lock; its answer counts only if nothing changed meanwhile. Nor
 * can it be told whether a pool that is growing has grown already; the last of those asks. */
static bool reconcile(struct pool *pool, bool force)
{
    bool allowed = true;
    for (int i = 0; i < RECONCILE_TRIES && !capture_any(); i++) {
        lock_take(&pools_lock);
        uint32_t changes = pool->changes;
        CUmemoryPool handle = pool->growing ? NULL : pool->handle;
        lock_give(&pools_lock);
        if (handle == NULL || handle == DESTROYED)
            break;

        uint64_t held = driver_holds(handle);
        lock_take(&pools_lock);
        bool current = pool->changes == changes;
        if (current)
            allowed = set_slack(pool, larger(held, needed(pool)) - pool->live, force);
        lock_give(&pools_lock);
        if (current)
            break;
    }
    return allowed;
}

void pool_trimmed(CUmemoryPool handle)
{
    struct pool *pool = pool_of(handle);
    if (pool)
        reconcile(pool, true);
}

/* The pool's handle if there is anything to give back; NULL: there is not. */
static CUmemoryPool with_slack(struct pool *pool)
{
    lock_take(&pools_lock);
    CUmemoryPool handle = pool->slack ? pool->handle : NULL;
    lock_give(&pools_lock);
    return handle;
}

void pools_settle(void)
{
    uint32_t count = atomic_load_explicit(&pools_known, memory_order_relaxed);
    for (struct pool *pool = pools; pool < pools + count; pool++)
        if (with_slack(pool))
            reconcile(pool, true);
}

void pools_trim(void)
{
    uint32_t count = atomic_load_explicit(&pools_known, memory_order_relaxed);
    for (struct pool *pool = pools; pool < pools + count; pool++) {
        CUmemoryPool handle = with_slack(pool);
        if (handle == NULL || capture_any())
            continue;
        REAL(cuMemPoolTrimTo)(handle, 0);
        reconcile(pool, true);
    }
}

/* --- allocations ------------------------------------------------------------------------------ */

/* Of an allocation that came to nothing. */
static void end_growth(struct pool *pool, const struct pool_charge *charge)
{
    lock_take(&pools_lock);
    back_to_slack(pool, charge->from_slack);
    pool->growing -= charge->grown != 0;
    lock_give(&pools_lock);
}

CUresult pool_reserve(struct pool *pool, uint64_t bytes, struct pool_charge *charge)
{
    *charge = (struct pool_charge){0};
    bytes = round_up(bytes, BLOCK_UNIT_BYTES);
    if (pool == NULL) {
        charge->grown = bytes;
        return quota_reserve(KIND_ASYNC, bytes);
    }
    if (pool->on_host)
        return CUDA_SUCCESS;

    lock_take(&pools_lock);
    charge->from_slack = bytes < pool->slack ? bytes : pool->slack;
    charge->grown = round_up(bytes - charge->from_slack, GRANULE);
    use_slack(pool, charge->from_slack);
    pool->growing += charge->grown != 0;
    lock_give(&pools_lock);

    if (charge->grown == 0 || quota_reserve(KIND_ASYNC, charge->grown) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    end_growth(pool, charge);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void pool_roll_back(struct pool *pool, const struct pool_charge *charge)
{
    if (charge->grown)
        quota_release(KIND_ASYNC, charge->grown);
    if (pool && !pool->on_host)
        end_growth(pool, charge);
}

CUresult pool_allocated(struct pool *pool, uint64_t bytes, const struct pool_charge *charge)
{
    if (pool == NULL || pool->on_host)
        return CUDA_SUCCESS;
    bytes = round_up(bytes, BLOCK_UNIT_BYTES);
    lock_take(&pools_lock);
    bool due = ++pool->operations >= RECONCILE_EVERY || charge->grown;
    if (charge->grown) {
        pool->growing--;
        pool->live += charge->grown;
        back_to_slack(pool, charge->from_slack + charge->grown - bytes);
    }
    lock_give(&pools_lock);
    return due && !reconcile(pool, charge->grown == 0) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

void pool_freed(struct pool *pool, uint64_t bytes)
{
    bytes = round_up(bytes, BLOCK_UNIT_BYTES);
    if (pool == NULL) {
        quota_release(KIND_ASYNC, bytes);
        return;
    }
    if (pool->on_host)
        return;
    lock_take(&pools_lock);
    back_to_slack(pool, bytes);
    bool due = ++pool->operations >= RECONCILE_EVERY;
    if (pool->handle == DESTROYED) {
        set_slack(pool, 0, true);
        if (pool->live == 0)
            pool->handle = NULL;
    }
    lock_give(&pools_lock);
    if (due)
        reconcile(pool, true);
}

void pool_destroyed(CUmemoryPool handle)
{
    lock_take(&pools_lock);
    struct pool *pool = handle ? find(handle) : NULL;
    if (pool) {
        set_slack(pool, 0, true);
        /* The driver keeps a pool until the last allocation from it is freed; so do we. */
        pool->handle = pool->live ? DESTROYED : NULL;
    }
    lock_give(&pools_lock);
}

void pools_fork_child(void)
{
    memset(pools, 0, sizeof pools);
    pools_known = 0;
    pools_lock = (lock){0};
}
