/* Device addresses. Each allocation has a terabyte of address space to itself, so that the number
 * of an allocation is a part of its addresses and no search is ever needed. */

#include "handles.h"

#define SPAN_BITS 40
#define NUMBER_BITS 18
#define ALLOCATIONS (1u << NUMBER_BITS)
#define BASE (UINT64_C(1) << 60)

static struct allocation table[ALLOCATIONS]; /* 0 is never given out */
static _Atomic uint32_t used_up = 1;         /* numbers from here on were never in use */
static _Atomic uint64_t free_list;           /* change count << 32 | number; 0: empty */

static uint32_t take_number(void)
{
    uint64_t head = atomic_load_explicit(&free_list, memory_order_acquire);
    while ((uint32_t)head) {
        uint64_t next = (head >> 32) << 32 | table[(uint32_t)head].next_free;
        if (atomic_compare_exchange_weak_explicit(&free_list, &head, next, memory_order_acquire,
                                                  memory_order_acquire))
            return (uint32_t)head;
    }
    uint32_t number = atomic_fetch_add(&used_up, 1);
    return number < ALLOCATIONS ? number : 0;
}

static void put_number(uint32_t number)
{
    uint64_t head = atomic_load_explicit(&free_list, memory_order_relaxed), next;
    do {
        table[number].next_free = (uint32_t)head;
        next = ((head >> 32) + 1) << 32 | number;
    } while (!atomic_compare_exchange_weak_explicit(&free_list, &head, next, memory_order_release,
                                                    memory_order_relaxed));
}

CUdeviceptr allocation_add(enum allocation_kind kind, uint64_t bytes, void *owner)
{
    uint32_t number = take_number();
    if (!number)
        return 0;
    table[number].bytes = bytes;
    table[number].owner = owner;
    table[number].kind = (uint16_t)kind;
    return BASE | (uint64_t)number << SPAN_BITS;
}

struct allocation *allocation_at(CUdeviceptr address, bool inside)
{
    uint64_t number = (address & ~BASE) >> SPAN_BITS;
    uint64_t offset = address & ((UINT64_C(1) << SPAN_BITS) - 1);
    if (!(address & BASE) || number >= ALLOCATIONS || table[number].kind == ALLOCATION_FREE)
        return NULL;
    return offset == 0 || (inside && offset < table[number].bytes) ? &table[number] : NULL;
}

CUdeviceptr allocation_begin(CUdeviceptr address)
{
    return address >> SPAN_BITS << SPAN_BITS;
}

void allocation_remove(CUdeviceptr address)
{
    uint32_t number = (uint32_t)((address & ~BASE) >> SPAN_BITS);
    table[number].kind = ALLOCATION_FREE;
    put_number(number);
}

void allocations_each(void (*act)(CUdeviceptr, struct allocation *, void *), void *with)
{
    uint32_t end = used_up < ALLOCATIONS ? used_up : ALLOCATIONS;
    for (uint32_t number = 1; number < end; number++)
        if (table[number].kind != ALLOCATION_FREE)
            act(BASE | (uint64_t)number << SPAN_BITS, &table[number], with);
}
