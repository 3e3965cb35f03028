#include "gate.h"

#include <limits.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>

#include "batch.h"
#include "block.h"
#include "capture.h"
#include "futex.h"
#include "glibc.h"
#include "graph.h"
#include "lock.h"
#include "signals.h"
#include "steward.h"

#define SLICE_NS (20 * NS_PER_MS)       /* a wait looks at the gate again at least this often */
#define LIMIT_WAIT_NS (10 * NS_PER_S)   /* the longest wait for a limit; then on, in debt */
#define QUIESCE_NAP_NS (NS_PER_MS / 10)
/* Destructors of other libraries may still launch when a thread ends: be among the last that the C
 * library calls. Its very last round is for the tools that watch threads. */
#define FAREWELLS (PTHREAD_DESTRUCTOR_ITERATIONS - 1)

_Atomic uint32_t gate_word = 1;
_Thread_local struct thread self __attribute__((tls_model("initial-exec")));

static _Atomic uint32_t gate_state = GATE_OPEN;
static _Atomic bool captures_held;

static const bool holds[][3] = {
    [GATE_OPEN] = {false},
    [GATE_FROZEN] = {[ENTRY_LAUNCH] = true, [ENTRY_COPY] = true},
    [GATE_WINDOW] = {false},
    [GATE_SHUT] = {[ENTRY_LAUNCH] = true, [ENTRY_COPY] = true, [ENTRY_MEMORY] = true},
};

/* --- a barrier on all threads -------------------------------------------------------------- */

enum barrier { BARRIER_UNKNOWN, BARRIER_PRIVATE, BARRIER_GLOBAL, BARRIER_NONE };
static _Atomic uint32_t barrier;

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

static enum barrier barrier_find(void)
{
    long offered = membarrier(MEMBARRIER_CMD_QUERY);
    if (offered < 0)
        return BARRIER_NONE;
    if (offered & MEMBARRIER_CMD_PRIVATE_EXPEDITED &&
        membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0)
        return BARRIER_PRIVATE;
    return offered & MEMBARRIER_CMD_SHARED ? BARRIER_GLOBAL : BARRIER_NONE;
}

/* The slower kind needs no registration, and serves before the first thread has come. */
static void barrier_issue(void)
{
    int before = errno;
    membarrier(atomic_load(&barrier) == BARRIER_PRIVATE ? MEMBARRIER_CMD_PRIVATE_EXPEDITED
                                                        : MEMBARRIER_CMD_SHARED);
    errno = before;
}

/* --- the threads of the process ------------------------------------------------------------ */

BIND_OLDEST(pthread_key_create);
BIND_OLDEST(pthread_setspecific);

static lock threads_lock;
static struct thread *threads;
static pthread_key_t farewell;
static bool farewell_made;
static _Atomic uint32_t launching_threads;

/* A handler that runs while its thread holds the lock would wait for itself. */
static void lock_threads(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, before);
    lock_take(&threads_lock);
}

static void unlock_threads(const sigset_t *before)
{
    lock_give(&threads_lock);
    sigprocmask(SIG_SETMASK, before, NULL);
}

/* Adds what was used since the last time. Whoever exits the process counts for all threads, at a
 * moment at which one may just have taken a launch that it is going to give back: that is
 * subtracted again when the thread itself counts. */
static int64_t count_used(_Atomic int64_t *left, _Atomic int64_t *counted, _Atomic uint64_t *sum)
{
    int64_t now = atomic_load_explicit(left, memory_order_relaxed);
    int64_t used = atomic_exchange_explicit(counted, now, memory_order_relaxed) - now;
    if (used)
        atomic_fetch_add_explicit(sum, (uint64_t)used, memory_order_relaxed);
    return used;
}

static int64_t count_grant(struct thread *thread)
{
    count_used(&thread->blocks_left, &thread->blocks_counted, &slot->blocks);
    return count_used(&thread->launches_left, &thread->launches_counted, &slot->launches);
}

static void forget_thread(void *thread)
{
    if (++self.farewells < FAREWELLS) {
        pthread_setspecific(farewell, thread);
        return;
    }
    if (self.bracket) /* it was cancelled inside the driver */
        batch_close(self.stream, CUDA_ERROR_UNKNOWN);
    sigset_t before;
    lock_threads(&before);
    count_grant(&self);
    capture_forget_thread(&self);
    for (struct thread **at = &threads; *at; at = &(*at)->next)
        if (*at == &self) {
            *at = self.next;
            break;
        }
    if (self.launches)
        atomic_fetch_sub(&launching_threads, 1);
    self.known = self.launches = false;
    self.seen = 0;
    unlock_threads(&before);
}

static void prepare_once(void)
{
    if (atomic_load(&barrier) != BARRIER_UNKNOWN)
        return;
    farewell_made = pthread_key_create(&farewell, forget_thread) == 0;
    atomic_store(&barrier, barrier_find());
}

/* False: its end would go unnoticed, and with it the end of its memory that the list leads to. */
static bool know_thread(void)
{
    if (self.known)
        return true;
    if (self.farewells >= FAREWELLS)
        return false;
    sigset_t before;
    lock_threads(&before);
    prepare_once();
    if (farewell_made && pthread_setspecific(farewell, &self) == 0) {
        self.random = (uint32_t)((uintptr_t)&self >> 4) | 1;
        self.next = threads;
        threads = &self;
        self.known = true;
    }
    unlock_threads(&before);
    return self.known;
}

/* --- steering ------------------------------------------------------------------------------ */

static void raise_word(void)
{
    if (atomic_fetch_add(&gate_word, 1) + 1 == 0)
        atomic_fetch_add(&gate_word, 1);
}

void gate_set(enum gate_state state)
{
    uint32_t before = atomic_load(&gate_state);
    do {
        if (before == GATE_SHUT || before == (uint32_t)state)
            return;
    } while (!atomic_compare_exchange_weak(&gate_state, &before, (uint32_t)state));
    raise_word();
    barrier_issue();
    futex_wake(&gate_word);
}

enum gate_state gate_current(void)
{
    return (enum gate_state)atomic_load(&gate_state);
}

void gate_review(void)
{
    raise_word();
    futex_wake(&gate_word);
}

void gate_hold_captures(void)
{
    atomic_store(&captures_held, true);
    gate_review();
}

void gate_pass_self(bool pass)
{
    self.passes = pass;
}

/* One look at each thread; true when all have been seen outside since the word was raised. One that
 * ends the process waits for us, perhaps in a handler on top of a call that it never returns to. */
static bool seen_idle(uint32_t word)
{
    bool all = true;
    sigset_t before;
    lock_threads(&before);
    for (struct thread *thread = threads; thread; thread = thread->next) {
        if (thread == &self || thread->passes || thread->idle_since == word)
            continue;
        if (atomic_load(&thread->busy))
            all = false;
        else
            thread->idle_since = word;
    }
    unlock_threads(&before);
    return all;
}

/* Nobody launches any more; what each has launched of its grant is final. */
static void count_all_grants(void)
{
    sigset_t before;
    lock_threads(&before);
    for (struct thread *thread = threads; thread; thread = thread->next)
        count_grant(thread);
    unlock_threads(&before);
}

bool gate_quiesce(uint64_t deadline_ns)
{
    uint32_t word = atomic_load(&gate_word);
    while (!seen_idle(word)) {
        if (now_ns() >= deadline_ns)
            return false;
        nap(QUIESCE_NAP_NS);
    }
    if (gate_current() == GATE_SHUT)
        count_all_grants();
    return true;
}

void gate_fork_prepare(void)
{
    lock_take(&threads_lock);
}

void gate_fork_parent(void)
{
    lock_give(&threads_lock);
}

void gate_fork_child(void)
{
    lock_give(&threads_lock);
    threads = self.known ? &self : NULL;
    self.next = NULL;
    self.bracket = NULL;
    self.seen = 0;
    atomic_store(&self.busy, 0);
    atomic_store(&launching_threads, self.launches);
    atomic_store(&gate_state, GATE_OPEN);
    atomic_store(&captures_held, false);
    raise_word();
    capture_fork_child();
    graph_fork_child();
}

/* --- waiting ------------------------------------------------------------------------------- */

/* The driver calls itself, or a handler interrupted a call: the outer call has passed. */
static bool nested(void)
{
    return atomic_load_explicit(&self.busy, memory_order_relaxed) > 1;
}

/* Whether later calls, of whatever kind, may pass without another look. Without a barrier to issue
 * from outside, each needs the slow path's order of accesses; and while something captures, each
 * has to ask whether its stream does. */
static bool may_skip(enum gate_state state)
{
    return (state == GATE_OPEN || state == GATE_WINDOW) && !capture_any() &&
           atomic_load_explicit(&barrier, memory_order_relaxed) != BARRIER_NONE;
}

/* What holds now: a freeze does as soon as the policy says so, even before the steward has run. */
static enum gate_state effective_state(void)
{
    enum gate_state state = gate_current();
    bool freeze = atomic_load_explicit(&policy_now()->mode, memory_order_relaxed) == MODE_FREEZE;
    return state == GATE_OPEN && freeze ? GATE_FROZEN : state;
}

/* In the one order of all such accesses, the mark comes before the look. */
static uint32_t look_at_word(void)
{
    atomic_fetch_add(&self.busy, 0);
    if (policy_refresh())
        gate_review();
    return atomic_load(&gate_word);
}

/* Outside of all calls while it lasts. Returns how long that was. */
static uint64_t park(uint32_t word, uint64_t wait_ns, _Atomic uint64_t *counter)
{
    mark_busy(-1u);
    uint64_t began_ns = now_ns();
    futex_wait(&gate_word, word, wait_ns < SLICE_NS ? wait_ns : SLICE_NS);
    uint64_t waited_ns = now_ns() - began_ns;
    atomic_fetch_add_explicit(counter, waited_ns, memory_order_relaxed);
    mark_busy(1);
    return waited_ns;
}

static CUresult refuse(CUresult result)
{
    mark_busy(-1u);
    return result;
}

#define NO_STREAM ((CUstream)-1)

/* A handler that was put off runs now that its thread is outside of the driver. */
static void run_kept_handlers(void)
{
    if (!signals_kept())
        return;
    mark_busy(-1u);
    signals_redeliver_here();
    mark_busy(1);
}

/* What a capture records does not run; and it has to come to its end, before the process can. */
static bool needed_by_capture(enum entry entry, CUstream stream)
{
    return capture_any() && !atomic_load(&captures_held) &&
           (entry == ENTRY_MEMORY || (stream != NO_STREAM && capture_on(stream)));
}

/* Waits while the state holds the call back. Only for the outermost call of a thread. */
static CUresult pass(enum entry entry, CUstream stream, uint32_t *word)
{
    if (block_standing() == BLOCK_REFUSED)
        return refuse(CUDA_ERROR_SYSTEM_NOT_READY);
    if (!know_thread())
        return refuse(CUDA_ERROR_DEINITIALIZED);
    run_kept_handlers();
    enum gate_state state;
    for (;;) {
        *word = look_at_word();
        state = effective_state();
        if (state == GATE_SHUT && self.passes)
            return atomic_load(&contexts_released) ? refuse(CUDA_ERROR_DEINITIALIZED)
                                                   : CUDA_SUCCESS;
        if (state == GATE_SHUT && fault_code() != CUDA_SUCCESS)
            return refuse(fault_code());
        if (!holds[state][entry] || needed_by_capture(entry, stream))
            break;
        park(*word, SLICE_NS, &slot->frozen_ns);
    }
    self.seen = may_skip(state) ? *word : 0;
    return CUDA_SUCCESS;
}

/* --- grants -------------------------------------------------------------------------------- */

static struct limits limits_now(void)
{
    const struct policy *policy = policy_now();
    return (struct limits){
        atomic_load_explicit(&policy->launches_per_s, memory_order_relaxed),
        atomic_load_explicit(&policy->blocks_per_s, memory_order_relaxed),
        atomic_load_explicit(&policy->inflight_cap, memory_order_relaxed),
        atomic_load_explicit(&policy->duty_permille, memory_order_relaxed),
    };
}

static void grant(struct amount amount)
{
    atomic_store_explicit(&self.launches_left, amount.launches, memory_order_relaxed);
    atomic_store_explicit(&self.launches_counted, amount.launches, memory_order_relaxed);
    atomic_store_explicit(&self.blocks_left, amount.blocks, memory_order_relaxed);
    atomic_store_explicit(&self.blocks_counted, amount.blocks, memory_order_relaxed);
}

static struct amount left_of_grant(void)
{
    return (struct amount){
        atomic_load_explicit(&self.launches_left, memory_order_relaxed),
        atomic_load_explicit(&self.blocks_left, memory_order_relaxed),
    };
}

static void give_back_grant(void)
{
    self.uncovered += count_grant(&self);
    struct limits limits = limits_now();
    pace_credit(&pace, &limits, left_of_grant());
    grant((struct amount){0, 0});
}

static uint32_t share_among(void)
{
    if (!self.launches) {
        self.launches = true;
        atomic_fetch_add(&launching_threads, 1);
        gate_review(); /* the grants of the others are too large now */
    }
    return atomic_load_explicit(&launching_threads, memory_order_relaxed);
}

/* The same function in another grid is another kernel as far as time goes. */
static uint64_t kernel_number(const void *what, int64_t blocks)
{
    return (uint64_t)(uintptr_t)what ^ (uint64_t)blocks << 48;
}

/* 0: granted, and what the launch needs before it is done. Else how long to wait. */
static uint64_t ask(const void *what, CUstream stream, struct amount asked, bool force)
{
    uint64_t now = now_ns();
    struct limits limits = limits_now();
    uint32_t threads = share_among();
    bool measures = pace_measures(&limits);
    pace_follow(&pace, &limits, now);
    if (measures)
        batch_settle(&limits, now);
    struct amount amount = pace_grant(&pace, &limits, asked, threads, self.random);
    uint64_t delay_ns = force ? 0 : pace_delay_ns(&pace, &limits, amount, now);
    if (delay_ns)
        return delay_ns;
    if (measures && !batch_reserve(&limits, asked.launches, threads, force, now))
        return batch_nap_ns(&limits);
    pace_charge(&pace, &limits, amount, now);
    grant(amount);
    take_of_grant(&self.launches_left, asked.launches);
    take_of_grant(&self.blocks_left, asked.blocks);
    self.stream = stream;
    if (measures)
        batch_open(stream, kernel_number(what, asked.blocks), asked.launches);
    else
        self.uncovered = -asked.launches;
    return 0;
}

/* Another stream needs another look only where launches are measured. */
static bool only_another_stream(CUstream stream, struct amount asked)
{
    struct limits limits = limits_now();
    struct amount left = left_of_grant();
    if (!gate_unchanged() || pace_measures(&limits) || left.launches < asked.launches ||
        left.blocks < asked.blocks)
        return false;
    take_of_grant(&self.launches_left, asked.launches);
    take_of_grant(&self.blocks_left, asked.blocks);
    self.stream = stream;
    return true;
}

static uint32_t next_random(uint32_t x)
{
    x ^= x << 13;
    x ^= x >> 17;
    return x ^ x << 5; /* xorshift, G. Marsaglia 2003 */
}

/* --- slow paths ---------------------------------------------------------------------------- */

CUresult gate_wait_launch(const void *what, CUstream stream, int64_t launches, int64_t blocks)
{
    struct amount asked = {launches, blocks};
    take_of_grant(&self.launches_left, -launches); /* which the hot path has taken */
    take_of_grant(&self.blocks_left, -blocks);
    if (nested() || only_another_stream(stream, asked))
        return CUDA_SUCCESS;
    self.uncovered += count_grant(&self);
    self.random = next_random(self.random);
    for (uint64_t waited_ns = 0;;) {
        uint32_t word;
        CUresult result = pass(ENTRY_LAUNCH, stream, &word);
        if (result != CUDA_SUCCESS || capture_on(stream))
            return result;
        give_back_grant();
        uint64_t delay_ns = ask(what, stream, asked, waited_ns >= LIMIT_WAIT_NS);
        if (!delay_ns)
            return CUDA_SUCCESS;
        waited_ns += park(word, delay_ns, &slot->throttled_ns);
    }
}

CUresult gate_wait(enum entry entry)
{
    return gate_wait_stream(entry, NO_STREAM);
}

CUresult gate_wait_stream(enum entry entry, CUstream stream)
{
    if (nested())
        return CUDA_SUCCESS;
    uint32_t word;
    CUresult result = pass(entry, stream, &word);
    /* Having seen the word, this thread's next launch would pass by the limits of before. */
    if (result == CUDA_SUCCESS)
        give_back_grant();
    return result;
}

void gate_sync_point(void)
{
    self.uncovered += count_grant(&self);
    struct limits limits = limits_now();
    if (pace_measures(&limits))
        batch_settle(&limits, now_ns());
}
