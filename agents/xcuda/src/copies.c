/* Copies, fills and what else a stream does besides kernels, and events: they pass the gate, that is
 * all. */
#include "driver.h"
#include "gate.h"

#define HOOK_COPY(name, parameters, arguments, stream)                    \
    CUresult name parameters                                              \
    {                                                                     \
        CUresult held = enter_stream(ENTRY_COPY, (CUstream)(stream));     \
        return held != CUDA_SUCCESS ? held : leave(REAL(name) arguments); \
    }
#define HOOK_EVENT(name, parameters, arguments, stream)                   \
    CUresult name parameters                                              \
    {                                                                     \
        CUresult held = enter(ENTRY_MEMORY);                              \
        return held != CUDA_SUCCESS ? held : leave(REAL(name) arguments); \
    }
#define HOOK_LOADER(...)
#define HOOK_CONTEXT(...)
#define HOOK_LAUNCH(...)
#define HOOK_GRAPH(...)
#define HOOK_SYNC(...)
#define HOOK_MEMORY(...)
#define HOOK_NVML(...)

#define HOOK(class, ...) HOOK_##class(__VA_ARGS__)
#define BASE(name)
#include "hooks.inc"
