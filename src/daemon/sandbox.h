/*
 * What a server's process gives up, so that whoever takes it over can do less with it.
 */
#ifndef DAEMON_SANDBOX_H
#define DAEMON_SANDBOX_H

#include <conclave/error.h>

/* No core dump, or one without memory where the kernel hands it to a program: keys and passwords are
 * in it. What cannot be set is let be. */
void sandbox_core_dumps(void);

/*
 * Gives up system calls that a server has no use for (starting programs, looking into other
 * processes, mounts, kernel modules, keys, namespaces): they fail with EPERM, in all threads that
 * are started from now on. 0, CONCLAVE_EUNSUPPORTED (another machine than x86-64 and AArch64) or CONCLAVE_EIO (the
 * kernel refuses).
 */
int sandbox_system_calls(void) CONCLAVE_MUST_USE;

#endif
