#include "steward.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "block.h"
#include "capture.h"
#include "complain.h"
#include "contexts.h"
#include "futex.h"
#include "gate.h"
#include "glibc.h"
#include "once.h"
#include "signals.h"
#include "stop.h"

/* Set by anyone, at any time; only HANDLED is ever taken back. */
static struct {
    _Atomic uint32_t signal; /* that asked for the stop first, HANDLED with it or not; 0: none */
    _Atomic bool leaving;    /* a thread of the application is ending the process */
} wish;

enum { HANDLED = 1 << 16 };

#define STACK_LARGE_BYTES (16 << 20)
#define CAPTURE_NS (2 * NS_PER_S) /* that a capture is given to come to its end */

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

/* A context of which a stream captures cannot be waited for. */
static void let_captures_end(void)
{
    for (uint64_t until_ns = now_ns() + CAPTURE_NS; capture_any() && now_ns() < until_ns;)
        nap(NS_PER_MS);
    gate_hold_captures();
}

static void walk_out(void)
{
    let_captures_end();
    while (!gate_quiesce(now_ns() + STOP_SLICE_NS))
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
    phase_reach(PHASE_GATED);
    walk.exits = exits;
    atomic_store(&walk.asked, 1);
    futex_wake(&walk.asked);
}

/* --- acting on an order ---------------------------------------------------------------------- */

/* Only on a change: it costs every thread a look at its limits. A shut gate stays shut. */
static void steer_gate(enum gate_state state)
{
    enum gate_state now = gate_current();
    if (now != GATE_SHUT && now != state)
        gate_set(state);
}

static void show_window(bool open)
{
    if ((slot->window == WINDOW_OPEN) == open)
        return;
    slot->window = open ? WINDOW_OPEN : WINDOW_OVER;
    duty_set_window(open);
    gate_review();
    bell_ring();
}

static void say_stuck(void)
{
    if (atomic_exchange(&slot->stuck, 1))
        return;
    bell_ring();
    COMPLAIN(TROUBLE_STUCK, "work is in flight past the deadline of the exit");
}

static void act(const struct stop_order *order)
{
    if (order->checkpointed)
        phase_reach(PHASE_CHECKPOINTED);
    steer_gate(order->gate);
    show_window(order->window);
    if (order->walk)
        walk_begin(order->exits);
    if (order->stuck)
        say_stuck();
    if (order->finish)
        finish();
    if (order->end)
        end_process();
}

/* --- the steward ----------------------------------------------------------------------------- */

static struct stop_view view(uint64_t now, enum block_silence silence)
{
    const struct policy *policy = policy_now();
    uint32_t asked = atomic_load(&wish.signal);
    return (struct stop_view){
        .now_ns = now,
        .mode = (enum block_mode)policy->mode,
        .silence = silence,
        .signalled = asked != 0,
        .handled = asked & HANDLED,
        .leaving = wish.leaving,
        .window_open = policy->window_open,
        .grace_ns = policy->grace_ms * NS_PER_MS,
        .exit_ns = policy->exit_ms * NS_PER_MS,
        .quiesced = slot->phase >= PHASE_QUIESCED,
        .finished = walk.finished,
    };
}

/* Returns how long the steward may sleep. */
static uint64_t look(struct stop *stop)
{
    static enum block_silence silence_before;
    uint64_t now = now_ns();
    enum block_silence silence = agent_silence(now);
    if (policy_refresh() || silence != silence_before)
        gate_review();
    silence_before = silence;
    struct stop_view seen = view(now, silence);
    struct stop_order order = stop_step(stop, &seen);
    act(&order);
    signals_redeliver();
    return signals_kept() && order.slice_ns > NS_PER_MS ? NS_PER_MS : order.slice_ns;
}

/* The one word to sleep on is the policy's sequence, so a wish may be made just between the look
 * and the sleep: it is then seen a slice later. */
static void *steward_main(void *unused)
{
    prctl(PR_SET_NAME, "xcuda");
    for (struct stop stop = {.stage = STOP_NONE};;) {
        uint32_t sequence = atomic_load(policy_sequence());
        uint64_t slice_ns = look(&stop);
        futex_wait(policy_sequence(), sequence, slice_ns);
    }
    return unused;
}

void steward_wake(void)
{
    futex_wake(policy_sequence());
}

void steward_stop(int signal, bool handled)
{
    uint32_t none = 0, asked = (uint32_t)signal | (handled ? HANDLED : 0);
    if (atomic_compare_exchange_strong(&wish.signal, &none, asked)) {
        slot->signal = (uint32_t)signal;
        phase_reach(PHASE_SIGNALLED);
    }
    steward_wake();
}

void steward_end_window(void)
{
    atomic_fetch_and(&wish.signal, ~(uint32_t)HANDLED);
    steward_wake();
}

void steward_leave(void)
{
    if (!running || !signals_at_home() || !contexts_any())
        return;
    gate_pass_self(true);
    wish.leaving = true;
    while (!atomic_load(&walk.finished)) {
        if (!atomic_load(&walk.asked))
            steward_wake();
        futex_wait(&walk.finished, 0, NS_PER_MS);
    }
}

/* --- starting -------------------------------------------------------------------------------- */

static bool try_start(void *(*body)(void *), size_t stack_bytes)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    bool started = pthread_create(&thread, &attributes, body, NULL) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

/* A thread inherits the signal mask of the one that starts it. sigprocmask leaves the C library's own
 * two signals open: setuid() waits until every thread has answered one. The stack holds the thread-
 * local data of every loaded library too, however much that is; what is not touched costs nothing. */
static bool start_thread(void *(*body)(void *), size_t stack_bytes)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    bool started = try_start(body, stack_bytes) || try_start(body, STACK_LARGE_BYTES);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* The walker's stack holds the driver's frames. */
static bool start(void)
{
    return start_thread(walk_main, 1 << 20) && start_thread(steward_main, 1 << 18);
}

bool steward_start(void)
{
    static once started;
    if (once_begin(&started)) {
        running = start();
        once_end(&started);
    }
    return running;
}

void steward_fork_child(void)
{
    running = false;
}
