#include "pace.h"

#define NS_PER_S UINT64_C(1000000000)
#define WHOLE_PPM 1000000u

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* --- what a launch costs ------------------------------------------------------------------- */

#define DUTY_DEBT_NS (PACE_DUTY_FLOOR_NS - PACE_DUTY_BURST_NS)

struct price {
    uint64_t cost_ns, burst_ns, debt_ns;
};

static bool limited(const struct limits *limits, int bucket)
{
    switch (bucket) {
    case PACE_LAUNCHES: return limits->launches_per_s != 0;
    case PACE_BLOCKS: return limits->blocks_per_s != 0;
    default: return limits->duty_permille < PACE_FULL_DUTY;
    }
}

/* count × each / divisor; what is beyond the largest debt cannot be paid anyway. */
static uint64_t cost(int64_t count, uint64_t each, uint64_t divisor)
{
    uint64_t product;
    if (count <= 0)
        return 0;
    if (__builtin_mul_overflow((uint64_t)count, each, &product))
        return PACE_DEBT_NS;
    return smaller(product / divisor, PACE_DEBT_NS);
}

static uint32_t share_ppm(const struct pace *pace, const struct limits *limits)
{
    uint32_t share = atomic_load_explicit(&pace->share_ppm, memory_order_relaxed);
    return share ? share : limits->duty_permille * (WHOLE_PPM / PACE_FULL_DUTY) + 1;
}

static uint64_t launch_ns(const struct pace *pace)
{
    return atomic_load_explicit(&pace->launch_ns, memory_order_relaxed);
}

static struct price price(const struct pace *pace, const struct limits *limits, int bucket,
                          struct amount amount)
{
    switch (bucket) {
    case PACE_LAUNCHES:
        return (struct price){cost(amount.launches, NS_PER_S, limits->launches_per_s),
                              PACE_BURST_NS, PACE_DEBT_NS};
    case PACE_BLOCKS:
        return (struct price){cost(amount.blocks, NS_PER_S, limits->blocks_per_s), PACE_BURST_NS,
                              PACE_DEBT_NS};
    default: /* with so little debt, one launch in the floor's time passes however long it takes */
        return (struct price){
            cost(amount.launches, launch_ns(pace) * WHOLE_PPM, share_ppm(pace, limits)),
            PACE_DUTY_BURST_NS, DUTY_DEBT_NS};
    }
}

/* --- buckets ------------------------------------------------------------------------------- */

static uint64_t spent_until(uint64_t paid_ns, uint64_t now_ns, uint64_t burst_ns)
{
    return larger(paid_ns, minus(now_ns, burst_ns));
}

uint64_t pace_delay_ns(struct pace *pace, const struct limits *limits, struct amount amount,
                       uint64_t now_ns)
{
    uint64_t longest = 0;
    for (int bucket = 0; bucket < PACE_BUCKETS; bucket++) {
        if (!limited(limits, bucket))
            continue;
        struct price of = price(pace, limits, bucket, amount);
        uint64_t paid = atomic_load_explicit(&pace->paid_ns[bucket], memory_order_relaxed);
        uint64_t ready = spent_until(paid, now_ns, of.burst_ns) + smaller(of.cost_ns, of.burst_ns);
        if (ready > now_ns && bucket == PACE_DEVICE)
            atomic_store_explicit(&pace->duty_delays, true, memory_order_relaxed);
        longest = larger(longest, minus(ready, now_ns));
    }
    return longest;
}

static void charge(_Atomic uint64_t *paid_ns, struct price of, uint64_t now_ns)
{
    uint64_t paid = atomic_load_explicit(paid_ns, memory_order_relaxed), then;
    do
        then = smaller(spent_until(paid, now_ns, of.burst_ns) + of.cost_ns, now_ns + of.debt_ns);
    while (!atomic_compare_exchange_weak_explicit(paid_ns, &paid, then, memory_order_relaxed,
                                                  memory_order_relaxed));
}

void pace_charge(struct pace *pace, const struct limits *limits, struct amount amount,
                 uint64_t now_ns)
{
    for (int bucket = 0; bucket < PACE_BUCKETS; bucket++)
        if (limited(limits, bucket))
            charge(&pace->paid_ns[bucket], price(pace, limits, bucket, amount), now_ns);
}

void pace_credit(struct pace *pace, const struct limits *limits, struct amount amount)
{
    for (int bucket = 0; bucket < PACE_BUCKETS; bucket++) {
        if (!limited(limits, bucket))
            continue;
        uint64_t back = price(pace, limits, bucket, amount).cost_ns;
        uint64_t paid = atomic_load_explicit(&pace->paid_ns[bucket], memory_order_relaxed);
        while (!atomic_compare_exchange_weak_explicit(&pace->paid_ns[bucket], &paid,
                                                      minus(paid, back), memory_order_relaxed,
                                                      memory_order_relaxed))
            ;
    }
}

static void forgive(_Atomic uint64_t *paid_ns, uint64_t now_ns)
{
    uint64_t paid = atomic_load_explicit(paid_ns, memory_order_relaxed);
    while (paid > now_ns &&
           !atomic_compare_exchange_weak_explicit(paid_ns, &paid, now_ns, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

void pace_follow(struct pace *pace, const struct limits *limits, uint64_t now_ns)
{
    const uint64_t now[PACE_BUCKETS] = {limits->launches_per_s, limits->blocks_per_s,
                                        limits->duty_permille};
    for (int bucket = 0; bucket < PACE_BUCKETS; bucket++) {
        uint64_t before = atomic_load_explicit(&pace->limit[bucket], memory_order_relaxed);
        if (before == now[bucket])
            continue;
        atomic_store_explicit(&pace->limit[bucket], now[bucket], memory_order_relaxed);
        if (now[bucket] > before)
            forgive(&pace->paid_ns[bucket], now_ns);
    }
}

/* --- grants -------------------------------------------------------------------------------- */

/* A part of the cap, so that some grants can finish while the next are launched. */
static uint64_t grant_of_cap(const struct limits *limits, uint32_t threads)
{
    return larger(limits->inflight_cap / 4 / threads, 1);
}

static uint64_t grant_of_duty(const struct pace *pace, const struct limits *limits)
{
    uint64_t each = launch_ns(pace);
    return each ? PACE_GRANT_NS * share_ppm(pace, limits) / WHOLE_PPM / each : 1;
}

static uint64_t grant_of_rate(uint64_t rate_per_s, uint32_t threads)
{
    return rate_per_s / (NS_PER_S / PACE_GRANT_NS) / threads;
}

static int64_t grant_launches(const struct pace *pace, const struct limits *limits,
                              uint32_t threads, uint32_t random)
{
    uint64_t most = PACE_GRANT_UNLIMITED;
    if (pace_measures(limits) || limits->blocks_per_s)
        most = PACE_GRANT_LAUNCHES;
    if (limits->launches_per_s)
        most = smaller(PACE_GRANT_LAUNCHES, grant_of_rate(limits->launches_per_s, threads));
    if (limits->inflight_cap)
        most = smaller(most, grant_of_cap(limits, threads));
    if (limited(limits, PACE_DEVICE))
        most = smaller(most, grant_of_duty(pace, limits));
    most = larger(most, 1);
    return (int64_t)(pace_measures(limits) ? most - random % (most / 4 + 1) : most);
}

struct amount pace_grant(const struct pace *pace, const struct limits *limits, struct amount asked,
                         uint32_t threads, uint32_t random)
{
    threads = threads ? threads : 1;
    int64_t blocks = INT64_C(1) << 40;
    if (limits->blocks_per_s)
        blocks = (int64_t)grant_of_rate(smaller(limits->blocks_per_s, INT64_MAX), threads);
    return (struct amount){
        asked.launches + grant_launches(pace, limits, threads, random) - 1,
        blocks > asked.blocks ? blocks : asked.blocks,
    };
}

bool pace_inflight_allows(const struct pace *pace, const struct limits *limits, uint64_t inflight,
                          int64_t launches, uint32_t threads)
{
    if (!inflight)
        return true;
    if (limited(limits, PACE_DEVICE) && !launch_ns(pace))
        return false;
    if (!limits->inflight_cap)
        return true;
    threads = threads ? threads : 1;
    uint64_t uncounted = threads * (grant_of_cap(limits, threads) - 1);
    return inflight + (uint64_t)launches + uncounted <= limits->inflight_cap;
}

/* --- the controller ------------------------------------------------------------------------ */

/* In the logarithm of the share, to which the logarithm of the busy part of time is proportional:
 * the integral gain is then the part of the error that one period takes away. */
#define GAIN_P 0.10
#define GAIN_I 0.25
#define STEP 0.25

#define SLOWED_PERCENT 112 /* of its time alone: what a device does by itself is mostly less */
#define LEARN 4            /* of a shorter time, one part in so many is believed at once, */
#define FORGET 1024        /* of a longer one, one in so many */

/* Whether something slowed the kernel down: its time alone is near the least that was seen. */
static bool slowed(struct pace *pace, uint64_t kernel, uint64_t each_ns)
{
    uint64_t hash = kernel * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    __typeof__(pace->known[0]) *known = &pace->known[hash % PACE_KERNELS];
    if (known->kernel != kernel) {
        known->kernel = kernel;
        known->alone_ns = each_ns;
    }
    bool slow = each_ns * 100 > known->alone_ns * SLOWED_PERCENT;
    if (each_ns < known->alone_ns)
        known->alone_ns -= (known->alone_ns - each_ns) / LEARN;
    else
        known->alone_ns += (each_ns - known->alone_ns) / FORGET;
    return slow;
}

uint64_t pace_observe(struct pace *pace, const struct limits *limits, struct sample sample,
                      uint64_t now_ns)
{
    if (sample.sampled <= 0)
        return 0;
    uint64_t streams = larger(sample.streams, 1); /* the time of one is that of the others, too */
    uint64_t each = larger(sample.device_ns / (uint64_t)sample.sampled / streams, 1);
    uint64_t mean = launch_ns(pace);
    mean = mean ? mean - mean / 8 + each / 8 : each;
    atomic_store_explicit(&pace->launch_ns, larger(mean, 1), memory_order_relaxed);
    if (limited(limits, PACE_DEVICE) && streams == 1 && slowed(pace, sample.kernel, each))
        charge(&pace->paid_ns[PACE_DEVICE],
               (struct price){PACE_YIELD * sample.device_ns, 0, DUTY_DEBT_NS}, now_ns);
    uint64_t busy = each * (uint64_t)sample.launches;
    pace->busy_ns += busy;
    pace->samples++;
    return busy;
}

static double clamped(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

static void period_begin(struct pace *pace, uint64_t now_ns)
{
    pace->period_ns = now_ns;
    pace->busy_ns = 0;
    pace->samples = 0;
    atomic_store_explicit(&pace->duty_delays, false, memory_order_relaxed);
}

static void share_set(struct pace *pace, double share)
{
    atomic_store_explicit(&pace->share_ppm, (uint32_t)(share * WHOLE_PPM) + 1,
                          memory_order_relaxed);
}

void pace_control(struct pace *pace, const struct limits *limits, uint64_t now_ns)
{
    double duty = clamped(limits->duty_permille, 1, PACE_FULL_DUTY) / PACE_FULL_DUTY;
    if (pace->duty_permille != limits->duty_permille) {
        pace->duty_permille = limits->duty_permille;
        pace->error = 0;
        share_set(pace, duty);
        period_begin(pace, now_ns);
        return;
    }
    uint64_t span = minus(now_ns, pace->period_ns);
    if (span < PACE_PERIOD_NS || (!pace->samples && span < PACE_PERIOD_LONGEST_NS))
        return;
    double error = clamped((duty - (double)pace->busy_ns / (double)span) / duty, -1, 1);
    double step = clamped(GAIN_P * (error - pace->error) + GAIN_I * error, -STEP, STEP);
    /* No windup: a share that nobody had to wait for does not grow, and the duty bounds it. */
    if (step > 0 && !atomic_load_explicit(&pace->duty_delays, memory_order_relaxed))
        step = 0;
    double share = share_ppm(pace, limits) / (double)WHOLE_PPM;
    share_set(pace, clamped(share * (1 + step), duty / 4, clamped(duty * 4, 0, 1)));
    pace->error = error;
    period_begin(pace, now_ns);
}
