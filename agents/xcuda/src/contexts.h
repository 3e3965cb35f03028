/* The contexts of this process, so that all of them can be waited for and released. */
#pragma once

#include <stdbool.h>

bool contexts_any(void);

/* Waits until nothing is in flight in any context. Blocks in the driver for as long as that takes;
 * only the walker may call it, after the gate is shut. */
void contexts_synchronise(void);

/* Destroys them. */
void contexts_release(void);

void contexts_fork_child(void);
