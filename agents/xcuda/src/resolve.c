/* Hooks of what programs find the driver's functions with.
 *
 * Only a name that we hook, found in the driver itself, is answered with a hook. Everything else
 * ends in a tail call, so that the C library sees our caller as its own: what RTLD_NEXT and
 * RTLD_DEFAULT mean depends on who calls.
 */
#include <dlfcn.h>
#include <stdatomic.h>

#include "driver.h"
#include "elf.h"

typedef void *dlsym_function(void *handle, const char *name);
typedef void *dlvsym_function(void *handle, const char *name, const char *version);

PUBLIC dlsym_function dlsym;
PUBLIC dlvsym_function dlvsym;

/* Looked up at first use: a constructor of another library may come before ours. */
static void *once(void *_Atomic *kept, const char *name)
{
    void *function = atomic_load_explicit(kept, memory_order_relaxed);
    if (__builtin_expect(function == NULL, 0)) {
        function = libc_function(name);
        atomic_store_explicit(kept, function, memory_order_relaxed);
    }
    return function;
}

static dlsym_function *real_dlsym(void)
{
    static void *_Atomic kept;
    return (dlsym_function *)once(&kept, "dlsym");
}

static dlvsym_function *real_dlvsym(void)
{
    static void *_Atomic kept;
    return (dlvsym_function *)once(&kept, "dlvsym");
}

static void *look_up(void *handle, const char *name, const char *version)
{
    return version ? real_dlvsym()(handle, name, version) : real_dlsym()(handle, name);
}

static char undecided[1]; /* its address: the C library is to answer */

/* Not inlined: its frame would keep the caller from ending in a tail call. */
__attribute__((noinline)) static void *decide(void *handle, const char *name, const char *version)
{
    void *hook = hook_named(name);
    if (hook == NULL) {
        if (hook_missing(name) && library_holds(name, look_up(handle, name, version)))
            hook_count_missing();
        return undecided;
    }
    void *found = look_up(handle, name, version);
    /* We are in the program's scope and so the first to be found there. Without a driver behind us
     * the honest answer is the one that the program would get without us. */
    if (found == hook)
        return library_ready(name) ? hook : look_up(RTLD_NEXT, name, version);
    if (found == NULL)
        return NULL;
    return library_holds(name, found) ? hook : undecided;
}

/* Most names are not of the driver: mostly one look at their first letter. */
static bool foreign(const char *name)
{
    return !(name[0] == 'c' && name[1] == 'u') && !(name[0] == 'n' && name[1] == 'v');
}

void *dlsym(void *handle, const char *name)
{
    void *answer = foreign(name) ? undecided : decide(handle, name, NULL);
    return answer == undecided ? real_dlsym()(handle, name) : answer;
}

void *dlvsym(void *handle, const char *name, const char *version)
{
    void *answer = foreign(name) ? undecided : decide(handle, name, version);
    return answer == undecided ? real_dlvsym()(handle, name, version) : answer;
}

/* The driver decides what is found and what is returned; a variant that we hook is then replaced by
 * its hook. A runtime calls these before cuInit. */
static CUresult replace(CUresult result, const char *base, void **function)
{
    if (result == CUDA_SUCCESS && base && function && *function)
        *function = hook_of_pointer(base, *function);
    return result;
}

CUresult cuGetProcAddress(const char *base, void **function, int version, unsigned long long flags)
{
    driver_ready();
    return replace(REAL(cuGetProcAddress)(base, function, version, flags), base, function);
}

CUresult cuGetProcAddress_v2(const char *base, void **function, int version,
                             unsigned long long flags, void *status)
{
    driver_ready();
    return replace(REAL(cuGetProcAddress_v2)(base, function, version, flags, status), base,
                   function);
}
