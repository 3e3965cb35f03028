#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_BYTES (UINT64_C(80) << 30)

uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void begin(struct server *server)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&server->lock, &attributes);
    server->capacity_bytes = DEFAULT_BYTES;
    server->gpu.now_ns = monotonic_ns();
    server->gpu.contention = 0.2;
    server->magic = SERVER_MAGIC;
}

static struct server *map(int file)
{
    int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *at = mmap(NULL, sizeof(struct server), PROT_READ | PROT_WRITE, flags, file, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Made complete under another name, so that no one ever maps half a file. */
static void create(const char *path)
{
    char making[4096];
    snprintf(making, sizeof making, "%s.%d", path, (int)getpid());
    int file = open(making, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    struct server *server = ftruncate(file, sizeof *server) == 0 ? map(file) : NULL;
    if (server) {
        begin(server);
        munmap(server, sizeof *server);
        if (link(making, path) != 0 && errno != EEXIST)
            perror(path);
    }
    close(file);
    unlink(making);
}

struct server *server_open(const char *path)
{
    if (!path) {
        struct server *server = map(-1);
        if (server)
            begin(server);
        return server;
    }
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 && errno == ENOENT) {
        create(path);
        file = open(path, O_RDWR | O_CLOEXEC);
    }
    if (file < 0)
        return NULL;
    struct stat status;
    bool whole = fstat(file, &status) == 0 && (size_t)status.st_size == sizeof(struct server);
    struct server *server = whole ? map(file) : NULL;
    close(file);
    if (server && server->magic != SERVER_MAGIC) {
        munmap(server, sizeof *server);
        server = NULL;
    }
    if (!server)
        errno = EINVAL;
    return server;
}

static void recount(struct server *server)
{
    uint64_t used = 0;
    for (int seat = 0; seat < GPU_CLIENTS; seat++)
        used += server->client[seat].used_bytes;
    atomic_store(&server->used_bytes, used);
}

/* A client that died with the lock may have left the sum behind its parts. */
void server_lock(struct server *server)
{
    if (pthread_mutex_lock(&server->lock) != EOWNERDEAD)
        return;
    recount(server);
    pthread_mutex_consistent(&server->lock);
}

void server_unlock(struct server *server)
{
    pthread_mutex_unlock(&server->lock);
}

/* Start time of a live process in clock ticks; 0 when it is gone, also as a zombie. */
static uint64_t started(uint32_t pid)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    const char *rest = strrchr(text, ')');
    char state = 0;
    long threads = 0;
    unsigned long long start = 0;
    if (!rest || sscanf(rest + 1,
                        " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld "
                        "%*d %llu",
                        &state, &threads, &start) != 3)
        return 0;
    bool gone = (state == 'Z' && threads <= 1) || state == 'X';
    return gone ? 0 : start;
}

static uint64_t owner_word(uint32_t pid)
{
    uint64_t start = started(pid);
    return start ? start << 32 | pid : 0;
}

/* A server at fault is whole again once all that were there have gone. */
static void recover(struct server *server)
{
    if (server->state != SERVER_FAULT)
        return;
    for (int seat = 0; seat < GPU_CLIENTS; seat++)
        if (server->client[seat].owner && server->client[seat].in_fault)
            return;
    server->state = SERVER_ACTIVE;
}

static void vacate(struct server *server, int seat)
{
    struct server_client *client = &server->client[seat];
    gpu_drop(&server->gpu.client[seat]);
    client->used_bytes = 0;
    recount(server);
    atomic_store(&client->owner, 0);
    recover(server);
}

static void undefined(struct server *server)
{
    server->state = SERVER_UNDEFINED;
    for (int seat = 0; seat < GPU_CLIENTS; seat++)
        server->client[seat].error = CUDA_ERROR_MPS_RPC_FAILURE;
}

/* Count how a client ended; whether it was unsafe. */
static bool judge(struct server *server, int seat)
{
    struct server_client *client = &server->client[seat];
    bool unsafe = !client->error && client->unseen;
    server->exits_unsafe += unsafe;
    server->exits_failed += client->error != 0;
    server->exits_idle += !client->error && !unsafe && client->contexts;
    server->exits_released += !client->error && !unsafe && !client->contexts;
    if (unsafe) {
        server->exits_in_flight += gpu_in_flight(&server->gpu.client[seat]) > 0;
        server->last_unsafe_pid = (uint32_t)client->owner;
    }
    return unsafe;
}

/* All the dead are judged before one of them is held against the others. */
void server_sweep(struct server *server)
{
    bool unsafe = false;
    server->swept_ns = monotonic_ns();
    gpu_advance(&server->gpu, server->swept_ns);
    for (int seat = 0; seat < GPU_CLIENTS; seat++) {
        uint64_t owner = server->client[seat].owner;
        if (!owner || owner_word((uint32_t)owner) == owner)
            continue;
        unsafe |= judge(server, seat);
        vacate(server, seat);
    }
    if (unsafe)
        undefined(server);
}

int server_connect(struct server *server, CUresult *error)
{
    server_sweep(server);
    *error = server->state == SERVER_UNDEFINED ? CUDA_ERROR_MPS_RPC_FAILURE
             : server->state == SERVER_FAULT   ? CUDA_ERROR_MPS_SERVER_NOT_READY
                                               : CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED;
    if (server->state != SERVER_ACTIVE)
        return -1;
    for (int seat = 0; seat < GPU_CLIENTS; seat++) {
        if (server->client[seat].owner)
            continue;
        server->client[seat] = (struct server_client){.limit_bytes = UINT64_MAX};
        gpu_begin(&server->gpu.client[seat], 1.0);
        atomic_store(&server->client[seat].owner, owner_word((uint32_t)getpid()));
        server->clients_seen += 1;
        return seat;
    }
    return -1;
}

void server_disconnect(struct server *server, int seat)
{
    bool unsafe = judge(server, seat);
    vacate(server, seat);
    if (unsafe)
        undefined(server);
}

void server_fault(struct server *server, int seat, CUresult code)
{
    server->state = SERVER_FAULT;
    server->faults += 1;
    server->last_fault = (int32_t)code;
    server->last_fault_pid = (uint32_t)server->client[seat].owner;
    for (int each = 0; each < GPU_CLIENTS; each++) {
        struct server_client *client = &server->client[each];
        client->in_fault = client->owner != 0;
        if (client->in_fault && !client->error)
            client->error = (int32_t)code;
        /* The kernels of all of them are gone from the device. */
        gpu_drop(&server->gpu.client[each]);
        client->unseen = 0;
    }
}

CUresult server_take(struct server *server, int seat, uint64_t bytes)
{
    struct server_client *client = &server->client[seat];
    uint64_t used = server->used_bytes + bytes;
    if (used > server->capacity_bytes || client->used_bytes + bytes > client->limit_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    client->used_bytes += bytes;
    atomic_store(&server->used_bytes, used);
    if (used > server->peak_bytes)
        server->peak_bytes = used;
    server->over_watch += server->watch_bytes && used > server->watch_bytes;
    return CUDA_SUCCESS;
}

void server_give(struct server *server, int seat, uint64_t bytes)
{
    server->client[seat].used_bytes -= bytes;
    atomic_store(&server->used_bytes, server->used_bytes - bytes);
}
