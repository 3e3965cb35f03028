/* Makes a plan fit: what is too much in one class moves on, along the shortest path of changes, to
 * a class with room or to no job; then jobs that must not be left without a GPU get theirs.
 *
 * Prices follow the distances (Johnson's potentials), so the plan remains the best for its prices
 * with every step, and is the best of all when it fits. (Ahuja, Magnanti, Orlin: Network Flows,
 * 1993, chapter 9.)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "muxmatch.h"
#include "plan.h"

struct paths {
    int32_t *distance, *open, *before; /* [width] */
    int32_t *nodes;                    /* [none + 1] of the path found */
    int64_t ends_ns;                   /* on CLOCK_MONOTONIC; 0: never */
};

/* False when there is no memory for it; to be freed all the same. */
bool paths_make(struct paths *paths, const struct plan *plan, int64_t ends_ns);
void paths_free(struct paths *paths);

bool paths_late(const struct paths *paths);

enum muxmatch_end paths_settle(struct paths *paths, struct plan *plan);
