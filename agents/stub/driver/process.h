/* This process as a user of the driver: its settings, its seat at the server, its failures to come.
 *
 * Every entry point begins with ENTER(). While nothing special is asked for (no time, no shared
 * file, no failures, no capture) that is one load and one branch, so that what a preloaded library
 * adds can be measured in nanoseconds. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "failures.h"
#include "server.h"

#define EXPORT __attribute__((visibility("default")))

enum special {
    SPECIAL_NO_INIT = 1,    /* cuInit was not called */
    SPECIAL_NO_CONTEXT = 2, /* there is none in this process */
    SPECIAL_TIMED = 4,
    SPECIAL_SHARED = 8,
    SPECIAL_FAILURES = 16,
    SPECIAL_CAPTURE = 32, /* some stream captures */
    SPECIAL_ENDED = 64,   /* after exit() */
    SPECIAL_FORKED = 128,
};

struct process {
    _Atomic uint32_t special;
    bool timed;
    bool hasty;       /* shuts down in an exit handler of cuInit's, and waits for nothing */
    bool trampolines; /* cuGetProcAddress returns none of the exported addresses */
    struct server *server;
    int seat; /* -1 before the first context */
    double block_ns;
    double copy_ns_per_byte;
    double share;
    uint64_t limit_bytes;
};

extern struct process process;

static inline bool is_special(void)
{
    return __builtin_expect(atomic_load_explicit(&process.special, memory_order_relaxed), 0);
}

void special_set(enum special what);
void special_clear(enum special what);

/* What the call of this name has to return at once, or CUDA_SUCCESS. */
enum needs { NEEDS_NOTHING, NEEDS_INIT, NEEDS_CONTEXT, NEEDS_NO_CAPTURE };
CUresult enter_special(const char *symbol, enum needs needs);

#define ENTER_WITH(needs)                                                                          \
    do {                                                                                           \
        if (is_special()) {                                                                        \
            CUresult early = enter_special(__func__, needs);                                       \
            if (early)                                                                             \
                return early;                                                                      \
        }                                                                                          \
    } while (0)
#define ENTER() ENTER_WITH(NEEDS_CONTEXT)
#define ENTER_UNSAFE() ENTER_WITH(NEEDS_NO_CAPTURE)

/* What cuInit has to do beyond itself. */
void process_initialised(void);

/* Take the seat for the first context, and tell the server how many there are. */
CUresult process_connect(void);
void process_contexts(uint32_t count);

/* Device memory, in whole units of 512 bytes. */
bool memory_exceeds(uint64_t bytes); /* what the whole device has */
CUresult memory_take(uint64_t bytes);
void memory_give(uint64_t bytes);
uint64_t memory_free_bytes(void);
uint64_t memory_total_bytes(void);
uint64_t rounded(uint64_t bytes, uint64_t unit);

/* capture.c: a call that may not be made while a stream captures; invalidates what it disturbs. */
CUresult capture_disturbed(void);

/* streams.c: wait for all work of this process. */
CUresult streams_finish(void);
