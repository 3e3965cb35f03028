/* The simulated GPU: what runs when, and how fast. docs/xcuda-stub.md states the law.
 *
 * The state lies in memory that all clients share, changes only under its owner's lock and is
 * brought up to a given moment by whoever needs it: no process, thread or timer drives it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define GPU_CLIENTS 32
#define GPU_QUEUES 32        /* of one client; more streams than that share them */
#define GPU_QUEUE_DEPTH 1024 /* a launch waits while its queue is full */
#define GPU_EVENTS 4096      /* of one client */

#define GPU_SMS 100
#define GPU_BLOCKS_PER_SM 10
#define GPU_SLOTS (GPU_SMS * GPU_BLOCKS_PER_SM) /* blocks that run at once on the whole device */

enum item_kind {
    ITEM_KERNEL,
    ITEM_COPY,
    ITEM_HOST,  /* done when its process says so */
    ITEM_EVENT, /* no work; leaves the time in the client's table of events */
    ITEM_WAIT,  /* no work; done once another queue of the same client is past a position */
};

/* A position counts the items of a queue from its beginning; 0 is "before everything". */
struct gpu_item {
    double left;  /* KERNEL: whole-device ns; COPY: ns */
    float width;  /* KERNEL: part of the device that its blocks can fill; COPY: 1 from the host */
    uint16_t kind;
    uint16_t wait_queue;
    uint64_t wait_position;
    uint32_t event, generation;
};

struct gpu_queue {
    uint64_t submitted, completed; /* positions; equal when empty */
    uint64_t head_ns;              /* when the item at the head came there */
    uint64_t host_done;            /* host functions up to this position have returned */
    struct gpu_item ring[GPU_QUEUE_DEPTH];
};

struct gpu_event {
    uint64_t ns;
    uint32_t generation;
};

struct gpu_client {
    double share;        /* of the SMs that it may use */
    uint32_t busy;       /* bit i: queue i has items */
    uint64_t kernels;    /* completed */
    double sm_ns;        /* whole-device time that its kernels got */
    double busy_ns;      /* time with a kernel of it on the device */
    struct gpu_queue queue[GPU_QUEUES];
    struct gpu_event event[GPU_EVENTS];
};

struct gpu {
    uint64_t now_ns; /* the moment that the state describes, CLOCK_MONOTONIC */
    double contention;
    uint32_t busy;  /* bit i: client i may have items; of an idle one nothing is touched */
    double busy_ns; /* time with any kernel on the device */
    double sm_ns;   /* whole-device time that kernels got */
    double copy_ns, received_ns; /* time of the copy engine, and of it with copies from the host */
    struct gpu_client client[GPU_CLIENTS];
};

/* Bring the device to `now_ns`; an earlier moment changes nothing. */
void gpu_advance(struct gpu *gpu, uint64_t now_ns);

/* Append an item; returns its position, or 0 when the queue is full. */
uint64_t gpu_submit(struct gpu *gpu, uint32_t client, uint32_t queue, struct gpu_item item);

/* The least time until the queue is past the position: what is missing, as if alone. */
double gpu_least_ns(const struct gpu *gpu, uint32_t client, uint32_t queue, uint64_t position);

/* Kernels, copies and host functions not done yet. */
uint32_t gpu_in_flight(const struct gpu_client *client);

/* Give the place to a new client; positions go on from those of the last one. */
void gpu_begin(struct gpu_client *client, double share);

/* Forget what the client has queued, as when it died. */
void gpu_drop(struct gpu_client *client);
