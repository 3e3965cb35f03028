/* Memory of cuMemCreate. Its handle may be released while it is mapped, and the driver may then
 * give the handle's value to the next; so it is kept apart from both, and is charged until the last
 * handle and the last mapping are gone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "block.h"

struct physical;

/* Held once, by its handle. NULL: no host memory. */
struct physical *physical_new(uint64_t bytes, bool on_device);

/* NULL stands for memory that is not ours to charge, and is left alone. */
void physical_hold(struct physical *physical);
void physical_drop(struct physical *physical);
