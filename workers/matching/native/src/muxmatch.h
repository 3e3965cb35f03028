/* The assignment that is worth most, of rows of GPUs to classes of jobs, exactly; and what it would
 * lose if others had their GPUs.
 *
 *     max  sum worth[r][c] x[r][c]  +  sum over c of the first (sum over r of x[r][c]) extras of c
 *     with sum over c of x[r][c] <= units[r],  sum over r of x[r][c] <= capacity[c],  x >= 0, whole
 *
 * This is all that the library shows; docs/matching.md says how it works.
 */
#pragma once

#include <stdint.h>

/* Whoever was written for another version must not call this one. */
#define MUXMATCH_VERSION 2

/* Of a worth and of an extra; so that what is added up along a path fits into 32 bits. */
#define MUXMATCH_MOST_WORTH (INT32_C(1) << 27)

/* The losses between all classes are kept: two square tables of 32-bit numbers. */
#define MUXMATCH_MOST_CLASSES 8192

/* GPUs in all. */
#define MUXMATCH_MOST_UNITS (INT32_C(1) << 30)

enum muxmatch_end {
    MUXMATCH_FOUND,
    MUXMATCH_OUT_OF_TIME,
    MUXMATCH_OUT_OF_MEMORY,
    MUXMATCH_BAD_MARKET, /* a number out of its range, or too many of something */
};

struct muxmatch_market {
    int64_t rows, classes, extras;
    const int32_t *worth;    /* [rows][classes]; 0 and less: never */
    const int64_t *units;    /* [rows] GPUs that are alike */
    const int64_t *capacity; /* [classes] jobs that are alike */
    const int64_t *extra;    /* [extras] of every place, class by class, falling within each */
};

struct muxmatch_pairs {
    int64_t room, found;
    int64_t *row, *job_class, *count; /* [room] */
};

#define MUXMATCH_SHOWN __attribute__((visibility("default")))

MUXMATCH_SHOWN int muxmatch_version(void);

/* `price` [classes] is where the search begins when `warm`, and where it ended; `ends_ns` is on
 * CLOCK_MONOTONIC, 0 for no end. `pairs` has room for as many as there can be, else the market is
 * a bad one. The same market and prices have the same answer, whatever the machine. */
MUXMATCH_SHOWN int muxmatch_assign(const struct muxmatch_market *market, int64_t *price, int warm,
                                   int64_t ends_ns, struct muxmatch_pairs *pairs);

/* No change, no chain of them: more than any there is, and the sum of two fits into 32 bits. */
#define MUXMATCH_FAR (INT32_C(1) << 29)

struct muxmatch_made {
    int64_t rows, classes, pairs;
    const int32_t *worth;           /* [rows][classes]; 0 and less: never */
    const int64_t *row, *job_class; /* [pairs] that an assignment makes */
    int32_t *change;                /* [classes + 1][classes + 1] the least that a pair loses */
};

/* Lowers `change` from each class with a pair to each class on the same row, and to none, which is
 * the last: its whole worth. */
MUXMATCH_SHOWN int muxmatch_changes(const struct muxmatch_made *made);

/* `chain` [nodes][nodes] is the length of one change from each to each, and becomes that of the
 * shortest chain of changes. No chain may lead round and be shorter than none. */
MUXMATCH_SHOWN int muxmatch_chains(int32_t *chain, int64_t nodes);

struct muxmatch_rivals {
    int64_t rows, classes, pairs;
    const int32_t *worth;                  /* [rows][classes]; 0 and less: never */
    const int32_t *chain;                  /* [classes + 1][classes] to each from each class */
    const int64_t *row, *job_class, *ends; /* [pairs]; the last two `classes` for none */
    int64_t *other;                        /* [pairs] the class that gains most: worth - chain */
    int32_t *gain;                         /* [pairs] and how much */
};

/* Of each pair of a row and a class, the best other class for the row when the chain of changes
 * ends in `ends`; the first of equals. */
MUXMATCH_SHOWN int muxmatch_runners_up(const struct muxmatch_rivals *rivals);
