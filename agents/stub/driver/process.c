#include "process.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices.h"

#define UNIT_BYTES 512
#define SWEEP_EVERY_NS 10000000u

struct process process = {.seat = -1, .special = SPECIAL_NO_INIT | SPECIAL_NO_CONTEXT};

void special_set(enum special what)
{
    atomic_fetch_or(&process.special, what);
}

void special_clear(enum special what)
{
    atomic_fetch_and(&process.special, ~(uint32_t)what);
}

static double number(const char *name, double otherwise)
{
    const char *text = getenv(name);
    return text ? strtod(text, NULL) : otherwise;
}

/* "0=1G,1=512MB": that of device 0. */
static uint64_t pinned_limit(void)
{
    const char *text = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    const char *mine = text ? strstr(text, "0=") : NULL;
    return mine ? device_size(mine + 2) : UINT64_MAX;
}

static double thread_share(void)
{
    double percent = number("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", 100);
    double sms = floor(percent * GPU_SMS / 100);
    return (sms < 1 ? 1 : sms > GPU_SMS ? GPU_SMS : sms) / GPU_SMS;
}

static void forked(void)
{
    special_set(SPECIAL_FORKED);
}

static void settings_of_the_device(struct server *server)
{
    const char *memory = getenv("STUB_MEMORY"), *watch = getenv("STUB_WATCH");
    server_lock(server);
    if (memory)
        server->capacity_bytes = device_size(memory);
    if (watch)
        server->watch_bytes = device_size(watch);
    server->gpu.contention = number("STUB_CONTENTION", server->gpu.contention);
    server_unlock(server);
}

__attribute__((constructor)) static void begin(void)
{
    char file[4096];
    const char *path = device_file(device_visible(), file, sizeof file);
    process.timed = number("STUB_TIME", 0) > 0;
    process.trampolines = number("STUB_TRAMPOLINES", 0) > 0;
    process.hasty = number("STUB_HASTY", 0) > 0;
    process.block_ns = 1e3 * number("STUB_BLOCK_US", 20);
    process.copy_ns_per_byte = 1e9 / ldexp(number("STUB_COPY_GIB_S", 20), 30);
    process.limit_bytes = pinned_limit();
    process.share = thread_share();
    process.server = server_open(path);
    if (!process.server) {
        fprintf(stderr, "stub driver: cannot use STUB_MPS=%s: %s\n", path, strerror(errno));
        abort();
    }
    settings_of_the_device(process.server);
    special_set((process.timed ? SPECIAL_TIMED : 0) | (path ? SPECIAL_SHARED : 0) |
                (failures_read() ? SPECIAL_FAILURES : 0));
    pthread_atfork(NULL, NULL, forked);
}

/* What drivers do at exit(): wait, give back, say goodbye. */
__attribute__((destructor)) static void end(void)
{
    if (process.special & (SPECIAL_FORKED | SPECIAL_ENDED) || process.seat < 0)
        return;
    if (!process.server->client[process.seat].error && !process.hasty)
        streams_finish();
    special_set(SPECIAL_ENDED);
    server_lock(process.server);
    process.server->client[process.seat].contexts = 0;
    server_disconnect(process.server, process.seat);
    server_unlock(process.server);
}

void process_initialised(void)
{
    static atomic_flag registered = ATOMIC_FLAG_INIT;
    if (process.hasty && !atomic_flag_test_and_set(&registered))
        atexit(end);
}

CUresult process_connect(void)
{
    if (process.seat >= 0)
        return CUDA_SUCCESS;
    CUresult error;
    server_lock(process.server);
    int seat = server_connect(process.server, &error);
    if (seat >= 0) {
        process.server->client[seat].limit_bytes = process.limit_bytes;
        process.server->gpu.client[seat].share = process.share;
        process.seat = seat;
    }
    server_unlock(process.server);
    return seat >= 0 ? CUDA_SUCCESS : error;
}

void process_contexts(uint32_t count)
{
    process.server->client[process.seat].contexts = count;
    if (count)
        special_clear(SPECIAL_NO_CONTEXT);
    else
        special_set(SPECIAL_NO_CONTEXT);
}

static void sweep_now_and_then(void)
{
    if (monotonic_ns() - process.server->swept_ns < SWEEP_EVERY_NS)
        return;
    server_lock(process.server);
    server_sweep(process.server);
    server_unlock(process.server);
}

/* The error that the server has for this process. */
static CUresult standing(void)
{
    if (process.seat < 0)
        return CUDA_SUCCESS;
    if (process.special & SPECIAL_SHARED)
        sweep_now_and_then();
    return (CUresult)process.server->client[process.seat].error;
}

static CUresult fail(CUresult code)
{
    if (is_fatal(code) && process.seat >= 0) {
        server_lock(process.server);
        server_fault(process.server, process.seat, code);
        server_unlock(process.server);
    }
    return code;
}

CUresult enter_special(const char *symbol, enum needs needs)
{
    uint32_t special = process.special;
    if (special & SPECIAL_ENDED)
        return CUDA_ERROR_DEINITIALIZED;
    if (special & SPECIAL_FORKED && needs > NEEDS_NOTHING)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult code = special & SPECIAL_FAILURES ? failure_due(symbol) : CUDA_SUCCESS;
    if (code)
        return fail(code);
    if (needs == NEEDS_NOTHING)
        return CUDA_SUCCESS;
    if (special & SPECIAL_NO_INIT)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (needs == NEEDS_INIT)
        return CUDA_SUCCESS;
    if (special & SPECIAL_NO_CONTEXT)
        return CUDA_ERROR_INVALID_CONTEXT;
    code = standing();
    if (code == CUDA_SUCCESS && needs == NEEDS_NO_CAPTURE && special & SPECIAL_CAPTURE)
        code = capture_disturbed();
    return code;
}

uint64_t rounded(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Without other processes the sum is all there is, and needs no lock. */
static CUresult take_alone(uint64_t bytes)
{
    struct server *server = process.server;
    uint64_t used = atomic_fetch_add_explicit(&server->used_bytes, bytes, memory_order_relaxed);
    if (__builtin_expect(
            used + bytes > server->capacity_bytes || used + bytes > process.limit_bytes, 0)) {
        atomic_fetch_sub(&server->used_bytes, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static bool alone(void)
{
    return !(process.special & SPECIAL_SHARED);
}

bool memory_exceeds(uint64_t bytes)
{
    return bytes > process.server->capacity_bytes;
}

CUresult memory_take(uint64_t bytes)
{
    if (memory_exceeds(bytes))
        return CUDA_ERROR_OUT_OF_MEMORY; /* before it is rounded up to more than fits into 64 bits */
    bytes = rounded(bytes, UNIT_BYTES);
    if (alone())
        return take_alone(bytes);
    server_lock(process.server);
    CUresult result = process.special & SPECIAL_ENDED
                          ? CUDA_ERROR_DEINITIALIZED
                          : server_take(process.server, process.seat, bytes);
    server_unlock(process.server);
    return result;
}

void memory_give(uint64_t bytes)
{
    bytes = rounded(bytes, UNIT_BYTES);
    if (alone()) {
        atomic_fetch_sub_explicit(&process.server->used_bytes, bytes, memory_order_relaxed);
        return;
    }
    server_lock(process.server);
    if (!(process.special & SPECIAL_ENDED))
        server_give(process.server, process.seat, bytes);
    server_unlock(process.server);
}

uint64_t memory_total_bytes(void)
{
    uint64_t capacity = process.server->capacity_bytes;
    return capacity < process.limit_bytes ? capacity : process.limit_bytes;
}

uint64_t memory_free_bytes(void)
{
    struct server *server = process.server;
    uint64_t left = server->capacity_bytes - server->used_bytes;
    uint64_t own = alone() || process.seat < 0 ? server->used_bytes
                                               : server->client[process.seat].used_bytes;
    uint64_t mine = process.limit_bytes > own ? process.limit_bytes - own : 0;
    return left < mine ? left : mine;
}

EXPORT CUresult stubMemoryUsed(uint64_t *device_bytes, uint64_t *own_bytes)
{
    *device_bytes = process.server->used_bytes;
    *own_bytes = alone()            ? *device_bytes
                 : process.seat < 0 ? 0
                                    : process.server->client[process.seat].used_bytes;
    return CUDA_SUCCESS;
}

EXPORT CUresult stubInFlight(uint32_t *items)
{
    *items = 0;
    if (process.seat < 0)
        return CUDA_SUCCESS;
    server_lock(process.server);
    gpu_advance(&process.server->gpu, monotonic_ns());
    *items = gpu_in_flight(&process.server->gpu.client[process.seat]);
    server_unlock(process.server);
    return CUDA_SUCCESS;
}
