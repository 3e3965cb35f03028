/* The gate that every hooked call passes, and the hot path of a launch.
 *
 * A thread marks itself busy, then looks at one word of the process. Whoever changes that word
 * (the steward thread, after a policy change, a stop, a fault or a silent agent) issues a
 * process-wide memory barrier (membarrier) before it reads the marks, so the hot path needs no
 * fence: either the thread sees the change, or the one who made it sees the thread.
 *
 * A launch also counts down a grant, so many launches and blocks that the limits allow the thread
 * without another look at the clock. What is left of a grant is given back with the next one.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda.h"
#include "fault.h"

/* What a call does, which decides when the gate holds it. */
enum entry {
    ENTRY_LAUNCH, /* puts kernels on the device: charged, limited, held by a freeze */
    ENTRY_COPY,   /* copies and fills: held by a freeze, free in the checkpoint window */
    ENTRY_MEMORY, /* allocates, frees or waits: passes a freeze, held once the gate is shut */
};

enum gate_state {
    GATE_OPEN,
    GATE_FROZEN, /* launches and copies wait; opens again */
    GATE_WINDOW, /* the checkpoint window: launches at the floor duty */
    GATE_SHUT,   /* nothing enters any more, for ever; for the exit and after a fatal error */
};

struct thread {
    _Atomic uint32_t busy; /* hooked calls that this thread is in */
    uint32_t seen;         /* the gate's word when it last looked; 0: look at every call */
    _Atomic int64_t launches_left; /* of its grant */
    _Atomic int64_t blocks_left;
    CUstream stream;         /* of its last launch */
    struct bracket *bracket; /* the events around the launch under way; batch.h */

    /* Out of the hot path. */
    _Atomic int64_t launches_counted; /* what was left when its launches were last counted */
    _Atomic int64_t blocks_counted;
    int64_t uncovered; /* launches since the last one that events were put around */
    uint32_t random;
    uint32_t idle_since; /* the gate's word after which it was seen outside all calls */
    uint32_t farewells;  /* times the C library has said that the thread ends */
    bool known;         /* listed in gate.c */
    bool launches;      /* has launched: takes part in what the limits divide by threads */
    _Atomic bool passes; /* ends the process, and may pass a shut gate */
    struct thread *next;
};

#define HIDDEN __attribute__((visibility("hidden"))) /* reached without the table of offsets */

extern HIDDEN _Atomic uint32_t gate_word; /* raised by every change; never 0 */
extern HIDDEN _Thread_local struct thread self __attribute__((tls_model("initial-exec")));

/* --- for hooks ---------------------------------------------------------------------------- */

/* Slow paths. Return CUDA_SUCCESS when the call may go on (busy is set), else what to return
 * (busy is not set). */
CUresult gate_wait_launch(const void *what, CUstream stream, int64_t launches, int64_t blocks);
CUresult gate_wait(enum entry entry);
CUresult gate_wait_stream(enum entry entry, CUstream stream);
void batch_close(CUstream stream, CUresult result);

/* After the caller has waited for the device, still inside its call. */
void gate_sync_point(void);

static inline void mark_busy(uint32_t by)
{
    uint32_t busy = atomic_load_explicit(&self.busy, memory_order_relaxed);
    atomic_store_explicit(&self.busy, busy + by, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}

static inline bool gate_unchanged(void)
{
    return self.seen == atomic_load_explicit(&gate_word, memory_order_relaxed);
}

/* Only its own thread changes a grant; others may read it. */
static inline bool take_of_grant(_Atomic int64_t *left, int64_t amount)
{
    int64_t rest = atomic_load_explicit(left, memory_order_relaxed) - amount;
    atomic_store_explicit(left, rest, memory_order_relaxed);
    return rest >= 0;
}

/* `what`: the kernel or graph; `stream`: as a function without _ptsz would be told it. */
static inline CUresult enter_launch(const void *what, CUstream stream, int64_t launches,
                                    int64_t blocks)
{
    mark_busy(1);
    bool pass = gate_unchanged();
    pass &= take_of_grant(&self.launches_left, launches);
    pass &= take_of_grant(&self.blocks_left, blocks);
    pass &= self.stream == stream;
    return __builtin_expect(pass, 1) ? CUDA_SUCCESS
                                     : gate_wait_launch(what, stream, launches, blocks);
}

static inline CUresult enter(enum entry entry)
{
    mark_busy(1);
    return __builtin_expect(gate_unchanged(), 1) ? CUDA_SUCCESS : gate_wait(entry);
}

/* As enter(), for what a capturing stream merely records and a freeze must not hold. */
static inline CUresult enter_stream(enum entry entry, CUstream stream)
{
    mark_busy(1);
    return __builtin_expect(gate_unchanged(), 1) ? CUDA_SUCCESS : gate_wait_stream(entry, stream);
}

static inline CUresult leave(CUresult result)
{
    mark_busy(-1u);
    if (__builtin_expect(result != CUDA_SUCCESS, 0))
        fault_seen(result);
    return result;
}

static inline CUresult leave_launch(CUstream stream, CUresult result)
{
    if (__builtin_expect(self.bracket != NULL, 0))
        batch_close(stream, result);
    return leave(result);
}

/* --- for who steers the process ----------------------------------------------------------- */

/* Changes the state and makes every thread see it before its next driver call; does nothing when
 * it is so already. A shut gate stays shut. Async-signal-safe. */
void gate_set(enum gate_state state);
enum gate_state gate_current(void);

/* Limits have changed: every thread asks for a new grant at its next launch. Async-signal-safe. */
void gate_review(void);

/* Until then even a shut gate lets pass what a capture needs to come to its end. */
void gate_hold_captures(void);

/* Waits until each other thread has been outside all hooked calls since the gate was last set: what
 * the gate holds back is then in no call. False: the deadline came first. */
bool gate_quiesce(uint64_t deadline_ns);

/* The calling thread may pass a shut gate from now on: it ends the process. */
void gate_pass_self(bool pass);

/* True when the calling thread is inside a hooked call. Async-signal-safe. */
static inline bool gate_inside(void)
{
    return atomic_load_explicit(&self.busy, memory_order_relaxed) != 0;
}

/* Around fork: no other thread is changing the list of threads at that moment; and in the child
 * there is one thread, an open gate and nothing in flight. */
void gate_fork_prepare(void);
void gate_fork_parent(void);
void gate_fork_child(void);

