#include "owner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "block.h"
#include "complain.h"

enum started { STARTED_UNKNOWN = 0 };

struct process {
    uint32_t started; /* clock ticks since boot, low half; 0: cannot be read */
    bool ended;       /* and only waits for its parent to notice */
};

static ssize_t read_stat(pid_t pid, char *text, size_t bytes)
{
    struct decimal digits;
    char path[48] = "/proc/";
    strcat(strcat(path, decimal(&digits, pid)), "/stat");
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    ssize_t length = read(file, text, bytes - 1);
    close(file);
    return length;
}

static uint64_t number(const char *digits)
{
    uint64_t value = 0;
    for (; *digits >= '0' && *digits <= '9'; digits++)
        value = value * 10 + (uint64_t)(*digits - '0');
    return value;
}

/* The fields are counted from the end of the name, which stands in parentheses and may itself hold
 * any character. */
static struct process look_up(pid_t pid)
{
    enum { STATE = 0, THREADS = 17, START = 19 };
    struct process found = {STARTED_UNKNOWN, false};
    char text[1024];
    ssize_t length = read_stat(pid, text, sizeof text);
    text[length < 0 ? 0 : length] = '\0';
    char *at = strrchr(text, ')');
    if (!at || !at[1])
        return found;
    bool dead = false;
    at += 2;
    for (int field = STATE; at; field++, at = strchr(at, ' '), at += at != NULL) {
        if (field == STATE)
            dead = *at == 'Z' || *at == 'X';
        else if (field == THREADS) /* the first thread may end before the others */
            found.ended = dead && number(at) <= 1;
        else if (field == START)
            found.started = (uint32_t)number(at);
    }
    return found;
}

uint64_t owner_self(void)
{
    pid_t pid = getpid();
    return (uint64_t)look_up(pid).started << 32 | (uint32_t)pid;
}

uint32_t pid_namespace_self(void)
{
    char target[64]; /* pid:[4026531836] */
    ssize_t length = readlink("/proc/self/ns/pid", target, sizeof target - 1);
    target[length < 0 ? 0 : length] = '\0';
    const char *digits = strchr(target, '[');
    return digits ? (uint32_t)number(digits + 1) : 0;
}

/* In doubt a process is alive: a slot that is kept too long costs one of 64, one that is taken away
 * from a living process breaks the quota. */
static bool gone(uint64_t owner)
{
    pid_t pid = (pid_t)(uint32_t)owner;
    uint32_t started = (uint32_t)(owner >> 32);
    if (kill(pid, 0) < 0 && errno == ESRCH)
        return true;
    struct process found = look_up(pid);
    if (found.ended)
        return true;
    return started != STARTED_UNKNOWN && found.started != STARTED_UNKNOWN &&
           found.started != started;
}

bool slot_abandoned(const struct block_slot *slot)
{
    uint64_t owner = atomic_load(&slot->owner);
    uint32_t namespace = atomic_load(&slot->pid_namespace);
    /* Of a process in another namespace, or in one that is not known, nothing can be said. */
    return owner && namespace && namespace == pid_namespace_self() && gone(owner);
}

/* The slot is ours while it is emptied, so if we are killed here the next one reaps it from us.
 * `transit` keeps a recount from trusting what it sees in between. */
static void empty(struct block_slot *slot)
{
    atomic_store(&slot->transit, 1);
    char *from = (char *)slot + offsetof(struct block_slot, phase);
    memset(from, 0, (size_t)((char *)(slot + 1) - from));
    atomic_store(&slot->transit, 0);
    atomic_store(&slot->owner, 0);
}

static bool reap(struct block_slot *slot, uint64_t self)
{
    uint64_t owner = atomic_load(&slot->owner);
    if (!slot_abandoned(slot) || !atomic_compare_exchange_strong(&slot->owner, &owner, self))
        return false;
    empty(slot);
    return true;
}

unsigned slots_reap(struct block_stats *stats)
{
    unsigned reaped = 0;
    uint64_t self = owner_self();
    for (unsigned i = 0; i < BLOCK_SLOTS; i++)
        reaped += reap(&stats->slot[i], self);
    return reaped;
}

unsigned slots_reap_own(struct block_stats *stats)
{
    unsigned reaped = 0;
    uint64_t self = owner_self();
    uint32_t namespace = pid_namespace_self();
    for (unsigned i = 0; i < BLOCK_SLOTS; i++)
        if (stats->slot[i].owner == self && stats->slot[i].pid_namespace == namespace) {
            empty(&stats->slot[i]);
            reaped++;
        }
    return reaped;
}
