/* xcuda-block layout    every offset and size of the control block, as JSON
 * xcuda-block reap DIR  frees the slots of processes that are gone and recounts the job's memory
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "block.h"
#include "pools.h"
#include "quota.h"

/* The tool has no pools of its own to take memory back from. */
void pools_trim(void)
{
}

#define BYTES_OF(type, field) sizeof(((struct type *)0)->field)
#define FIELD(type, field) {#field, offsetof(struct type, field), BYTES_OF(type, field)}

struct field {
    const char *name;
    size_t offset, bytes;
};

static const struct field policy_fields[] = {
    FIELD(block_policy, magic),
    FIELD(block_policy, abi),
    FIELD(block_policy, page_bytes),
    FIELD(block_policy, generation),
    FIELD(block_policy, sequence),
    FIELD(block_policy, mode),
    FIELD(block_policy, memory_quota_bytes),
    FIELD(block_policy, launches_per_s),
    FIELD(block_policy, blocks_per_s),
    FIELD(block_policy, inflight_cap),
    FIELD(block_policy, duty_permille),
    FIELD(block_policy, safe_duty_permille),
    FIELD(block_policy, floor_duty_permille),
    FIELD(block_policy, grace_ms),
    FIELD(block_policy, window_open),
    FIELD(block_policy, exit_ms),
    FIELD(block_policy, heartbeat_ns),
    {0},
};

static const struct field slot_fields[] = {
    FIELD(block_slot, owner),
    FIELD(block_slot, pid_namespace),
    FIELD(block_slot, transit),
    FIELD(block_slot, phase),
    FIELD(block_slot, stuck),
    FIELD(block_slot, signal),
    FIELD(block_slot, fault),
    FIELD(block_slot, mode),
    FIELD(block_slot, sequence),
    FIELD(block_slot, inflight),
    FIELD(block_slot, window),
    FIELD(block_slot, used_bytes),
    FIELD(block_slot, host_bytes),
    FIELD(block_slot, launches),
    FIELD(block_slot, blocks),
    FIELD(block_slot, throttled_ns),
    FIELD(block_slot, frozen_ns),
    FIELD(block_slot, busy_ns),
    FIELD(block_slot, denied),
    FIELD(block_slot, unhooked),
    FIELD(block_slot, cuda_ns),
    {0},
};

static const struct field stats_fields[] = {
    FIELD(block_stats, magic),
    FIELD(block_stats, abi),
    FIELD(block_stats, slots),
    FIELD(block_stats, generation),
    FIELD(block_stats, used),
    FIELD(block_stats, peak_bytes),
    FIELD(block_stats, bell),
    FIELD(block_stats, slot),
    {0},
};

static void print_structure(const char *name, size_t size, const struct field *field)
{
    printf("  \"%s\": {\"size\": %zu, \"fields\": {", name, size);
    for (const char *comma = ""; field->name; field++, comma = ", ")
        printf("%s\"%s\": [%zu, %zu]", comma, field->name, field->offset, field->bytes);
    printf("}},\n");
}

static void print_ranges(void)
{
    const char *comma = "";
    printf("  \"ranges\": {");
#define PRINT_RANGE(field, least, most)                                           \
    printf("%s\"" #field "\": [%d, %" PRIu64 "]", comma, least, (uint64_t)(most)); \
    comma = ", ";
    BLOCK_RANGES(PRINT_RANGE)
#undef PRINT_RANGE
    printf("},\n");
}

static int print_layout(void)
{
    printf("{\n");
    print_structure("policy", sizeof(struct block_policy), policy_fields);
    print_structure("slot", sizeof(struct block_slot), slot_fields);
    print_structure("stats", sizeof(struct block_stats), stats_fields);
    print_ranges();
    printf("  \"policy_magic\": %" PRIu64 ",\n", BLOCK_POLICY_MAGIC);
    printf("  \"stats_magic\": %" PRIu64 ",\n", BLOCK_STATS_MAGIC);
    printf("  \"abi\": %u,\n", BLOCK_ABI);
    printf("  \"page_bytes\": %d,\n", BLOCK_PAGE_BYTES);
    printf("  \"unit_bytes\": %" PRIu64 ",\n", BLOCK_UNIT_BYTES);
    printf("  \"slots\": %d,\n", BLOCK_SLOTS);
    printf("  \"modes\": [%d, %d, %d, %d],\n", MODE_RUN, MODE_THROTTLE, MODE_FREEZE, MODE_EXIT);
    printf("  \"phases\": [%d, %d, %d, %d, %d, %d],\n", PHASE_NONE, PHASE_SIGNALLED,
           PHASE_CHECKPOINTED, PHASE_GATED, PHASE_QUIESCED, PHASE_RELEASED);
    printf("  \"kinds\": [%d, %d, %d, %d, %d, %d, %d, %d]\n}\n", KIND_DEVICE, KIND_ASYNC,
           KIND_MANAGED, KIND_PHYSICAL, KIND_ARRAY, KIND_GRAPH, KIND_MODULE, KIND_SLACK);
    return 0;
}

static int reap(const char *directory)
{
    struct block_files block = block_open(directory);
    if (block.reason) {
        fprintf(stderr, "xcuda-block: %s/%s %s\n", directory, block.file, block.reason);
        return 1;
    }
    unsigned reaped = slots_reap(block.stats);
    bool counted = quota_recount(block.stats);
    printf("{\"reaped\": %u, \"recounted\": %s, \"used_bytes\": %" PRIu64 "}\n", reaped,
           counted ? "true" : "false", quota_used_bytes(block.stats));
    return counted ? 0 : 1;
}

int main(int count, char **argument)
{
    if (count == 2 && !strcmp(argument[1], "layout"))
        return print_layout();
    if (count == 3 && !strcmp(argument[1], "reap"))
        return reap(argument[2]);
    fprintf(stderr, "usage: xcuda-block layout | xcuda-block reap DIR\n");
    return 2;
}
