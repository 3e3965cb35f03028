/* What becomes of us in a child: it has no GPU, so nothing of ours holds there. */
#pragma once

/* From now on every fork is prepared and cleaned up after. */
void fork_watch(void);
