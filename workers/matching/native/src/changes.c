#include <stdlib.h>
#include <string.h>

#include "lanes.h"
#include "memory.h"
#include "muxmatch.h"

static bool made_in_range(const struct muxmatch_made *made)
{
    if (made->classes <= 0 || made->classes > MUXMATCH_MOST_CLASSES || made->rows < 0 ||
        made->rows > MUXMATCH_MOST_UNITS)
        return false;
    for (int64_t i = 0; i < made->pairs; i++)
        if (made->row[i] < 0 || made->row[i] >= made->rows || made->job_class[i] < 0 ||
            made->job_class[i] >= made->classes)
            return false;
    return lanes_within(made->worth, made->rows * made->classes, MUXMATCH_FAR);
}

int muxmatch_changes(const struct muxmatch_made *made)
{
    if (!made_in_range(made))
        return MUXMATCH_BAD_MARKET;
    int32_t classes = (int32_t)made->classes;
    for (int64_t i = 0; i < made->pairs; i++) {
        const int32_t *worth = made->worth + made->row[i] * classes;
        int32_t own = worth[made->job_class[i]];
        int32_t *change = made->change + made->job_class[i] * (made->classes + 1);
        lanes_leave(change, worth, own, classes);
        change[classes] = own < change[classes] ? own : change[classes];
    }
    return MUXMATCH_FOUND;
}

/* Ways of the rows `from` to `end` by way of one node. */
static void pass(int32_t *chain, int64_t nodes, int64_t over, int64_t from, int64_t end)
{
    for (int64_t row = from; row < end; row++)
        if (row != over)
            lanes_shorten(chain + row * nodes, chain + over * nodes, chain[row * nodes + over],
                          (int32_t)nodes);
}

/* By way of HOPS nodes in any order: first among themselves, so that whoever comes to the first of
 * them knows all that the others can do. */
static void pass_all(int32_t *chain, int64_t nodes, int64_t first)
{
    int32_t bases[HOPS];
    for (int64_t over = first; over < first + HOPS; over++)
        pass(chain, nodes, over, first, first + HOPS);
    for (int64_t row = 0; row < nodes; row++) {
        if (row >= first && row < first + HOPS)
            continue;
        memcpy(bases, chain + row * nodes + first, sizeof bases);
        lanes_shorten_all(chain + row * nodes, chain + first * nodes, bases, (int32_t)nodes);
    }
}

int muxmatch_chains(int32_t *chain, int64_t nodes)
{
    if (nodes < 0 || nodes > MUXMATCH_MOST_CLASSES + 1 ||
        !lanes_within(chain, nodes * nodes, MUXMATCH_FAR))
        return MUXMATCH_BAD_MARKET;
    int64_t over = 0;
    for (; over + HOPS <= nodes; over += HOPS)
        pass_all(chain, nodes, over);
    for (; over < nodes; over++)
        pass(chain, nodes, over, 0, nodes);
    return MUXMATCH_FOUND;
}

static bool pairs_in_range(const struct muxmatch_rivals *rivals)
{
    for (int64_t i = 0; i < rivals->pairs; i++)
        if (rivals->row[i] < 0 || rivals->row[i] >= rivals->rows || rivals->ends[i] < 0 ||
            rivals->ends[i] > rivals->classes || rivals->job_class[i] < 0 ||
            rivals->job_class[i] > rivals->classes)
            return false;
    return true;
}

static bool rivals_in_range(const struct muxmatch_rivals *rivals)
{
    int64_t classes = rivals->classes;
    return classes > 0 && classes <= MUXMATCH_MOST_CLASSES && rivals->rows >= 0 &&
           rivals->rows <= MUXMATCH_MOST_UNITS && pairs_in_range(rivals) &&
           lanes_within(rivals->worth, rivals->rows * classes, MUXMATCH_FAR) &&
           lanes_within(rivals->chain, (classes + 1) * classes, MUXMATCH_FAR);
}

static void look(const struct muxmatch_rivals *rivals, int64_t pair, int32_t *gain)
{
    int32_t classes = (int32_t)rivals->classes;
    lanes_gain(gain, rivals->worth + rivals->row[pair] * classes,
               rivals->chain + rivals->ends[pair] * classes, classes);
    if (rivals->job_class[pair] < classes)
        gain[rivals->job_class[pair]] = -MUXMATCH_FAR;
    rivals->gain[pair] = lanes_most(gain, classes);
    rivals->other[pair] = lanes_find(gain, rivals->gain[pair], classes);
}

static bool alike(const struct muxmatch_rivals *rivals, int64_t one, int64_t other)
{
    return rivals->job_class[one] == rivals->job_class[other] &&
           rivals->ends[one] == rivals->ends[other];
}

int muxmatch_runners_up(const struct muxmatch_rivals *rivals)
{
    if (!rivals_in_range(rivals))
        return MUXMATCH_BAD_MARKET;
    int32_t *gain = memory_room((size_t)rivals->classes, sizeof *gain);
    int64_t *last = memory_take((size_t)rivals->rows, sizeof *last); /* pair of each row, from 1 */
    for (int64_t i = 0; gain && last && i < rivals->pairs; i++) {
        int64_t before = last[rivals->row[i]] - 1;
        if (before >= 0 && alike(rivals, before, i)) {
            rivals->other[i] = rivals->other[before];
            rivals->gain[i] = rivals->gain[before];
        } else {
            look(rivals, i, gain);
            last[rivals->row[i]] = i + 1;
        }
    }
    bool looked = gain && last;
    free(gain);
    free(last);
    return looked ? MUXMATCH_FOUND : MUXMATCH_OUT_OF_MEMORY;
}
