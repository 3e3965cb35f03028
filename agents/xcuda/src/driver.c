#include "driver.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "elf.h"
#include "once.h"

static CUresult before_driver(void)
{
    return CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult not_in_driver(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* These two take whatever arguments they are called with and look at none, which the calling
 * conventions of x86_64 and aarch64 allow. */
void *real_function[FUNCTION_COUNT] = {[0 ... FUNCTION_COUNT - 1] = (void *)before_driver};

/* In the order of `enum function`; the hooks are sorted by name. */
static const struct {
    const char *name;
    void *hook;
} functions[FUNCTION_COUNT] = {
#define HOOK(class, name, parameters, arguments, stream) {#name, (void *)name},
#define BASE(name)
#include "hooks.inc"
#undef HOOK
#undef BASE
#define BORROW(name, parameters) {#name, NULL},
#include "borrowed.inc"
#undef BORROW
};

static const char *const bases[] = {
#define HOOK(class, name, parameters, arguments, stream)
#define BASE(name) #name,
#include "hooks.inc"
#undef HOOK
#undef BASE
};

/* What cuGetProcAddress finds of each base, sorted by it. */
static const struct variant {
    const char *base;
    int version;
    unsigned flags;
    enum function function;
} variants[] = {
#define VARIANT(base, version, flags, name) {#base, version, flags, FUNCTION_##name},
#include "variants.inc"
#undef VARIANT
};

enum { VARIANTS = sizeof variants / sizeof *variants };

/* --- the libraries that hold the real functions ----------------------------------------------- */

static struct library {
    const char *file;
    char prefix; /* of its functions' names */
    struct elf_object object;
    once found;
} cuda = {.file = "libcuda.so", .prefix = 'c'}, nvml = {.file = "libnvidia-ml.so", .prefix = 'n'};

/* Hooks by the address of what they stand before: open addressing, filled once. */
#define MAP_SIZE 1024
_Static_assert(HOOK_COUNT * 2 < MAP_SIZE, "the map of hooks is too small");
static uint16_t map[MAP_SIZE]; /* enum function + 1; 0: empty */

static size_t map_start(const void *address)
{
    return (uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15) >> 54;
}

static void map_add(enum function function)
{
    size_t at = map_start(real_function[function]);
    while (map[at] != 0)
        at = (at + 1) % MAP_SIZE;
    map[at] = (uint16_t)(function + 1);
}

/* Keeps the library where it is: an application that opens the driver for a look, closes it and
 * opens it again would leave us with addresses of nothing. Not while others wait for us: the
 * dynamic linker holds its lock while it runs constructors, and those may ask for a function. */
static void pin(const struct elf_object *object)
{
    void *(*open)(const char *, int) = libc_function("dlopen");
    open(object->path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void fill(struct library *library)
{
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        if (functions[i].name[0] != library->prefix)
            continue;
        void *found = elf_function(&library->object, functions[i].name);
        real_function[i] = found ? found : (void *)not_in_driver;
        if (found && i < HOOK_COUNT && library == &cuda)
            map_add(i);
    }
}

static bool find(struct library *library)
{
    struct elf_object object;
    if (!elf_find(library->file, &object))
        return false;
    if (once_begin(&library->found)) {
        library->object = object;
        fill(library);
        once_end(&library->found);
        pin(&object);
    }
    return true;
}

static bool ready(struct library *library)
{
    return atomic_load_explicit(&library->found, memory_order_acquire) == ONCE_DONE ||
           find(library);
}

bool driver_ready(void)
{
    return ready(&cuda);
}

bool nvml_ready(void)
{
    return ready(&nvml);
}

bool driver_has(enum function function)
{
    return driver_ready() && real_function[function] != (void *)not_in_driver;
}

/* A program that links the driver itself has it loaded before we are initialised. */
__attribute__((constructor)) static void find_linked(void)
{
    driver_ready();
}

/* --- which hook to hand out ------------------------------------------------------------------- */

static int compare(const void *name, const void *row)
{
    return strcmp(name, *(const char *const *)row);
}

void *hook_named(const char *name)
{
    if (name[0] != cuda.prefix && name[0] != nvml.prefix)
        return NULL;
    const void *row = bsearch(name, functions, HOOK_COUNT, sizeof *functions, compare);
    return row ? functions[((const char *)row - (const char *)functions) / sizeof *functions].hook
               : NULL;
}

bool library_ready(const char *name)
{
    return ready(name[0] == nvml.prefix ? &nvml : &cuda);
}

bool library_holds(const char *name, const void *address)
{
    return library_ready(name) &&
           elf_holds(name[0] == nvml.prefix ? &nvml.object : &cuda.object, address);
}

static bool is_base(const char *name)
{
    return bsearch(name, bases, sizeof bases / sizeof *bases, sizeof *bases, compare);
}

bool hook_missing(const char *name)
{
    char base[64];
    size_t length = strlen(name);
    if (length >= sizeof base || strncmp(name, "cu", 2) != 0)
        return false;
    memcpy(base, name, length + 1);
    if (length > 5 && (!strcmp(base + length - 5, "_ptsz") || !strcmp(base + length - 5, "_ptds")))
        base[length -= 5] = '\0';
    size_t digits = length;
    while (digits > 2 && isdigit((unsigned char)base[digits - 1]))
        digits--;
    if (digits < length && !strncmp(base + digits - 2, "_v", 2))
        base[digits - 2] = '\0';
    return is_base(base) && !hook_named(name);
}

void hook_count_missing(void)
{
    atomic_fetch_add_explicit(&slot->unhooked, 1, memory_order_relaxed);
}

/* The hook that stands before the exported function at that address. A driver may export one under
 * several names; none but a variant of the base has the parameters that the caller expects. */
static void *hook_of_export(const char *base, const void *found)
{
    size_t length = strlen(base);
    for (size_t at = map_start(found); map[at] != 0; at = (at + 1) % MAP_SIZE) {
        enum function function = map[at] - 1;
        if (real_function[function] == found &&
            strncmp(functions[function].name, base, length) == 0)
            return functions[function].hook;
    }
    return NULL;
}

/* What this driver's cuGetProcAddress returns for a variant; NULL: it has none, or is older. Asked
 * once, and the answer is always the same: threads may ask at the same moment. */
static void *returned_for(const struct variant *variant)
{
    static void *_Atomic known[VARIANTS];
    void *_Atomic *answer = &known[variant - variants];
    void *found = atomic_load_explicit(answer, memory_order_relaxed);
    if (found)
        return found;
    CUresult result =
        driver_has(FUNCTION_cuGetProcAddress_v2)
            ? REAL(cuGetProcAddress_v2)(variant->base, &found, variant->version, variant->flags,
                                        &(int){0})
            : REAL(cuGetProcAddress)(variant->base, &found, variant->version, variant->flags);
    if (result != CUDA_SUCCESS)
        return NULL;
    atomic_store_explicit(answer, found, memory_order_relaxed);
    return found;
}

/* The same for a driver that returns other addresses than those that it exports: the variant is the
 * one for which it returns this very address. */
static void *hook_of_variant(const char *base, const void *found)
{
    const struct variant *at =
        bsearch(base, variants, VARIANTS, sizeof *variants, compare);
    while (at && at > variants && strcmp(at[-1].base, base) == 0)
        at--;
    for (; at && at < variants + VARIANTS && strcmp(at->base, base) == 0; at++)
        if (returned_for(at) == found)
            return functions[at->function].hook;
    return NULL;
}

void *hook_of_pointer(const char *base, void *found)
{
    void *hook = hook_of_export(base, found);
    if (hook == NULL)
        hook = hook_of_variant(base, found);
    if (hook == NULL && is_base(base))
        hook_count_missing();
    return hook ? hook : found;
}
