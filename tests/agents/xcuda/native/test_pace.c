/* The pace of launches, on a clock that the test turns. */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "../../../../agents/xcuda/src/pace.c"
#include "check.h"

#define MS UINT64_C(1000000)
#define START (5 * NS_PER_S)

static uint32_t seed = 20240229;

static const struct limits UNLIMITED = {.duty_permille = PACE_FULL_DUTY};

/* --- a program that launches whenever it may ------------------------------------------------- */

struct program {
    struct pace pace;
    struct limits limits;
    uint64_t now_ns;
    uint32_t threads;
    uint64_t launched, blocks;
};

static struct program program(struct limits limits)
{
    return (struct program){.limits = limits, .now_ns = START, .threads = 1};
}

/* One grant as a thread gets it, all of it launched at once; returns its launches. */
static struct amount launch(struct program *program, int64_t blocks_each)
{
    struct amount asked = {1, blocks_each};
    struct amount grant =
        pace_grant(&program->pace, &program->limits, asked, program->threads, below(&seed, 1u << 31));
    uint64_t delay;
    while ((delay = pace_delay_ns(&program->pace, &program->limits, grant, program->now_ns)))
        program->now_ns += delay + below(&seed, 100000); /* a sleep is never exact */
    pace_charge(&program->pace, &program->limits, grant, program->now_ns);
    int64_t used = 1;
    while (used < grant.launches && (used + 1) * blocks_each <= grant.blocks)
        used++;
    struct amount back = {grant.launches - used, grant.blocks - used * blocks_each};
    if (back.blocks > 0 || back.launches > 0)
        pace_credit(&program->pace, &program->limits, back);
    program->launched += (uint64_t)used;
    program->blocks += (uint64_t)(used * blocks_each);
    return (struct amount){used, used * blocks_each};
}

/* The most in any 20 ms, in units of what the rate allows in that time. */
static double largest_burst(struct program *program, uint64_t rate, bool of_blocks)
{
    enum { KEPT = 1 << 16 };
    static uint64_t at[KEPT], count[KEPT];
    size_t made = 0, from = 0;
    uint64_t end = program->now_ns + NS_PER_S, sum = 0, most = 0;
    while (program->now_ns < end && made < KEPT) {
        struct amount amount = launch(program, of_blocks ? 1 + below(&seed, 5) : 1);
        at[made] = program->now_ns;
        count[made] = (uint64_t)(of_blocks ? amount.blocks : amount.launches);
        sum += count[made++];
        while (at[made - 1] - at[from] > 20 * MS)
            sum -= count[from++];
        most = larger(most, sum);
    }
    return (double)most / ((double)rate * 0.02);
}

static void a_rate_is_held_and_its_bursts_are_short(void)
{
    static const uint64_t rates[] = {200, 1000, 10000, 50000};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct program program_ = program(UNLIMITED), *it = &program_;
        it->limits.launches_per_s = rates[i];
        launch(it, 1);
        double burst = largest_burst(it, rates[i], false);
        double rate = (double)it->launched / ((double)(it->now_ns - START) / 1e9);
        CHECK(rate > 0.9 * (double)rates[i] && rate < 1.1 * (double)rates[i], "%.0f of %" PRIu64,
              rate, rates[i]);
        CHECK(burst <= 2, "%.2f at %" PRIu64, burst, rates[i]);
    }
}

static void blocks_are_held_like_launches(void)
{
    struct program it = program(UNLIMITED);
    it.limits.blocks_per_s = 100000;
    launch(&it, 1);
    double burst = largest_burst(&it, 100000, true);
    double rate = (double)it.blocks / ((double)(it.now_ns - START) / 1e9);
    CHECK(rate > 90000 && rate < 110000, "%.0f", rate);
    CHECK(burst <= 2, "%.2f", burst);
}

/* Earlier limits would have let it rest for an hour; only the bucket may be full. */
static void a_pause_earns_no_more_than_the_bucket(void)
{
    struct program it = program(UNLIMITED);
    it.limits.launches_per_s = 1000;
    launch(&it, 1);
    it.now_ns += 3600 * NS_PER_S;
    uint64_t before = it.launched, resumed = it.now_ns;
    while (it.now_ns == resumed)
        launch(&it, 1);
    CHECK(it.launched - before <= 1000 * PACE_BURST_NS / NS_PER_S + 1, "%" PRIu64,
          it.launched - before);
}

static void a_launch_larger_than_the_bucket_passes_in_debt(void)
{
    struct pace pace = {0};
    struct limits limits = UNLIMITED;
    limits.blocks_per_s = 1000;
    struct amount large = {1, 200};
    CHECK(pace_delay_ns(&pace, &limits, large, START) == 0, "a full bucket lets it pass");
    pace_charge(&pace, &limits, large, START);
    uint64_t delay = pace_delay_ns(&pace, &limits, (struct amount){1, 10}, START);
    CHECK(delay == 200 * MS, "%" PRIu64, delay);
}

static void nothing_is_waited_for_longer_than_the_longest_debt(void)
{
    for (int round = 0; round < 100000; round++) {
        struct pace pace = {0};
        pace.launch_ns = below(&seed, 2) ? below(&seed, UINT32_MAX) : 0;
        struct limits limits = {
            .launches_per_s = below(&seed, 3) ? below(&seed, UINT32_MAX) >> below(&seed, 32) : UINT64_MAX - below(&seed, 9),
            .blocks_per_s = below(&seed, 3) ? below(&seed, UINT32_MAX) >> below(&seed, 32) : UINT64_MAX - below(&seed, 9),
            .inflight_cap = below(&seed, UINT32_MAX) >> below(&seed, 32),
            .duty_permille = below(&seed, 3) ? below(&seed, 1001) : UINT32_MAX - below(&seed, 9),
        };
        struct amount asked = {1 + below(&seed, 1u << 20), (int64_t)below(&seed, UINT32_MAX) << below(&seed, 9)};
        uint64_t now = START + below(&seed, UINT32_MAX);
        pace_control(&pace, &limits, now);
        for (int launch = 0; launch < 4; launch++) {
            struct amount grant = pace_grant(&pace, &limits, asked, 1 + below(&seed, 9), below(&seed, UINT32_MAX));
            CHECK(grant.launches >= asked.launches && grant.blocks >= asked.blocks, "too little");
            uint64_t delay = pace_delay_ns(&pace, &limits, grant, now);
            CHECK(delay <= PACE_DEBT_NS + PACE_BURST_NS, "%" PRIu64, delay);
            CHECK(!delay || pace_delay_ns(&pace, &limits, grant, now + delay) == 0, "not enough");
            now += delay;
            pace_charge(&pace, &limits, grant, now);
        }
        CHECK(pace_inflight_allows(&pace, &limits, 0, asked.launches, 3), "nothing in flight");
    }
}

static void what_is_given_back_can_be_taken_again(void)
{
    struct pace pace = {0};
    struct limits limits = UNLIMITED;
    limits.launches_per_s = 1000;
    struct amount ten = {10, 0};
    pace_charge(&pace, &limits, ten, START);
    CHECK(pace_delay_ns(&pace, &limits, ten, START) > 0, "the bucket is empty");
    pace_credit(&pace, &limits, ten);
    CHECK(pace_delay_ns(&pace, &limits, ten, START) == 0, "the bucket is full again");
}

static void a_raised_limit_forgives_the_debt_of_the_old_one(void)
{
    struct pace pace = {0};
    struct limits limits = UNLIMITED;
    limits.launches_per_s = 2;
    pace_follow(&pace, &limits, START);
    pace_charge(&pace, &limits, (struct amount){1, 1}, START);
    CHECK(pace_delay_ns(&pace, &limits, (struct amount){1, 1}, START) > 400 * MS, "in debt");
    limits.launches_per_s = 1000;
    pace_follow(&pace, &limits, START);
    uint64_t delay = pace_delay_ns(&pace, &limits, (struct amount){1, 1}, START);
    CHECK(delay <= 10 * MS, "%" PRIu64, delay);
    pace_charge(&pace, &limits, (struct amount){500, 1}, START);
    pace_follow(&pace, &limits, START);
    CHECK(pace_delay_ns(&pace, &limits, (struct amount){1, 1}, START) > 400 * MS,
          "only a change forgives");
}

/* --- the cap ----------------------------------------------------------------------------------- */

/* Threads launch what they are granted and are counted with their next grant; nothing finishes. */
static uint64_t launched_until_all_are_held(const struct limits *limits, uint32_t threads)
{
    static const struct amount one = {1, 1};
    struct pace pace = {0};
    uint64_t counted = 0;
    int64_t granted[8] = {0}, all = 0;
    for (uint32_t held = 0; held < threads;) {
        held = 0;
        for (uint32_t i = 0; i < threads; i++) {
            if (!pace_inflight_allows(&pace, limits, counted, granted[i] + 1, threads)) {
                held++;
                continue;
            }
            counted += (uint64_t)granted[i] + 1;
            granted[i] = pace_grant(&pace, limits, one, threads, below(&seed, 1000)).launches - 1;
            all += granted[i] + 1;
        }
    }
    return (uint64_t)all;
}

static void no_more_is_in_flight_than_the_cap(void)
{
    for (int round = 0; round < 10000; round++) {
        struct limits limits = UNLIMITED;
        limits.inflight_cap = 1 + below(&seed, 300);
        uint32_t threads = 1 + below(&seed, 8);
        uint64_t launched = launched_until_all_are_held(&limits, threads);
        CHECK(launched <= limits.inflight_cap, "%" PRIu64 " of %u", launched, limits.inflight_cap);
        CHECK(2 * launched >= limits.inflight_cap, "%" PRIu64 " of %u", launched,
              limits.inflight_cap);
    }
}

/* --- the duty ---------------------------------------------------------------------------------- */

static void observe(struct program *program, uint64_t each_ns, int64_t launches)
{
    struct sample sample = {7, each_ns, 1, launches, 1};
    pace_observe(&program->pace, &program->limits, sample, program->now_ns);
}

/* A device that runs one launch after the other, each for `launch_us`; a program that launches
 * whenever it may and rests `rest_us` between. Returns the busy part of the last half. */
static double busy_part(uint32_t duty_permille, double launch_us, double rest_us, double seconds,
                        double slower_after)
{
    struct program it = program(UNLIMITED);
    it.limits.duty_permille = duty_permille;
    double free_ns = START, busy_ns = 0;
    double end = START + seconds * 1e9, half = START + seconds * 0.5e9;
    while ((double)it.now_ns < end) {
        pace_control(&it.pace, &it.limits, it.now_ns);
        struct amount grant =
            pace_grant(&it.pace, &it.limits, (struct amount){1, 1}, 1, below(&seed, 1u << 31));
        uint64_t delay = pace_delay_ns(&it.pace, &it.limits, grant, it.now_ns);
        if (delay) {
            it.now_ns += smaller(delay + below(&seed, 50000), 20 * MS);
            continue;
        }
        pace_charge(&it.pace, &it.limits, grant, it.now_ns);
        double each = launch_us * 1e3 * (it.now_ns > START + slower_after * 1e9 ? 2 : 1);
        double took = each * (double)grant.launches;
        free_ns = (free_ns > (double)it.now_ns ? free_ns : (double)it.now_ns) + took;
        if ((double)it.now_ns > half)
            busy_ns += took;
        if (free_ns > (double)it.now_ns + 20 * MS) /* it waits for a place in flight */
            it.now_ns = (uint64_t)(free_ns - 20 * MS);
        observe(&it, (uint64_t)each, grant.launches);
        it.now_ns += (uint64_t)(rest_us * 1e3) + 1000;
    }
    return busy_ns / (end - half);
}

static void the_duty_is_met(void)
{
    static const struct {
        uint32_t duty;
        double launch_us;
    } cases[] = {{300, 10}, {300, 200}, {500, 3000}, {100, 1000}, {50, 20}, {800, 100}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double wanted = cases[i].duty / 1000.0;
        double got = busy_part(cases[i].duty, cases[i].launch_us, 0, 4, 100);
        CHECK(got > 0.85 * wanted && got < 1.15 * wanted, "%.3f for %.3f at %.0f us", got, wanted,
              cases[i].launch_us);
    }
}

static void the_duty_is_met_again_when_launches_become_slower(void)
{
    double got = busy_part(300, 100, 0, 4, 1);
    CHECK(got > 0.25 && got < 0.35, "%.3f", got);
}

/* Another client makes every launch a half slower for a while, then rests. */
static void a_slowed_kernel_gives_way_until_it_is_not(void)
{
    struct program it = program(UNLIMITED);
    it.limits.duty_permille = 400;
    uint64_t launched[2] = {0};
    for (uint64_t end = it.now_ns + NS_PER_S; it.now_ns < end;) {
        bool neighbour = it.now_ns / (50 * MS) % 2;
        pace_control(&it.pace, &it.limits, it.now_ns);
        uint64_t before = it.launched;
        launch(&it, 1);
        uint64_t each = neighbour ? 300000 : 200000;
        launched[neighbour] += (it.launched - before) * each;
        it.now_ns += (it.launched - before) * each;
        observe(&it, each, (int64_t)(it.launched - before));
    }
    double beside = (double)launched[1] / (double)(NS_PER_S / 2);
    double alone = (double)launched[0] / (double)(NS_PER_S / 2);
    CHECK(beside < 0.15, "%.3f of the time beside another", beside);
    CHECK(alone > 0.5, "%.3f of the time alone", alone);
}

/* Streams of one program slow each other down; that is no neighbour, and no more time than passes. */
static void own_streams_are_no_neighbours(void)
{
    struct pace pace = {0};
    struct limits limits = UNLIMITED;
    limits.duty_permille = 500;
    uint64_t busy = pace_observe(&pace, &limits, (struct sample){7, 1000, 1, 1, 1}, START);
    busy += pace_observe(&pace, &limits, (struct sample){7, 4000, 1, 1, 2}, START);
    CHECK(busy == 3000, "%" PRIu64, busy);
    CHECK(pace.paid_ns[PACE_DEVICE] == 0, "no price for it");
}

/* Clocks that fall for good must not look like a neighbour for ever. */
static void a_kernel_that_stays_slower_is_normal_in_the_end(void)
{
    struct pace pace = {0};
    CHECK(!slowed(&pace, 7, 100000), "the first is not");
    CHECK(slowed(&pace, 7, 130000), "the next is");
    for (int i = 0; i < 3 * FORGET; i++)
        slowed(&pace, 7, 130000);
    CHECK(!slowed(&pace, 7, 130000), "%" PRIu64, pace.known[0].alone_ns);
}

static void kernels_are_told_apart(void)
{
    struct pace pace = {0};
    for (int i = 0; i < 10; i++) {
        CHECK(!slowed(&pace, 1000, 10000), "the short one");
        CHECK(!slowed(&pace, 2000, 90000), "the long one");
    }
}

/* A program that itself leaves the device idle must not save up a share for later. */
static void a_share_that_nobody_waits_for_does_not_grow(void)
{
    struct program it = program(UNLIMITED);
    it.limits.duty_permille = 500;
    for (int period = 0; period < 100; period++) {
        pace_control(&it.pace, &it.limits, it.now_ns);
        observe(&it, 1000, 1);
        it.now_ns += 21 * MS;
    }
    CHECK(it.pace.share_ppm < 510000, "%u", it.pace.share_ppm);
}

static void no_step_is_larger_than_a_quarter(void)
{
    struct program it = program(UNLIMITED);
    it.limits.duty_permille = 300;
    pace_control(&it.pace, &it.limits, it.now_ns);
    for (int period = 0; period < 1000; period++) {
        double before = it.pace.share_ppm;
        it.pace.duty_delays = true;
        if (below(&seed, 2))
            observe(&it, below(&seed, 60) * MS, 1);
        it.now_ns += 20 * MS + below(&seed, 300) * MS;
        pace_control(&it.pace, &it.limits, it.now_ns);
        double ratio = it.pace.share_ppm / before;
        CHECK(ratio > 0.7499 && ratio < 1.2501, "%.3f", ratio);
    }
}

/* At any duty, and however long a launch takes, one passes in the floor's time. */
static void the_floor_keeps_every_program_alive(void)
{
    struct program it = program(UNLIMITED);
    it.limits.duty_permille = 0;
    it.pace.launch_ns = 10 * NS_PER_S;
    for (int i = 0; i < 100; i++) {
        pace_control(&it.pace, &it.limits, it.now_ns);
        observe(&it, 10 * NS_PER_S, 1);
        uint64_t before = it.now_ns;
        launch(&it, 1);
        CHECK(it.now_ns - before <= PACE_DUTY_FLOOR_NS + MS, "%" PRIu64, it.now_ns - before);
    }
}

static void a_new_duty_holds_at_once(void)
{
    struct program it = program(UNLIMITED);
    it.limits.duty_permille = 800;
    pace_control(&it.pace, &it.limits, it.now_ns);
    it.limits.duty_permille = 100;
    pace_control(&it.pace, &it.limits, it.now_ns + 1);
    CHECK(it.pace.share_ppm <= 100001, "%u", it.pace.share_ppm);
}

/* --- many threads ------------------------------------------------------------------------------ */

static struct pace shared;
static struct limits shared_limits;
static _Atomic uint64_t shared_now = START;

static void *launch_for_long(void *count)
{
    for (int i = 0; i < 20000; i++) {
        struct amount grant = pace_grant(&shared, &shared_limits, (struct amount){1, 1}, 4, 0);
        uint64_t delay = pace_delay_ns(&shared, &shared_limits, grant, shared_now);
        if (delay) {
            atomic_fetch_add(&shared_now, smaller(delay, 50000));
            continue;
        }
        pace_charge(&shared, &shared_limits, grant, shared_now);
        *(uint64_t *)count += (uint64_t)grant.launches;
    }
    return NULL;
}

static void threads_share_a_rate(void)
{
    pthread_t threads[4];
    uint64_t counts[4] = {0}, sum = 0;
    shared_limits = UNLIMITED;
    shared_limits.launches_per_s = 100000;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, launch_for_long, &counts[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        sum += counts[i];
    }
    double seconds = (double)(shared_now - START + PACE_BURST_NS) / 1e9;
    CHECK((double)sum <= 1.1 * 100000 * seconds + 4 * 64, "%" PRIu64 " in %.3f s", sum, seconds);
}

int main(void)
{
    a_rate_is_held_and_its_bursts_are_short();
    blocks_are_held_like_launches();
    a_pause_earns_no_more_than_the_bucket();
    a_launch_larger_than_the_bucket_passes_in_debt();
    nothing_is_waited_for_longer_than_the_longest_debt();
    what_is_given_back_can_be_taken_again();
    a_raised_limit_forgives_the_debt_of_the_old_one();
    no_more_is_in_flight_than_the_cap();
    the_duty_is_met();
    the_duty_is_met_again_when_launches_become_slower();
    a_slowed_kernel_gives_way_until_it_is_not();
    a_kernel_that_stays_slower_is_normal_in_the_end();
    kernels_are_told_apart();
    own_streams_are_no_neighbours();
    a_share_that_nobody_waits_for_does_not_grow();
    no_step_is_larger_than_a_quarter();
    the_floor_keeps_every_program_alive();
    a_new_duty_holds_at_once();
    threads_share_a_rate();
    return 0;
}
