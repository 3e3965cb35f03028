/* How fast a process may launch: arithmetic only. Time is an argument, nothing waits here.
 *
 * A bucket is one word: the moment up to which everything taken from it is paid for (the generic
 * cell rate algorithm, ITU-T I.371). A launch costs the time in which the limit earns it, so one
 * rule serves launches, blocks and time on the device alike:
 *
 *   level = now - max(paid, now - burst)            what has been earned and not spent
 *   a launch waits until level >= min(cost, burst)  and then: paid = now - level + cost
 *
 * One that costs more than the bucket holds waits until it is full and leaves a debt.
 *
 * The duty is held by a bucket of time on the device, in which a launch costs its measured mean
 * time / share, and a PI controller that moves the share until the measured part of time with
 * work on the device is the duty asked for. A launch that took longer than the same kernel is known
 * to take was in somebody's way: it costs PACE_YIELD times its time more, so that while another
 * client is at work ours has about a tenth of the device, and makes up for it when that one rests.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PACE_BURST_NS UINT64_C(10000000)      /* of launches and blocks: half of 20 ms */
#define PACE_DEBT_NS UINT64_C(1000000000)     /* the most that anything can cost */
#define PACE_GRANT_NS UINT64_C(1000000)       /* of a limit, given to a thread at once */
#define PACE_GRANT_LAUNCHES 256               /* likewise; without any limit: */
#define PACE_GRANT_UNLIMITED 1024
#define PACE_DUTY_BURST_NS UINT64_C(2000000)
#define PACE_DUTY_FLOOR_NS UINT64_C(50000000) /* one launch in this time passes any duty */
#define PACE_YIELD 10
#define PACE_KERNELS 256 /* whose time alone is remembered */
#define PACE_PERIOD_NS UINT64_C(20000000)     /* of the controller */
#define PACE_PERIOD_LONGEST_NS UINT64_C(200000000) /* when no launch ends in a shorter one */
#define PACE_FULL_DUTY 1000

struct limits {
    uint64_t launches_per_s; /* 0: none; so with the next two */
    uint64_t blocks_per_s;
    uint32_t inflight_cap;
    uint32_t duty_permille; /* PACE_FULL_DUTY and more: none */
};

enum { PACE_LAUNCHES, PACE_BLOCKS, PACE_DEVICE, PACE_BUCKETS };

struct pace {
    _Atomic uint64_t paid_ns[PACE_BUCKETS];
    _Atomic uint64_t limit[PACE_BUCKETS]; /* that was last followed */
    _Atomic uint64_t launch_ns; /* mean time of a launch on the device; 0: none measured yet */
    _Atomic uint32_t share_ppm; /* of the time on the device; what the controller moves */
    _Atomic bool duty_delays;   /* somebody has waited for it in this period */

    /* Of the controller. Its caller sees to it that one thread at a time is in it. */
    uint32_t duty_permille; /* that the share was last set for */
    uint64_t period_ns;     /* when the period began */
    uint64_t busy_ns;       /* measured in it */
    uint64_t samples;
    double error; /* of the period before */
    struct {
        uint64_t kernel, alone_ns;
    } known[PACE_KERNELS];
};

struct amount {
    int64_t launches, blocks;
};

/* What to ask for at once when a thread wants `asked`: so much more that it need not come again
 * for PACE_GRANT_NS or PACE_GRANT_LAUNCHES. `threads` share the limits; `random` keeps the size
 * from beating with a loop of the program. */
struct amount pace_grant(const struct pace *pace, const struct limits *limits, struct amount asked,
                         uint32_t threads, uint32_t random);

/* 0 when the limits allow it now, else how long to wait before asking again. */
uint64_t pace_delay_ns(struct pace *pace, const struct limits *limits, struct amount amount,
                       uint64_t now_ns);

/* Takes it, in debt if need be; gives back what was taken and not used. */
void pace_charge(struct pace *pace, const struct limits *limits, struct amount amount,
                 uint64_t now_ns);
void pace_credit(struct pace *pace, const struct limits *limits, struct amount amount);

/* Notes what the limits are now: with one that has been raised no debt of the old one is left. */
void pace_follow(struct pace *pace, const struct limits *limits, uint64_t now_ns);

/* Whether so many more launches may be unfinished, when `threads` threads may each launch a grant
 * that is not counted yet. With nothing in flight anything may, however large; and nothing else
 * while a duty holds and no launch has been measured yet. */
bool pace_inflight_allows(const struct pace *pace, const struct limits *limits, uint64_t inflight,
                          int64_t launches, uint32_t threads);

/* Of `kernel`, whatever number stands for one, `sampled` launches took `device_ns`; together with
 * others that were not timed they stand for `launches`. */
struct sample {
    uint64_t kernel, device_ns;
    int64_t sampled, launches;
    uint32_t streams; /* of this process that had work on the device at the same time */
};

/* Returns how long all that it stands for kept the device busy. */
uint64_t pace_observe(struct pace *pace, const struct limits *limits, struct sample sample,
                      uint64_t now_ns);

/* Ends the controller's period when it is over: the share follows a duty that has changed at once,
 * and otherwise takes a step of a PI controller. */
void pace_control(struct pace *pace, const struct limits *limits, uint64_t now_ns);

/* Whether launches have to be measured: the cap and the duty rest on that. */
static inline bool pace_measures(const struct limits *limits)
{
    return limits->inflight_cap || limits->duty_permille < PACE_FULL_DUTY;
}
