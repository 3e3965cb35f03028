/* What becomes of us in a child: it has no GPU, so nothing of ours holds there.
 *
 * Watched from the start, since handlers that are registered later run outside of ours: before our
 * locks are taken, and in parent and child after they have been given back. Those of an application
 * may well change a disposition, or wait for a thread that does. */
#include <pthread.h>

#include "allocations.h"
#include "block.h"
#include "contexts.h"
#include "gate.h"
#include "signals.h"
#include "steward.h"

/* Blocks signals first, so that no handler runs while the other locks are held. */
static void before(void)
{
    signals_fork_prepare();
    gate_fork_prepare();
}

static void after_in_parent(void)
{
    gate_fork_parent();
    signals_fork_parent();
}

static void after_in_child(void)
{
    steward_fork_child();
    block_fork_child();
    contexts_fork_child();
    allocations_fork_child();
    gate_fork_child();
    signals_fork_child();
}

__attribute__((constructor)) static void watch(void)
{
    pthread_atfork(before, after_in_parent, after_in_child);
}
