/* A process that ends by itself waits for its own work first: exit() comes by the destructor, which
 * runs after the application's own, quick_exit() by a handler that was registered before any of the
 * application's, and _exit() and _Exit() are hooks. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"
#include "steward.h"

__attribute__((constructor)) static void watch_quick_exit(void)
{
    at_quick_exit(steward_leave);
}

__attribute__((destructor)) static void at_exit(void)
{
    steward_leave();
}

PUBLIC _Noreturn void _exit(int status)
{
    steward_leave();
    for (;;)
        syscall(SYS_exit_group, status);
}

PUBLIC _Noreturn void _Exit(int status)
{
    _exit(status);
}
