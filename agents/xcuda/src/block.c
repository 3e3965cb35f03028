#include "block.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "complain.h"
#include "futex.h"
#include "once.h"
#include "owner.h"
#include "quota.h"
#include "settings.h"

/* Where there is no block: the limits of the environment, and a page that nobody else sees. */
static struct block_policy by_hand = {
    .sequence = 2,
    .duty_permille = 1000,
    .safe_duty_permille = 1000,
    .floor_duty_permille = 50,
    .grace_ms = 20000,
    .exit_ms = 10000,
};
static struct block_stats private_stats = {.slots = BLOCK_SLOTS};

static struct block_policy *page = &by_hand;
struct block_stats *stats = &private_stats;
struct block_slot *slot = &private_stats.slot[0];

static struct settings settings;
static enum block_standing standing = BLOCK_NONE;

/* --- the policy ------------------------------------------------------------------------------ */

static struct policy last_good = {.duty_permille = 1000, .exit_ms = 10000};
static _Atomic uint32_t taken; /* the sequence that `last_good` is of, or that was refused */

/* What goes into the duty besides the policy's own. */
static struct {
    _Atomic uint32_t allowed, safe;
    _Atomic bool window, stale;
} duty = {1000, 1000, false, false};

const struct policy *policy_now(void)
{
    return &last_good;
}

static uint32_t least(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

static void decide_duty(void)
{
    uint32_t permille = duty.allowed;
    if (last_good.mode == MODE_THROTTLE || duty.window)
        permille = least(permille, last_good.floor_duty_permille);
    if (duty.stale)
        permille = least(permille, duty.safe);
    last_good.duty_permille = permille;
}

void duty_set_window(bool open)
{
    duty.window = open;
    decide_duty();
}

/* The first field that is out of its range, or NULL. */
static const char *senseless(const struct block_policy *policy)
{
#define CHECK_RANGE(field, least, most)                                      \
    if ((uint64_t)policy->field - (least) > (uint64_t)(most) - (least))      \
        return #field;
    BLOCK_RANGES(CHECK_RANGE)
#undef CHECK_RANGE
    return NULL;
}

static void adopt(const struct block_policy *policy)
{
    last_good.mode = policy->mode;
    last_good.memory_quota_bytes = policy->memory_quota_bytes;
    last_good.launches_per_s = policy->launches_per_s;
    last_good.blocks_per_s = policy->blocks_per_s;
    last_good.inflight_cap = policy->inflight_cap;
    last_good.floor_duty_permille = policy->floor_duty_permille;
    last_good.grace_ms = policy->grace_ms;
    last_good.window_open = policy->window_open;
    last_good.exit_ms = policy->exit_ms;
    duty.allowed = policy->duty_permille;
    duty.safe = policy->safe_duty_permille;
    decide_duty();
    slot->mode = policy->mode;
    slot->sequence = policy->sequence;
}

/* Copies the part under the sequence. False while the agent writes. Each field is loaded with its
 * order kept, so the second look at the sequence comes last. */
static bool copy_policy(struct block_policy *copy)
{
    uint32_t before = atomic_load_explicit(&page->sequence, memory_order_acquire);
    copy->mode = page->mode;
    copy->memory_quota_bytes = page->memory_quota_bytes;
    copy->launches_per_s = page->launches_per_s;
    copy->blocks_per_s = page->blocks_per_s;
    copy->inflight_cap = page->inflight_cap;
    copy->duty_permille = page->duty_permille;
    copy->safe_duty_permille = page->safe_duty_permille;
    copy->floor_duty_permille = page->floor_duty_permille;
    copy->grace_ms = page->grace_ms;
    copy->window_open = page->window_open;
    copy->exit_ms = page->exit_ms;
    copy->sequence = before;
    return !(before & 1) && page->sequence == before;
}

/* Several threads, and a signal handler inside one of them, may be here at once, so there is no
 * lock. Whoever is overtaken and writes an older policy over a newer one sees that the page has
 * moved on when it looks again, and takes the newer one over itself: the last to leave is right.
 * While the agent writes, or when it died writing, the last good policy holds. */
static bool take_over(void)
{
    struct block_policy copy;
    bool changed = false;
    for (int attempt = 0; attempt < 8 && copy_policy(&copy); attempt++) {
        const char *field = senseless(&copy);
        if (field && standing == BLOCK_HELD) /* else there is no block yet that was good */
            COMPLAIN(TROUBLE_POLICY, "the control block's policy makes no sense (", field,
                     "): the last good one holds");
        if (!field)
            adopt(&copy);
        changed |= !field;
        atomic_store(&taken, copy.sequence);
        if (page->sequence == copy.sequence)
            break;
    }
    return changed;
}

bool policy_refresh(void)
{
    uint32_t sequence = atomic_load_explicit(&page->sequence, memory_order_acquire);
    return sequence != atomic_load_explicit(&taken, memory_order_relaxed) && take_over();
}

_Atomic uint32_t *policy_sequence(void)
{
    return &page->sequence;
}

/* --- the agent's heartbeat ------------------------------------------------------------------- */

/* A heartbeat of the future is garbage or of another clock: then it counts from when it last
 * changed. */
static uint64_t silent_ns(uint64_t now)
{
    static uint64_t last, changed;
    uint64_t beat = page->heartbeat_ns;
    if (beat != last) {
        last = beat;
        changed = now;
    }
    return !beat ? 0 : now - (beat <= now ? beat : changed);
}

enum block_silence agent_silence(uint64_t now)
{
    uint64_t silent = silent_ns(now);
    bool stale = silent > 3 * NS_PER_S;
    if (stale != duty.stale) {
        duty.stale = stale;
        decide_duty();
    }
    return silent > 30 * NS_PER_S ? AGENT_SILENT : stale ? AGENT_STALE : AGENT_HEARD;
}

/* --- opening --------------------------------------------------------------------------------- */

static const char *reason_of(const char *what, int error)
{
    static char reason[128];
    snprintf(reason, sizeof reason, "cannot be %s (%s)", what, strerror(error));
    return reason;
}

static void *map(int descriptor, size_t bytes, int access, const char **reason)
{
    off_t size = lseek(descriptor, 0, SEEK_END);
    if (size < 0 || (size_t)size < bytes)
        return *reason = "is truncated, or no file of a control block", NULL;
    void *at = mmap(NULL, bytes, access, MAP_SHARED, descriptor, 0);
    if (at != MAP_FAILED)
        return at;
    *reason = errno == ENODEV ? "is no file of a control block" : reason_of("mapped", errno);
    return NULL;
}

/* Neither a pipe nor a device can hold us up here: the former is opened without waiting, and none
 * of them has a size. */
static void *map_file(const char *directory, const char *file, size_t bytes, int access,
                      const char **reason)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", directory, file);
    if (length < 0 || (size_t)length >= sizeof path)
        return *reason = "has too long a path", NULL;
    int writes = access & PROT_WRITE ? O_RDWR : O_RDONLY;
    int descriptor = open(path, writes | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return *reason = reason_of("opened", errno), NULL;
    void *at = map(descriptor, bytes, access, reason);
    close(descriptor);
    return at;
}

static const char *wrong_abi(uint32_t abi)
{
    static char reason[64];
    snprintf(reason, sizeof reason, "is of ABI %u, and this library knows %u", abi, BLOCK_ABI);
    return abi == BLOCK_ABI ? NULL : reason;
}

static const char *wrong_policy(const struct block_policy *policy)
{
    if (policy->magic != BLOCK_POLICY_MAGIC)
        return "is no file of a control block";
    return wrong_abi(policy->abi);
}

static const char *wrong_stats(const struct block_stats *stats, const struct block_policy *policy)
{
    if (stats->magic != BLOCK_STATS_MAGIC)
        return "is no file of a control block";
    if (stats->generation != policy->generation)
        return "is of another generation than the policy";
    if (stats->slots != BLOCK_SLOTS)
        return "has another number of slots";
    return wrong_abi(stats->abi);
}

struct block_files block_open(const char *directory)
{
    struct block_files it = {.file = "policy"};
    it.policy = map_file(directory, it.file, sizeof(struct block_policy), PROT_READ, &it.reason);
    if (!it.reason)
        it.reason = wrong_policy(it.policy);
    if (it.reason)
        return it;
    it.file = "stats";
    it.stats = map_file(directory, it.file, sizeof(struct block_stats), PROT_READ | PROT_WRITE,
                        &it.reason);
    if (!it.reason)
        it.reason = wrong_stats(it.stats, it.policy);
    return it;
}

/* The first policy has nothing before it that could hold in its place. The agent may be writing at
 * this moment, so an unfinished one is looked at again for a while. */
static bool first_policy(void)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        if (policy_refresh())
            return true;
        if (atomic_load(&taken) == page->sequence)
            return false;
        nap(NS_PER_MS);
    }
    return false;
}

static void use(struct block_policy *policy, struct block_stats *of_job)
{
    page = policy;
    stats = of_job;
    atomic_store(&taken, 1); /* odd: the number of no policy */
}

static void use_none(void)
{
    use(&by_hand, &private_stats);
    policy_refresh();
}

static enum block_standing without(const char *file, const char *reason)
{
    use_none();
    COMPLAIN(TROUBLE_BLOCK, "the control block ", settings.directory, *file ? "/" : "", file, " ",
             reason,
             settings.required ? ": CUDA is refused" : ": running without the agent's limits");
    return settings.required ? BLOCK_REFUSED : BLOCK_NONE;
}

static enum block_standing stand(void)
{
    settings = settings_read(&by_hand);
    use_none();
    if (settings.required && settings.malformed)
        return BLOCK_REFUSED;
    if (!settings.directory && !settings.required)
        return BLOCK_NONE;
    if (!settings.directory)
        return settings.directory = "", without("", "is not named: MUXFLOW_XCUDA_DIR is not set");
    struct block_files it = block_open(settings.directory);
    if (it.reason)
        return without(it.file, it.reason);
    use(it.policy, it.stats);
    return first_policy() ? BLOCK_HELD : without("policy", "holds a policy that makes no sense");
}

enum block_standing block_standing(void)
{
    static once opened;
    if (once_begin(&opened)) {
        standing = stand();
        once_end(&opened);
    }
    return standing;
}

/* --- the slot -------------------------------------------------------------------------------- */

static struct block_slot *take_free_slot(void)
{
    uint64_t self = owner_self();
    for (unsigned i = 0; i < BLOCK_SLOTS; i++) {
        uint64_t free = 0;
        if (!atomic_compare_exchange_strong(&stats->slot[i].owner, &free, self))
            continue;
        atomic_store(&stats->slot[i].pid_namespace, pid_namespace_self());
        return &stats->slot[i];
    }
    return NULL;
}

static enum block_standing claim(void)
{
    if (slots_reap_own(stats))
        quota_recount(stats);
    struct block_slot *taken_slot = take_free_slot();
    for (int attempt = 0; !taken_slot && attempt < 3; attempt++) {
        slots_reap(stats);
        quota_recount(stats);
        taken_slot = take_free_slot();
    }
    if (!taken_slot)
        return without("stats", "has no free slot for another process");
    slot = taken_slot;
    slot->mode = last_good.mode;
    slot->sequence = atomic_load(&taken);
    return BLOCK_HELD;
}

enum block_standing block_claim(void)
{
    static once claimed;
    if (block_standing() == BLOCK_HELD && once_begin(&claimed)) {
        standing = claim();
        once_end(&claimed);
    }
    slot->cuda_ns = now_ns();
    return standing;
}

/* The slot is kept, so that the agent sees whose it was. */
enum block_standing block_give_up(const char *reason)
{
    if (standing == BLOCK_HELD)
        standing = without("", reason);
    return standing;
}

void block_fork_child(void)
{
    if (slot == &private_stats.slot[0])
        return; /* none was taken: the child may take one of its own */
    stats = &private_stats;
    slot = &private_stats.slot[0];
}

/* --- telling the agent ----------------------------------------------------------------------- */

void bell_ring(void)
{
    atomic_fetch_add(&stats->bell, 1);
    futex_wake(&stats->bell);
}

void phase_reach(enum block_phase phase)
{
    uint32_t before = atomic_load(&slot->phase);
    while (before < (uint32_t)phase)
        if (atomic_compare_exchange_weak(&slot->phase, &before, phase)) {
            bell_ring();
            return;
        }
}
