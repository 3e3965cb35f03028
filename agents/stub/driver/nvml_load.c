/* How busy a device is: utilisation, GPM, PCIe; and from that its clock, power and temperature. */
#include "nvml.h"

#include <stdlib.h>

/* Of the simulated card. */
#define SM_CLOCK_MAX_MHZ 1980
#define SM_CLOCK_IDLE_MHZ 345
#define MEMORY_CLOCK_MHZ 2619
#define POWER_LIMIT_MW 700000
#define POWER_IDLE_MW 70000
#define POWER_BUSY_MW 500000 /* more, with all SMs in use */
#define TEMPERATURE_IDLE_C 32
#define TEMPERATURE_BUSY_C 40 /* more, with all SMs in use */
#define BANDWIDTH_BUSY 0.5    /* of its peak, with all SMs in use */
#define BANDWIDTH_COPY 0.01   /* of its peak, by the copy engine */
#define PCIE_GENERATION 5
#define PCIE_WIDTH 16

#define LATELY_NS 100000000u
#define MIB_PER_GIB 1024.0
#define REASON_IDLE 0x1
#define CLOCK_MEMORY 2
#define PCIE_TX 0

typedef struct {
    unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct {
    unsigned int version;
    int sensorType, temperature;
} nvmlTemperature_t;

typedef struct counters *nvmlGpmSample_t;

typedef struct {
    unsigned int metricId;
    int nvmlReturn;
    double value;
    struct {
        const char *shortName, *longName, *unit;
    } metricInfo;
} nvmlGpmMetric_t;

typedef struct {
    unsigned int version, numMetrics;
    nvmlGpmSample_t sample1, sample2;
    nvmlGpmMetric_t metrics[];
} nvmlGpmMetricsGet_t;

typedef struct {
    unsigned int version, isSupportedDevice;
} nvmlGpmSupport_t;

static struct counters counters_now(nvmlDevice_t device)
{
    struct gpu *gpu = &device->server->gpu;
    server_lock(device->server);
    gpu_advance(gpu, monotonic_ns());
    struct counters now = {gpu->now_ns, gpu->busy_ns, gpu->sm_ns, gpu->copy_ns, gpu->received_ns};
    server_unlock(device->server);
    return now;
}

static double part(double before, double after, double ns)
{
    double of = (after - before) / ns;
    return of < 0 ? 0 : of > 1 ? 1 : of;
}

static struct load load_between(struct counters from, struct counters to)
{
    double ns = (double)(to.at_ns - from.at_ns);
    return (struct load){part(from.busy_ns, to.busy_ns, ns), part(from.sm_ns, to.sm_ns, ns),
                         part(from.copy_ns, to.copy_ns, ns),
                         part(from.received_ns, to.received_ns, ns)};
}

/* Since somebody asked last; who asks again at once gets the same answer. */
static struct load lately(nvmlDevice_t device)
{
    struct counters now = counters_now(device);
    pthread_mutex_lock(&device->lock);
    if (now.at_ns - device->since.at_ns >= LATELY_NS) {
        device->lately = device->since.at_ns ? load_between(device->since, now) : (struct load){0};
        device->since = now;
    }
    struct load load = device->lately;
    pthread_mutex_unlock(&device->lock);
    return load;
}

static unsigned int either(long said, double otherwise)
{
    return said >= 0 ? (unsigned int)said : (unsigned int)(otherwise + 0.5);
}

static double bandwidth(struct load load)
{
    return part(0, BANDWIDTH_BUSY * load.sm + BANDWIDTH_COPY * load.copy, 1);
}

static double received_mib_s(struct load load)
{
    const char *text = getenv("STUB_COPY_GIB_S");
    return load.received * (text ? strtod(text, NULL) : 20) * MIB_PER_GIB;
}

EXPORT int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    ENTER();
    struct load load = lately(device);
    rates->gpu = (unsigned int)(100 * load.busy + 0.5);
    rates->memory = (unsigned int)(100 * bandwidth(load) + 0.5);
    return NVML_SUCCESS;
}

/* --- clocks, power, temperature ---------------------------------------------------------------- */

EXPORT int nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int clock, unsigned int *mhz)
{
    ENTER();
    (void)device;
    *mhz = clock == CLOCK_MEMORY ? MEMORY_CLOCK_MHZ : SM_CLOCK_MAX_MHZ;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetClockInfo(nvmlDevice_t device, int clock, unsigned int *mhz)
{
    ENTER();
    bool idle = lately(device).busy == 0;
    *mhz = clock == CLOCK_MEMORY
               ? MEMORY_CLOCK_MHZ
               : either(stated(device->index).sm_clock_mhz,
                        idle ? SM_CLOCK_IDLE_MHZ : SM_CLOCK_MAX_MHZ);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    ENTER();
    long said = stated(device->index).clocks_event_reasons;
    *reasons = either(said, lately(device).busy == 0 ? REASON_IDLE : 0);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *milliwatts)
{
    ENTER();
    (void)device;
    *milliwatts = POWER_LIMIT_MW;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts)
{
    ENTER();
    *milliwatts = either(stated(device->index).power_mw,
                         POWER_IDLE_MW + POWER_BUSY_MW * lately(device).sm);
    return NVML_SUCCESS;
}

static unsigned int temperature_c(nvmlDevice_t device)
{
    return either(stated(device->index).temperature_c,
                  TEMPERATURE_IDLE_C + TEMPERATURE_BUSY_C * lately(device).sm);
}

EXPORT int nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int *celsius)
{
    ENTER();
    (void)sensor;
    *celsius = temperature_c(device);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *asked)
{
    ENTER();
    if (asked->version != (sizeof *asked | 1u << 24))
        return NVML_VERSION_MISMATCH;
    asked->temperature = (int)temperature_c(device);
    return NVML_SUCCESS;
}

/* --- PCIe --------------------------------------------------------------------------------------- */

EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation)
{
    ENTER();
    (void)device;
    *generation = PCIE_GENERATION;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
    ENTER();
    (void)device;
    *width = PCIE_WIDTH;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
    ENTER();
    (void)device;
    *width = PCIE_WIDTH;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetPcieThroughput(nvmlDevice_t device, int counter, unsigned int *kib_s)
{
    ENTER();
    if (counter == PCIE_TX)
        return NVML_NOT_SUPPORTED;
    *kib_s = (unsigned int)(received_mib_s(lately(device)) * 1024);
    return NVML_SUCCESS;
}

/* --- GPM: what happened between two samples ------------------------------------------------------ */

EXPORT int nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    ENTER();
    support->isSupportedDevice = stated(device->index).gpm != 0;
    return NVML_SUCCESS;
}

EXPORT int nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    ENTER();
    *sample = calloc(1, sizeof **sample);
    return *sample ? NVML_SUCCESS : NVML_MEMORY;
}

EXPORT int nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    ENTER();
    free(sample);
    return NVML_SUCCESS;
}

EXPORT int nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    ENTER();
    if (stated(device->index).gpm == 0)
        return NVML_NOT_SUPPORTED;
    *sample = counters_now(device);
    device->server->sampled_ns = sample->at_ns;
    return NVML_SUCCESS;
}

/* By the law the blocks of a kernel fill one SM after another, so an SM in use is a full one. */
static int metric(unsigned int number, struct load load, double *value)
{
    switch (number) {
    case 1: *value = 100 * load.busy; return NVML_SUCCESS;
    case 2: *value = 100 * load.sm; return NVML_SUCCESS;
    case 3: *value = 100 * load.sm; return NVML_SUCCESS;
    case 10: *value = 100 * bandwidth(load); return NVML_SUCCESS;
    case 21: *value = received_mib_s(load); return NVML_SUCCESS;
    default: return NVML_NOT_SUPPORTED;
    }
}

EXPORT int nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *request)
{
    ENTER();
    if (request->version != 1)
        return NVML_VERSION_MISMATCH;
    if (!request->sample1->at_ns || request->sample2->at_ns <= request->sample1->at_ns)
        return NVML_INVALID_ARGUMENT;
    struct load load = load_between(*request->sample1, *request->sample2);
    for (unsigned int at = 0; at < request->numMetrics; at++) {
        nvmlGpmMetric_t *asked = &request->metrics[at];
        asked->nvmlReturn = metric(asked->metricId, load, &asked->value);
    }
    return NVML_SUCCESS;
}
