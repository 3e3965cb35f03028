#include "quota.h"

#include "complain.h"

/* stats->used: a change number above the units, so that a recount notices any change meanwhile. */
#define UNIT_BITS 40
#define UNITS_MASK ((UINT64_C(1) << UNIT_BITS) - 1)
#define ONE_CHANGE (UINT64_C(1) << UNIT_BITS)
#define RECOUNT_TRIES 20

static uint64_t to_units(uint64_t bytes)
{
    return bytes / BLOCK_UNIT_BYTES + (bytes % BLOCK_UNIT_BYTES != 0);
}

static bool replace_units(uint64_t *word, uint64_t units)
{
    return atomic_compare_exchange_weak(&stats->used, word,
                                        ((*word & ~UNITS_MASK) + ONE_CHANGE) | units);
}

/* Between these two the job's counter and the slot may differ. */
static struct block_slot *begin_change(void)
{
    struct block_slot *mine = slot;
    atomic_fetch_add(&mine->transit, 1);
    return mine;
}

static void end_change(struct block_slot *mine)
{
    atomic_fetch_sub(&mine->transit, 1);
}

static void note_peak(uint64_t units)
{
    uint64_t bytes = units * BLOCK_UNIT_BYTES;
    uint64_t peak = atomic_load_explicit(&stats->peak_bytes, memory_order_relaxed);
    while (bytes > peak && !atomic_compare_exchange_weak(&stats->peak_bytes, &peak, bytes))
        ;
}

static bool add_units(uint64_t units, uint64_t limit)
{
    uint64_t word = atomic_load_explicit(&stats->used, memory_order_relaxed);
    uint64_t used;
    do {
        used = word & UNITS_MASK;
        if (used > limit || units > limit - used)
            return false;
    } while (!replace_units(&word, used + units));
    note_peak(used + units);
    return true;
}

/* What is subtracted from a counter, which holds less only if the books are wrong: one that fell
 * below nothing would read as the memory of a whole data centre, and end all allocations. */
static uint64_t at_most(uint64_t held, uint64_t amount)
{
    if (__builtin_expect(amount <= held, 1))
        return amount;
    COMPLAIN(TROUBLE_MEMORY, "more memory was freed than had been counted");
    return held;
}

static void subtract_units(uint64_t units)
{
    uint64_t word = atomic_load_explicit(&stats->used, memory_order_relaxed);
    uint64_t used;
    do
        used = word & UNITS_MASK;
    while (!replace_units(&word, used - at_most(used, units)));
}

bool quota_try(enum block_kind kind, uint64_t bytes, bool force)
{
    uint64_t quota = policy_now()->memory_quota_bytes;
    uint64_t limit = force || quota == 0 ? UNITS_MASK : quota / BLOCK_UNIT_BYTES;
    uint64_t units = to_units(bytes);
    struct block_slot *mine = begin_change();
    bool granted = add_units(units, limit);
    if (granted)
        atomic_fetch_add(&mine->used_bytes[kind], units * BLOCK_UNIT_BYTES);
    end_change(mine);
    return granted;
}

static uint64_t take(_Atomic uint64_t *counter, uint64_t bytes)
{
    uint64_t held = atomic_load_explicit(counter, memory_order_relaxed);
    uint64_t taken;
    do
        taken = at_most(held, bytes);
    while (!atomic_compare_exchange_weak(counter, &held, held - taken));
    return taken;
}

void quota_release(enum block_kind kind, uint64_t bytes)
{
    struct block_slot *mine = begin_change();
    uint64_t taken = take(&mine->used_bytes[kind], to_units(bytes) * BLOCK_UNIT_BYTES);
    subtract_units(to_units(taken));
    end_change(mine);
}

void quota_move(enum block_kind from, enum block_kind to, uint64_t bytes)
{
    if (bytes == 0)
        return;
    struct block_slot *mine = begin_change();
    uint64_t taken = take(&mine->used_bytes[from], to_units(bytes) * BLOCK_UNIT_BYTES);
    atomic_fetch_add(&mine->used_bytes[to], taken);
    subtract_units(0); /* tells a recount that it has read half of this */
    end_change(mine);
}

uint64_t quota_used_bytes(const struct block_stats *of)
{
    return (of->used & UNITS_MASK) * BLOCK_UNIT_BYTES;
}

uint64_t quota_free_bytes(void)
{
    uint64_t quota = policy_now()->memory_quota_bytes, used = quota_used_bytes(stats);
    if (quota == 0)
        return UINT64_MAX;
    return quota > used ? quota - used : 0;
}

static bool anyone_in_transit(const struct block_stats *of)
{
    for (int i = 0; i < BLOCK_SLOTS; i++)
        if (of->slot[i].transit != 0)
            return true;
    return false;
}

/* A change that comes after the word was read makes the last step fail. One that came before is
 * complete in the slots too if nobody was in transit then; and if nobody is after they were read,
 * no change has been seen half. */
static bool recount_once(struct block_stats *of)
{
    uint64_t word = of->used, bytes = 0;
    if (anyone_in_transit(of))
        return false;
    for (int i = 0; i < BLOCK_SLOTS; i++)
        for (int kind = 0; kind < KIND_COUNT; kind++)
            bytes += of->slot[i].used_bytes[kind];
    if (anyone_in_transit(of))
        return false;
    uint64_t next = ((word & ~UNITS_MASK) + ONE_CHANGE) | (to_units(bytes) & UNITS_MASK);
    return atomic_compare_exchange_strong(&of->used, &word, next);
}

bool quota_recount(struct block_stats *of)
{
    for (int i = 0; i < RECOUNT_TRIES; i++)
        if (recount_once(of))
            return true;
    return false;
}
