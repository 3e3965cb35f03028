/* Hooks of modules and libraries. Code and global variables take memory of the device; an ELF image
 * (a cubin) states how much. Of PTX and of fat binaries it is not known, and nothing is charged. */
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "charge.h"

#define SECTIONS_MOST 65536 /* an image that states more is not one */

/* What the image, of which `length` bytes may be read, puts on the device; 0: not known. */
static uint64_t image_bytes(const void *image, uint64_t length)
{
    const Elf64_Ehdr *header = image;
    if (image == NULL || length < SELFMAG || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        length < sizeof *header || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shoff % alignof(Elf64_Shdr) ||
        header->e_shoff > length ||
        header->e_shnum > (length - header->e_shoff) / sizeof(Elf64_Shdr))
        return 0;
    const Elf64_Shdr *section = (const void *)((const char *)image + header->e_shoff);
    uint64_t bytes = 0;
    for (int i = 0; i < header->e_shnum; i++)
        if (section[i].sh_flags & SHF_ALLOC &&
            __builtin_add_overflow(bytes, section[i].sh_size, &bytes))
            return 0;
    return bytes;
}

/* The driver reads as much of an image as the image says, so may we. */
static uint64_t loaded_bytes(const void *image)
{
    return image_bytes(image, UINT64_MAX);
}

static uint64_t file_bytes(const char *path)
{
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return 0;
    off_t length = lseek(file, 0, SEEK_END);
    void *image = length > 0 ? mmap(NULL, (size_t)length, PROT_READ, MAP_PRIVATE, file, 0)
                             : MAP_FAILED;
    close(file);
    if (image == MAP_FAILED)
        return 0;
    uint64_t bytes = image_bytes(image, (uint64_t)length);
    munmap(image, (size_t)length);
    return bytes;
}

/* A module goes with its context, a library with none. `made` is read once the driver wrote it. */
#define LOAD(kind_of_space, made, size, of_context, real_call)                                  \
    do {                                                                                        \
        CUresult result;                                                                        \
        uint64_t bytes = (size);                                                                \
        if (!begin_charged(KIND_MODULE, bytes, &result))                                        \
            return result;                                                                      \
        result = (real_call);                                                                   \
        return end_charged(                                                                     \
            result, &(struct allocation){.space = (kind_of_space),                              \
                                         .kind = KIND_MODULE,                                   \
                                         .value = result ? 0 : (uintptr_t)*(made),              \
                                         .bytes = bytes,                                        \
                                         .context = result ? NULL : (of_context)});             \
    } while (0)

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    LOAD(SPACE_MODULE, module, file_bytes(path), current_context(),
         REAL(cuModuleLoad)(module, path));
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    LOAD(SPACE_MODULE, module, loaded_bytes(image), current_context(),
         REAL(cuModuleLoadData)(module, image));
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, void *options,
                            void **values)
{
    LOAD(SPACE_MODULE, module, loaded_bytes(image), current_context(),
         REAL(cuModuleLoadDataEx)(module, image, count, options, values));
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    LOAD(SPACE_MODULE, module, 0, current_context(), REAL(cuModuleLoadFatBinary)(module, image));
}

CUresult cuModuleUnload(CUmodule module)
{
    FREE(SPACE_MODULE, module, REAL(cuModuleUnload)(module));
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, void *jit_options,
                           void **jit_values, unsigned int jit_count, void *options, void **values,
                           unsigned int count)
{
    LOAD(SPACE_LIBRARY, library, loaded_bytes(code), NULL,
         REAL(cuLibraryLoadData)(library, code, jit_options, jit_values, jit_count, options, values,
                                 count));
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, void *jit_options,
                               void **jit_values, unsigned int jit_count, void *options,
                               void **values, unsigned int count)
{
    LOAD(SPACE_LIBRARY, library, file_bytes(path), NULL,
         REAL(cuLibraryLoadFromFile)(library, path, jit_options, jit_values, jit_count, options,
                                     values, count));
}

CUresult cuLibraryUnload(CUlibrary library)
{
    FREE(SPACE_LIBRARY, library, REAL(cuLibraryUnload)(library));
}
