/* Every entry point of the driver that nothing is simulated for: found under its own name and at
 * its own address, but not supported. Weak, so that what another file defines takes its place. */
#include "process.h"

/* The name is given by the assembler, since one symbol may serve several versions. */
#define ENTRY(base, version, per_thread, symbol)                                                   \
    __attribute__((used)) static CUresult none_##base##_##version##_##per_thread(void)             \
    {                                                                                              \
        CUresult early = is_special() ? enter_special(#symbol, NEEDS_INIT) : CUDA_SUCCESS;         \
        return early ? early : CUDA_ERROR_NOT_SUPPORTED;                                           \
    }                                                                                              \
    __asm__(".weak " #symbol "\n.set " #symbol ", none_" #base "_" #version "_" #per_thread);

#include "entry_points.inc"
#include "graphics_points.inc"
