/* The application's dispositions of SIGINT and SIGTERM, kept apart from the real ones. */
#pragma once

#include <stdbool.h>

/* Puts our handler in the place of what is there; what cuInit does. */
void signals_install(void);

/* True when the application has a handler of its own for the signal. */
bool signals_handled(int number);

/* Offers a signal that came while its thread was inside the driver to that thread again. For the
 * steward, every so often while `signals_kept`. */
void signals_redeliver(void);

/* The same for a thread that has just entered the slow path of the gate, and so is not in the driver
 * yet: whether any signal waits, and its handler if it is for this thread. */
bool signals_kept(void);
void signals_redeliver_here(void);

/* Around fork: no other thread is changing a disposition at that moment; and in the child the
 * application's dispositions become the real ones. */
void signals_fork_prepare(void);
void signals_fork_parent(void);
void signals_fork_child(void);

/* True in the process that called signals_install, false in its children, which share its memory
 * (vfork) or a copy of it. Async-signal-safe. */
bool signals_at_home(void);
