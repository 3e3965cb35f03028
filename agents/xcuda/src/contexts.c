/* Hooks of what makes and destroys contexts, and the end of them all.
 *
 * The list has no lock: a place is taken by compare-and-swap. The end comes after the gate is shut,
 * when no hook is under way any more.
 */
#include "contexts.h"

#include <stdatomic.h>
#include <stdint.h>

#include "allocations.h"
#include "batch.h"
#include "block.h"
#include "capture.h"
#include "complain.h"
#include "driver.h"
#include "fault.h"
#include "futex.h"
#include "gate.h"
#include "leaving.h"
#include "once.h"
#include "signals.h"
#include "steward.h"

enum { PLACES = 256, DEVICES = 64 };

/* What the application made: contexts of its own, and green contexts, which are another handle for
 * a part of a device. */
enum sort { SORT_CONTEXT, SORT_GREEN, SORTS };
static _Atomic(void *) made[SORTS][PLACES];

/* One primary context for each device, which is there while somebody retains it. A green context
 * does so without being asked. */
static struct primary {
    _Atomic(CUcontext) context;
    _Atomic int retained;
} primaries[DEVICES];

static _Atomic int count; /* of all of them */

bool contexts_any(void)
{
    return atomic_load(&count) > 0;
}

static bool replace(_Atomic(void *) *places, void *from, void *to)
{
    for (int i = 0; i < PLACES; i++) {
        void *found = from;
        if (atomic_load_explicit(&places[i], memory_order_relaxed) == from &&
            atomic_compare_exchange_strong(&places[i], &found, to))
            return true;
    }
    return false;
}

static void add(enum sort sort, void *handle)
{
    if (replace(made[sort], NULL, handle))
        atomic_fetch_add(&count, 1);
    else
        COMPLAIN(TROUBLE_CONTEXTS, "this process has more contexts than can be watched: one of "
                                   "them will not be waited for at its exit");
}

static void drop(enum sort sort, void *handle)
{
    if (replace(made[sort], handle, NULL))
        atomic_fetch_sub(&count, 1);
}

static struct primary *primary_of(CUdevice device)
{
    return device >= 0 && device < DEVICES ? &primaries[device] : NULL;
}

static void primary_retained(CUdevice device, CUcontext context)
{
    struct primary *primary = primary_of(device);
    if (!primary)
        return;
    atomic_store(&primary->context, context);
    if (atomic_fetch_add(&primary->retained, 1) == 0)
        atomic_fetch_add(&count, 1);
}

/* True when that was the last one. */
static bool primary_released(CUdevice device)
{
    struct primary *primary = primary_of(device);
    int retained = primary ? atomic_load(&primary->retained) : 0;
    while (retained > 0)
        if (atomic_compare_exchange_weak(&primary->retained, &retained, retained - 1)) {
            if (retained == 1)
                atomic_fetch_sub(&count, 1);
            return retained == 1;
        }
    return false;
}

static CUcontext primary_context(CUdevice device)
{
    struct primary *primary = primary_of(device);
    return primary ? atomic_load(&primary->context) : NULL;
}

/* --- hooks ----------------------------------------------------------------------------------- */

#define ENTER()                                                                                    \
    do {                                                                                           \
        CUresult entered = enter(ENTRY_MEMORY);                                                    \
        if (entered != CUDA_SUCCESS)                                                               \
            return entered;                                                                        \
    } while (0)

/* Once for a process that uses CUDA: its slot, its threads, its signals. Nothing of that is done
 * for the many processes that are merely started with us preloaded. */
static CUresult begin(void)
{
    static once begun;
    if (once_begin(&begun)) {
        if (block_claim() != BLOCK_REFUSED) {
            if (steward_start()) {
                leaving_watch();
                signals_install();
            } else {
                block_give_up("cannot be followed, since no thread can be started");
            }
        }
        gate_review(); /* for who has entered already: what is refused now is refused to all */
        once_end(&begun);
    }
    return block_standing() == BLOCK_REFUSED ? CUDA_ERROR_SYSTEM_NOT_READY : CUDA_SUCCESS;
}

/* A server that takes no new client at this moment is no fault of a process that is none yet: it
 * may try again. */
CUresult cuInit(unsigned int flags)
{
    driver_ready();
    ENTER();
    CUresult result = REAL(cuInit)(flags);
    leave(CUDA_SUCCESS);
    return result == CUDA_SUCCESS ? begin() : result;
}

static CUresult created(CUresult result, CUcontext *context)
{
    if (result == CUDA_SUCCESS)
        add(SORT_CONTEXT, *context);
    return leave(result);
}

CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
    ENTER();
    return created(REAL(cuCtxCreate)(context, flags, device), context);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    ENTER();
    return created(REAL(cuCtxCreate_v2)(context, flags, device), context);
}

CUresult cuCtxCreate_v3(CUcontext *context, void *affinity, int affinities, unsigned int flags,
                        CUdevice device)
{
    ENTER();
    return created(REAL(cuCtxCreate_v3)(context, affinity, affinities, flags, device), context);
}

CUresult cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned int flags, CUdevice device)
{
    ENTER();
    return created(REAL(cuCtxCreate_v4)(context, parameters, flags, device), context);
}

/* What went with it. */
static void forget_contents(CUcontext context)
{
    allocations_forget_context(context);
    capture_forget_context(context);
}

static CUresult destroyed(CUresult result, CUcontext context)
{
    if (result == CUDA_SUCCESS) {
        drop(SORT_CONTEXT, context);
        forget_contents(context);
    }
    return leave(result);
}

CUresult cuCtxDestroy(CUcontext context)
{
    ENTER();
    batch_forget_context(context);
    return destroyed(REAL(cuCtxDestroy)(context), context);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    ENTER();
    batch_forget_context(context);
    return destroyed(REAL(cuCtxDestroy_v2)(context), context);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER();
    CUresult result = REAL(cuDevicePrimaryCtxRetain)(context, device);
    if (result == CUDA_SUCCESS)
        primary_retained(device, *context);
    return leave(result);
}

static void primary_going(CUdevice device, int retained)
{
    struct primary *primary = primary_of(device);
    if (primary && primary_context(device) && atomic_load(&primary->retained) <= retained)
        batch_forget_context(primary_context(device));
}

static CUresult primary_release(CUresult result, CUdevice device)
{
    if (result == CUDA_SUCCESS && primary_released(device))
        forget_contents(primary_context(device));
    return leave(result);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    ENTER();
    primary_going(device, 1);
    return primary_release(REAL(cuDevicePrimaryCtxRelease)(device), device);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER();
    primary_going(device, 1);
    return primary_release(REAL(cuDevicePrimaryCtxRelease_v2)(device), device);
}

/* Those who retain it still do; it begins anew with their next call. */
static CUresult primary_reset(CUresult result, CUdevice device)
{
    if (result == CUDA_SUCCESS && primary_context(device))
        forget_contents(primary_context(device));
    return leave(result);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    ENTER();
    primary_going(device, INT32_MAX);
    return primary_reset(REAL(cuDevicePrimaryCtxReset)(device), device);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    ENTER();
    primary_going(device, INT32_MAX);
    return primary_reset(REAL(cuDevicePrimaryCtxReset_v2)(device), device);
}

CUresult cuGreenCtxCreate(CUgreenCtx *green, void *resources, CUdevice device, unsigned int flags)
{
    ENTER();
    CUresult result = REAL(cuGreenCtxCreate)(green, resources, device, flags);
    if (result == CUDA_SUCCESS)
        add(SORT_GREEN, *green);
    return leave(result);
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    ENTER();
    CUcontext context = NULL;
    if (REAL(cuCtxFromGreenCtx)(&context, green) == CUDA_SUCCESS)
        batch_forget_context(context);
    CUresult result = REAL(cuGreenCtxDestroy)(green);
    if (result == CUDA_SUCCESS) {
        drop(SORT_GREEN, green);
        capture_forget_context(context);
    }
    return leave(result);
}

/* The context that it returns is the green one under another type: it is watched already. */
CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
    ENTER();
    return leave(REAL(cuCtxFromGreenCtx)(context, green));
}

/* --- the end --------------------------------------------------------------------------------- */

typedef void visitor(CUcontext context, void *handle, enum sort sort);

static void visit_made(visitor *visit, enum sort sort)
{
    for (int i = 0; i < PLACES; i++) {
        void *handle = atomic_load(&made[sort][i]);
        CUcontext context = handle;
        if (handle && sort == SORT_GREEN)
            REAL(cuCtxFromGreenCtx)(&context, handle);
        if (handle)
            visit(context, handle, sort);
    }
}

static bool forbidden(CUresult result)
{
    return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result < 910;
}

/* Where a capture forbids it to wait, it tries again: the process must not end before. Any other
 * error means that the context has nothing in flight, for it is lost or gone. */
static void synchronise(CUcontext context)
{
    CUresult result = BORROWED(cuCtxSetCurrent)(context);
    if (result == CUDA_SUCCESS)
        while (forbidden(result = REAL(cuCtxSynchronize)()))
            nap(NS_PER_MS);
    fault_seen(result);
}

static void synchronise_made(CUcontext context, void *handle, enum sort sort)
{
    (void)handle, (void)sort;
    synchronise(context);
}

static void release_made(CUcontext context, void *handle, enum sort sort)
{
    if (sort == SORT_GREEN)
        REAL(cuGreenCtxDestroy)(handle);
    else if (REAL(cuCtxDestroy_v2)(context) == CUDA_SUCCESS)
        allocations_forget_context(context);
    drop(sort, handle);
}

static void release_primary(CUdevice device)
{
    if (REAL(cuDevicePrimaryCtxReset_v2)(device) == CUDA_SUCCESS)
        allocations_forget_context(primary_context(device));
}

/* A thread that captures a stream forbids all others to wait, unless they say that they know. */
static void disregard_captures(void)
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    BORROWED(cuThreadExchangeStreamCaptureMode)(&mode);
}

void contexts_synchronise(void)
{
    disregard_captures();
    visit_made(synchronise_made, SORT_GREEN);
    visit_made(synchronise_made, SORT_CONTEXT);
    for (CUdevice device = 0; device < DEVICES; device++)
        if (atomic_load(&primaries[device].retained) > 0)
            synchronise(primary_context(device));
}

void contexts_release(void)
{
    visit_made(release_made, SORT_GREEN);
    visit_made(release_made, SORT_CONTEXT);
    for (CUdevice device = 0; device < DEVICES; device++)
        if (atomic_load(&primaries[device].retained) > 0)
            release_primary(device);
}

void contexts_fork_child(void)
{
    atomic_store(&count, 0);
}
