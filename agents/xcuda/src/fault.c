#include "fault.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "block.h"
#include "complain.h"
#include "gate.h"

static _Atomic int first;

/* The context is lost, or the MPS server or our place at it. */
static bool is_fatal(CUresult result)
{
    switch ((int)result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR ... CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_MPS_RPC_FAILURE:
    case CUDA_ERROR_MPS_SERVER_NOT_READY:
    case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
        return true;
    default:
        return false;
    }
}

void fault_seen(CUresult result)
{
    int none = CUDA_SUCCESS;
    if (!is_fatal(result) || !atomic_compare_exchange_strong(&first, &none, (int)result))
        return;
    slot->fault = (int)result;
    gate_set(GATE_SHUT);
    bell_ring();
    struct decimal code;
    COMPLAIN(TROUBLE_FAULT, "the driver returned the fatal code ", decimal(&code, result),
             ": no further call reaches it");
}

CUresult fault_code(void)
{
    return (CUresult)atomic_load(&first);
}
