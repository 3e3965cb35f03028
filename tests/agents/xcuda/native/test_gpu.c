/* The law of the simulated GPU, on a clock that the test turns. */
#include <math.h>
#include <string.h>

#include "../../../../agents/stub/driver/gpu.c"
#include "check.h"

#define MS 1e6
#define BEGIN UINT64_C(1000000000)

static struct gpu *gpu;

static void anew(double contention)
{
    gpu = gpu ? gpu : malloc(sizeof *gpu);
    memset(gpu, 0, sizeof *gpu);
    gpu->now_ns = BEGIN;
    gpu->contention = contention;
    for (int client = 0; client < GPU_CLIENTS; client++)
        gpu_begin(&gpu->client[client], 1.0);
}

/* A kernel that alone takes `ms` on this part of the device. */
static struct gpu_item kernel(double ms, double width)
{
    return (struct gpu_item){.kind = ITEM_KERNEL, .left = ms * MS * width, .width = (float)width};
}

static struct gpu_item copy(double ms)
{
    return (struct gpu_item){.kind = ITEM_COPY, .left = ms * MS};
}

static void at_ms(double ms)
{
    gpu_advance(gpu, BEGIN + (uint64_t)(ms * MS));
}

static bool done(uint32_t client, uint32_t queue, uint64_t position)
{
    return gpu->client[client].queue[queue].completed >= position;
}

/* Turn the clock until the item is done; when that was, to the microsecond. */
static double done_ms(uint32_t client, uint32_t queue, uint64_t position)
{
    double low = (double)(gpu->now_ns - BEGIN) / MS;
    while (!done(client, queue, position))
        at_ms(low += 0.001);
    return low;
}

static void check_ms(double is, double ought, const char *what)
{
    CHECK(fabs(is - ought) < 0.003, "%s: %.4f ms, not %.4f", what, is, ought);
}

static void alone_a_kernel_takes_its_own_time(void)
{
    anew(0.2);
    uint64_t narrow = gpu_submit(gpu, 0, 0, kernel(2, 0.25));
    check_ms(done_ms(0, 0, narrow), 2, "narrow");
    uint64_t wide = gpu_submit(gpu, 0, 0, kernel(3, 1));
    check_ms(done_ms(0, 0, wide), 5, "wide");
    CHECK(gpu->client[0].kernels == 2, "%lu", gpu->client[0].kernels);
}

static void a_stream_runs_in_order_and_streams_side_by_side(void)
{
    anew(0);
    gpu_submit(gpu, 0, 0, kernel(2, 0.5));
    uint64_t second = gpu_submit(gpu, 0, 0, kernel(2, 0.5));
    uint64_t beside = gpu_submit(gpu, 0, 1, kernel(3, 0.5));
    check_ms(done_ms(0, 1, beside), 3, "beside");
    check_ms(done_ms(0, 0, second), 4, "second");
}

static void who_comes_first_is_served_first(void)
{
    anew(0);
    uint64_t theirs = gpu_submit(gpu, 1, 0, kernel(4, 1));
    at_ms(1);
    uint64_t mine = gpu_submit(gpu, 0, 0, kernel(1, 0.5));
    check_ms(done_ms(1, 0, theirs), 4, "who was there");
    check_ms(done_ms(0, 0, mine), 5, "who waited");
}

static void a_neighbour_with_work_always_queued_delays_every_kernel(void)
{
    anew(0.2);
    for (int each = 0; each < 100; each++)
        gpu_submit(gpu, 1, 0, kernel(1, 1));
    uint64_t last = 0;
    for (int each = 0; each < 5; each++)
        last = gpu_submit(gpu, 0, 0, kernel(0.5, 0.6));
    CHECK(done_ms(0, 0, last) > 2 * 2.5, "%f", (double)(gpu->now_ns - BEGIN) / MS);
}

static void an_idle_neighbour_costs_nothing(void)
{
    anew(0.2);
    gpu_submit(gpu, 1, 0, kernel(1, 1));
    at_ms(1.001);
    uint64_t mine = gpu_submit(gpu, 0, 0, kernel(1, 1));
    check_ms(done_ms(0, 0, mine), 2.001, "after an idle neighbour");
}

static void a_share_is_a_ceiling_over_all_streams(void)
{
    anew(0);
    gpu->client[1].share = 0.4;
    uint64_t first = gpu_submit(gpu, 1, 0, kernel(2, 1));
    gpu_submit(gpu, 1, 1, kernel(2, 1));
    uint64_t mine = gpu_submit(gpu, 0, 0, kernel(2, 0.6));
    check_ms(done_ms(0, 0, mine), 2, "what the share leaves free");
    check_ms(done_ms(1, 0, first), 5, "two fifths of the device");
}

static void company_slows_by_what_it_occupies(void)
{
    anew(0.2);
    gpu_submit(gpu, 1, 0, kernel(10, 0.5));
    uint64_t mine = gpu_submit(gpu, 0, 0, kernel(1, 0.5));
    check_ms(done_ms(0, 0, mine), 1.1, "beside half a device");
}

static void copies_share_one_engine_and_leave_the_sms_alone(void)
{
    anew(0.2);
    uint64_t theirs = gpu_submit(gpu, 1, 0, copy(1));
    at_ms(0.001);
    uint64_t mine = gpu_submit(gpu, 0, 0, copy(1));
    uint64_t beside = gpu_submit(gpu, 0, 1, kernel(1, 1));
    check_ms(done_ms(1, 0, theirs), 1, "first copy");
    check_ms(done_ms(0, 1, beside), 1.001, "the kernel");
    check_ms(done_ms(0, 0, mine), 2, "second copy");
}

static void events_waits_and_host_functions_keep_the_order(void)
{
    anew(0);
    struct gpu_item event = {.kind = ITEM_EVENT, .event = 7, .generation = 3};
    gpu->client[0].event[7].generation = 3;
    gpu_submit(gpu, 0, 0, kernel(2, 1));
    uint64_t recorded = gpu_submit(gpu, 0, 0, event);
    struct gpu_item wait = {.kind = ITEM_WAIT, .wait_queue = 0, .wait_position = recorded};
    gpu_submit(gpu, 0, 1, wait);
    gpu_submit(gpu, 0, 1, (struct gpu_item){.kind = ITEM_HOST});
    uint64_t last = gpu_submit(gpu, 0, 1, kernel(1, 1));
    at_ms(5);
    CHECK(gpu->client[0].event[7].ns == BEGIN + 2000000, "%lu", gpu->client[0].event[7].ns);
    CHECK(gpu->client[0].queue[1].completed == 1, "the host function was passed over");
    CHECK(gpu_in_flight(&gpu->client[0]) == 2, "%u", gpu_in_flight(&gpu->client[0]));
    gpu->client[0].queue[1].host_done = 2;
    check_ms(done_ms(0, 1, last), 6, "after the host function");
}

static void a_full_queue_takes_no_more(void)
{
    anew(0);
    for (int each = 0; each < GPU_QUEUE_DEPTH; each++)
        CHECK(gpu_submit(gpu, 0, 0, kernel(1, 1)), "%d", each);
    CHECK(!gpu_submit(gpu, 0, 0, kernel(1, 1)), "one too many");
    at_ms(1.001);
    CHECK(gpu_submit(gpu, 0, 0, kernel(1, 1)), "no room after the first was done");
    gpu_drop(&gpu->client[0]);
    CHECK(!gpu->client[0].busy && !gpu_in_flight(&gpu->client[0]), "something was left");
}

static void submit_random(uint32_t *seed, int items)
{
    for (int each = 0; each < items; each++) {
        double ms = (1 + below(seed, 2000)) / 1000.0, width = (1 + below(seed, 20)) / 20.0;
        uint32_t client = below(seed, 3), queue = below(seed, 3);
        gpu_submit(gpu, client, queue, below(seed, 4) ? kernel(ms, width) : copy(ms));
    }
}

/* Whoever looks more often sees the same. */
static void the_outcome_does_not_depend_on_who_looks_when(void)
{
    double busy[2], sms[2];
    for (int way = 0; way < 2; way++) {
        uint32_t seed = 5;
        anew(0.2);
        submit_random(&seed, 200);
        for (double ms = 0; ms < 1000; ms += way ? 1000 : 0.1)
            at_ms(ms);
        at_ms(1000);
        busy[way] = gpu->busy_ns;
        sms[way] = gpu->client[1].sm_ns;
    }
    CHECK(fabs(busy[0] - busy[1]) < 2000, "%f and %f", busy[0], busy[1]);
    CHECK(fabs(sms[0] - sms[1]) < 2000, "%f and %f", sms[0], sms[1]);
}

static void the_device_never_rests_while_work_is_ready(void)
{
    anew(0);
    double area = 0;
    for (uint32_t each = 0; each < 60; each++) {
        gpu_submit(gpu, each % 3, each % 2, kernel(1 + each % 5, 1));
        area += 1 + each % 5;
    }
    at_ms(area + 0.001);
    for (uint32_t client = 0; client < 3; client++)
        CHECK(!gpu->client[client].busy, "client %u is not done", client);
    check_ms(gpu->busy_ns / MS, area, "busy");
}

static void nothing_ends_before_the_least_time(void)
{
    uint32_t seed = 9;
    for (int round = 0; round < 30; round++) {
        anew(0.2);
        submit_random(&seed, 40);
        const struct gpu_queue *queue = &gpu->client[0].queue[0];
        uint64_t last = queue->submitted;
        double least = gpu_least_ns(gpu, 0, 0, last) / MS;
        at_ms(least * 0.99);
        CHECK(!last || !done(0, 0, last), "round %d ended before %.3f ms", round, least);
    }
}

int main(void)
{
    alone_a_kernel_takes_its_own_time();
    a_stream_runs_in_order_and_streams_side_by_side();
    who_comes_first_is_served_first();
    a_neighbour_with_work_always_queued_delays_every_kernel();
    an_idle_neighbour_costs_nothing();
    a_share_is_a_ceiling_over_all_streams();
    company_slows_by_what_it_occupies();
    copies_share_one_engine_and_leave_the_sms_alone();
    events_waits_and_host_functions_keep_the_order();
    a_full_queue_takes_no_more();
    the_outcome_does_not_depend_on_who_looks_when();
    the_device_never_rests_while_work_is_ready();
    nothing_ends_before_the_least_time();
    return 0;
}
