/* The gate with real threads and a driver that knows who is inside. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../../../agents/xcuda/src/pace.c"
#undef NS_PER_S
#include "../../../../agents/xcuda/src/batch.c"
#include "../../../../agents/xcuda/src/gate.c"

#define CHECK(holds)                                                     \
    do {                                                                 \
        if (!(holds)) {                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

/* --- stand-ins ------------------------------------------------------------------------------- */

static struct policy policy = {.duty_permille = PACE_FULL_DUTY};
static struct block_slot own_slot;
struct block_slot *slot = &own_slot;
_Atomic bool contexts_released;
_Atomic uint32_t captures_active;
static _Atomic int fault;

const struct policy *policy_now(void) { return &policy; }
bool policy_refresh(void) { return false; }
enum block_standing block_standing(void) { return BLOCK_HELD; }
CUresult fault_code(void) { return (CUresult)atomic_load(&fault); }
void fault_seen(CUresult result) { (void)result; }
bool capture_on(CUstream stream) { return (void)stream, false; }
bool signals_kept(void) { return false; }
void signals_redeliver_here(void) {}
void capture_forget_thread(struct thread *thread)
{
    (void)thread;
}

void capture_fork_child(void) {}
void graph_fork_child(void) {}

static CUresult event_create(CUevent *event, unsigned flags)
{
    static _Atomic uintptr_t next;
    (void)flags;
    *event = (CUevent)(atomic_fetch_add(&next, 1) + 1);
    return CUDA_SUCCESS;
}

static CUresult succeed(void) { return CUDA_SUCCESS; }

static CUresult current_context(CUcontext *context)
{
    *context = (CUcontext)1;
    return CUDA_SUCCESS;
}

static CUresult elapsed(float *ms, CUevent begin, CUevent end)
{
    (void)begin, (void)end;
    *ms = 0.001f;
    return CUDA_SUCCESS;
}

void *real_function[FUNCTION_COUNT] = {
    [FUNCTION_cuCtxGetCurrent] = current_context,
    [FUNCTION_cuEventCreate] = event_create,
    [FUNCTION_cuEventRecord] = succeed,
    [FUNCTION_cuEventQuery] = succeed,
    [FUNCTION_cuEventElapsedTime] = elapsed,
};

/* --- threads that launch --------------------------------------------------------------------- */

static _Atomic uint32_t inside; /* in the driver, by a call that a freeze holds */
static _Atomic bool forbidden, over;
static _Atomic uint64_t launched, copied;

static void driver(_Atomic uint64_t *done)
{
    atomic_fetch_add(&inside, 1);
    CHECK(!atomic_load(&forbidden));
    atomic_fetch_sub(&inside, 1);
    atomic_fetch_add(done, 1);
}

static void *launch_or_copy(void *copies)
{
    while (!atomic_load(&over)) {
        if (!copies && enter_launch(&policy, NULL, 1, 3) == CUDA_SUCCESS) {
            driver(&launched);
            leave_launch(NULL, CUDA_SUCCESS);
        }
        if (copies && enter(ENTRY_COPY) == CUDA_SUCCESS) {
            driver(&copied);
            leave(CUDA_SUCCESS);
        }
        if (enter(ENTRY_MEMORY) == CUDA_SUCCESS)
            leave(CUDA_SUCCESS);
    }
    return NULL;
}

static void *launch_a_few(void *unused)
{
    for (int i = 0; i < 10 && enter_launch(&policy, NULL, 1, 3) == CUDA_SUCCESS; i++) {
        driver(&launched);
        leave_launch(NULL, CUDA_SUCCESS);
    }
    return unused;
}

static void nobody_is_inside_after_quiesce(void)
{
    CHECK(gate_quiesce(now_ns() + 20 * NS_PER_S));
    CHECK(atomic_load(&inside) == 0);
    atomic_store(&forbidden, true);
    nap(NS_PER_MS / 5);
    atomic_store(&forbidden, false);
}

static void a_closed_gate_has_nobody_inside(void)
{
    uint64_t own_launches = 1; /* of this thread, in the tests before */
    enum { THREADS = 3 };
    pthread_t threads[THREADS], guest;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, launch_or_copy, i ? NULL : &over);
    for (int round = 0; round < 200; round++) {
        atomic_store(&policy.inflight_cap, round % 3 ? 0 : 1000);
        pthread_create(&guest, NULL, launch_a_few, NULL);
        gate_set(GATE_FROZEN);
        nobody_is_inside_after_quiesce();
        gate_set(round % 2 ? GATE_OPEN : GATE_WINDOW);
        uint64_t before = atomic_load(&launched);
        while (atomic_load(&launched) == before)
            nap(NS_PER_MS / 20);
        pthread_join(guest, NULL);
    }
    gate_set(GATE_SHUT);
    nobody_is_inside_after_quiesce();
    gate_set(GATE_OPEN);
    CHECK(gate_current() == GATE_SHUT);
    CHECK(gate_quiesce(now_ns() + 20 * NS_PER_S));
    uint64_t all = atomic_load(&launched);

    /* After a fatal code the threads are let go, with that code. */
    atomic_store(&fault, CUDA_ERROR_ILLEGAL_ADDRESS);
    atomic_store(&over, true);
    gate_review();
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(atomic_load(&launched) == all);
    CHECK(atomic_load(&own_slot.launches) == all + own_launches);
    CHECK(atomic_load(&own_slot.blocks) == 3 * (all + own_launches));
    CHECK(enter(ENTRY_MEMORY) == CUDA_ERROR_ILLEGAL_ADDRESS && !gate_inside());
}

static void the_thread_that_leaves_passes_until_the_contexts_are_gone(void)
{
    gate_pass_self(true);
    CHECK(enter(ENTRY_COPY) == CUDA_SUCCESS && gate_inside());
    CHECK(leave(CUDA_SUCCESS) == CUDA_SUCCESS && !gate_inside());
    atomic_store(&contexts_released, true);
    CHECK(enter(ENTRY_COPY) == CUDA_ERROR_DEINITIALIZED && !gate_inside());
}

/* --- one thread ------------------------------------------------------------------------------ */

static void a_call_inside_a_call_passes_a_closed_gate(void)
{
    CHECK(enter(ENTRY_LAUNCH) == CUDA_SUCCESS);
    gate_set(GATE_FROZEN);
    CHECK(enter_launch(NULL, NULL, 1, 3) == CUDA_SUCCESS);
    leave_launch(NULL, CUDA_SUCCESS);
    CHECK(enter(ENTRY_COPY) == CUDA_SUCCESS);
    leave(CUDA_SUCCESS);
    leave(CUDA_SUCCESS);
    CHECK(!gate_inside());
    gate_set(GATE_OPEN);
}

static void a_change_takes_the_grant_of_the_old_limits(void)
{
    CHECK(enter_launch(NULL, NULL, 1, 3) == CUDA_SUCCESS);
    leave_launch(NULL, CUDA_SUCCESS);
    CHECK(self.launches_left > 1);
    atomic_store(&policy.launches_per_s, 1);
    gate_review();
    CHECK(enter(ENTRY_COPY) == CUDA_SUCCESS); /* sees the word before a launch does */
    leave(CUDA_SUCCESS);
    CHECK(self.launches_left == 0);
    atomic_store(&policy.launches_per_s, 0);
    gate_review();
}

static void a_child_starts_anew(void)
{
    CHECK(enter(ENTRY_LAUNCH) == CUDA_SUCCESS);
    leave(CUDA_SUCCESS);
    gate_set(GATE_FROZEN);
    gate_fork_prepare();
    gate_fork_child(); /* as if this were the child */
    batch_fork_child();
    CHECK(gate_current() == GATE_OPEN);
    CHECK(enter(ENTRY_LAUNCH) == CUDA_SUCCESS);
    leave(CUDA_SUCCESS);
    CHECK(gate_quiesce(now_ns() + NS_PER_S));
}

int main(void)
{
    a_call_inside_a_call_passes_a_closed_gate();
    a_change_takes_the_grant_of_the_old_limits();
    a_child_starts_anew();
    a_closed_gate_has_nobody_inside();
    the_thread_that_leaves_passes_until_the_contexts_are_gone();
    return 0;
}
