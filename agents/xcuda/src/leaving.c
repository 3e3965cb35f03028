/* A process that ends by itself waits for its own work first. _exit() and _Exit() are hooks, and
 * quick_exit() comes by a handler that was registered before any of the application's. exit() comes
 * by one that is registered when the driver has initialised: a driver that shuts itself down in a
 * handler of its own registered that before, and so does it after us. */
#include "leaving.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"
#include "steward.h"

__attribute__((constructor)) static void watch_quick_exit(void)
{
    at_quick_exit(steward_leave);
}

void leaving_watch(void)
{
    atexit(steward_leave);
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
