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

/* Every hook is a function of the name that the driver exports; all files share this declaration. */
#define HOOK(class, name, parameters, arguments) \
    PUBLIC CUresult name parameters;             \
    typedef CUresult real_##name parameters;
#define BASE(name)
#define BORROW(name, parameters) typedef CUresult real_##name parameters;
#include "borrowed.inc"
#include "hooks.inc"
#undef HOOK
#undef BORROW

enum function {
#define HOOK(class, name, parameters, arguments) FUNCTION_##name,
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

extern void *real_function[FUNCTION_COUNT];

/* REAL(cuMemFree_v2)(pointer): what the hook of that name stands before. */
#define REAL(name) ((real_##name *)real_function[FUNCTION_##name])
/* BORROWED(cuEventQuery)(event): a driver function that is not hooked. */
#define BORROWED(name) REAL(name)

/* Fills `real_function` from the driver once that is loaded; false: it is not. Cheap when done. */
bool driver_ready(void);

/* Whether this driver has the function. */
bool driver_has(enum function function);

/* The hook to hand out for a function that was found under `name`, or `found` itself. */
void *driver_hook_for_name(const char *name, void *found);
/* The same for one that cuGetProcAddress returned for the base name `base`. */
void *driver_hook_for_pointer(const char *base, void *found);
