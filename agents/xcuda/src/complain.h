/* One clear line on stderr, once for each kind of trouble in a process. */
#pragma once

#include <stdint.h>

enum trouble {
    TROUBLE_BLOCK,       /* the control block cannot be used */
    TROUBLE_ENVIRONMENT, /* a setting that cannot be read */
    TROUBLE_POLICY,      /* a policy that makes no sense */
    TROUBLE_DRIVER,      /* the driver or the C library is not as expected */
    TROUBLE_CONTEXTS,    /* more contexts than can be tracked */
    TROUBLE_MEMORY,      /* the books of the memory quota */
    TROUBLE_FAULT,       /* a fatal code of the driver */
    TROUBLE_STUCK,       /* a stop that is past its deadline */
    TROUBLE_COUNT
};

/* Writes "xcuda: " and the parts, which end with NULL, in one write. Async-signal-safe. */
void complain(enum trouble kind, ...) __attribute__((sentinel));
#define COMPLAIN(kind, ...) complain((kind), __VA_ARGS__, (char *)0)

/* Decimal digits of a number in a buffer of the caller's, for a part. Async-signal-safe. */
struct decimal {
    char text[24];
};
const char *decimal(struct decimal *into, int64_t number);
