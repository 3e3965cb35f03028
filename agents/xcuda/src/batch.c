#include "batch.h"

#include <stdalign.h>
#include <stdlib.h>

#include "block.h"
#include "capture.h"
#include "driver.h"
#include "fault.h"
#include "futex.h"
#include "gate.h"
#include "lock.h"

#define STALLED_NS NS_PER_S          /* nothing has finished for so long: the cap lets one pass, */
#define STALLED_AGAIN_NS (20 * NS_PER_MS) /* and then one in this time, until something does */
#define HOLD_NS (100 * NS_PER_MS) /* the longest wait for a thread that is in the driver */
#define LOOK_AHEAD 4 /* unfinished ones that a look passes: streams finish in any order */

struct bracket {
    struct bracket *next;
    CUcontext context; /* of its events */
    CUevent begin, end;
    CUstream stream;      /* on which it is pending, or the thread whose own stream it is */
    struct sample sample; /* `launches` are done with it; `sampled` is 0 when it has no time */
};

alignas(64) struct pace pace;

/* What all threads write, in one line of the cache. */
static alignas(64) struct {
    _Atomic(struct bracket *) closed; /* pushed by the threads that launch */
    _Atomic uint64_t inflight;
    _Atomic uint64_t progress_ns; /* when something was last seen to finish, or to begin */
    struct bracket *spare;        /* whose events may be used again */
    lock spare_guard;
    _Atomic bool held;
} shared;

/* What follows belongs to who holds `shared.held`. Launching threads only ever try: one that fails
 * leaves the look to the one that holds it, so that no launch waits for another's driver call. */
static struct bracket *pending, **pending_end = &pending;
static uint64_t unreported_busy_ns, reported_ns;

static bool try_hold(void)
{
    return !atomic_load_explicit(&shared.held, memory_order_relaxed) &&
           !atomic_exchange_explicit(&shared.held, true, memory_order_acquire);
}

void batch_release(void)
{
    atomic_store_explicit(&shared.held, false, memory_order_release);
}

/* --- around a launch ----------------------------------------------------------------------- */

static struct bracket *create(CUcontext context)
{
    struct bracket *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->context = context;
    if (BORROWED(cuEventCreate)(&made->begin, 0) == CUDA_SUCCESS) {
        if (BORROWED(cuEventCreate)(&made->end, 0) == CUDA_SUCCESS)
            return made;
        BORROWED(cuEventDestroy_v2)(made->begin);
    }
    free(made);
    return NULL;
}

static struct bracket *take_spare(CUcontext context)
{
    lock_take(&shared.spare_guard);
    struct bracket **at = &shared.spare, *found;
    while (*at && (*at)->context != context)
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    lock_give(&shared.spare_guard);
    return found;
}

static void put_spare(struct bracket *bracket)
{
    lock_take(&shared.spare_guard);
    bracket->next = shared.spare;
    shared.spare = bracket;
    lock_give(&shared.spare_guard);
}

static struct bracket *take(void)
{
    CUcontext context = NULL;
    if (capture_any() || BORROWED(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || !context)
        return NULL;
    struct bracket *found = take_spare(context);
    return found ? found : create(context);
}

void batch_open(CUstream stream, uint64_t kernel, int64_t launches)
{
    struct bracket *bracket = take();
    if (!bracket) { /* the next launch may have more luck, and stands for this one too */
        atomic_fetch_sub_explicit(&shared.inflight, (uint64_t)(self.uncovered + launches),
                                  memory_order_relaxed);
        return;
    }
    bool begun = REAL(cuEventRecord)(bracket->begin, stream) == CUDA_SUCCESS;
    bracket->sample =
        (struct sample){kernel, 0, begun ? launches : 0, self.uncovered + launches, 1};
    bracket->stream = stream == CU_STREAM_PER_THREAD ? (CUstream)&self : stream;
    self.uncovered = -launches; /* which are yet to be counted, and covered already */
    self.bracket = bracket;
}

void batch_close(CUstream stream, CUresult result)
{
    struct bracket *bracket = self.bracket;
    self.bracket = NULL;
    /* An event that was not recorded counts as done. */
    if (result != CUDA_SUCCESS ||
        REAL(cuEventRecord)(bracket->end, stream) != CUDA_SUCCESS)
        bracket->sample.sampled = 0;
    bracket->next = atomic_load_explicit(&shared.closed, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&shared.closed, &bracket->next, bracket,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

/* --- what has finished --------------------------------------------------------------------- */

/* Work on other streams of ours is still pending: each takes longer for the sake of the others. */
static void note_other_streams(struct bracket *added)
{
    CUstream others[LOOK_AHEAD];
    uint32_t count = 0;
    int seen = 0;
    for (struct bracket *at = pending; at && seen < LOOK_AHEAD; at = at->next, seen++) {
        uint32_t known = 0;
        while (known < count && others[known] != at->stream)
            known++;
        if (at->stream == added->stream || known < count)
            continue;
        others[count++] = at->stream;
        if (at->sample.streams < count + 1)
            at->sample.streams = count + 1;
    }
    added->sample.streams = count + 1;
}

static void append_pending(struct bracket *bracket)
{
    note_other_streams(bracket);
    bracket->next = NULL;
    *pending_end = bracket;
    pending_end = &bracket->next;
}

static void collect_closed(void)
{
    struct bracket *newest = atomic_exchange_explicit(&shared.closed, NULL, memory_order_acquire);
    struct bracket *oldest = NULL;
    while (newest) {
        struct bracket *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest) {
        struct bracket *next = oldest->next;
        append_pending(oldest);
        oldest = next;
    }
}

static struct bracket *unlink_pending(struct bracket **at)
{
    struct bracket *bracket = *at;
    *at = bracket->next;
    if (!*at)
        pending_end = at;
    atomic_fetch_sub_explicit(&shared.inflight, (uint64_t)bracket->sample.launches,
                              memory_order_relaxed);
    return bracket;
}

static void measure(struct bracket *bracket, const struct limits *limits, uint64_t now_ns)
{
    float ms;
    if (!bracket->sample.sampled ||
        BORROWED(cuEventElapsedTime)(&ms, bracket->begin, bracket->end) != CUDA_SUCCESS || ms < 0)
        return;
    bracket->sample.device_ns = (uint64_t)((double)ms * 1e6);
    unreported_busy_ns += pace_observe(&pace, limits, bracket->sample, now_ns);
}

static void finish(struct bracket **at, CUresult result, const struct limits *limits,
                   uint64_t now_ns)
{
    struct bracket *bracket = unlink_pending(at);
    atomic_store_explicit(&shared.progress_ns, now_ns, memory_order_relaxed);
    if (result != CUDA_SUCCESS) {
        fault_seen(result);
        free(bracket); /* its events are not to be trusted any more */
        return;
    }
    measure(bracket, limits, now_ns);
    put_spare(bracket);
}

static void look(const struct limits *limits, uint64_t now_ns)
{
    int unfinished = 0;
    for (struct bracket **at = &pending; *at && unfinished < LOOK_AHEAD;) {
        CUresult result = REAL(cuEventQuery)((*at)->end);
        if (result != CUDA_ERROR_NOT_READY) {
            finish(at, result, limits, now_ns);
        } else {
            unfinished++;
            at = &(*at)->next;
        }
    }
}

/* Streams that overlap take more time than passes; what is reported never does. */
static void report(uint64_t now_ns)
{
    uint64_t passed = now_ns > reported_ns ? now_ns - reported_ns : 0;
    uint64_t busy = unreported_busy_ns < passed ? unreported_busy_ns : passed;
    unreported_busy_ns -= busy;
    if (unreported_busy_ns > NS_PER_S)
        unreported_busy_ns = NS_PER_S;
    reported_ns = now_ns;
    if (busy)
        atomic_fetch_add_explicit(&slot->busy_ns, busy, memory_order_relaxed);
    uint64_t unfinished = atomic_load_explicit(&shared.inflight, memory_order_relaxed);
    atomic_store_explicit(&slot->inflight, (uint32_t)unfinished, memory_order_relaxed);
}

void batch_settle(const struct limits *limits, uint64_t now_ns)
{
    if (!try_hold())
        return;
    if (!capture_any()) {
        collect_closed();
        look(limits, now_ns);
        report(now_ns);
    }
    pace_control(&pace, limits, now_ns);
    batch_release();
}

static bool stalled(uint64_t now_ns)
{
    uint64_t progress = atomic_load_explicit(&shared.progress_ns, memory_order_relaxed);
    return now_ns > progress + STALLED_NS &&
           atomic_compare_exchange_strong_explicit(&shared.progress_ns, &progress,
                                                   now_ns - STALLED_NS + STALLED_AGAIN_NS,
                                                   memory_order_relaxed, memory_order_relaxed);
}

bool batch_reserve(const struct limits *limits, int64_t launches, uint32_t threads, bool force,
                   uint64_t now_ns)
{
    uint64_t before = atomic_load_explicit(&shared.inflight, memory_order_relaxed);
    launches += self.uncovered;
    do {
        if (!force && !pace_inflight_allows(&pace, limits, before, launches, threads) &&
            !capture_any() && !stalled(now_ns))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&shared.inflight, &before,
                                                    before + (uint64_t)launches,
                                                    memory_order_relaxed, memory_order_relaxed));
    if (before == 0)
        atomic_store_explicit(&shared.progress_ns, now_ns, memory_order_relaxed);
    return true;
}

uint64_t batch_nap_ns(const struct limits *limits)
{
    uint64_t drained = atomic_load_explicit(&pace.launch_ns, memory_order_relaxed) *
                       (limits->inflight_cap / 8 + 1);
    return drained < NS_PER_MS / 20 ? NS_PER_MS / 20 : drained < NS_PER_MS ? drained : NS_PER_MS;
}

/* --- changes around us --------------------------------------------------------------------- */

bool batch_hold(void)
{
    uint64_t give_up_ns = now_ns() + HOLD_NS;
    while (!try_hold()) {
        if (now_ns() > give_up_ns)
            return false;
        nap(NS_PER_MS / 50);
    }
    return true;
}

void batch_forget_context(CUcontext context)
{
    if (!batch_hold())
        return;
    collect_closed();
    for (struct bracket **at = &pending; *at;) {
        if ((*at)->context == context)
            free(unlink_pending(at));
        else
            at = &(*at)->next;
    }
    for (struct bracket *gone; (gone = take_spare(context));)
        free(gone);
    batch_release();
}

void batch_fork_child(void)
{
    atomic_store(&shared.held, false);
    lock_give(&shared.spare_guard);
    atomic_store(&shared.closed, NULL);
    atomic_store(&shared.inflight, 0);
    pending = shared.spare = NULL;
    pending_end = &pending;
}
