#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "muxmatch.h"

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static const int32_t *worth_of(const struct plan *plan, int32_t row)
{
    return plan->rows->worth + (size_t)row * (size_t)plan->width;
}

static int32_t *line(int32_t *table, const struct plan *plan, int32_t node)
{
    return table + (size_t)node * (size_t)plan->width;
}

/* --- places -------------------------------------------------------------------------------- */

/* Place k of the part of them that the plan has. */
static int32_t extra(const struct plan *plan, int32_t job_class, int32_t k)
{
    int64_t all = plan->places->capacity[job_class];
    int64_t place = k * all / plan->capacity[job_class];
    return (int32_t)plan->places->extra[plan->places->first[job_class] + place];
}

static void price_places(struct plan *plan, int32_t job_class)
{
    int32_t filled = plan->filled[job_class];
    bool more = filled < plan->capacity[job_class];
    plan->fill[job_class] = more ? -extra(plan, job_class, filled) : NEVER;
    plan->empty[job_class] = filled ? extra(plan, job_class, filled - 1) : NEVER;
}

void plan_use(struct plan *plan, int32_t job_class, int32_t units)
{
    plan->filled[job_class] += units;
    plan->over[job_class] -= units;
    price_places(plan, job_class);
}

int32_t plan_alike(const struct plan *plan, int32_t job_class, bool next, int32_t most)
{
    int32_t filled = plan->filled[job_class], step = next ? 1 : -1;
    int32_t start = next ? filled : filled - 1;
    int32_t left = next ? plan->capacity[job_class] - filled : filled;
    int32_t alike = 1;
    most = smaller(most, left);
    while (alike < most &&
           extra(plan, job_class, start + step * alike) == extra(plan, job_class, start))
        alike++;
    return alike;
}

/* How many places gain at least `gain` with the class's price. */
static int32_t places_that_gain(const struct plan *plan, int32_t job_class, int32_t gain)
{
    int32_t low = 0, high = plan->capacity[job_class];
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (extra(plan, job_class, middle) + plan->price[job_class] >= gain)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Places that gain must be used, those that lose must not; the others as there are GPUs. */
static void use_places(struct plan *plan, int32_t job_class, int32_t load)
{
    int32_t least = places_that_gain(plan, job_class, 1);
    int32_t most = places_that_gain(plan, job_class, 0);
    plan->filled[job_class] = smaller(most, larger(least, load));
    plan->over[job_class] = load - plan->filled[job_class];
    price_places(plan, job_class);
}

/* As large a part of every class's places as `units` are of all GPUs; what rounding takes from one
 * class it gives to the next. */
static void share_places(struct plan *plan, int64_t units)
{
    int64_t all = plan->rows->units_in_all, rest = 0;
    for (int32_t c = 0; c < plan->none; c++) {
        rest += plan->places->capacity[c] * units;
        plan->capacity[c] = (int32_t)(rest / all);
        rest %= all;
    }
}

/* --- parts --------------------------------------------------------------------------------- */

static int32_t part_of(const struct plan *plan, int32_t row, int32_t node)
{
    int32_t part = plan->first[row];
    while (part >= 0 && plan->parts[part].node != node)
        part = plan->parts[part].next;
    return part;
}

static int32_t unused_part(struct plan *plan)
{
    int32_t part = plan->unused;
    if (part >= 0) {
        plan->unused = plan->parts[part].next;
        return part;
    }
    if (plan->parts_used == plan->parts_room &&
        !memory_grow((void **)&plan->parts, &plan->parts_room, sizeof *plan->parts))
        return -1;
    return plan->parts_used++;
}

static bool add(struct plan *plan, int32_t row, int32_t node, int32_t units)
{
    int32_t number = part_of(plan, row, node);
    if (number >= 0) {
        plan->parts[number].units += units;
        return true;
    }
    struct members *members = &plan->members[node];
    if (members->count == members->room &&
        !memory_grow((void **)&members->at, &members->room, sizeof *members->at))
        return false;
    if ((number = unused_part(plan)) < 0)
        return false;
    plan->parts[number] = (struct part){row, node, units, members->count, plan->first[row]};
    plan->first[row] = number;
    const int32_t *worth = worth_of(plan, row);
    struct member *member = &members->at[members->count++];
    *member = (struct member){worth, worth[node], number};
    lanes_lower(line(plan->loss, plan, node), line(plan->mover, plan, node), *member, plan->width);
    return true;
}

static void leave_row(struct plan *plan, int32_t number)
{
    struct part *part = &plan->parts[number];
    int32_t *link = &plan->first[part->row];
    while (*link != number)
        link = &plan->parts[*link].next;
    *link = part->next;
    part->next = plan->unused;
    plan->unused = number;
}

static void leave_node(struct plan *plan, int32_t number)
{
    struct part *part = &plan->parts[number];
    struct members *members = &plan->members[part->node];
    struct member last = members->at[--members->count];
    members->at[part->place] = last;
    plan->parts[last.part].place = part->place;
    int32_t *loss = line(plan->loss, plan, part->node), *mover = line(plan->mover, plan, part->node);
    lanes_mark(plan->marks, mover, number, plan->width);
    for (int32_t start = 0; start < plan->width; start += LANES)
        if (plan->marks[start / LANES])
            lanes_anew(loss, mover, members->at, members->count, start);
}

bool plan_move(struct plan *plan, int32_t number, int32_t node, int32_t units)
{
    int32_t row = plan->parts[number].row, from = plan->parts[number].node;
    if (!add(plan, row, node, units))
        return false;
    plan->parts[number].units -= units;
    if (plan->parts[number].units == 0) {
        leave_node(plan, number);
        leave_row(plan, number);
    }
    plan->over[from] -= units;
    plan->over[node] += units;
    plan->over[plan->none] = 0;
    return true;
}

/* --- beginning ----------------------------------------------------------------------------- */

bool plan_make(struct plan *plan, const struct rows *rows, const struct places *places)
{
    size_t nodes = (size_t)rows->classes + 1, width = (size_t)rows->width;
    *plan = (struct plan){
        .rows = rows,
        .places = places,
        .none = rows->classes,
        .width = rows->width,
        .price = memory_take(width, sizeof(int32_t)),
        .capacity = memory_take(nodes, sizeof(int32_t)),
        .filled = memory_take(nodes, sizeof(int32_t)),
        .over = memory_take(width, sizeof(int32_t)),
        .fill = memory_take(width, sizeof(int32_t)),
        .empty = memory_take(width, sizeof(int32_t)),
        .loss = memory_take(nodes * width, sizeof(int32_t)),
        .mover = memory_take(nodes * width, sizeof(int32_t)),
        .members = memory_take(nodes, sizeof(struct members)),
        .first = memory_take((size_t)rows->count, sizeof(int32_t)),
        .marks = memory_take(width / LANES, 1),
    };
    return plan->price && plan->capacity && plan->filled && plan->over && plan->fill &&
           plan->empty && plan->loss && plan->mover && plan->members && plan->first &&
           plan->marks;
}

void plan_free(struct plan *plan)
{
    for (int32_t node = 0; plan->members && node <= plan->none; node++)
        free(plan->members[node].at);
    free(plan->price);
    free(plan->capacity);
    free(plan->filled);
    free(plan->over);
    free(plan->fill);
    free(plan->empty);
    free(plan->loss);
    free(plan->mover);
    free(plan->members);
    free(plan->parts);
    free(plan->first);
    free(plan->marks);
}

static void clear(struct plan *plan, int32_t count)
{
    size_t cells = ((size_t)plan->none + 1) * (size_t)plan->width;
    for (size_t i = 0; i < cells; i++) {
        plan->loss[i] = NEVER;
        plan->mover[i] = -1;
    }
    for (int32_t c = 0; c < plan->width; c++)
        plan->fill[c] = plan->empty[c] = NEVER;
    for (int32_t node = 0; node <= plan->none; node++)
        plan->members[node].count = 0;
    for (int32_t row = 0; row < count; row++)
        plan->first[row] = -1;
    memset(plan->over, 0, (size_t)plan->width * sizeof *plan->over);
    plan->parts_used = 0;
    plan->unused = -1;
}

/* Into the first class that gains most; while that is full, into others that gain as much. `over`
 * counts the GPUs so far. */
static bool place(struct plan *plan, int32_t row)
{
    const int32_t *worth = worth_of(plan, row), *price = plan->price;
    int32_t gain = lanes_best(worth, price, plan->width), left = plan->rows->units[row], first = -1;
    for (int32_t c = 0; c < plan->none && left; c++) {
        if (worth[c] - price[c] != gain)
            continue;
        first = first < 0 ? c : first;
        int32_t units = smaller(left, plan->capacity[c] - plan->over[c]);
        if (units <= 0)
            continue;
        if (!add(plan, row, c, units))
            return false;
        plan->over[c] += units;
        left -= units;
    }
    if (!left)
        return true;
    first = gain == 0 ? plan->none : first;
    plan->over[first] += left;
    return add(plan, row, first, left);
}

bool plan_begin(struct plan *plan, int32_t count)
{
    int64_t units = 0;
    for (int32_t row = 0; row < count; row++)
        units += plan->rows->units[row];
    share_places(plan, units);
    clear(plan, count);
    for (int32_t row = 0; row < count; row++)
        if (!place(plan, row))
            return false;
    for (int32_t c = 0; c < plan->none; c++)
        use_places(plan, c, plan->over[c]);
    plan->over[plan->none] = 0;
    return true;
}

int64_t plan_imbalance(const struct plan *plan)
{
    int64_t sum = 0;
    for (int32_t c = 0; c < plan->none; c++)
        sum += abs(plan->over[c]);
    return sum;
}
