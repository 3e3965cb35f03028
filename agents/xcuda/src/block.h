/* The control block: how the agent and the processes of one placement talk to each other.
 *
 * A directory with two files, mapped shared:
 *   policy  written by the agent alone, read-only to the job: what is allowed;
 *   stats   written by the job's processes: what they use and where they are.
 *
 * There are no locks. A word has one writer or is changed by compare-and-swap, so a process that is
 * killed at any instruction leaves nothing behind that makes another wait. Every multi-byte field
 * is little-endian. `agents/control_block.py` is the twin of this file; `xcuda-block layout` states
 * every offset, and a test compares the two.
 */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK_POLICY_MAGIC UINT64_C(0x31594c4f50584d58) /* "XMXPOLY1" */
#define BLOCK_STATS_MAGIC UINT64_C(0x3154415453584d58)  /* "XMXSTAT1" */
#define BLOCK_ABI UINT32_C(1)
#define BLOCK_SLOTS 64
#define BLOCK_PAGE_BYTES 4096
#define BLOCK_UNIT_BYTES UINT64_C(512) /* of the memory counter: no driver hands out less */

enum block_mode {
    MODE_RUN = 0,      /* quota and duty hold */
    MODE_THROTTLE = 1, /* as RUN, at the floor duty */
    MODE_FREEZE = 2,   /* launches and copies wait until the mode changes; reversible */
    MODE_EXIT = 3,     /* gate, quiesce, release, exit: now, without the application */
};

/* Of the stop of a process; the names and the order are those of `agents.wire.names.Phase`. */
enum block_phase {
    PHASE_NONE = 0,
    PHASE_SIGNALLED = 1,    /* a stop was asked for */
    PHASE_CHECKPOINTED = 2, /* the application's own handler has had its window */
    PHASE_GATED = 3,        /* nothing new goes to the driver */
    PHASE_QUIESCED = 4,     /* nothing is in flight */
    PHASE_RELEASED = 5,     /* its contexts are gone: it may die without harm */
};

/* Of the checkpoint window of a process. */
enum block_window {
    WINDOW_NONE = 0, /* it had none yet */
    WINDOW_OPEN = 1,
    WINDOW_OVER = 2, /* it had one, which an agent may have been too late to see open */
};

struct block_policy {
    /* Written once, before any process is started. */
    uint64_t magic;
    uint32_t abi;
    uint32_t page_bytes;
    uint64_t generation; /* of the block; a stats page of another generation is not ours */
    uint64_t reserved;

    /* Odd while the agent writes what follows, raised by two for each write; waited on by futex. */
    alignas(64) _Atomic uint32_t sequence;
    _Atomic uint32_t mode;               /* enum block_mode */
    _Atomic uint64_t memory_quota_bytes; /* of the whole job; 0: none */
    _Atomic uint64_t launches_per_s;     /* 0: no limit; so with the next two */
    _Atomic uint64_t blocks_per_s;
    _Atomic uint32_t inflight_cap;        /* unfinished launches on the device, of each process */
    _Atomic uint32_t duty_permille;       /* 1000: no limit */
    _Atomic uint32_t safe_duty_permille;  /* while the agent is silent */
    _Atomic uint32_t floor_duty_permille; /* in MODE_THROTTLE and in the checkpoint window */
    _Atomic uint32_t grace_ms;            /* of the checkpoint window; 0: no window */
    _Atomic uint32_t window_open;         /* 1: the agent opens the window of an emergency stop */
    _Atomic uint32_t exit_ms;             /* from the gate until the process reports STUCK */

    /* CLOCK_MONOTONIC of the agent, written several times a second outside the sequence. */
    alignas(64) _Atomic uint64_t heartbeat_ns; /* 0: no agent, never stale (a run by hand) */
};

/* What a policy can sensibly say, as F(field, least, most). Anything else is garbage. */
#define BLOCK_RANGES(F)                                   \
    F(mode, 0, MODE_EXIT)                                 \
    F(memory_quota_bytes, 0, UINT64_C(1) << 48)           \
    F(launches_per_s, 0, UINT64_C(1000000000))            \
    F(blocks_per_s, 0, UINT64_C(1000000000000000))        \
    F(inflight_cap, 0, 1000000)                           \
    F(duty_permille, 1, 1000)                             \
    F(safe_duty_permille, 1, 1000)                        \
    F(floor_duty_permille, 1, 1000)                       \
    F(grace_ms, 0, 86400000)                              \
    F(window_open, 0, 1)                                  \
    F(exit_ms, 1, 3600000)

/* What is charged, by how it was asked for. */
enum block_kind {
    KIND_DEVICE = 0, /* cuMemAlloc, cuMemAllocPitch */
    KIND_ASYNC,      /* cuMemAllocAsync, cuMemAllocFromPoolAsync */
    KIND_MANAGED,
    KIND_PHYSICAL, /* cuMemCreate */
    KIND_ARRAY,    /* arrays and mipmapped arrays */
    KIND_GRAPH,    /* allocation nodes of instantiated graphs */
    KIND_MODULE,
    KIND_SLACK, /* held by memory pools beyond what is allocated from them */
    KIND_COUNT
};

/* One per process of the job. `owner` is taken and given back by compare-and-swap. */
struct block_slot {
    /* Start time (clock ticks since boot, low 32 bits) << 32 | pid; 0: free. A pid alone would be
     * mistaken for the next process that is given the same number. */
    alignas(64) _Atomic uint64_t owner;
    _Atomic uint32_t pid_namespace; /* the number of the namespace in which `pid` counts */
    _Atomic uint32_t transit; /* threads between a change of the job's counter and of `used` */
    _Atomic uint32_t phase;   /* enum block_phase */
    _Atomic uint32_t stuck;   /* 1: a deadline passed, the agent must go on */
    _Atomic uint32_t signal;  /* that asked for the stop; 0 when the agent did */
    _Atomic int32_t fault;    /* the first fatal CUresult seen; 0: none */
    _Atomic uint32_t mode;    /* that the process has taken over */
    _Atomic uint32_t sequence; /* of the policy it has taken over */
    _Atomic uint32_t inflight; /* unfinished launches, as last counted */
    _Atomic uint32_t window;   /* enum block_window */
    _Atomic uint64_t used_bytes[KIND_COUNT];
    _Atomic uint64_t host_bytes;   /* page-locked host memory; counted, never limited */
    _Atomic uint64_t launches;     /* kernels, those of graphs included */
    _Atomic uint64_t blocks;
    _Atomic uint64_t throttled_ns; /* time that threads waited for a limit */
    _Atomic uint64_t frozen_ns;    /* and for a freeze */
    _Atomic uint64_t busy_ns;      /* time with launches in flight, measured by events */
    _Atomic uint64_t denied;       /* allocations refused for the quota */
    _Atomic uint64_t unhooked;     /* entry points of an unknown ABI, passed on unlimited */
    _Atomic uint64_t cuda_ns;      /* CLOCK_MONOTONIC of cuInit */
};

struct block_stats {
    uint64_t magic;
    uint32_t abi;
    uint32_t slots; /* BLOCK_SLOTS */
    uint64_t generation;

    /* Memory of all slots: change number (24 bits) << 40 | units of BLOCK_UNIT_BYTES. */
    alignas(64) _Atomic uint64_t used;
    _Atomic uint64_t peak_bytes;

    /* Raised when something happened that the agent should look at; it may wait by futex. */
    alignas(64) _Atomic uint32_t bell;

    struct block_slot slot[BLOCK_SLOTS];
};

struct block_files {
    struct block_policy *policy; /* read-only */
    struct block_stats *stats;
    const char *file;   /* at which opening stopped */
    const char *reason; /* why, as the end of a sentence about the file; NULL: it did not stop */
};

/* Maps and checks both files. Never waits and never fails otherwise than by `reason`. */
struct block_files block_open(const char *directory);

/* --- of this process --------------------------------------------------------------------- */

enum block_standing {
    BLOCK_HELD,    /* a valid block: its policy holds */
    BLOCK_NONE,    /* none: the limits of the environment hold, if any are set */
    BLOCK_REFUSED, /* the agent requires one and there is none: every hook returns 802 */
};

/* The last good policy. Each field is right by itself; two of them may be of two policies for an
 * instant. `duty_permille` is what holds now: the mode, a silent agent and the checkpoint window
 * are already in it. */
struct policy {
    _Atomic uint32_t mode;
    _Atomic uint64_t memory_quota_bytes;
    _Atomic uint64_t launches_per_s;
    _Atomic uint64_t blocks_per_s;
    _Atomic uint32_t inflight_cap;
    _Atomic uint32_t duty_permille;
    _Atomic uint32_t floor_duty_permille;
    _Atomic uint32_t grace_ms;
    _Atomic uint32_t window_open;
    _Atomic uint32_t exit_ms;
};

extern struct block_slot *slot;   /* of this process; a private one where there is no block */
extern struct block_stats *stats; /* likewise */

/* Opens the block or reads the environment at its first call; then one load. */
enum block_standing block_standing(void);

/* Takes a slot, once; what cuInit does. */
enum block_standing block_claim(void);

/* Gives the block up, for a reason that ends a sentence about it. */
enum block_standing block_give_up(const char *reason);

const struct policy *policy_now(void);

/* Takes over a policy that has changed; one load when it has not. Async-signal-safe, lock-free.
 * Returns true when something changed. */
bool policy_refresh(void);

/* Wakes whoever waits at the stats page. Async-signal-safe. */
void bell_ring(void);

/* Raises the phase, never lowers it, and rings. Async-signal-safe. */
void phase_reach(enum block_phase phase);

/* --- dead processes ---------------------------------------------------------------------- */

/* True when the process that owns the slot is known to be gone. */
bool slot_abandoned(const struct block_slot *slot);

/* Empties and frees the slots of dead processes and returns how many there were. The job's counter
 * still holds what they used: recount it (quota.h). */
unsigned slots_reap(struct block_stats *stats);

/* The same for slots of this very process: before it executed this program it was another one, with
 * memory that went with that. For who has none yet. */
unsigned slots_reap_own(struct block_stats *stats);

/* --- for steward.c ----------------------------------------------------------------------- */

/* What has to hold now, decided from the policy and from how long the agent has been silent. */
enum block_silence { AGENT_HEARD, AGENT_STALE, AGENT_SILENT };
enum block_silence agent_silence(uint64_t now_ns);
void duty_set_window(bool open); /* the checkpoint window: the floor duty */
_Atomic uint32_t *policy_sequence(void); /* the word to wait on */
void block_fork_child(void);     /* the slot is the parent's: go on with a private one */
