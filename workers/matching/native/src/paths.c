#include "paths.h"

#include <stdlib.h>
#include <time.h>

#include "memory.h"

#define NS_PER_S INT64_C(1000000000)
/* No distance yet, or no longer open. */
#define CLOSED INT32_MAX
/* Paths between two looks at the clock. */
#define PATHS_PER_LOOK 16

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static const int32_t *losses(const struct plan *plan, int32_t node)
{
    return plan->loss + (size_t)node * (size_t)plan->width;
}

static int32_t mover(const struct plan *plan, int32_t from, int32_t to)
{
    return plan->mover[(size_t)from * (size_t)plan->width + (size_t)to];
}

/* --- the shortest path --------------------------------------------------------------------- */

/* What is too much may end at no job, or where GPUs are missing; from no job only there. */
static bool may_end(const struct plan *plan, int32_t source, int32_t node)
{
    return node == plan->none ? source != plan->none : plan->over[node] < 0;
}

static int32_t relax(struct paths *paths, const struct plan *plan, int32_t node)
{
    int32_t base = paths->distance[node] - plan->price[node], none = plan->none;
    int32_t least = lanes_relax(paths->distance, paths->open, paths->before, losses(plan, node),
                                plan->price, base, node, plan->width);
    if (node == none) /* a job that stays without a GPU */
        return lanes_relax(paths->distance, paths->open, paths->before, plan->empty, plan->price,
                           base, node, plan->width);
    int32_t through = base + plan->fill[node];
    if (through >= paths->distance[none])
        return least;
    /* a job that finds a GPU after all */
    paths->distance[none] = paths->open[none] = through;
    paths->before[none] = node;
    return smaller(least, through);
}

/* Dijkstra's search; returns the nearest node where it may end. There always is one: no job for
 * what is too much, and a class with a missing GPU gives up a place that it uses. */
static int32_t search(struct paths *paths, const struct plan *plan, int32_t source)
{
    for (int32_t node = 0; node < plan->width; node++)
        paths->distance[node] = paths->open[node] = CLOSED;
    paths->distance[source] = 0;
    for (int32_t node = source;;) {
        paths->open[node] = CLOSED;
        int32_t nearest = relax(paths, plan, node);
        node = lanes_find(paths->open, nearest, plan->width);
        if (may_end(plan, source, node))
            return node;
    }
}

/* Prices relative to no job, whose own stays 0. */
static void reprice(const struct paths *paths, struct plan *plan, int32_t source, int32_t end)
{
    int32_t most = paths->distance[end];
    int32_t shift = source == plan->none ? 0 : most;
    for (int32_t c = 0; c < plan->none; c++) {
        int32_t price = plan->price[c] + shift - smaller(paths->distance[c], most);
        /* Only a class that nobody can take falls without end. */
        plan->price[c] = price < -MUXMATCH_MOST_WORTH ? -MUXMATCH_MOST_WORTH : price;
    }
}

/* --- moving along it ----------------------------------------------------------------------- */

/* A step to or from no job by a place that is used or given up, instead of by a GPU's change. */
static bool uses_place(const struct plan *plan, int32_t from, int32_t to)
{
    if (from == plan->none)
        return plan->empty[to] <= losses(plan, from)[to];
    return to == plan->none && plan->fill[from] <= losses(plan, from)[to];
}

static int32_t most_units(const struct plan *plan, int32_t from, int32_t to, int32_t most)
{
    if (!uses_place(plan, from, to))
        return smaller(most, plan->parts[mover(plan, from, to)].units);
    return to == plan->none ? plan_alike(plan, from, true, most)
                            : plan_alike(plan, to, false, most);
}

static bool step(struct plan *plan, int32_t from, int32_t to, int32_t units)
{
    if (!uses_place(plan, from, to))
        return plan_move(plan, mover(plan, from, to), to, units);
    plan_use(plan, to == plan->none ? from : to, to == plan->none ? units : -units);
    return true;
}

/* The path's nodes, from its end back to its source; returns how many. */
static int32_t trace(struct paths *paths, int32_t source, int32_t end)
{
    int32_t count = 0;
    paths->nodes[count++] = end;
    while (end != source)
        paths->nodes[count++] = end = paths->before[end];
    return count;
}

/* As many units as every step of the path allows. */
static bool shift(struct paths *paths, struct plan *plan, int32_t source, int32_t end)
{
    const int32_t *nodes = paths->nodes;
    int32_t last = trace(paths, source, end) - 1;
    int32_t units = source == plan->none ? -plan->over[end] : plan->over[source];
    if (source != plan->none && end != plan->none)
        units = smaller(units, -plan->over[end]);
    for (int32_t i = last; i > 0; i--)
        units = most_units(plan, nodes[i], nodes[i - 1], units);
    for (int32_t i = last; i > 0; i--)
        if (!step(plan, nodes[i], nodes[i - 1], units))
            return false;
    return true;
}

/* --- until it fits ------------------------------------------------------------------------- */

bool paths_late(const struct paths *paths)
{
    struct timespec now;
    if (!paths->ends_ns)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec >= paths->ends_ns;
}

/* The first class with too many GPUs; then no job, while one has too few; else -1. */
static int32_t next_source(const struct plan *plan)
{
    bool missing = false;
    for (int32_t c = 0; c < plan->none; c++) {
        if (plan->over[c] > 0)
            return c;
        missing |= plan->over[c] < 0;
    }
    return missing ? plan->none : -1;
}

enum muxmatch_end paths_settle(struct paths *paths, struct plan *plan)
{
    int32_t source;
    for (int64_t count = 0; (source = next_source(plan)) >= 0; count++) {
        if (count % PATHS_PER_LOOK == 0 && paths_late(paths))
            return MUXMATCH_OUT_OF_TIME;
        int32_t end = search(paths, plan, source);
        reprice(paths, plan, source, end);
        if (!shift(paths, plan, source, end))
            return MUXMATCH_OUT_OF_MEMORY;
    }
    return MUXMATCH_FOUND;
}

bool paths_make(struct paths *paths, const struct plan *plan, int64_t ends_ns)
{
    size_t width = (size_t)plan->width;
    *paths = (struct paths){
        .distance = memory_take(width, sizeof(int32_t)),
        .open = memory_take(width, sizeof(int32_t)),
        .before = memory_take(width, sizeof(int32_t)),
        .nodes = memory_take(width, sizeof(int32_t)),
        .ends_ns = ends_ns,
    };
    return paths->distance && paths->open && paths->before && paths->nodes;
}

void paths_free(struct paths *paths)
{
    free(paths->distance);
    free(paths->open);
    free(paths->before);
    free(paths->nodes);
}
