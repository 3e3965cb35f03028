/* The simulated GPUs of this machine: how many, what each is called, which shared file it is. */
#pragma once

#include <stdint.h>

#define DEVICES_MOST 16
#define UUID_BYTES 16
#define UUID_TEXT 64

/* STUB_GPUS. */
unsigned int device_count(void);

/* The one that CUDA_VISIBLE_DEVICES names first, by index or UUID; without a word of it, GPU 0. */
unsigned int device_visible(void);

/* The file of STUB_MPS for GPU 0, and FILE.N for GPU N. NULL without STUB_MPS. */
const char *device_file(unsigned int index, char *out, unsigned int length);

/* From its index and the name of the shared file. */
void device_uuid(unsigned int index, char bytes[UUID_BYTES]);
void device_uuid_text(unsigned int index, char text[UUID_TEXT]);

/* Its own of STUB_NAMES, else "Simulated GPU". */
void device_name(unsigned int index, char *out, unsigned int length);

/* "2G", "2GiB", "2147483648"; every prefix is binary. */
uint64_t device_size(const char *text);
