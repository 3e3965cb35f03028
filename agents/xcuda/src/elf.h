/* Functions of loaded libraries, found without asking the dynamic linker's public interface.
 *
 * We define `dlsym` ourselves and may be called before anything is initialised, so the real one,
 * and whatever else we stand before in libc, is looked up in the loaded images.
 */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct elf_object {
    const char *path;
    uintptr_t base;
    uintptr_t start, end; /* of what is mapped */
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *gnu_hash, *sysv_hash; /* one of the two may be NULL */
};

/* The first loaded library whose file name begins with `prefix`; false: none. */
bool elf_find(const char *prefix, struct elf_object *object);

/* The address of a function that the object defines; NULL: it does not. */
void *elf_function(const struct elf_object *object, const char *name);

/* Whether an address lies in the object; never in one that was not found (all zero). */
static inline bool elf_holds(const struct elf_object *object, const void *address)
{
    return (uintptr_t)address - object->start < object->end - object->start;
}

/* The C library's own function of that name, in whichever of its files it is. Never NULL: without
 * it nothing can work, so the process is aborted with a line on stderr. */
void *libc_function(const char *name);
