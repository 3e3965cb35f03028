#include "devices.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned int device_count(void)
{
    const char *text = getenv("STUB_GPUS");
    unsigned long count = text ? strtoul(text, NULL, 10) : 1;
    return count < 1 ? 1 : count > DEVICES_MOST ? DEVICES_MOST : (unsigned int)count;
}

unsigned int device_visible(void)
{
    const char *named = getenv("CUDA_VISIBLE_DEVICES");
    unsigned int count = device_count();
    if (!named || !*named)
        return 0;
    for (unsigned int index = 0; index < count; index++) {
        char uuid[UUID_TEXT];
        device_uuid_text(index, uuid);
        if (strncmp(named, uuid, strlen(uuid)) == 0)
            return index;
    }
    unsigned long index = strtoul(named, NULL, 10);
    return index < count ? (unsigned int)index : 0;
}

const char *device_file(unsigned int index, char *out, unsigned int length)
{
    const char *first = getenv("STUB_MPS");
    if (!first)
        return NULL;
    if (index == 0)
        snprintf(out, length, "%s", first);
    else
        snprintf(out, length, "%s.%u", first, index);
    return out;
}

/* FNV-1a of the shared file's name: other files are other GPUs, of another machine as it were. */
static uint64_t machine(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const char *file = getenv("STUB_MPS");
    for (; file && *file; file++)
        hash = (hash ^ (unsigned char)*file) * UINT64_C(0x100000001b3);
    return hash;
}

void device_uuid(unsigned int index, char bytes[UUID_BYTES])
{
    char text[UUID_BYTES + 1];
    snprintf(text, sizeof text, "stub-gpu-......%x", index % DEVICES_MOST);
    memcpy(bytes, text, UUID_BYTES);
    uint64_t hash = machine();
    for (int at = 0; at < 6; at++)
        bytes[at + 9] = (char)(hash >> (8 * at));
}

void device_uuid_text(unsigned int index, char text[UUID_TEXT])
{
    char bytes[UUID_BYTES];
    device_uuid(index, bytes);
    char *at = text + sprintf(text, "GPU-");
    for (int each = 0; each < UUID_BYTES; each++) {
        at += sprintf(at, "%02x", (unsigned char)bytes[each]);
        if (each >= 3 && each <= 9 && each % 2 == 1)
            *at++ = '-';
    }
    *at = '\0';
}

void device_name(unsigned int index, char *out, unsigned int length)
{
    const char *at = getenv("STUB_NAMES");
    for (unsigned int each = 0; at && each < index; each++) {
        at = strchr(at, '|');
        at = at ? at + 1 : NULL;
    }
    int size = at && *at ? (int)strcspn(at, "|") : 0;
    snprintf(out, length, "%.*s", size ? size : 64, size ? at : "Simulated GPU");
}

uint64_t device_size(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    const char *prefix = *end ? strchr("kKmMgG", *end) : NULL;
    int shift = prefix ? 10 * (1 + (int)(prefix - "kKmMgG") / 2) : 0;
    return (uint64_t)ldexp(value, shift);
}
