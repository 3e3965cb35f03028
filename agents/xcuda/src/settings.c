#include "settings.h"

#include <stdlib.h>
#include <string.h>

#include "complain.h"

/* Digits with at most three decimals, in thousandths: "2.5" is 2500. */
static bool parse_thousandths(const char *text, uint64_t *value, const char **end)
{
    const char *at = text;
    uint64_t whole = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(whole, 10, &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(*at - '0'), &whole))
            return false;
    if (at == text || __builtin_mul_overflow(whole, 1000, value))
        return false;
    if (*at == '.') {
        uint64_t weight = 100;
        for (at++; *at >= '0' && *at <= '9' && weight; at++, weight /= 10)
            *value += weight * (uint64_t)(*at - '0');
    }
    *end = at;
    return true;
}

static bool parse_plain(const char *text, uint64_t *value)
{
    const char *end;
    return parse_thousandths(text, value, &end) && !*end;
}

static bool parse_count(const char *text, uint64_t *value)
{
    bool whole = parse_plain(text, value) && *value % 1000 == 0;
    *value /= 1000;
    return whole;
}

static bool parse_bytes(const char *text, uint64_t *value)
{
    static const struct {
        const char *name;
        unsigned shift;
    } unit[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
    const char *end;
    if (!parse_thousandths(text, value, &end))
        return false;
    for (size_t i = 0; i < sizeof unit / sizeof unit[0]; i++)
        if (!strcmp(end, unit[i].name)) {
            bool fits = !__builtin_mul_overflow(*value, UINT64_C(1) << unit[i].shift, value);
            *value /= 1000;
            return fits;
        }
    return false;
}

/* Tenths of a percent. */
static bool parse_percent(const char *text, uint64_t *value)
{
    bool number = parse_plain(text, value);
    *value /= 100;
    return number;
}

struct limit {
    const char *name;
    bool (*parse)(const char *text, uint64_t *value);
    uint64_t least, most;
    const char *wanted;
};

/* Reads a limit; leaves `value` as it is when the setting is absent or not understood. */
static bool read_limit(const struct limit *limit, bool required, uint64_t *value)
{
    const char *text = getenv(limit->name);
    uint64_t found;
    if (!text)
        return true;
    if (limit->parse(text, &found) && found >= limit->least && found <= limit->most) {
        *value = found;
        return true;
    }
    COMPLAIN(TROUBLE_ENVIRONMENT, limit->name, "=", text, " is not ", limit->wanted,
             required ? ": CUDA is refused" : ": it is ignored");
    return false;
}

static bool read_required(bool *understood)
{
    const char *text = getenv("MUXFLOW_XCUDA_REQUIRED");
    if (!text || !*text || !strcmp(text, "0"))
        return false;
    if (strcmp(text, "1") != 0) {
        COMPLAIN(TROUBLE_ENVIRONMENT, "MUXFLOW_XCUDA_REQUIRED=", text,
                 " is neither 0 nor 1: CUDA is refused");
        *understood = false;
    }
    return true;
}

struct settings settings_read(struct block_policy *limits)
{
    enum { MEMORY, LAUNCHES, BLOCKS, DUTY, INFLIGHT, GRACE, LIMITS };
    static const struct limit limit[LIMITS] = {
        [MEMORY] = {"MUXFLOW_XCUDA_MEMORY", parse_bytes, 1, UINT64_C(1) << 48,
                    "a size such as 2GiB or 512MiB"},
        [LAUNCHES] = {"MUXFLOW_XCUDA_LAUNCHES_PER_S", parse_count, 1, 1000000000,
                      "a whole number of launches per second"},
        [BLOCKS] = {"MUXFLOW_XCUDA_BLOCKS_PER_S", parse_count, 1, UINT64_C(1000000000000000),
                    "a whole number of blocks per second"},
        [DUTY] = {"MUXFLOW_XCUDA_DUTY", parse_percent, 1, 1000, "a percentage from 0.1 to 100"},
        [INFLIGHT] = {"MUXFLOW_XCUDA_INFLIGHT", parse_count, 1, 1000000,
                      "a whole number of launches"},
        [GRACE] = {"MUXFLOW_XCUDA_GRACE_S", parse_plain, 0, 86400000,
                   "a number of seconds up to one day"},
    };
    uint64_t value[LIMITS] = {[DUTY] = limits->duty_permille, [GRACE] = limits->grace_ms};
    bool understood = true;
    struct settings settings = {.required = read_required(&understood)};
    for (int i = 0; i < LIMITS; i++)
        understood &= read_limit(&limit[i], settings.required, &value[i]);
    limits->memory_quota_bytes = value[MEMORY];
    limits->launches_per_s = value[LAUNCHES];
    limits->blocks_per_s = value[BLOCKS];
    limits->duty_permille = (uint32_t)value[DUTY];
    limits->inflight_cap = (uint32_t)value[INFLIGHT];
    limits->grace_ms = (uint32_t)value[GRACE];
    settings.malformed = !understood;
    settings.directory = getenv("MUXFLOW_XCUDA_DIR");
    return settings;
}
