/* libnvidia-ml.so.1: which simulated devices there are, what each holds and for whom. What NVML
 * says and where it has that from stands in docs/xcuda-stub.md. */
#include "nvml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failures.h"

#define DRIVER_VERSION "580.00"
#define CUDA_VERSION 13000
#define EXCLUSIVE_PROCESS 3
#define SWEEP_EVERY_NS 100000000u

typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

static struct {
    pthread_mutex_t lock;
    unsigned int users, count;
    bool shared, failing;
    struct device device[DEVICES_MOST];
} nvml = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* False when the shared file of the device cannot be used. */
static bool open_device(struct device *device, unsigned int index)
{
    char file[4096];
    const char *path = device_file(index, file, sizeof file), *memory = getenv("STUB_MEMORY");
    device->index = index;
    device->server = server_open(path);
    if (!device->server) {
        fprintf(stderr, "stub NVML: cannot use %s: %s\n", path, strerror(errno));
        return false;
    }
    if (memory)
        device->server->capacity_bytes = device_size(memory);
    pthread_mutex_init(&device->lock, NULL);
    return true;
}

/* Once; the devices stay what they are until the process ends. */
static bool open_all(void)
{
    unsigned int count = device_count();
    for (; nvml.count < count; nvml.count++)
        if (!open_device(&nvml.device[nvml.count], nvml.count))
            return false;
    nvml.shared = getenv("STUB_MPS") != NULL;
    return true;
}

__attribute__((constructor)) static void begin(void)
{
    nvml.failing = failures_read();
}

EXPORT int nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    int failure = nvml.failing ? (int)failure_due(__func__) : NVML_SUCCESS;
    if (failure)
        return failure;
    pthread_mutex_lock(&nvml.lock);
    bool open = open_all();
    nvml.users += open;
    pthread_mutex_unlock(&nvml.lock);
    return open ? NVML_SUCCESS : NVML_NOT_FOUND;
}

EXPORT int nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

EXPORT int nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

int nvml_enter(const char *symbol)
{
    if (!nvml.users)
        return NVML_UNINITIALIZED;
    return nvml.failing ? (int)failure_due(symbol) : NVML_SUCCESS;
}

EXPORT int nvmlShutdown(void)
{
    ENTER();
    pthread_mutex_lock(&nvml.lock);
    nvml.users -= nvml.users > 0;
    pthread_mutex_unlock(&nvml.lock);
    return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(int code)
{
    return code ? "Error" : "Success";
}

static int text(char *out, unsigned int length, const char *value)
{
    bool fits = snprintf(out, length, "%s", value) < (int)length;
    return fits ? NVML_SUCCESS : NVML_INSUFFICIENT_SIZE;
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned int length)
{
    ENTER();
    return text(out, length, DRIVER_VERSION);
}

EXPORT int nvmlSystemGetNVMLVersion(char *out, unsigned int length)
{
    ENTER();
    return text(out, length, "13." DRIVER_VERSION);
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    ENTER();
    *version = CUDA_VERSION;
    return NVML_SUCCESS;
}

/* --- which devices there are ----------------------------------------------------------------- */

EXPORT int nvmlDeviceGetCount_v2(unsigned int *count)
{
    ENTER();
    *count = nvml.count;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    ENTER();
    *device = index < nvml.count ? &nvml.device[index] : NULL;
    return *device ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    ENTER();
    for (*device = nvml.device; *device < nvml.device + nvml.count; ++*device) {
        char own[UUID_TEXT];
        device_uuid_text((*device)->index, own);
        if (strcmp(own, uuid) == 0)
            return NVML_SUCCESS;
    }
    return NVML_NOT_FOUND;
}

EXPORT int nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    ENTER();
    *index = device->index;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned int length)
{
    ENTER();
    char name[96];
    device_name(device->index, name, sizeof name);
    return text(out, length, name);
}

EXPORT int nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned int length)
{
    ENTER();
    char uuid[UUID_TEXT];
    device_uuid_text(device->index, uuid);
    return text(out, length, uuid);
}

EXPORT int nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    ENTER();
    *pci = (nvmlPciInfo_t){.bus = 1 + device->index};
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:00.0", pci->domain, pci->bus);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:00.0", pci->domain, pci->bus);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    ENTER();
    (void)device;
    *major = 9;
    *minor = 0;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *now, unsigned int *next)
{
    ENTER();
    *now = *next = stated(device->index).mig == 1;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode)
{
    ENTER();
    long said = stated(device->index).compute_mode;
    *mode = said >= 0 ? (unsigned int)said : nvml.shared ? EXCLUSIVE_PROCESS : 0;
    return NVML_SUCCESS;
}

/* --- what it holds, and for whom -------------------------------------------------------------- */

/* A driver frees what a process held when it ends; here that is when somebody looks. */
static void sweep(struct server *server)
{
    if (nvml.shared && monotonic_ns() - server->swept_ns > SWEEP_EVERY_NS)
        server_sweep(server);
}

static uint64_t used_bytes(nvmlDevice_t device)
{
    server_lock(device->server);
    sweep(device->server);
    uint64_t used = device->server->used_bytes;
    server_unlock(device->server);
    return used;
}

EXPORT int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    ENTER();
    memory->total = device->server->capacity_bytes;
    memory->used = used_bytes(device);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    ENTER();
    if (memory->version != (sizeof *memory | 2u << 24))
        return NVML_VERSION_MISMATCH;
    memory->total = device->server->capacity_bytes;
    memory->used = used_bytes(device);
    memory->reserved = 0;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

/* Each process that has a context on the device. */
static int processes(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *out)
{
    struct server *server = device->server;
    unsigned int found = 0;
    server_lock(server);
    sweep(server);
    for (int seat = 0; seat < GPU_CLIENTS; seat++) {
        uint64_t owner = server->client[seat].owner;
        if (owner && found < *count)
            out[found] = (nvmlProcessInfo_t){.pid = (unsigned int)owner,
                                             .usedGpuMemory = server->client[seat].used_bytes,
                                             .gpuInstanceId = UINT32_MAX,
                                             .computeInstanceId = UINT32_MAX};
        found += owner != 0;
    }
    server_unlock(server);
    bool room = found <= *count;
    *count = found;
    return room ? NVML_SUCCESS : NVML_INSUFFICIENT_SIZE;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                   nvmlProcessInfo_t *out)
{
    ENTER();
    return processes(device, count, out);
}

/* The shared file is an MPS server, so whoever shares it is its client. */
EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                      nvmlProcessInfo_t *out)
{
    ENTER();
    if (nvml.shared)
        return processes(device, count, out);
    *count = 0;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                    nvmlProcessInfo_t *out)
{
    ENTER();
    (void)device;
    (void)out;
    *count = 0;
    return NVML_SUCCESS;
}
