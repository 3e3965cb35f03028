/* Which process owns a slot, and whether it is still there. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Of the calling process, as `block_slot.owner` and `block_slot.pid_namespace` hold it. */
uint64_t owner_self(void);
uint32_t pid_namespace_self(void);
