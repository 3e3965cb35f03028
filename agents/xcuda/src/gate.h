/* The gate that every hooked call passes, and the hot path of a launch.
 *
 * A thread marks itself busy, then looks at one word of the process. Whoever changes that word
 * (the helper thread, after a policy change, a stop, a fault or a silent agent) issues a
 * process-wide memory barrier (membarrier) before it reads the marks, so the hot path needs no
 * fence: either the thread sees the change, or the one who made it sees the thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda.h"

/* What a call does, which decides when the gate holds it. */
enum entry {
    ENTRY_LAUNCH, /* puts kernels on the device: charged, limited, held by a freeze */
    ENTRY_COPY,   /* copies and fills: held by a freeze, free in the checkpoint window */
    ENTRY_MEMORY, /* allocates or frees: passes a freeze, held once the gate is shut */
};

enum gate_state {
    GATE_OPEN,
    GATE_FROZEN, /* launches and copies wait; opens again */
    GATE_WINDOW, /* the checkpoint window: launches at the floor duty */
    GATE_SHUT,   /* nothing enters any more; for the exit and after a fatal error */
};

struct thread {
    _Atomic uint32_t busy; /* hooked calls that this thread is in */
    uint32_t seen;         /* the gate's word when it last looked; 0: never */
    int32_t launches_left; /* of the batch it was granted */
    int64_t blocks_left;
    struct CUstream_st *stream; /* of the batch */
    struct batch *batch;        /* its events; owned by pace.c */
    struct thread *next;        /* all threads of the process; see gate.c */
};

extern _Atomic uint32_t gate_word; /* raised by every change; never 0 */
extern _Thread_local struct thread self __attribute__((tls_model("initial-exec")));

/* Slow paths. Return CUDA_SUCCESS when the call may go on (busy is set), else what to return
 * (busy is not set). */
CUresult gate_wait_launch(CUstream stream, int64_t launches, int64_t blocks);
CUresult gate_wait(enum entry entry);

/* A fatal code gates the process and wakes the agent; see fault.c. */
void fault_seen(CUresult result);

static inline void mark_busy(uint32_t by)
{
    atomic_store_explicit(&self.busy,
                          atomic_load_explicit(&self.busy, memory_order_relaxed) + by,
                          memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

static inline CUresult enter_launch(CUstream stream, int64_t blocks)
{
    mark_busy(1);
    bool pass = self.seen == atomic_load_explicit(&gate_word, memory_order_relaxed);
    pass &= (self.launches_left -= 1) >= 0;
    pass &= (self.blocks_left -= blocks) >= 0;
    pass &= self.stream == stream;
    return __builtin_expect(pass, 1) ? CUDA_SUCCESS : gate_wait_launch(stream, 1, blocks);
}

static inline CUresult enter(enum entry entry)
{
    mark_busy(1);
    bool pass = self.seen == atomic_load_explicit(&gate_word, memory_order_relaxed);
    return __builtin_expect(pass, 1) ? CUDA_SUCCESS : gate_wait(entry);
}

static inline CUresult leave(CUresult result)
{
    mark_busy(-1u);
    if (__builtin_expect(result != CUDA_SUCCESS, 0))
        fault_seen(result);
    return result;
}
