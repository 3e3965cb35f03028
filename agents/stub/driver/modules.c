/* Modules, libraries and the kernels in them. An image takes the memory of the sections that an ELF
 * file marks as allocated; of any other image nothing is known, and it takes none. */
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "handles.h"

struct image {
    uint64_t bytes;
    CUcontext context; /* NULL: a library, which belongs to none */
    struct CUfunc_st *functions;
    struct image *next;
};

static struct {
    pthread_mutex_t lock;
    struct image *first;
} images = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t loaded_bytes(const void *image)
{
    const Elf64_Ehdr *header = image;
    if (!image || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64)
        return 0;
    uint64_t total = 0;
    const Elf64_Shdr *sections = (const void *)((const char *)image + header->e_shoff);
    for (unsigned at = 0; at < header->e_shnum; at++)
        total += sections[at].sh_flags & SHF_ALLOC ? sections[at].sh_size : 0;
    return total;
}

static CUresult load(void *out, const void *image, CUcontext context)
{
    uint64_t bytes = loaded_bytes(image);
    CUresult result = bytes ? memory_take_or_trim(bytes) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        return result;
    struct image *it = calloc(1, sizeof *it);
    it->bytes = bytes;
    it->context = context;
    pthread_mutex_lock(&images.lock);
    it->next = images.first;
    images.first = it;
    pthread_mutex_unlock(&images.lock);
    *(struct image **)out = it;
    return CUDA_SUCCESS;
}

static CUresult load_file(void *out, const char *path, CUcontext context)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return (CUresult)301; /* CUDA_ERROR_FILE_NOT_FOUND */
    fstat(file, &status);
    void *image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    CUresult result = image == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : load(out, image, context);
    if (image != MAP_FAILED)
        munmap(image, (size_t)status.st_size);
    return result;
}

static void end(struct image *it)
{
    for (struct CUfunc_st *each = it->functions, *next; each; each = next) {
        next = each->next;
        free(each);
    }
    if (it->bytes)
        memory_give(it->bytes);
    free(it);
}

static CUresult unload(void *image)
{
    struct image *found = NULL;
    pthread_mutex_lock(&images.lock);
    for (struct image **at = &images.first; *at && !found;)
        if (*at == image) {
            found = *at;
            *at = found->next;
        } else {
            at = &(*at)->next;
        }
    pthread_mutex_unlock(&images.lock);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    end(found);
    return CUDA_SUCCESS;
}

void modules_end_context(CUcontext context)
{
    pthread_mutex_lock(&images.lock);
    for (struct image **at = &images.first; *at;) {
        struct image *it = *at;
        if (it->context != context) {
            at = &it->next;
            continue;
        }
        *at = it->next;
        end(it);
    }
    pthread_mutex_unlock(&images.lock);
}

/* "step_250us": its blocks take 250 µs. */
static double block_ns(const char *name)
{
    const char *digits = strrchr(name, '_');
    char *unit;
    double us = digits ? strtod(digits + 1, &unit) : 0;
    return us > 0 && strcmp(unit, "us") == 0 ? us * 1e3 : process.block_ns;
}

static CUresult function(void *out, void *owner, const char *name)
{
    struct image *image = owner;
    struct CUfunc_st *it = NULL;
    if (!image || !name || strlen(name) >= sizeof it->name)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&images.lock);
    for (it = image->functions; it && strcmp(it->name, name) != 0;)
        it = it->next;
    if (!it) {
        it = calloc(1, sizeof *it);
        strcpy(it->name, name);
        it->block_ns = block_ns(name);
        it->owner = owner;
        it->next = image->functions;
        image->functions = it;
    }
    pthread_mutex_unlock(&images.lock);
    *(struct CUfunc_st **)out = it;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    ENTER_UNSAFE();
    return load_file(module, path, context_current());
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    ENTER_UNSAFE();
    return load(module, image, context_current());
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
                                   void *options, void **values)
{
    ENTER_UNSAFE();
    (void)count, (void)options, (void)values;
    return load(module, image, context_current());
}

EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    ENTER_UNSAFE();
    return load(module, image, context_current());
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    ENTER_UNSAFE();
    return unload(module);
}

EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    ENTER();
    return function(out, module, name);
}

EXPORT CUresult cuModuleGetLoadingMode(int *mode)
{
    ENTER_WITH(NEEDS_INIT);
    *mode = 1; /* eager */
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *image, void *options,
                                  void **values, unsigned int count, void *more, void **more_values,
                                  unsigned int more_count)
{
    ENTER_UNSAFE();
    (void)options, (void)values, (void)count, (void)more, (void)more_values, (void)more_count;
    return load(library, image, NULL);
}

EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, void *options,
                                      void **values, unsigned int count, void *more,
                                      void **more_values, unsigned int more_count)
{
    ENTER_UNSAFE();
    (void)options, (void)values, (void)count, (void)more, (void)more_values, (void)more_count;
    return load_file(library, path, NULL);
}

EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
    ENTER_UNSAFE();
    return unload(library);
}

EXPORT CUresult cuLibraryGetKernel(CUfunction *kernel, CUlibrary library, const char *name)
{
    ENTER();
    return function(kernel, library, name);
}

EXPORT CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    ENTER();
    *module = (CUmodule)library;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelGetFunction(CUfunction *out, CUfunction kernel)
{
    ENTER();
    *out = kernel;
    return CUDA_SUCCESS;
}

static CUresult name_of(const char **name, CUfunction it)
{
    *name = it->name;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetName(const char **name, CUfunction it)
{
    ENTER();
    return name_of(name, it);
}

EXPORT CUresult cuKernelGetName(const char **name, CUfunction it)
{
    ENTER();
    return name_of(name, it);
}

EXPORT CUresult cuFuncGetModule(CUmodule *module, CUfunction it)
{
    ENTER();
    *module = it->owner;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction it)
{
    ENTER();
    (void)it;
    *value = attribute == 0 ? 1024 : 0; /* threads of a block */
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction it, int attribute, int value)
{
    ENTER();
    (void)it, (void)attribute, (void)value;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction it,
                                                            int block_size, size_t shared)
{
    ENTER();
    (void)it, (void)block_size, (void)shared;
    *blocks = GPU_BLOCKS_PER_SM;
    return CUDA_SUCCESS;
}
