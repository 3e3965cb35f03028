/* The ways in which a process ends by itself. */
#pragma once

/* From here on exit() waits for what is in flight; to be called when the driver has initialised. */
void leaving_watch(void);
