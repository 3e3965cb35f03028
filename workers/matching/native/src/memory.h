/* Memory of whole cache lines, so that vectors need not straddle two; much of it in large pages. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL when there is not so much; the one as it comes, the other zeroed. */
void *memory_room(size_t count, size_t size);
void *memory_take(size_t count, size_t size);

/* Doubles the room of an array, and keeps what is in it. False, and all as it was, when that is not
 * possible. */
bool memory_grow(void **array, int32_t *room, size_t size);
