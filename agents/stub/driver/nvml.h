/* What the files of libnvidia-ml.so.1 share: a device, what it did lately, and NVML's structures. */
#pragma once

#include <pthread.h>

#include "devices.h"
#include "server.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    NVML_SUCCESS = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_TIMEOUT = 10,
    NVML_MEMORY = 20,
    NVML_VERSION_MISMATCH = 25,
};

/* What the device has done since it was made, at one moment. */
struct counters {
    uint64_t at_ns;
    double busy_ns, sm_ns, copy_ns, received_ns;
};

/* Parts of a stretch of time: with any kernel on the device, of its SMs in use, of its copy engine
 * in use, of it receiving from the host. */
struct load {
    double busy, sm, copy, received;
};

/* What a person or a test says of a device in the place of what the law says; -1: nothing. */
struct stated {
    long temperature_c, power_mw, sm_clock_mhz, clocks_event_reasons, mig, compute_mode, gpm;
};

typedef struct device {
    unsigned int index;
    struct server *server;
    pthread_mutex_t lock; /* of what follows */
    struct counters since;
    struct load lately;
} *nvmlDevice_t;

/* Every entry point begins with ENTER(): NVML is in use, and STUB_FAIL has no code for the call. */
int nvml_enter(const char *symbol);
#define ENTER()                                                                                    \
    do {                                                                                           \
        int early = nvml_enter(__func__);                                                          \
        if (early)                                                                                 \
            return early;                                                                          \
    } while (0)

/* NULL for an index that is none. */
nvmlDevice_t nvml_device(unsigned int index);

/* nvml_stated.c: what STUB_NVML says of a device, read again whenever the file changes. */
struct stated stated(unsigned int index);

/* The number-th XID that it states for the device, from 0; false when there are not so many. */
bool stated_xid(unsigned int index, unsigned int number, unsigned int *code);
