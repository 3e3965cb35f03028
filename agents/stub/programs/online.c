/* online [options]: a service that answers requests, and how long they took.
 *
 *   --via ROUTE --requests N --period-ms MS --poisson 1 --kernels N --grid BLOCKS --kernel NAME
 *
 * A request arrives (every period, or at random with that mean), launches its kernels and waits for
 * them; one that arrives while another is served waits. Prints JSON: percentiles of the time from
 * arrival to answer in ms, as this process saw it (p50_ms, p99_ms) and without what the operating
 * system added to each wake-up (device_p50_ms, device_p99_ms: to the end of the last kernel).
 */
#include <math.h>

#include "reach.h"

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(double *values, long count, double part)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    long at = (long)ceil(part * (double)count) - 1;
    return values[at < 0 ? 0 : at];
}

static double interval_s(double mean_s, bool poisson)
{
    return poisson ? -log(1.0 - drand48()) * mean_s : mean_s;
}

int main(int count, char **arguments)
{
    static const struct option names[] = {
        {"via", 1, 0, 'v'},     {"requests", 1, 0, 'r'}, {"period-ms", 1, 0, 'p'},
        {"poisson", 1, 0, 'x'}, {"kernels", 1, 0, 'n'},  {"grid", 1, 0, 'g'},
        {"kernel", 1, 0, 'k'},  {0},
    };
    const char *via = "direct", *name = "serve_500us";
    long requests = 100;
    double period_s = 0.01;
    int kernels = 4, option, poisson = 0;
    unsigned int grid = 600;
    while ((option = getopt_long(count, arguments, "", names, NULL)) != -1)
        switch (option) {
        case 'v': via = optarg; break;
        case 'r': requests = atol(optarg); break;
        case 'p': period_s = atof(optarg) / 1e3; break;
        case 'x': poisson = atoi(optarg); break;
        case 'n': kernels = atoi(optarg); break;
        case 'g': grid = (unsigned int)atol(optarg); break;
        case 'k': name = optarg; break;
        default: return 2;
        }
    begin(via);
    CUfunction function = kernel(name);
    CUstream stream;
    CUevent origin, done;
    check(cu.cuStreamCreate(&stream, 1), "cuStreamCreate");
    check(cu.cuEventCreate(&origin, 0), "cuEventCreate");
    check(cu.cuEventCreate(&done, 0), "cuEventCreate");
    check(cu.cuEventRecord(origin, stream), "cuEventRecord");
    double origin_s = now_s(); /* the stream is idle: the event happens at once */
    check(cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
    double *seen = calloc((size_t)requests, sizeof *seen);
    double *device = calloc((size_t)requests, sizeof *device);
    srand48(1);
    say_ready();
    double arrival_s = now_s();
    for (long at = 0; at < requests; at++) {
        float done_ms;
        arrival_s += interval_s(period_s, poisson);
        if (now_s() < arrival_s)
            sleep_until_s(arrival_s);
        for (int each = 0; each < kernels; each++)
            check(launch(function, grid, stream), "cuLaunchKernel");
        check(cu.cuEventRecord(done, stream), "cuEventRecord");
        check(cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
        check(cu.cuEventElapsedTime(&done_ms, origin, done), "cuEventElapsedTime");
        seen[at] = (now_s() - arrival_s) * 1e3;
        device[at] = (origin_s - arrival_s) * 1e3 + (double)done_ms;
    }
    printf("{\"requests\": %ld, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"device_p50_ms\": %.4f, "
           "\"device_p99_ms\": %.4f}\n",
           requests, percentile(seen, requests, 0.5), percentile(seen, requests, 0.99),
           percentile(device, requests, 0.5), percentile(device, requests, 0.99));
    return 0;
}
