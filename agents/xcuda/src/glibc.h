/* Binds what we call of the C library to its oldest version, since glibc 2.34 gave new versions to
 * all that it took in from libpthread, and an older one must load us too. */
#pragma once

#if defined __x86_64__
#define OLDEST_GLIBC "GLIBC_2.2.5"
#elif defined __aarch64__
#define OLDEST_GLIBC "GLIBC_2.17"
#else
#error "xCUDA knows x86_64 and aarch64"
#endif

#define BIND_OLDEST(name) __asm__(".symver " #name "," #name "@" OLDEST_GLIBC)

BIND_OLDEST(pthread_create);
BIND_OLDEST(pthread_attr_setstacksize);
