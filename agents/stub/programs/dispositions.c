/* dispositions: what a program that uses CUDA sees of its own signal handling, as lines of text. A
 * test compares them with what the same program sees without the library.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#include "reach.h"

extern void (*bsd_signal(int, void (*)(int)))(int);

static struct {
    int ran, number, code, mine, blocked_self, blocked_other;
} seen;

static int blocked(int number)
{
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    return sigismember(&mask, number);
}

static void note(int number)
{
    seen.ran += 1;
    seen.number = number;
    seen.blocked_self = blocked(number);
    seen.blocked_other = blocked(SIGUSR1);
    errno = EDOM;
}

static void note_info(int number, siginfo_t *info, void *context)
{
    (void)context;
    note(number);
    seen.code = info->si_code;
    seen.mine = info->si_pid == getpid();
}

static const char *name_of(const struct sigaction *action)
{
    if (action->sa_handler == SIG_DFL)
        return "default";
    if (action->sa_handler == SIG_IGN)
        return "ignored";
    return action->sa_handler == note         ? "note"
           : action->sa_sigaction == note_info ? "note_info"
                                               : "somebody else's";
}

static void show(const char *when)
{
    struct sigaction now;
    sigaction(SIGTERM, NULL, &now);
    unsigned flags = (unsigned)now.sa_flags & ~0x04000000u; /* SA_RESTORER is the C library's */
    printf("%s: %s, flags %x, masks SIGUSR1 %d SIGTERM %d; ran %d, signal %d, code %d, mine %d, "
           "blocked self %d other %d\n",
           when, name_of(&now), flags, sigismember(&now.sa_mask, SIGUSR1),
           sigismember(&now.sa_mask, SIGTERM), seen.ran, seen.number, seen.code, seen.mine,
           seen.blocked_self, seen.blocked_other);
    memset(&seen, 0, sizeof seen);
}

static void set(void (*handler)(int), int flags, int mask)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (mask)
        sigaddset(&action.sa_mask, mask);
    if (sigaction(SIGTERM, &action, NULL) != 0)
        perror("sigaction");
}

static void ask(const char *when)
{
    errno = ERANGE;
    raise(SIGTERM);
    printf("errno after the handler %d; ", errno == EDOM);
    show(when);
}

static void try_sigaction(void)
{
    show("at first");
    set(note, SA_RESTART, SIGUSR1);
    ask("a mask");
    set((void (*)(int))(void (*)(void))note_info, SA_SIGINFO, 0);
    ask("information");
    set(note, SA_NODEFER, 0);
    ask("nested");
    set(note, SA_RESETHAND | SA_RESTART, 0);
    ask("once");
    set(SIG_IGN, 0, 0);
    raise(SIGTERM);
    show("ignored");
    printf("invalid: %d %d\n", sigaction(0, NULL, NULL) < 0 && errno == EINVAL,
           signal(1000, SIG_DFL) == SIG_ERR);
}

static void try_older_calls(void)
{
    signal(SIGTERM, note);
    ask("signal");
    bsd_signal(SIGTERM, note);
    ask("bsd_signal");
    printf("signal returns the last one %d\n", signal(SIGTERM, SIG_DFL) == note);
    sysv_signal(SIGTERM, note);
    ask("sysv_signal");
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    sigset(SIGTERM, note);
    ask("sigset");
    printf("sigset held %d ", sigset(SIGTERM, SIG_HOLD) == note);
    printf("blocked %d ", blocked(SIGTERM));
    printf("given back %d\n", sigset(SIGTERM, note) == SIG_HOLD);
    sigignore(SIGTERM);
    show("sigignore");
}

/* --- a call that a signal interrupts --------------------------------------------------------- */

static int ends[2];
static _Atomic int interrupted;
static pthread_t reader;

static void *disturb(void *unused)
{
    struct timespec pause = {0, 5000000};
    for (int times = 0; times < 4 && !interrupted; times++) {
        nanosleep(&pause, NULL);
        pthread_kill(reader, SIGTERM);
    }
    nanosleep(&pause, NULL);
    if (write(ends[1], "x", 1) != 1)
        perror("write");
    return unused;
}

static void try_a_call(const char *when, int flags)
{
    pthread_t thread;
    char byte;
    interrupted = 0;
    reader = pthread_self();
    set(note, flags, 0);
    pthread_create(&thread, NULL, disturb, NULL);
    while (read(ends[0], &byte, 1) < 0)
        interrupted = errno == EINTR;
    pthread_join(thread, NULL);
    printf("%s: read interrupted %d\n", when, interrupted);
}

/* --- a handler that does not return ---------------------------------------------------------- */

static sigjmp_buf back;

static void jump(int number)
{
    siglongjmp(back, number);
}

static void try_jumping(void)
{
    set(jump, 0, 0);
    int number = sigsetjmp(back, 1);
    if (number == 0)
        raise(SIGTERM);
    printf("jumped out %d, blocked %d\n", number == SIGTERM, blocked(SIGTERM));
}

int main(void)
{
    begin("direct");
    if (pipe(ends) != 0)
        return 1;
    try_sigaction();
    try_older_calls();
    try_a_call("restarted", SA_RESTART);
    try_a_call("not restarted", 0);
    try_jumping();
    return 0;
}
