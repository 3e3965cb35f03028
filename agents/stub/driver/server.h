/* The shared file in the role of the MPS server: who its clients are, what memory they hold, who
 * died how, and the simulated GPU. Without STUB_MPS it is memory of this process alone. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gpu.h"
#include "stub.h"

#define SERVER_MAGIC UINT64_C(0x335650554d425453)

enum server_state { SERVER_ACTIVE, SERVER_FAULT, SERVER_UNDEFINED };

struct server_client {
    _Atomic uint64_t owner; /* start time in clock ticks << 32 | pid; 0: free */
    _Atomic int32_t error;  /* what every call of it returns from now on */
    uint32_t contexts;
    uint32_t unseen;     /* 1: work was queued that it has not seen finished */
    uint32_t in_fault;   /* 1: it was there when a fatal error happened */
    uint64_t used_bytes; /* device memory */
    uint64_t limit_bytes;
    uint64_t launches; /* kernels, those of graphs included */
};

struct server {
    uint64_t magic;
    pthread_mutex_t lock; /* robust: a client may die with it */
    uint64_t capacity_bytes;
    uint64_t watch_bytes;         /* 0: nothing is watched */
    _Atomic uint64_t used_bytes;  /* sum over the clients */
    uint64_t peak_bytes;
    uint64_t over_watch;          /* allocations after which more than `watch_bytes` was used */
    uint32_t state;               /* enum server_state */
    uint32_t restarts;
    uint64_t clients_seen;
    uint64_t exits_released;      /* had given its contexts back */
    uint64_t exits_idle;          /* had seen its work finish */
    uint64_t exits_failed;        /* had been told of an error, after which nothing is left to do */
    uint64_t exits_unsafe;        /* none of these */
    uint64_t exits_in_flight;     /* of the unsafe: work was still running when it was found */
    uint64_t faults;
    int32_t last_fault;
    uint32_t last_fault_pid; /* whose error it was */
    uint32_t last_unsafe_pid;
    uint64_t swept_ns;   /* when the dead were last looked for */
    uint64_t sampled_ns; /* when NVML last took a sample for GPM */
    struct server_client client[GPU_CLIENTS];
    struct gpu gpu;
};

uint64_t monotonic_ns(void);

/* Map the file, creating it when it is not there; NULL: private memory. NULL is returned, and errno
 * set, when that is not possible or the file is something else. */
struct server *server_open(const char *path);

void server_lock(struct server *server);
void server_unlock(struct server *server);

/* The following want the lock held. */

/* Look for clients whose process is gone, and draw the consequences. */
void server_sweep(struct server *server);

/* A seat for this process, or -1 with the reason in `*error`. */
int server_connect(struct server *server, CUresult *error);

/* Leave, and be counted by how. */
void server_disconnect(struct server *server, int seat);

/* A fatal error of the client in this seat is everybody's. */
void server_fault(struct server *server, int seat, CUresult code);

CUresult server_take(struct server *server, int seat, uint64_t bytes);
void server_give(struct server *server, int seat, uint64_t bytes);
