#include "stop.h"

static bool held(const struct stop_view *view)
{
    return view->mode == MODE_FREEZE || view->silence == AGENT_SILENT;
}

static struct stop_order begin_walk(struct stop *stop, const struct stop_view *view, bool exits)
{
    stop->stage = STOP_WALK;
    stop->deadline_ns = view->now_ns + view->exit_ns;
    return (struct stop_order){
        .gate = GATE_SHUT, .walk = true, .exits = exits, .slice_ns = STOP_SLICE_NS};
}

/* In an emergency, so while frozen, the window opens only when the agent opens it; until then the
 * application stays frozen and its time does not run. When the agent is silent nobody will open it:
 * then it stays frozen for as long as the window would have been, in case the agent returns. */
static struct stop_order step_window(struct stop *stop, const struct stop_view *view)
{
    bool silent = view->silence == AGENT_SILENT;
    bool open = !silent && (view->mode != MODE_FREEZE || view->window_open);
    if (open || silent)
        stop->spent_ns += view->now_ns - stop->looked_ns;
    if (view->mode == MODE_EXIT)
        return begin_walk(stop, view, true);
    if (view->leaving || !view->handled || stop->spent_ns >= view->grace_ns) {
        struct stop_order order = begin_walk(stop, view, !view->leaving);
        order.checkpointed = stop->opened;
        return order;
    }
    stop->opened |= open;
    uint64_t left_ns = view->grace_ns - stop->spent_ns;
    return (struct stop_order){
        .gate = open ? GATE_WINDOW : GATE_FROZEN,
        .window = open,
        .slice_ns = (open || silent) && left_ns < STOP_SLICE_NS ? left_ns : STOP_SLICE_NS,
    };
}

static struct stop_order step_none(struct stop *stop, const struct stop_view *view)
{
    if (view->mode == MODE_EXIT || (view->signalled && !view->handled))
        return begin_walk(stop, view, true);
    if (view->leaving)
        return begin_walk(stop, view, false);
    if (view->signalled) {
        stop->stage = STOP_WINDOW;
        stop->looked_ns = view->now_ns;
        return step_window(stop, view);
    }
    return (struct stop_order){
        .gate = held(view) ? GATE_FROZEN : GATE_OPEN, .slice_ns = STOP_SLICE_NS};
}

/* Past the deadline the agent must go on; we keep trying. Where nothing is in flight any more and
 * only the release is late, the process may end without it; and where the application ends itself
 * and is late, a signal may end it. */
static struct stop_order step_walk(const struct stop *stop, const struct stop_view *view)
{
    struct stop_order order = {.gate = GATE_SHUT, .slice_ns = STOP_SLICE_NS};
    if (view->now_ns < stop->deadline_ns)
        return order;
    order.end = view->finished && (view->signalled || view->mode == MODE_EXIT);
    order.finish = !view->finished && view->quiesced;
    order.stuck = !view->finished && !view->quiesced;
    return order;
}

struct stop_order stop_step(struct stop *stop, const struct stop_view *view)
{
    struct stop_order order = stop->stage == STOP_NONE     ? step_none(stop, view)
                              : stop->stage == STOP_WINDOW ? step_window(stop, view)
                                                           : step_walk(stop, view);
    stop->looked_ns = view->now_ns;
    return order;
}
