/* SIGINT and SIGTERM end a process by themselves, with its work in flight. So from cuInit on our
 * handler stands in the kernel's table, and what the application asks for is kept here: it is told
 * its own disposition when it looks, its handler runs when the signal comes, and a child is given
 * it back. An ignored signal stays ignored in the kernel too, so that it is inherited through exec.
 *
 * The application's handler never runs on top of the driver. A handler may end the process, or jump
 * out; with the driver's locks held below it nobody could wait for the work in flight. A signal that
 * comes while its thread is inside a hooked call is kept until that thread's next call, before it
 * enters the driver; and for a thread that makes none the steward tries again every millisecond.
 */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"
#include "elf.h"
#include "futex.h"
#include "gate.h"
#include "steward.h"

typedef void handler(int);
typedef int sigaction_function(int, const struct sigaction *, struct sigaction *);

/* What the signal handler needs to know, in one word: the function above the two flags. */
enum { WITH_INFO = 1, ONE_SHOT = 2, FLAG_BITS = 2 };

struct disposition {
    _Atomic uint64_t word;
    struct sigaction asked; /* as the application set it; under the lock */
};

/* A signal that waits for its thread to leave the driver. */
enum { KEPT_NONE, KEPT_BUSY, KEPT_WAITING, KEPT_OFFERED };

struct kept {
    _Atomic int state;
    _Atomic pid_t thread; /* 0: any */
    siginfo_t info;
};

static const int numbers[] = {SIGINT, SIGTERM};
enum { COUNT = sizeof numbers / sizeof numbers[0] };

static struct disposition dispositions[COUNT];
static struct kept kept[COUNT];
static _Atomic pid_t home; /* the process in which our handler is installed; 0: in none */

static int index_of(int number)
{
    return number == SIGINT ? 0 : number == SIGTERM ? 1 : -1;
}

static uint64_t word_of(const struct sigaction *action)
{
    uint64_t flags = (action->sa_flags & SA_SIGINFO ? WITH_INFO : 0) |
                     (action->sa_flags & SA_RESETHAND ? ONE_SHOT : 0);
    return (uint64_t)(uintptr_t)action->sa_handler << FLAG_BITS | flags;
}

static handler *function_of(uint64_t word)
{
    return (handler *)(uintptr_t)(word >> FLAG_BITS);
}

static bool is_function(handler *function)
{
    return function != SIG_DFL && function != SIG_IGN;
}

/* --- the C library's own --------------------------------------------------------------------- */

/* Looked up early, because sigaction may be called in a handler, where looking up is not safe. */
static void *real(void *_Atomic *found, const char *name)
{
    void *function = atomic_load_explicit(found, memory_order_relaxed);
    if (!function)
        atomic_store_explicit(found, function = libc_function(name), memory_order_relaxed);
    return function;
}

static int real_sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    static void *_Atomic found;
    return ((sigaction_function *)real(&found, "sigaction"))(number, action, old);
}

__attribute__((constructor)) static void look_up_early(void)
{
    struct sigaction unused;
    real_sigaction(SIGTERM, NULL, &unused);
}

/* --- the lock -------------------------------------------------------------------------------- */

/* Held with all signals blocked, so no handler can run on top of its holder and wait for it; and
 * never while anything else is called that waits. */
static atomic_flag locked = ATOMIC_FLAG_INIT;

static uint64_t lock(void)
{
    uint64_t all = UINT64_MAX, before;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    while (atomic_flag_test_and_set_explicit(&locked, memory_order_acquire))
        nap(NS_PER_MS / 100);
    return before;
}

static void unlock(uint64_t before)
{
    atomic_flag_clear_explicit(&locked, memory_order_release);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

/* --- the handler ----------------------------------------------------------------------------- */

/* As the kernel does for SA_RESETHAND: one delivery, and then the default. */
static uint64_t take_disposition(struct disposition *of)
{
    uint64_t word = atomic_load(&of->word);
    while (word & ONE_SHOT && is_function(function_of(word)))
        if (atomic_compare_exchange_weak(&of->word, &word, (uint64_t)(uintptr_t)SIG_DFL))
            break;
    return word;
}

static void run(uint64_t word, int number, siginfo_t *info, void *context)
{
    handler *function = function_of(word);
    if (!is_function(function))
        return;
    if (word & WITH_INFO)
        ((void (*)(int, siginfo_t *, void *))(void (*)(void))function)(number, info, context);
    else
        function(number);
}

/* In a child that has our handler but is not ours: what the application wants, nothing else. */
static void fall_through(int number, siginfo_t *info, void *context)
{
    uint64_t word = take_disposition(&dispositions[index_of(number)]);
    run(word, number, info, context);
    if (function_of(word) == SIG_DFL) {
        struct sigaction standard = {.sa_handler = SIG_DFL};
        real_sigaction(number, &standard, NULL);
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number); /* comes when we return */
    }
}

/* The signal that was kept for this thread, if that is why our handler runs. */
static bool take_kept(struct kept *of, siginfo_t *info)
{
    pid_t thread = atomic_load(&of->thread);
    if (thread != 0 && thread != (pid_t)syscall(SYS_gettid))
        return false;
    int offered = KEPT_OFFERED;
    if (!atomic_compare_exchange_strong(&of->state, &offered, KEPT_BUSY))
        return false;
    *info = of->info;
    atomic_store(&of->state, KEPT_NONE);
    return true;
}

/* One of each is kept; more of them fall together, as they do while a signal is blocked. */
static void keep(struct kept *of, const siginfo_t *info)
{
    int none = KEPT_NONE;
    if (!atomic_compare_exchange_strong(&of->state, &none, KEPT_BUSY))
        return;
    of->info = *info;
    atomic_store(&of->thread, (pid_t)syscall(SYS_gettid));
    atomic_store(&of->state, KEPT_WAITING);
    self.seen = 0; /* the thread's next call takes the slow path, and finds it there */
}

/* An application that has nothing there any more and sends the signal to itself: that is how one
 * that has cleaned up dies of it, and it does not expect to go on. */
static bool ends_itself(handler *function, const siginfo_t *info)
{
    bool sent = info->si_code == SI_USER || info->si_code == SI_TKILL || info->si_code == SI_QUEUE;
    return function == SIG_DFL && sent && info->si_pid == getpid();
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int before = errno;
    int index = index_of(number);
    handler *function = function_of(atomic_load(&dispositions[index].word));
    siginfo_t original;
    if (!signals_at_home()) {
        fall_through(number, info, context);
    } else if (function != SIG_IGN) {
        if (take_kept(&kept[index], &original))
            info = &original;
        steward_stop(number, function != SIG_DFL);
        if (ends_itself(function, info)) {
            steward_end_window();
            if (!gate_inside())
                _exit(128 + number);
        }
        errno = before;
        if (function != SIG_DFL && gate_inside())
            keep(&kept[index], info);
        else
            run(take_disposition(&dispositions[index]), number, info, context);
    }
}

bool signals_at_home(void)
{
    return atomic_load_explicit(&home, memory_order_relaxed) == getpid();
}

/* --- for the steward ------------------------------------------------------------------------- */

static void offer(struct kept *of, int number)
{
    int waiting = KEPT_WAITING;
    pid_t thread = atomic_load(&of->thread);
    if (!atomic_compare_exchange_strong(&of->state, &waiting, KEPT_OFFERED))
        return;
    if (syscall(SYS_tgkill, getpid(), thread, number) == 0)
        return;
    atomic_store(&of->thread, 0); /* the thread has ended: any other will do */
    kill(getpid(), number);
}

void signals_redeliver(void)
{
    for (int i = 0; i < COUNT; i++)
        offer(&kept[i], numbers[i]);
}

bool signals_kept(void)
{
    bool any = false;
    for (int i = 0; i < COUNT; i++)
        any |= atomic_load_explicit(&kept[i].state, memory_order_relaxed) != KEPT_NONE;
    return any;
}

/* A thread that signals itself runs the handler before the call returns. */
void signals_redeliver_here(void)
{
    pid_t self_id = (pid_t)syscall(SYS_gettid);
    for (int i = 0; i < COUNT; i++)
        if (atomic_load(&kept[i].thread) == self_id)
            offer(&kept[i], numbers[i]);
}

/* --- what the application sets and sees ------------------------------------------------------ */

/* The kernel is given the application's flags and mask, so that it restarts calls, nests handlers
 * and blocks signals as the application wants it. At the default nothing of the application's may
 * notice that there was a signal. */
static struct sigaction as_installed(const struct sigaction *asked)
{
    struct sigaction action = *asked;
    if (asked->sa_handler == SIG_IGN)
        return action;
    if (asked->sa_handler == SIG_DFL) {
        sigemptyset(&action.sa_mask);
        action.sa_flags = SA_RESTART | SA_ONSTACK;
    }
    action.sa_flags = (action.sa_flags | SA_SIGINFO) & ~SA_RESETHAND;
    action.sa_sigaction = on_signal;
    return action;
}

static struct sigaction as_seen(const struct disposition *of)
{
    struct sigaction seen = of->asked;
    seen.sa_handler = function_of(atomic_load(&of->word)); /* the default after SA_RESETHAND */
    return seen;
}

static int set(int number, const struct sigaction *asked)
{
    struct disposition *of = &dispositions[index_of(number)];
    struct sigaction action = as_installed(asked);
    of->asked = *asked;
    atomic_store(&of->word, word_of(asked));
    return real_sigaction(number, &action, NULL);
}

/* Of a vfork child: it shares our memory, and must neither take the lock into its grave nor change
 * what the parent's application has asked for. */
static bool in_child(void)
{
    return atomic_load_explicit(&home, memory_order_relaxed) != 0 && !signals_at_home();
}

static int change(int number, const struct sigaction *action, struct sigaction *old)
{
    if (index_of(number) < 0 || in_child())
        return real_sigaction(number, action, old);
    /* A bad pointer faults here, not under the lock. */
    struct sigaction asked = action ? *action : (struct sigaction){.sa_flags = 0}, seen;
    uint64_t mask = lock();
    int result = 0;
    if (!signals_at_home()) {
        result = real_sigaction(number, action ? &asked : NULL, &seen);
    } else {
        seen = as_seen(&dispositions[index_of(number)]);
        if (action)
            result = set(number, &asked);
    }
    unlock(mask);
    if (old && result == 0)
        *old = seen;
    return result;
}

void signals_install(void)
{
    uint64_t mask = lock();
    for (int i = 0; i < COUNT; i++) {
        struct sigaction found;
        real_sigaction(numbers[i], NULL, &found);
        set(numbers[i], &found);
    }
    atomic_store(&home, getpid());
    unlock(mask);
}

static handler *change_handler(int number, handler *function, int flags, bool masked)
{
    struct sigaction action = {.sa_handler = function, .sa_flags = flags}, old;
    sigemptyset(&action.sa_mask);
    if (masked)
        sigaddset(&action.sa_mask, number);
    return change(number, &action, &old) < 0 ? SIG_ERR : old.sa_handler;
}

/* --- hooks of libc --------------------------------------------------------------------------- */

PUBLIC int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    return change(number, action, old);
}

PUBLIC int __sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    return change(number, action, old);
}

PUBLIC handler *signal(int number, handler *function)
{
    static void *_Atomic found;
    if (index_of(number) < 0)
        return ((handler * (*)(int, handler *)) real(&found, "signal"))(number, function);
    return change_handler(number, function, SA_RESTART, true);
}

PUBLIC handler *bsd_signal(int number, handler *function)
{
    return signal(number, function);
}

PUBLIC handler *ssignal(int number, handler *function)
{
    return signal(number, function);
}

PUBLIC handler *__sysv_signal(int number, handler *function)
{
    static void *_Atomic found;
    if (index_of(number) < 0)
        return ((handler * (*)(int, handler *)) real(&found, "__sysv_signal"))(number, function);
    return change_handler(number, function, SA_RESETHAND | SA_NODEFER, false);
}

PUBLIC handler *sysv_signal(int number, handler *function)
{
    return __sysv_signal(number, function);
}

PUBLIC handler *sigset(int number, handler *function)
{
    static void *_Atomic found;
    if (index_of(number) < 0)
        return ((handler * (*)(int, handler *)) real(&found, "sigset"))(number, function);
    sigset_t one, before;
    sigemptyset(&one);
    sigaddset(&one, number);
    if (sigprocmask(function == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, &one, &before) < 0)
        return SIG_ERR;
    struct sigaction old;
    if (change(number, NULL, &old) < 0 ||
        (function != SIG_HOLD && change_handler(number, function, 0, false) == SIG_ERR))
        return SIG_ERR;
    return sigismember(&before, number) ? SIG_HOLD : old.sa_handler;
}

PUBLIC int sigignore(int number)
{
    static void *_Atomic found;
    if (index_of(number) < 0)
        return ((int (*)(int))real(&found, "sigignore"))(number);
    return change_handler(number, SIG_IGN, 0, false) == SIG_ERR ? -1 : 0;
}

/* --- fork ------------------------------------------------------------------------------------ */

static uint64_t mask_before_fork;

void signals_fork_prepare(void)
{
    uint64_t mask = lock();
    mask_before_fork = mask;
}

void signals_fork_parent(void)
{
    unlock(mask_before_fork);
}

/* Signals are still blocked, so the child sees none before it has the application's dispositions. */
void signals_fork_child(void)
{
    if (atomic_exchange(&home, 0) != 0)
        for (int i = 0; i < COUNT; i++) {
            struct sigaction seen = as_seen(&dispositions[i]);
            real_sigaction(numbers[i], &seen, NULL);
            atomic_store(&kept[i].state, KEPT_NONE);
        }
    unlock(mask_before_fork);
}
