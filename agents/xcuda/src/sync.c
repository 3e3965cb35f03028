/* Where a program waits for the device. What it has launched is done afterwards, so its grant is
 * counted and its events are looked at: a program that then rests leaves nothing uncounted. */
#include "driver.h"
#include "gate.h"
#include "pools.h"

static CUresult leave_synchronised(CUresult result)
{
    gate_sync_point();
    pools_settle();
    return leave(result);
}

CUresult cuCtxSynchronize(void)
{
    CUresult result = enter(ENTRY_MEMORY);
    return result ? result : leave_synchronised(REAL(cuCtxSynchronize)());
}

CUresult cuCtxSynchronize_v2(CUcontext context)
{
    CUresult result = enter(ENTRY_MEMORY);
    return result ? result : leave_synchronised(REAL(cuCtxSynchronize_v2)(context));
}

CUresult cuStreamSynchronize(CUstream stream)
{
    CUresult result = enter(ENTRY_MEMORY);
    return result ? result : leave_synchronised(REAL(cuStreamSynchronize)(stream));
}

CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
    CUresult result = enter(ENTRY_MEMORY);
    return result ? result : leave_synchronised(REAL(cuStreamSynchronize_ptsz)(stream));
}

CUresult cuEventSynchronize(CUevent event)
{
    CUresult result = enter(ENTRY_MEMORY);
    return result ? result : leave_synchronised(REAL(cuEventSynchronize)(event));
}
