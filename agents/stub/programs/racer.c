/* racer [--via ROUTE] [--rounds N] [--bytes N] [--quota BYTES] [--seed N]: run two of them.
 *
 * A round asks for memory in one of four ways and gives it back. After each that was granted, the
 * device itself is asked how much it holds; more than the quota is one over-quota event. (STUB_WATCH
 * counts them at the device as well, at every single allocation.)
 */
#include <sched.h>

#include "reach.h"

enum { DEVICE, ASYNC, PHYSICAL, MANAGED, WAYS };

static size_t bytes = (size_t)64 << 20;
static CUmemGenericAllocationHandle handle;

static CUresult take(int way, CUdeviceptr *at)
{
    CUmemAllocationProp properties = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    switch (way) {
    case DEVICE:
        return cu.cuMemAlloc(at, bytes);
    case ASYNC:
        return cu.cuMemAllocAsync(at, bytes, NULL);
    case PHYSICAL:
        return cu.cuMemCreate(&handle, bytes, &properties, 0);
    default:
        return cu.cuMemAllocManaged(at, bytes, 1);
    }
}

static void give(int way, CUdeviceptr at)
{
    if (way == ASYNC) {
        check(cu.cuMemFreeAsync(at, NULL), "cuMemFreeAsync");
        check(cu.cuStreamSynchronize(NULL), "cuStreamSynchronize");
    } else {
        check(way == PHYSICAL ? cu.cuMemRelease(handle) : cu.cuMemFree(at), "free");
    }
}

int main(int count, char **arguments)
{
    static const struct option names[] = {
        {"via", 1, 0, 'v'},   {"rounds", 1, 0, 'r'}, {"bytes", 1, 0, 'b'},
        {"quota", 1, 0, 'q'}, {"seed", 1, 0, 's'},   {0},
    };
    const char *via = "direct";
    long rounds = 1000, granted = 0, refused = 0, other = 0, over = 0;
    uint64_t quota = UINT64_MAX, device, own;
    unsigned int seed = 1;
    int option;
    while ((option = getopt_long(count, arguments, "", names, NULL)) != -1)
        switch (option) {
        case 'v': via = optarg; break;
        case 'r': rounds = atol(optarg); break;
        case 'b': bytes = (size_t)atoll(optarg); break;
        case 'q': quota = (uint64_t)atoll(optarg); break;
        case 's': seed = (unsigned int)atol(optarg); break;
        default: return 2;
        }
    CUresult (*used)(uint64_t *, uint64_t *);
    begin(via);
    *(void **)&used = by_name("stubMemoryUsed");
    say_ready();
    for (long round = 0; round < rounds; round++) {
        int way = rand_r(&seed) % WAYS;
        CUdeviceptr at = 0;
        CUresult result = take(way, &at);
        refused += result == CUDA_ERROR_OUT_OF_MEMORY;
        other += result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY;
        if (result != CUDA_SUCCESS) {
            sched_yield(); /* let the other one, who has the memory, give it back */
            continue;
        }
        granted += 1;
        used(&device, &own);
        over += device > quota;
        if (rand_r(&seed) % 16 == 0)
            sched_yield(); /* let the other one run while this one holds its memory */
        give(way, at);
    }
    used(&device, &own);
    printf("{\"rounds\": %ld, \"granted\": %ld, \"refused\": %ld, \"other\": %ld, \"over\": %ld, "
           "\"own_bytes_left\": %lu}\n",
           rounds, granted, refused, other, over, own);
    return 0;
}
