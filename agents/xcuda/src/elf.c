#include "elf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct search {
    const char *prefix;
    struct elf_object *object;
};

/* Not strcmp and its kin: a sanitizer that is preloaded too stands in for those, and asks our dlsym
 * for the real ones before its own work. */
static bool same(const char *one, const char *other)
{
    for (; *one && *one == *other; one++, other++)
        ;
    return *one == *other;
}

static bool begins_with(const char *path, const char *prefix)
{
    const char *name = path;
    for (const char *at = path; *at; at++)
        if (*at == '/')
            name = at + 1;
    for (; *prefix && *name == *prefix; name++, prefix++)
        ;
    return !*prefix;
}

static void read_dynamic(struct elf_object *object, const ElfW(Dyn) *entry)
{
    for (; entry->d_tag != DT_NULL; entry++) {
        /* glibc writes the loaded addresses into the table; other loaders leave offsets. */
        uintptr_t address = entry->d_un.d_ptr;
        const void *at = (const void *)(address < object->base ? object->base + address : address);
        switch (entry->d_tag) {
        case DT_SYMTAB: object->symbols = at; break;
        case DT_STRTAB: object->strings = at; break;
        case DT_GNU_HASH: object->gnu_hash = at; break;
        case DT_HASH: object->sysv_hash = at; break;
        }
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct search *search = data;
    if (!begins_with(info->dlpi_name, search->prefix))
        return 0;
    struct elf_object object = {
        .path = info->dlpi_name, .base = info->dlpi_addr, .start = UINTPTR_MAX};
    const ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = object.base + header->p_vaddr, end = start + header->p_memsz;
        if (header->p_type == PT_DYNAMIC)
            dynamic = (const void *)start;
        if (header->p_type == PT_LOAD) {
            object.start = start < object.start ? start : object.start;
            object.end = end > object.end ? end : object.end;
        }
    }
    if (dynamic == NULL)
        return 0;
    read_dynamic(&object, dynamic);
    if (!object.symbols || !object.strings || (!object.gnu_hash && !object.sysv_hash))
        return 0;
    *search->object = object;
    return 1;
}

bool elf_find(const char *prefix, struct elf_object *object)
{
    struct search search = {prefix, object};
    return dl_iterate_phdr(visit, &search) == 1;
}

/* A name may be defined in several versions; all of those that we look up take the same call. */
static bool defines(const struct elf_object *object, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &object->symbols[index];
    return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
           same(object->strings + symbol->st_name, name);
}

/* Index of the symbol in the table that a GNU hash section sorts; 0: none. */
static uint32_t find_gnu(const struct elf_object *object, const char *name)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;

    const uint32_t *table = object->gnu_hash;
    uint32_t buckets = table[0], first = table[1], bloom_words = table[2];
    const uint32_t *bucket = table + 4 + bloom_words * sizeof(ElfW(Addr)) / sizeof(uint32_t);
    const uint32_t *chain = bucket + buckets - first;
    uint32_t index = buckets ? bucket[hash % buckets] : 0;
    if (index < first)
        return 0;
    for (;; index++) {
        if ((chain[index] | 1) == (hash | 1) && defines(object, index, name))
            return index;
        if (chain[index] & 1)
            return 0;
    }
}

static uint32_t find_sysv(const struct elf_object *object, const char *name)
{
    uint32_t hash = 0;
    for (const char *c = name; *c; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }

    const uint32_t *table = object->sysv_hash;
    const uint32_t *bucket = table + 2, *chain = bucket + table[0];
    uint32_t index = table[0] ? bucket[hash % table[0]] : 0;
    while (index != 0 && !defines(object, index, name))
        index = chain[index];
    return index;
}

void *elf_function(const struct elf_object *object, const char *name)
{
    uint32_t index = object->gnu_hash ? find_gnu(object, name) : find_sysv(object, name);
    return index ? (void *)(object->base + object->symbols[index].st_value) : NULL;
}

void *libc_function(const char *name)
{
    /* One file since glibc 2.34, three before. */
    static const char *const files[] = {"libc.so", "libdl.so", "libpthread.so"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct elf_object object;
        void *found = elf_find(files[i], &object) ? elf_function(&object, name) : NULL;
        if (found)
            return found;
    }
    static const char message[] = "xcuda: the C library lacks a function that every one has: ";
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    (void)!write(STDERR_FILENO, name, strlen(name));
    (void)!write(STDERR_FILENO, "\n", 1);
    abort();
}
