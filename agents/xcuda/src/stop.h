/* What the steward does about the stop of its process. PURE: what is true now goes in, what to do
 * comes out; steward.c looks and acts.
 *
 *   STOP_NONE    the gate is open, or closed by a freeze
 *   STOP_WINDOW  a signal was handled by the application, which may save and exit
 *   STOP_WALK    the walker gates, waits and releases; there is no way back
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "block.h"
#include "gate.h"

struct stop {
    enum { STOP_NONE, STOP_WINDOW, STOP_WALK } stage;
    bool opened;          /* the application has had some of its window */
    uint64_t looked_ns;   /* the last time */
    uint64_t spent_ns;    /* of the window, or of waiting frozen for an agent that is silent */
    uint64_t deadline_ns; /* of the walk */
};

struct stop_view {
    uint64_t now_ns;
    enum block_mode mode;
    enum block_silence silence;
    bool signalled; /* a signal asked for the stop */
    bool handled;   /* and the application has a handler for it, and goes on */
    bool leaving;   /* a thread of the application is ending the process */
    bool window_open;
    uint64_t grace_ns, exit_ns;
    bool quiesced; /* by the walker: nothing is in flight */
    bool finished; /* by the walker: it may end */
};

struct stop_order {
    enum gate_state gate; /* until the walk, which shuts it */
    bool window;          /* it is open */
    bool checkpointed;    /* the window has been */
    bool walk;            /* begin */
    bool exits;           /* at its end the process is ended by us, not by the application */
    bool stuck;           /* work is in flight past the deadline */
    bool finish;          /* do not wait for the walker any longer: only the release is late */
    bool end;             /* end the process at once */
    uint64_t slice_ns;    /* look again after this */
};

#define STOP_SLICE_NS UINT64_C(100000000)

struct stop_order stop_step(struct stop *stop, const struct stop_view *view);
