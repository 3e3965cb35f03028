/* What is done about a stop, on a clock that the test turns. */
#include <stdio.h>
#include <stdlib.h>

#include "../../../../agents/xcuda/src/stop.c"

#define CHECK(holds)                                                    \
    do {                                                                \
        if (!(holds)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds); \
            exit(1);                                                    \
        }                                                               \
    } while (0)

#define MS UINT64_C(1000000)

static struct stop stop;
static struct stop_view now;

static void start(void)
{
    stop = (struct stop){.stage = STOP_NONE};
    now = (struct stop_view){.now_ns = 5000 * MS, .grace_ns = 300 * MS, .exit_ns = 200 * MS};
}

static struct stop_order after(uint64_t ms)
{
    now.now_ns += ms * MS;
    return stop_step(&stop, &now);
}

static void told(bool handled)
{
    start();
    after(0);
    now.signalled = true;
    now.handled = handled;
}

static void test_nothing_is_stopped_without_a_wish(void)
{
    start();
    struct stop_order order = after(1000);
    CHECK(order.gate == GATE_OPEN && !order.walk && order.slice_ns == STOP_SLICE_NS);
}

static void test_a_freeze_and_a_silent_agent_close_the_gate_and_lift_again(void)
{
    start();
    now.mode = MODE_FREEZE;
    CHECK(after(1).gate == GATE_FROZEN);
    now.mode = MODE_RUN;
    CHECK(after(1).gate == GATE_OPEN);
    now.silence = AGENT_STALE; /* that is for the duty alone */
    CHECK(after(1).gate == GATE_OPEN);
    now.silence = AGENT_SILENT;
    CHECK(after(1).gate == GATE_FROZEN);
    now.silence = AGENT_HEARD;
    CHECK(after(1).gate == GATE_OPEN);
}

static void test_a_signal_without_a_handler_goes_straight_to_the_gate(void)
{
    told(false);
    struct stop_order order = after(1);
    CHECK(order.walk && order.exits && order.gate == GATE_SHUT && !order.checkpointed);
    CHECK(!after(1).walk); /* once */
}

static void test_a_handled_signal_opens_the_window_for_the_grace_and_no_longer(void)
{
    told(true);
    struct stop_order order = after(1);
    CHECK(order.window && order.gate == GATE_WINDOW && !order.walk);
    order = after(250);
    CHECK(order.window && order.slice_ns == 50 * MS);
    order = after(50);
    CHECK(!order.window && order.checkpointed && order.walk && order.exits);
}

static void test_without_grace_there_is_no_window(void)
{
    told(true);
    now.grace_ns = 0;
    struct stop_order order = after(1);
    CHECK(order.walk && !order.window && !order.checkpointed);
}

static void test_an_application_that_leaves_in_its_window_ends_itself(void)
{
    told(true);
    after(1);
    now.leaving = true;
    struct stop_order order = after(1);
    CHECK(order.walk && !order.exits && order.checkpointed);
}

static void test_an_application_that_wants_no_more_of_its_window_is_ended(void)
{
    told(true);
    after(1);
    now.handled = false;
    struct stop_order order = after(1);
    CHECK(order.walk && order.exits && order.checkpointed);
}

static void test_the_agent_cuts_any_stage_short(void)
{
    start();
    now.mode = MODE_EXIT;
    CHECK(after(1).walk);
    told(true);
    after(1);
    now.mode = MODE_EXIT;
    struct stop_order order = after(1);
    CHECK(order.walk && order.exits && !order.checkpointed);
}

static void test_a_frozen_stop_has_all_the_time_until_the_agent_opens_the_window(void)
{
    told(true);
    now.mode = MODE_FREEZE;
    for (int i = 0; i < 100; i++) {
        struct stop_order order = after(100);
        CHECK(order.gate == GATE_FROZEN && !order.window && !order.walk);
    }
    now.window_open = true;
    CHECK(after(0).gate == GATE_WINDOW);
    CHECK(after(299).window);
    now.window_open = false; /* it can be closed again, and its time stands still */
    CHECK(after(0).gate == GATE_FROZEN);
    CHECK(!after(1000).walk);
    now.window_open = true;
    CHECK(!after(0).walk);
    struct stop_order order = after(1);
    CHECK(order.walk && order.checkpointed);
}

static void test_a_stop_outlives_a_silent_agent_without_a_window(void)
{
    told(true);
    now.mode = MODE_FREEZE;
    now.silence = AGENT_SILENT;
    struct stop_order order = after(1);
    CHECK(order.gate == GATE_FROZEN && !order.walk);
    after(200);
    order = after(100);
    CHECK(order.walk && order.exits && !order.checkpointed);
}

static void test_past_the_deadline_only_what_is_harmless_is_given_up(void)
{
    told(false);
    after(1);
    CHECK(!after(199).stuck);
    struct stop_order order = after(1);
    CHECK(order.stuck && !order.finish && !order.end);
    now.quiesced = true; /* only the release is late */
    order = after(1);
    CHECK(!order.stuck && order.finish);
    now.finished = true;
    CHECK(!after(1).finish);
}

static void test_a_signal_ends_an_application_that_is_late_to_leave(void)
{
    start();
    now.leaving = true;
    CHECK(!after(1).exits);
    now.quiesced = now.finished = true;
    CHECK(!after(1000).end);
    now.signalled = true;
    CHECK(after(1).end);
}

int main(void)
{
    test_nothing_is_stopped_without_a_wish();
    test_a_freeze_and_a_silent_agent_close_the_gate_and_lift_again();
    test_a_signal_without_a_handler_goes_straight_to_the_gate();
    test_a_handled_signal_opens_the_window_for_the_grace_and_no_longer();
    test_without_grace_there_is_no_window();
    test_an_application_that_leaves_in_its_window_ends_itself();
    test_an_application_that_wants_no_more_of_its_window_is_ended();
    test_the_agent_cuts_any_stage_short();
    test_a_frozen_stop_has_all_the_time_until_the_agent_opens_the_window();
    test_a_stop_outlives_a_silent_agent_without_a_window();
    test_past_the_deadline_only_what_is_harmless_is_given_up();
    test_a_signal_ends_an_application_that_is_late_to_leave();
    return 0;
}
