/* The policy as a process takes it over, on a page that the test writes. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../../../agents/xcuda/src/block.c"
#include "../../../../agents/xcuda/src/complain.c"
#include "../../../../agents/xcuda/src/owner.c"
#include "../../../../agents/xcuda/src/settings.c"

#define CHECK(holds)                                                        \
    do {                                                                    \
        if (!(holds)) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds);     \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

bool quota_recount(struct block_stats *of)
{
    (void)of;
    return true;
}

static struct block_policy agent;
static const uint64_t NOW = 1000 * NS_PER_S;

static void start(void)
{
    agent = (struct block_policy){
        .duty_permille = 1000,
        .safe_duty_permille = 100,
        .floor_duty_permille = 50,
        .exit_ms = 1000,
        .sequence = 2,
    };
    use(&agent, &private_stats);
    CHECK(policy_refresh());
}

#define WRITE(field, value)       \
    do {                          \
        agent.sequence |= 1;      \
        agent.field = (value);    \
        agent.sequence += 1;      \
    } while (0)

static void test_a_policy_is_taken_over_once(void)
{
    start();
    WRITE(launches_per_s, 7);
    CHECK(policy_refresh());
    CHECK(policy_now()->launches_per_s == 7);
    CHECK(slot->sequence == agent.sequence);
    CHECK(!policy_refresh());
}

static void test_an_unfinished_policy_changes_nothing(void)
{
    start();
    agent.sequence |= 1;
    agent.launches_per_s = 9;
    CHECK(!policy_refresh());
    CHECK(policy_now()->launches_per_s == 0);
    agent.sequence += 1;
    CHECK(policy_refresh());
    CHECK(policy_now()->launches_per_s == 9);
}

#define REFUSES(field, value)                                \
    do {                                                     \
        start();                                             \
        WRITE(launches_per_s, 5);                            \
        policy_refresh();                                    \
        uint32_t good = slot->sequence;                      \
        agent.launches_per_s = 6;                            \
        WRITE(field, (value));                               \
        CHECK(!policy_refresh());                            \
        CHECK(policy_now()->launches_per_s == 5);            \
        CHECK(slot->sequence == good);                       \
    } while (0)

static void test_a_senseless_policy_leaves_the_last_good_one(void)
{
    REFUSES(mode, 4);
    REFUSES(memory_quota_bytes, (UINT64_C(1) << 48) + 1);
    REFUSES(launches_per_s, UINT64_C(1000000001));
    REFUSES(blocks_per_s, UINT64_C(1000000000000001));
    REFUSES(inflight_cap, 1000001);
    REFUSES(duty_permille, 0);
    REFUSES(duty_permille, 1001);
    REFUSES(safe_duty_permille, 0);
    REFUSES(floor_duty_permille, 0);
    REFUSES(floor_duty_permille, UINT32_MAX);
    REFUSES(grace_ms, 86400001);
    REFUSES(window_open, 2);
    REFUSES(exit_ms, 0);
    REFUSES(exit_ms, 3600001);
    WRITE(exit_ms, 1);
    CHECK(policy_refresh()); /* and a good one ends it */
    CHECK(policy_now()->launches_per_s == 6);
}

static void test_the_duty_is_the_least_of_what_holds(void)
{
    start();
    WRITE(duty_permille, 400);
    policy_refresh();
    CHECK(policy_now()->duty_permille == 400);
    WRITE(mode, MODE_THROTTLE);
    policy_refresh();
    CHECK(policy_now()->duty_permille == 50);
    WRITE(mode, MODE_RUN);
    policy_refresh();
    duty_set_window(true);
    CHECK(policy_now()->duty_permille == 50);
    WRITE(duty_permille, 20);
    policy_refresh();
    CHECK(policy_now()->duty_permille == 20);
    duty_set_window(false);
}

static void test_a_silent_agent_lowers_the_duty_and_then_freezes_until_it_is_back(void)
{
    start();
    CHECK(agent_silence(NOW) == AGENT_HEARD); /* none at all: a run by hand */
    agent.heartbeat_ns = NOW;
    CHECK(agent_silence(NOW + 3 * NS_PER_S) == AGENT_HEARD);
    CHECK(policy_now()->duty_permille == 1000);
    CHECK(agent_silence(NOW + 3 * NS_PER_S + 1) == AGENT_STALE);
    CHECK(policy_now()->duty_permille == 100);
    CHECK(agent_silence(NOW + 30 * NS_PER_S) == AGENT_STALE);
    CHECK(agent_silence(NOW + 30 * NS_PER_S + 1) == AGENT_SILENT);
    agent.heartbeat_ns = NOW + 31 * NS_PER_S;
    CHECK(agent_silence(NOW + 31 * NS_PER_S) == AGENT_HEARD);
    CHECK(policy_now()->duty_permille == 1000);
}

static void test_a_heartbeat_of_the_future_counts_from_its_last_change(void)
{
    start();
    agent.heartbeat_ns = UINT64_MAX;
    CHECK(agent_silence(NOW) == AGENT_HEARD);
    CHECK(agent_silence(NOW + 4 * NS_PER_S) == AGENT_STALE);
    CHECK(agent_silence(NOW + 31 * NS_PER_S) == AGENT_SILENT);
    agent.heartbeat_ns = UINT64_MAX - 1;
    CHECK(agent_silence(NOW + 32 * NS_PER_S) == AGENT_HEARD);
}

/* Readers race each other and the writer; whoever comes last, the newest policy holds. */
enum { WRITES = 20000, READERS = 3 };

static void *refresh_until_last(void *unused)
{
    while (policy_now()->launches_per_s != WRITES)
        policy_refresh();
    return unused;
}

static void test_the_newest_policy_holds_whoever_is_overtaken(void)
{
    start();
    pthread_t reader[READERS];
    for (int i = 0; i < READERS; i++)
        pthread_create(&reader[i], NULL, refresh_until_last, NULL);
    for (uint64_t i = 1; i <= WRITES; i++) {
        WRITE(launches_per_s, i);
        if (i % 100 == 0)
            sched_yield();
    }
    for (int i = 0; i < READERS; i++)
        pthread_join(reader[i], NULL);
    policy_refresh();
    CHECK(policy_now()->launches_per_s == WRITES);
    CHECK(slot->sequence == agent.sequence);
}

/* --- settings -------------------------------------------------------------------------------- */

static uint64_t bytes(const char *text)
{
    uint64_t value;
    return parse_bytes(text, &value) ? value : UINT64_MAX;
}

static void test_sizes_are_read_exactly_or_not_at_all(void)
{
    CHECK(bytes("1") == 1);
    CHECK(bytes("1024B") == 1024);
    CHECK(bytes("1.5KiB") == 1536);
    CHECK(bytes("2GiB") == UINT64_C(2) << 30);
    CHECK(bytes("16TiB") == UINT64_C(16) << 40);
    static const char *const wrong[] = {"", "GiB", "-1GiB", "2 GiB", "2GB", "2Gib", "0x10", "1e9",
                                        "99999999999999999999", "18446744073709551615GiB",
                                        "1.2345KiB", "nan"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(bytes(wrong[i]) == UINT64_MAX);
}

static void test_counts_are_whole_and_percentages_have_a_decimal(void)
{
    uint64_t value;
    CHECK(parse_count("12", &value) && value == 12);
    CHECK(!parse_count("1.5", &value));
    CHECK(!parse_count("12a", &value));
    CHECK(parse_percent("12.5", &value) && value == 125);
    CHECK(parse_plain("0.25", &value) && value == 250);
}

static void test_decimals_are_written_as_printf_does(void)
{
    static const int64_t numbers[] = {0, 7, -7, 719, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct decimal digits;
        char expected[24];
        snprintf(expected, sizeof expected, "%lld", (long long)numbers[i]);
        CHECK(!strcmp(decimal(&digits, numbers[i]), expected));
    }
}

int main(void)
{
    test_a_policy_is_taken_over_once();
    test_an_unfinished_policy_changes_nothing();
    test_a_senseless_policy_leaves_the_last_good_one();
    test_the_duty_is_the_least_of_what_holds();
    test_a_silent_agent_lowers_the_duty_and_then_freezes_until_it_is_back();
    test_a_heartbeat_of_the_future_counts_from_its_last_change();
    test_the_newest_policy_holds_whoever_is_overtaken();
    test_sizes_are_read_exactly_or_not_at_all();
    test_counts_are_whole_and_percentages_have_a_decimal();
    test_decimals_are_written_as_printf_does();
    return 0;
}
