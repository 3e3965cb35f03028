/* What the unit tests have in common. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(holds, ...)                                               \
    do {                                                                \
        if (!(holds)) {                                                 \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #holds); \
            fprintf(stderr, __VA_ARGS__);                               \
            fputc('\n', stderr);                                        \
            exit(1);                                                    \
        }                                                               \
    } while (0)

/* The same numbers at every run; each thread has its own seed. */
static inline uint32_t below(uint32_t *seed, uint32_t limit)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*seed * limit >> 32);
}
