/* An assignment that is the best one for its prices, but may not fit yet.
 *
 * Nodes 0 .. classes-1 are the classes, the last one is "no job": it has room for all and costs
 * nothing. Each row is in one class, or a row of several GPUs in several: a part is the GPUs of
 * one row in one node. Of every pair of nodes the plan knows the least that a GPU of the one loses
 * by a change to the other, and which part that is; the tables are kept up with each change.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lanes.h"

/* The rows in the order in which they are taken in, and what they may become. */
struct rows {
    int32_t count, classes, width;
    int32_t *worth; /* [count][width]: -NEVER for a pair that may not be made, 0 for no job */
    int32_t *units; /* [count] */
    int64_t units_in_all;
};

/* All places of the classes. A plan of a part of the rows has as large a part of them. */
struct places {
    const int64_t *extra;
    int64_t *first;    /* [classes] of the class, in `extra` */
    int32_t *capacity; /* [classes], no more than there are GPUs */
};

struct part {
    int32_t row, node, units;
    int32_t place; /* among the members of its node */
    int32_t next;  /* part of the same row; among those not in use, the next of them */
};

struct members {
    struct member *at;
    int32_t count, room;
};

struct plan {
    const struct rows *rows;
    const struct places *places;
    int32_t none, width;
    int32_t *price; /* [width]; of "no job" it is 0 */

    int32_t *capacity; /* [none] of this part of the rows */
    int32_t *filled;   /* [none] places in use */
    int32_t *over;     /* [width] GPUs in the class less places in use */
    int32_t *fill;     /* [width] what it costs to use one place more, NEVER without one */
    int32_t *empty;    /* [width] what it costs to give one up, NEVER without one */

    int32_t *loss, *mover; /* [none + 1][width] */
    struct members *members;
    struct part *parts;
    int32_t parts_room, parts_used, unused;
    int32_t *first; /* [rows] part of the row, -1 for none */
    uint8_t *marks;
};

/* False when there is no memory for it; to be freed all the same. */
bool plan_make(struct plan *plan, const struct rows *rows, const struct places *places);
void plan_free(struct plan *plan);

/* Anew with the first `count` rows and their part of the places, each where it gains most at the
 * plan's prices. False when there is no memory for it. */
bool plan_begin(struct plan *plan, int32_t count);

/* How many GPUs and places are on the wrong side of their class's balance. */
int64_t plan_imbalance(const struct plan *plan);

/* Moves units of a part to another node. False when there is no memory for it. */
bool plan_move(struct plan *plan, int32_t part, int32_t node, int32_t units);

/* Uses `units` more places of a class, or fewer. */
void plan_use(struct plan *plan, int32_t job_class, int32_t units);

/* Of the places that would be used next (given up next), how many have the same extra; at most
 * `most` are looked at. */
int32_t plan_alike(const struct plan *plan, int32_t job_class, bool next, int32_t most);
