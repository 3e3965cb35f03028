/* What a person or the agent sets in the environment. */
#pragma once

#include <stdbool.h>

#include "block.h"

struct settings {
    const char *directory; /* MUXFLOW_XCUDA_DIR; NULL: no control block */
    bool required;         /* MUXFLOW_XCUDA_REQUIRED=1: without a valid block there is no CUDA */
    bool malformed;        /* a setting was not understood; a line has said which, and what then */
};

/* Reads them, and the limits of a run by hand into `limits`; a limit that is not set or not
 * understood stays as it is. */
struct settings settings_read(struct block_policy *limits);
