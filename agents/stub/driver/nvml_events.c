/* XIDs: of a fatal error of some process on the device, and those that STUB_NVML states. */
#include "nvml.h"

#include <stdlib.h>
#include <time.h>

#define EVENT_XID 0x8
#define LOOK_EVERY_MS 10

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

/* What of a device's events this set has told. */
struct told {
    nvmlDevice_t device;
    uint64_t faults;
    unsigned int stated;
};

typedef struct {
    unsigned int count;
    struct told told[DEVICES_MOST];
} *nvmlEventSet_t;

/* What the driver logs for the error that ends the process. */
static const struct {
    int code;
    unsigned int xid;
} causes[] = {
    {214, 48}, /* a memory error that could not be corrected */
    {226, 94}, /* one that was contained */
};

static unsigned int xid_of(int code)
{
    for (size_t at = 0; at < sizeof causes / sizeof *causes; at++)
        if (causes[at].code == code)
            return causes[at].xid;
    return code == 700 ? 31 : 13; /* a page fault, or an exception of the graphics engine */
}

EXPORT int nvmlEventSetCreate(nvmlEventSet_t *set)
{
    ENTER();
    *set = calloc(1, sizeof **set);
    return *set ? NVML_SUCCESS : NVML_MEMORY;
}

EXPORT int nvmlEventSetFree(nvmlEventSet_t set)
{
    ENTER();
    free(set);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    ENTER();
    (void)device;
    *types = EVENT_XID;
    return NVML_SUCCESS;
}

/* An event is told to whoever registered before it. */
EXPORT int nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                    nvmlEventSet_t set)
{
    ENTER();
    if (types != EVENT_XID)
        return NVML_NOT_SUPPORTED;
    if (set->count == DEVICES_MOST)
        return NVML_INVALID_ARGUMENT;
    struct told *told = &set->told[set->count++];
    *told = (struct told){.device = device, .faults = device->server->faults};
    for (unsigned int code; stated_xid(device->index, told->stated, &code);)
        told->stated += 1;
    return NVML_SUCCESS;
}

/* False: nothing new. The server counts its faults from 0 again when it is made anew. */
static bool next(struct told *told, unsigned int *code)
{
    struct server *server = told->device->server;
    uint64_t faults = server->faults;
    bool fault = faults > told->faults;
    told->faults = faults;
    if (fault) {
        *code = xid_of(server->last_fault);
        return true;
    }
    bool more = stated_xid(told->device->index, told->stated, code);
    told->stated += more;
    return more;
}

static bool take(nvmlEventSet_t set, nvmlEventData_t *data)
{
    for (unsigned int at = 0; at < set->count; at++) {
        unsigned int code;
        if (!next(&set->told[at], &code))
            continue;
        *data = (nvmlEventData_t){set->told[at].device, EVENT_XID, code, UINT32_MAX, UINT32_MAX};
        return true;
    }
    return false;
}

EXPORT int nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    ENTER();
    struct timespec pause = {.tv_nsec = LOOK_EVERY_MS * 1000000};
    for (unsigned int waited_ms = 0; !take(set, data); waited_ms += LOOK_EVERY_MS) {
        if (waited_ms >= timeout_ms)
            return NVML_TIMEOUT;
        nanosleep(&pause, NULL);
    }
    return NVML_SUCCESS;
}
