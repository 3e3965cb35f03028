/* What STUB_FAIL and STUB_FAIL_FILE ask for. */
#pragma once

#include <stdbool.h>

#include "stub.h"

/* Whether they ask for anything. */
bool failures_read(void);

/* The code that this call of the symbol has to return, CUDA_SUCCESS when none is asked for. */
CUresult failure_due(const char *symbol);

/* Errors after which a context is of no use any more. */
bool is_fatal(CUresult code);
