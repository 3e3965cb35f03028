/* The driver's own functions behind our hooks.
 *
 * `real_function` holds one address for each row of hooks.inc and borrowed.inc. Until a driver has
 * been found an entry leads to a function that returns CUDA_ERROR_NOT_INITIALIZED, so that REAL()
 * may be called without a check; one that this driver lacks returns CUDA_ERROR_NOT_SUPPORTED.
 */
#pragma once

#include <stdbool.h>

#include "cuda.h"

#define PUBLIC __attribute__((visibility("default")))

/* Every hook is a function of the name that the driver exports, declared here for all files. */
#define HOOK(class, name, parameters, arguments, stream) \
    PUBLIC CUresult name parameters;                     \
    typedef CUresult real_##name parameters;
#define BASE(name)
#define BORROW(name, parameters) typedef CUresult real_##name parameters;
#include "borrowed.inc"
#include "hooks.inc"
#undef HOOK
#undef BORROW

enum function {
#define HOOK(class, name, parameters, arguments, stream) FUNCTION_##name,
#include "hooks.inc"
#undef HOOK
    HOOK_COUNT,
    BEFORE_BORROWED = HOOK_COUNT - 1,
#define BORROW(name, parameters) FUNCTION_##name,
#include "borrowed.inc"
#undef BORROW
    FUNCTION_COUNT
};
#undef BASE

extern void *real_function[FUNCTION_COUNT] __attribute__((visibility("hidden")));

/* REAL(cuMemFree_v2)(pointer): what the hook of that name stands before. */
#define REAL(name) ((real_##name *)real_function[FUNCTION_##name])
/* BORROWED(cuEventCreate)(&event, 0): a driver function that is not hooked. */
#define BORROWED(name) REAL(name)

/* Fills `real_function` from the driver, or from NVML, once that is loaded; false: it is not. Cheap
 * when done. */
bool driver_ready(void);
bool nvml_ready(void);

/* Whether this driver has the function. */
bool driver_has(enum function function);

/* --- for resolve.c ---------------------------------------------------------------------------- */

/* The hook of exactly that exported name; NULL: it is not ours. */
void *hook_named(const char *name);

/* Whether the library that such a name belongs to is loaded, and holds the address. */
bool library_ready(const char *name);
bool library_holds(const char *name, const void *address);

/* Whether a name is a variant, unknown to us, of something that we mean to hook. */
bool hook_missing(const char *name);
void hook_count_missing(void);

/* What to hand out for a function that cuGetProcAddress found for the base name `base`. It is known
 * by its address, which is that of an export or the one that the driver returns for a variant that
 * we know; so versions and flags are the driver's business alone. One that is not known is handed
 * out as it is, and counted if it should have been hooked. */
void *hook_of_pointer(const char *base, void *found);
