#include "helper.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "block.h"
#include "complain.h"
#include "contexts.h"
#include "fork.h"
#include "futex.h"
#include "gate.h"
#include "glibc.h"
#include "once.h"
#include "signals.h"

#define SLICE_NS (100 * NS_PER_MS)

/* Where the process is on its way out. Only the helper moves on. */
enum stage {
    STAGE_RUN,
    STAGE_WINDOW, /* a signal was handled by the application, which may save and exit */
    STAGE_WALK,   /* the walker gates, waits and releases */
};

/* Set by anyone, at any time, and never taken back. */
static struct {
    _Atomic uint32_t signal; /* that asked for the stop first, HANDLED with it or not; 0: none */
    _Atomic bool leaving;    /* a thread of the application is ending the process */
} wish;

enum { HANDLED = 1 << 16 };

/* Of the walker. */
static struct {
    _Atomic uint32_t asked; /* both are waited on by futex */
    _Atomic uint32_t finished;
    _Atomic bool exits; /* the process is ended by us, not by a thread of the application */
} walk;

static _Atomic bool running;
_Atomic bool contexts_released;

/* --- the walker ------------------------------------------------------------------------------ */

static void end_process(void)
{
    uint32_t number = atomic_load(&wish.signal) & ~HANDLED;
    syscall(SYS_exit_group, 128 + (number ? number : SIGTERM));
}

static void finish(void)
{
    contexts_released = true;
    if (walk.exits)
        end_process();
    atomic_store(&walk.finished, 1);
    futex_wake(&walk.finished);
}

static void walk_out(void)
{
    gate_set(GATE_SHUT);
    phase_reach(PHASE_GATED);
    while (!gate_quiesce(now_ns() + SLICE_NS))
        ;
    contexts_synchronise();
    phase_reach(PHASE_QUIESCED);
    contexts_release();
    phase_reach(PHASE_RELEASED);
    finish();
}

static void *walk_main(void *unused)
{
    prctl(PR_SET_NAME, "xcuda-walk");
    while (!atomic_load(&walk.asked))
        futex_wait(&walk.asked, 0, 3600 * NS_PER_S);
    walk_out();
    return unused;
}

static void walk_begin(bool exits)
{
    walk.exits = exits;
    atomic_store(&walk.asked, 1);
    futex_wake(&walk.asked);
}

/* --- the stages ------------------------------------------------------------------------------ */

static struct {
    enum stage stage;
    uint64_t looked_ns;   /* the last time */
    bool opened;          /* the application has had some of its window */
    uint64_t spent_ns;    /* of the window, or of waiting frozen for an agent that is silent */
    uint64_t deadline_ns; /* of the walk */
} way;

static void begin_walk(uint64_t now, bool exits)
{
    slot->window = 0;
    way.stage = STAGE_WALK;
    way.deadline_ns = now + (uint64_t)policy_now()->exit_ms * NS_PER_MS;
    walk_begin(exits);
}

/* Only on a change: it costs every thread a look at its limits. A shut gate stays shut. */
static void want_gate(enum gate_state state)
{
    enum gate_state now = gate_current();
    if (now != state && now != GATE_SHUT)
        gate_set(state);
}

static bool held(enum block_silence silence)
{
    return policy_now()->mode == MODE_FREEZE || silence == AGENT_SILENT;
}

static uint64_t steer_run(uint64_t now, enum block_silence silence)
{
    uint32_t asked = atomic_load(&wish.signal);
    if (policy_now()->mode == MODE_EXIT || (asked && !(asked & HANDLED)))
        begin_walk(now, true);
    else if (wish.leaving)
        begin_walk(now, false);
    else if (asked && policy_now()->grace_ms == 0)
        begin_walk(now, true);
    else if (asked)
        return way.stage = STAGE_WINDOW, 0;
    else
        want_gate(held(silence) ? GATE_FROZEN : GATE_OPEN);
    return SLICE_NS;
}

static void show_window(bool open)
{
    if (slot->window == open)
        return;
    slot->window = open;
    duty_set_window(open);
    gate_review();
    bell_ring();
}

/* In an emergency, so while frozen, the window opens only when the agent opens it; until then the
 * application stays frozen and its time does not run. When the agent is silent nobody will open it:
 * then it stays frozen for as long as the window would have been, in case the agent returns. */
static uint64_t steer_window(uint64_t now, enum block_silence silence)
{
    uint64_t grace_ns = (uint64_t)policy_now()->grace_ms * NS_PER_MS;
    bool open = silence != AGENT_SILENT &&
                (policy_now()->mode != MODE_FREEZE || policy_now()->window_open);
    if (policy_now()->mode == MODE_EXIT)
        return begin_walk(now, true), SLICE_NS;
    if (wish.leaving || way.spent_ns >= grace_ns) {
        if (way.opened)
            phase_reach(PHASE_CHECKPOINTED);
        return begin_walk(now, !wish.leaving), SLICE_NS;
    }
    way.opened |= open;
    show_window(open);
    want_gate(open ? GATE_WINDOW : GATE_FROZEN);
    if (!open && silence != AGENT_SILENT)
        return SLICE_NS;
    way.spent_ns += now - way.looked_ns;
    return way.spent_ns < grace_ns ? grace_ns - way.spent_ns : 0;
}

/* Past the deadline the agent must go on; we keep trying. Where nothing is in flight any more and
 * only the release is late, the process may end without it; and where the application ends itself
 * and is late, a signal may end it. */
static uint64_t steer_walk(uint64_t now)
{
    if (now < way.deadline_ns)
        return SLICE_NS;
    if (walk.finished) {
        if (atomic_load(&wish.signal) || policy_now()->mode == MODE_EXIT)
            end_process();
    } else if (slot->phase >= PHASE_QUIESCED) {
        finish();
    } else if (!atomic_exchange(&slot->stuck, 1)) {
        bell_ring();
        COMPLAIN(TROUBLE_STUCK, "work is in flight past the deadline of the exit");
    }
    return SLICE_NS;
}

/* Returns how long the helper may sleep. */
static uint64_t steer(uint64_t now, enum block_silence silence)
{
    uint64_t slice_ns = way.stage == STAGE_RUN      ? steer_run(now, silence)
                        : way.stage == STAGE_WINDOW ? steer_window(now, silence)
                                                    : steer_walk(now);
    way.looked_ns = now;
    return slice_ns < SLICE_NS ? slice_ns : SLICE_NS;
}

/* --- the helper ------------------------------------------------------------------------------ */

static void look(uint64_t *slice_ns)
{
    static enum block_silence silence_before;
    uint64_t now = now_ns();
    enum block_silence silence = agent_silence(now);
    if (policy_refresh() || silence != silence_before)
        gate_review();
    silence_before = silence;
    *slice_ns = steer(now, silence);
    signals_redeliver();
    if (signals_kept() && *slice_ns > NS_PER_MS)
        *slice_ns = NS_PER_MS;
}

/* The one word to sleep on is the policy's sequence, so a wish may be made just between the look
 * and the sleep: it is then seen a slice later. */
static void *help_main(void *unused)
{
    prctl(PR_SET_NAME, "xcuda");
    for (;;) {
        uint64_t slice_ns;
        uint32_t sequence = atomic_load(policy_sequence());
        look(&slice_ns);
        futex_wait(policy_sequence(), sequence, slice_ns);
    }
    return unused;
}

void helper_wake(void)
{
    futex_wake(policy_sequence());
}

void helper_stop(int signal, bool handled)
{
    uint32_t none = 0, asked = (uint32_t)signal | (handled ? HANDLED : 0);
    if (atomic_compare_exchange_strong(&wish.signal, &none, asked)) {
        slot->signal = (uint32_t)signal;
        phase_reach(PHASE_SIGNALLED);
    }
    helper_wake();
}

void helper_leave(void)
{
    if (!running || !signals_at_home() || !contexts_any())
        return;
    gate_pass_self(true);
    wish.leaving = true;
    while (!atomic_load(&walk.finished)) {
        if (!atomic_load(&walk.asked))
            helper_wake();
        futex_wait(&walk.finished, 0, NS_PER_MS);
    }
}

/* --- starting -------------------------------------------------------------------------------- */

/* A thread inherits the signal mask of the one that starts it. */
static bool start_thread(void *(*body)(void *), size_t stack_bytes)
{
    pthread_t thread;
    pthread_attr_t attributes;
    uint64_t all = UINT64_MAX, before;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    bool started = pthread_create(&thread, &attributes, body, NULL) == 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    pthread_attr_destroy(&attributes);
    return started;
}

/* The stacks hold the thread-local data of every loaded library too, and the walker's the driver's
 * frames; what is not touched costs nothing. */
static bool start(void)
{
    fork_watch();
    return start_thread(walk_main, 1 << 20) && start_thread(help_main, 1 << 18);
}

bool helper_start(void)
{
    static once started;
    if (once_begin(&started)) {
        way.looked_ns = now_ns();
        running = start();
        once_end(&started);
    }
    return running;
}

void helper_fork_child(void)
{
    running = false;
}
