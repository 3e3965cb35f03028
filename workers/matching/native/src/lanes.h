/* Loops over all classes at once, for the compiler to make vector instructions of.
 *
 * Every `width` is a multiple of LANES, a line of the cache; what is beyond the last class never
 * wins a comparison. On x86-64 each function is built for AVX2 too, and the loader takes what the
 * processor can do.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LANES 16

/* No pair, no path: more than any real loss, and still 32 bits with a few others added to it. */
#define NEVER (INT32_C(1) << 30)

/* A row in a class, as the tables of losses need it: worth [width] of the row, what it is worth in
 * the class itself, and the number of its part. */
struct member {
    const int32_t *worth;
    int32_t own, part;
};

/* Copies a row: pairs that may not be made become -NEVER. Returns the highest worth among those
 * that `open` [classes] (0 or -1) admits; 0 when there is none. */
int32_t lanes_copy(int32_t *to, const int32_t *from, const int32_t *open, int32_t classes);

/* The first place of `value`, which must be among `values`. */
int32_t lanes_find(const int32_t *values, int32_t value, int32_t width);

/* The highest of worth - price. */
int32_t lanes_best(const int32_t *worth, const int32_t *price, int32_t width);

/* A member more: what is lost by its change, where that is less than before. */
void lanes_lower(int32_t *loss, int32_t *mover, struct member member, int32_t width);

/* Those LANES classes from `start` on, anew from all members. */
void lanes_anew(int32_t *loss, int32_t *mover, const struct member *members, int32_t count,
                int32_t start);

/* marks[i]: the i-th LANES of `values` have `value` among them. */
void lanes_mark(uint8_t *marks, const int32_t *values, int32_t value, int32_t width);

/* Shorter ways by way of `node`: `base` + step + price. Returns the least of those still open. */
int32_t lanes_relax(int32_t *distance, int32_t *open, int32_t *before, const int32_t *step,
                    const int32_t *price, int32_t base, int32_t node, int32_t width);

/* Ways by way of a node that is `base` away, where they are shorter; none below -MUXMATCH_FAR. */
void lanes_shorten(int32_t *ways, const int32_t *onward, int32_t base, int32_t count);

/* The same by way of HOPS nodes at once, whose `onward` lie one after the other. */
#define HOPS 8
void lanes_shorten_all(int32_t *ways, const int32_t *onward, const int32_t *bases, int32_t count);

/* worth - way, where a worth of 0 and less is -MUXMATCH_FAR. */
void lanes_gain(int32_t *gain, const int32_t *worth, const int32_t *way, int32_t count);

/* What is lost by a change from `own` to each worth above 0, where that is less than before. */
void lanes_leave(int32_t *loss, const int32_t *worth, int32_t own, int32_t count);

int32_t lanes_most(const int32_t *values, int32_t count);

/* Whether all are from -`most` to `most`. */
bool lanes_within(const int32_t *values, int64_t count, int32_t most);
