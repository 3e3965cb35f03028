#include "lanes.h"

#include "muxmatch.h"

/* The sanitizers run before the loader could choose. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

WIDE int32_t lanes_copy(int32_t *restrict to, const int32_t *restrict from,
                        const int32_t *restrict open, int32_t classes)
{
    int32_t most = 0;
    for (int32_t c = 0; c < classes; c++) {
        int32_t worth = from[c] & open[c];
        to[c] = worth > 0 ? worth : -NEVER;
        most = worth > most ? worth : most;
    }
    return most;
}

WIDE int32_t lanes_find(const int32_t *values, int32_t value, int32_t width)
{
    int32_t place = width;
    for (int32_t c = width - 1; c >= 0; c--)
        place = values[c] == value ? c : place;
    return place;
}

WIDE int32_t lanes_best(const int32_t *restrict worth, const int32_t *restrict price,
                        int32_t width)
{
    int32_t best = INT32_MIN;
    for (int32_t c = 0; c < width; c++) {
        int32_t gain = worth[c] - price[c];
        best = gain > best ? gain : best;
    }
    return best;
}

WIDE void lanes_lower(int32_t *restrict loss, int32_t *restrict mover, struct member member,
                      int32_t width)
{
    const int32_t *restrict worth = member.worth;
    for (int32_t c = 0; c < width; c++) {
        int32_t lost = member.own - worth[c];
        int32_t less = lost < loss[c];
        loss[c] = less ? lost : loss[c];
        mover[c] = less ? member.part : mover[c];
    }
}

/* What an AVX2 register holds, so that all stays in registers while the members pass by; a loop over
 * arrays would be taken apart into single numbers. */
typedef int32_t eight __attribute__((vector_size(32), aligned(4), may_alias));
#define EIGHTS (LANES / 8)
/* Members lie anywhere; the processor does not foresee where. */
#define AHEAD 12

WIDE void lanes_anew(int32_t *restrict loss, int32_t *restrict mover,
                     const struct member *restrict members, int32_t count, int32_t start)
{
    eight least[EIGHTS], who[EIGHTS];
    for (int32_t k = 0; k < EIGHTS; k++) {
        least[k] = (eight){0} + NEVER;
        who[k] = (eight){0} - 1;
    }
    for (int32_t i = 0; i < count; i++) {
        const eight *worth = (const eight *)(members[i].worth + start);
        if (i + AHEAD < count)
            __builtin_prefetch(members[i + AHEAD].worth + start);
        for (int32_t k = 0; k < EIGHTS; k++) {
            eight lost = members[i].own - worth[k];
            eight less = lost < least[k];
            least[k] = (lost & less) | (least[k] & ~less);
            who[k] = (members[i].part & less) | (who[k] & ~less);
        }
    }
    for (int32_t k = 0; k < EIGHTS; k++) {
        ((eight *)(loss + start))[k] = least[k];
        ((eight *)(mover + start))[k] = who[k];
    }
}

WIDE void lanes_mark(uint8_t *restrict marks, const int32_t *restrict values, int32_t value,
                     int32_t width)
{
    for (int32_t start = 0; start < width; start += LANES) {
        int32_t hits = 0;
        for (int32_t k = 0; k < LANES; k++)
            hits |= values[start + k] == value;
        marks[start / LANES] = hits != 0;
    }
}

WIDE int32_t lanes_relax(int32_t *restrict distance, int32_t *restrict open,
                         int32_t *restrict before, const int32_t *restrict step,
                         const int32_t *restrict price, int32_t base, int32_t node, int32_t width)
{
    int32_t least = INT32_MAX;
    for (int32_t c = 0; c < width; c++) {
        int32_t through = base + step[c] + price[c];
        int32_t closer = through < distance[c];
        distance[c] = closer ? through : distance[c];
        before[c] = closer ? node : before[c];
        open[c] = closer ? through : open[c];
        least = open[c] < least ? open[c] : least;
    }
    return least;
}

WIDE void lanes_shorten(int32_t *restrict ways, const int32_t *restrict onward, int32_t base,
                        int32_t count)
{
    for (int32_t c = 0; c < count; c++) {
        int32_t through = base + onward[c];
        through = through < -MUXMATCH_FAR ? -MUXMATCH_FAR : through;
        ways[c] = through < ways[c] ? through : ways[c];
    }
}

WIDE void lanes_shorten_all(int32_t *restrict ways, const int32_t *restrict onward,
                            const int32_t *restrict bases, int32_t count)
{
    for (int32_t c = 0; c < count; c++) {
        int32_t least = ways[c];
        for (int32_t hop = 0; hop < HOPS; hop++) {
            int32_t through = bases[hop] + onward[hop * (int64_t)count + c];
            least = through < least ? through : least;
        }
        ways[c] = least < -MUXMATCH_FAR ? -MUXMATCH_FAR : least;
    }
}

WIDE void lanes_gain(int32_t *restrict gain, const int32_t *restrict worth,
                     const int32_t *restrict way, int32_t count)
{
    for (int32_t c = 0; c < count; c++)
        gain[c] = (worth[c] > 0 ? worth[c] : -MUXMATCH_FAR) - way[c];
}

WIDE void lanes_leave(int32_t *restrict loss, const int32_t *restrict worth, int32_t own,
                      int32_t count)
{
    for (int32_t c = 0; c < count; c++) {
        int32_t lost = worth[c] > 0 ? own - worth[c] : MUXMATCH_FAR;
        loss[c] = lost < loss[c] ? lost : loss[c];
    }
}

WIDE int32_t lanes_most(const int32_t *values, int32_t count)
{
    int32_t most = INT32_MIN;
    for (int32_t c = 0; c < count; c++)
        most = values[c] > most ? values[c] : most;
    return most;
}

WIDE bool lanes_within(const int32_t *values, int64_t count, int32_t most)
{
    int32_t beyond = 0;
    for (int64_t i = 0; i < count; i++)
        beyond |= (values[i] > most) | (values[i] < -most);
    return !beyond;
}
