#include "physical.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "quota.h"

struct physical {
    uint64_t bytes;
    bool on_device;
    _Atomic uint32_t holds;
};

struct physical *physical_new(uint64_t bytes, bool on_device)
{
    struct physical *physical = malloc(sizeof *physical);
    if (physical)
        *physical = (struct physical){.bytes = bytes, .on_device = on_device, .holds = 1};
    return physical;
}

void physical_hold(struct physical *physical)
{
    if (physical)
        atomic_fetch_add(&physical->holds, 1);
}

void physical_drop(struct physical *physical)
{
    if (physical == NULL || atomic_fetch_sub(&physical->holds, 1) != 1)
        return;
    if (physical->on_device)
        quota_release(KIND_PHYSICAL, physical->bytes);
    free(physical);
}
