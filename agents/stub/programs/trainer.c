/* trainer --checkpoint FILE [--via ROUTE] [--steps N] [--kernels N] [--grid BLOCKS] [--kernel NAME]
 *         [--save-ms MS]
 *
 * Trains step by step. At SIGTERM it sets a flag, as trainers do, and saves at the next step
 * boundary: it copies its state back and writes it piece by piece over `save-ms`, the word
 * "complete" last. Exits 0; prints JSON.
 */
#include <signal.h>

#include "reach.h"

#define PIECES 8
#define STATE_BYTES (1 << 20)

static volatile sig_atomic_t told;

static void set_flag(int signal)
{
    told = signal;
}

static void save(const char *path, CUdeviceptr state, long steps, double save_s)
{
    static char copy[STATE_BYTES];
    check(cu.cuMemcpyDtoH(copy, state, sizeof copy), "cuMemcpyDtoH");
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        exit(4);
    }
    double begun_s = now_s();
    for (int piece = 1; piece <= PIECES; piece++) {
        fprintf(file, "step %ld, piece %d\n", steps, piece);
        fflush(file);
        sleep_until_s(begun_s + save_s * piece / PIECES);
    }
    fprintf(file, "complete\n");
    fclose(file);
}

int main(int count, char **arguments)
{
    static const struct option names[] = {
        {"via", 1, 0, 'v'},  {"checkpoint", 1, 0, 'f'}, {"steps", 1, 0, 's'}, {"kernels", 1, 0, 'n'},
        {"grid", 1, 0, 'g'}, {"kernel", 1, 0, 'k'},     {"save-ms", 1, 0, 'm'}, {0},
    };
    const char *via = "direct", *path = NULL, *name = "train_500us";
    long steps = 1000000, step = 0;
    int kernels = 4, option;
    unsigned int grid = 1000;
    double save_s = 0.02;
    while ((option = getopt_long(count, arguments, "", names, NULL)) != -1)
        switch (option) {
        case 'v': via = optarg; break;
        case 'f': path = optarg; break;
        case 's': steps = atol(optarg); break;
        case 'n': kernels = atoi(optarg); break;
        case 'g': grid = (unsigned int)atol(optarg); break;
        case 'k': name = optarg; break;
        case 'm': save_s = atof(optarg) / 1e3; break;
        default: return 2;
        }
    if (!path) {
        fprintf(stderr, "%s: --checkpoint FILE\n", arguments[0]);
        return 2;
    }
    signal(SIGTERM, set_flag);
    begin(via);
    CUfunction function = kernel(name);
    CUstream stream;
    CUdeviceptr state;
    check(cu.cuStreamCreate(&stream, 1), "cuStreamCreate");
    check(cu.cuMemAlloc(&state, STATE_BYTES), "cuMemAlloc");
    say_ready();
    for (; step < steps && !told; step++) {
        for (int each = 0; each < kernels; each++)
            check(launch(function, grid, stream), "cuLaunchKernel");
        check(cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
    }
    save(path, state, step, save_s);
    printf("{\"steps\": %ld, \"signal\": %d}\n", step, (int)told);
    return 0;
}
