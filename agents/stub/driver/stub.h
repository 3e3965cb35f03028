/* What the stand-in driver offers beyond CUDA, for programs and tests. Its settings are environment
 * variables, read once when the library is loaded:
 *
 *   STUB_MPS=FILE          share one simulated GPU with every process that names this file
 *   STUB_GPUS=N            this machine has so many (1). FILE is GPU 0 and FILE.N is GPU N; a process
 *                          uses the first one that CUDA_VISIBLE_DEVICES names, by index or UUID
 *   STUB_NAMES=A|B         what NVML calls GPU 0, GPU 1 and so on ("Simulated GPU")
 *   STUB_TIME=1            work takes time; without it every call is done when it returns
 *   STUB_MEMORY=BYTES      of the device (80 GiB); K, M, G and KiB, MiB, GiB are understood
 *   STUB_BLOCK_US=N        what one thread block takes (20), unless the kernel's name ends in
 *                          `_<N>us`
 *   STUB_CONTENTION=X      slow-down by a neighbour on all SMs (0.2); docs/xcuda-stub.md
 *   STUB_COPY_GIB_S=N      of the copy engine (20)
 *   STUB_WATCH=BYTES       count every moment at which the device holds more than this
 *   STUB_TRAMPOLINES=1     cuGetProcAddress returns other addresses than those exported
 *   STUB_HASTY=1           exit() shuts the driver down in a handler that cuInit registers, and
 *                          what is in flight is lost
 *   STUB_FAIL=NAME:CODE[@N[+]],...   the N-th call of NAME (N and all later ones with `+`, all of
 *                          them without `@`) returns CODE; a fatal code also ends the context and
 *                          is told to the other clients
 *   STUB_FAIL_FILE=FILE    the same, read again whenever the file changes
 *   STUB_NVML=FILE         what NVML says in place of what the law says, lines of INDEX NAME VALUE:
 *                          temperature_c, power_mw, sm_clock_mhz, clocks_event_reasons, mig,
 *                          compute_mode, gpm, and xid, each line of which is one event
 *
 * CUDA_MPS_ACTIVE_THREAD_PERCENTAGE and CUDA_MPS_PINNED_DEVICE_MEM_LIMIT mean what NVIDIA says.
 */
#pragma once

#include <stdint.h>

#include "../../xcuda/src/cuda.h"

/* Bytes that the simulated device holds for all processes, and for this one. */
CUresult stubMemoryUsed(uint64_t *device_bytes, uint64_t *own_bytes);

/* Kernels, copies and host functions of this process that the device has not finished. */
CUresult stubInFlight(uint32_t *items);
