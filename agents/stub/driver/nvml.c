/* libnvidia-ml.so.1: what NVML says about the simulated device. */
#include <stdio.h>
#include <stdlib.h>

#include "server.h"

#define EXPORT __attribute__((visibility("default")))
#define INVALID_ARGUMENT 2
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7

typedef struct device *nvmlDevice_t;
typedef struct {
    unsigned int gpu, memory;
} nvmlUtilization_t;
typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

static struct server *server;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("STUB_MPS");
    server = server_open(path);
}

EXPORT int nvmlInit(void)
{
    return server ? 0 : NOT_FOUND;
}

EXPORT int nvmlInit_v2(void)
{
    return server ? 0 : NOT_FOUND;
}

EXPORT int nvmlShutdown(void)
{
    return 0;
}

EXPORT const char *nvmlErrorString(int code)
{
    return code ? "Error" : "Success";
}

static int text(char *out, unsigned int length, const char *value)
{
    return snprintf(out, length, "%s", value) < (int)length ? 0 : INSUFFICIENT_SIZE;
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned int length)
{
    return text(out, length, "580.00");
}

EXPORT int nvmlDeviceGetCount_v2(unsigned int *count)
{
    *count = 1;
    return 0;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    *device = (nvmlDevice_t)server;
    return index == 0 ? 0 : INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned int length)
{
    (void)device;
    return text(out, length, "Simulated GPU");
}

EXPORT int nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned int length)
{
    (void)device;
    return text(out, length, "GPU-73696d75-6c61-7465-642d-6770752d3000");
}

EXPORT int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    (void)device;
    memory->total = server->capacity_bytes;
    memory->used = server->used_bytes;
    memory->free = memory->total - memory->used;
    return 0;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    (void)device;
    memory->total = server->capacity_bytes;
    memory->used = server->used_bytes;
    memory->reserved = 0;
    memory->free = memory->total - memory->used;
    return 0;
}

/* Percent of the time since it was last asked with any kernel on the device. */
EXPORT int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    static double busy_ns, at_ns;
    (void)device;
    server_lock(server);
    gpu_advance(&server->gpu, monotonic_ns());
    double now = (double)server->gpu.now_ns, busy = server->gpu.busy_ns;
    server_unlock(server);
    double percent = now > at_ns ? 100 * (busy - busy_ns) / (now - at_ns) : 0;
    *rates = (nvmlUtilization_t){.gpu = (unsigned int)(percent + 0.5)};
    busy_ns = busy;
    at_ns = now;
    return 0;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                   nvmlProcessInfo_t *out)
{
    (void)device;
    unsigned int found = 0;
    for (int seat = 0; seat < GPU_CLIENTS; seat++) {
        uint64_t owner = server->client[seat].owner;
        if (owner && found < *count)
            out[found] = (nvmlProcessInfo_t){.pid = (unsigned int)owner,
                                             .usedGpuMemory = server->client[seat].used_bytes};
        found += owner != 0;
    }
    bool room = found <= *count;
    *count = found;
    return room ? 0 : INSUFFICIENT_SIZE;
}
