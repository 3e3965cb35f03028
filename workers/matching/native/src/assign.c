#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "muxmatch.h"
#include "paths.h"
#include "plan.h"

/* A part of the rows this often smaller gives the first prices, and so on, down to SMALLEST. */
#define PART 2
#define SMALLEST 128
/* Prices that leave more than one in so many GPUs in the wrong class are not worth beginning with
 * all the rows. */
#define TOO_MANY 8
/* Rows between two looks at the clock. */
#define ROWS_PER_LOOK 4096

/* All that is taken, and given back at once. */
struct work {
    const struct muxmatch_market *market;
    int32_t *order; /* [rows.count] the market's row that each of ours is */
    int32_t *ours;  /* [market.rows] the other way round; -1 for one that is of no use */
    int32_t *open;  /* [classes] -1 for one with places */
    struct rows rows;
    struct places places;
    struct plan plan;
    struct paths paths;
};

/* --- taking in ----------------------------------------------------------------------------- */

static bool in_range(const struct muxmatch_market *market)
{
    const int64_t most_rows = MUXMATCH_MOST_UNITS;
    return market->rows >= 0 && market->rows <= most_rows && market->classes >= 0 &&
           market->classes <= MUXMATCH_MOST_CLASSES && market->extras >= 0;
}

/* The sum of the units, or -1. */
static int64_t sum_units(const struct muxmatch_market *market)
{
    int64_t sum = 0;
    for (int64_t r = 0; r < market->rows; r++) {
        if (market->units[r] < 0 || market->units[r] > MUXMATCH_MOST_UNITS - sum)
            return -1;
        sum += market->units[r];
    }
    return sum;
}

static bool extras_fall(const int64_t *extra, int64_t count)
{
    for (int64_t k = 0; k < count; k++)
        if (extra[k] < 0 || extra[k] > (k ? extra[k - 1] : MUXMATCH_MOST_WORTH))
            return false;
    return true;
}

static bool take_places(struct work *work)
{
    const struct muxmatch_market *market = work->market;
    int64_t first = 0;
    for (int64_t c = 0; c < market->classes; c++) {
        int64_t capacity = market->capacity[c], most = work->rows.units_in_all;
        if (capacity < 0 || capacity > market->extras - first ||
            !extras_fall(market->extra + first, capacity))
            return false;
        work->places.first[c] = first;
        work->places.capacity[c] = (int32_t)(capacity < most ? capacity : most);
        work->open[c] = capacity > 0 ? -1 : 0;
        first += capacity;
    }
    return first == market->extras;
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The rows with GPUs in an order of chance, always the same, so that any first part of them is a
 * fair sample. */
static void shuffle(struct work *work)
{
    uint64_t state = 0;
    int32_t count = 0;
    for (int64_t r = 0; r < work->market->rows; r++) {
        work->ours[r] = -1;
        if (work->market->units[r] == 0)
            continue;
        int32_t other = (int32_t)(next_random(&state) % (uint64_t)(count + 1));
        work->order[count] = work->order[other];
        work->order[other] = (int32_t)r;
        count++;
    }
    work->rows.count = count;
}

/* Copies the rows that have a pair. */
static bool take_rows(struct work *work)
{
    struct rows *rows = &work->rows;
    const struct muxmatch_market *market = work->market;
    int32_t kept = 0;
    rows->units_in_all = 0;
    for (int32_t i = 0; i < rows->count; i++) {
        int32_t row = work->order[i], *worth = rows->worth + (size_t)kept * (size_t)rows->width;
        const int32_t *given = market->worth + (size_t)row * (size_t)market->classes;
        int32_t most = lanes_copy(worth, given, work->open, rows->classes);
        if (most > MUXMATCH_MOST_WORTH)
            return false;
        if (most == 0)
            continue;
        worth[rows->classes] = 0;
        for (int32_t c = rows->classes + 1; c < rows->width; c++)
            worth[c] = -NEVER;
        rows->units[kept] = (int32_t)market->units[row];
        rows->units_in_all += rows->units[kept];
        work->order[kept] = row;
        work->ours[row] = kept++;
    }
    rows->count = kept;
    return true;
}

static enum muxmatch_end take_in(struct work *work)
{
    const struct muxmatch_market *market = work->market;
    size_t rows = (size_t)market->rows, classes = (size_t)market->classes;
    work->rows.classes = (int32_t)classes;
    work->rows.width = (int32_t)((classes / LANES + 1) * LANES);
    work->rows.units_in_all = sum_units(market);
    if (work->rows.units_in_all < 0)
        return MUXMATCH_BAD_MARKET;
    work->order = memory_take(rows, sizeof(int32_t));
    work->ours = memory_take(rows, sizeof(int32_t));
    work->open = memory_take(classes, sizeof(int32_t));
    work->places.extra = market->extra;
    work->places.first = memory_take(classes, sizeof(int64_t));
    work->places.capacity = memory_take(classes, sizeof(int32_t));
    work->rows.units = memory_take(rows, sizeof(int32_t));
    work->rows.worth = memory_room(rows * (size_t)work->rows.width, sizeof(int32_t));
    if (!work->order || !work->ours || !work->open || !work->places.first ||
        !work->places.capacity || !work->rows.units || !work->rows.worth)
        return MUXMATCH_OUT_OF_MEMORY;
    shuffle(work);
    return take_places(work) && take_rows(work) ? MUXMATCH_FOUND : MUXMATCH_BAD_MARKET;
}

/* --- solving ------------------------------------------------------------------------------- */

static enum muxmatch_end begin(struct work *work, int32_t count)
{
    if (paths_late(&work->paths))
        return MUXMATCH_OUT_OF_TIME;
    return plan_begin(&work->plan, count) ? MUXMATCH_FOUND : MUXMATCH_OUT_OF_MEMORY;
}

/* The prices of a part of the rows are a good start for a larger one. */
static enum muxmatch_end solve_parts(struct work *work)
{
    int32_t parts = 1;
    enum muxmatch_end end = MUXMATCH_FOUND;
    while (work->rows.count / parts > SMALLEST)
        parts *= PART;
    for (; parts > 0 && end == MUXMATCH_FOUND; parts /= PART) {
        end = begin(work, work->rows.count / parts);
        if (end == MUXMATCH_FOUND)
            end = paths_settle(&work->paths, &work->plan);
    }
    return end;
}

static enum muxmatch_end solve(struct work *work, bool warm)
{
    if (warm) {
        enum muxmatch_end end = begin(work, work->rows.count);
        if (end != MUXMATCH_FOUND)
            return end;
        if (plan_imbalance(&work->plan) <= work->rows.units_in_all / TOO_MANY)
            return paths_settle(&work->paths, &work->plan);
    }
    return solve_parts(work);
}

/* --- giving out ---------------------------------------------------------------------------- */

static bool give(const struct work *work, struct muxmatch_pairs *pairs)
{
    pairs->found = 0;
    for (int64_t row = 0; row < work->market->rows; row++) {
        int32_t part = work->ours[row] < 0 ? -1 : work->plan.first[work->ours[row]];
        for (; part >= 0; part = work->plan.parts[part].next) {
            const struct part *made = &work->plan.parts[part];
            if (made->node == work->plan.none)
                continue;
            if (pairs->found == pairs->room)
                return false;
            pairs->row[pairs->found] = row;
            pairs->job_class[pairs->found] = made->node;
            pairs->count[pairs->found++] = made->units;
        }
    }
    return true;
}

static int32_t usable(int64_t price)
{
    const int64_t most = MUXMATCH_MOST_WORTH;
    return (int32_t)(price > most ? most : price < -most ? -most : price);
}

static enum muxmatch_end assign(struct work *work, int64_t *price, bool warm, int64_t ends_ns,
                                struct muxmatch_pairs *pairs)
{
    enum muxmatch_end end = take_in(work);
    if (end != MUXMATCH_FOUND)
        return end;
    if (!plan_make(&work->plan, &work->rows, &work->places) ||
        !paths_make(&work->paths, &work->plan, ends_ns))
        return MUXMATCH_OUT_OF_MEMORY;
    for (int32_t c = 0; warm && c < work->rows.classes; c++)
        work->plan.price[c] = usable(price[c]);
    if (work->rows.count)
        end = solve(work, warm);
    if (end != MUXMATCH_FOUND)
        return end;
    /* Without places a class took no part; at the highest price nobody misses it. */
    for (int32_t c = 0; c < work->rows.classes; c++)
        price[c] = work->open[c] ? work->plan.price[c] : MUXMATCH_MOST_WORTH;
    return give(work, pairs) ? MUXMATCH_FOUND : MUXMATCH_BAD_MARKET;
}

int muxmatch_version(void)
{
    return MUXMATCH_VERSION;
}

int muxmatch_assign(const struct muxmatch_market *market, int64_t *price, int warm,
                    int64_t ends_ns, struct muxmatch_pairs *pairs)
{
    struct work work = {.market = market};
    if (!in_range(market))
        return MUXMATCH_BAD_MARKET;
    enum muxmatch_end end = assign(&work, price, warm, ends_ns, pairs);
    paths_free(&work.paths);
    plan_free(&work.plan);
    free(work.order);
    free(work.ours);
    free(work.open);
    free(work.places.first);
    free(work.places.capacity);
    free(work.rows.units);
    free(work.rows.worth);
    return end;
}
