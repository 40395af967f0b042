/*
 * Rights that the server's process gives up, so that an attacker who takes it over can do less.
 */
#ifndef DAEMON_SANDBOX_H
#define DAEMON_SANDBOX_H

#include <conclave/error.h>

/* Switches core dumps off, because they contain keys and passwords. Where the kernel pipes dumps to a program, they are
 * written without memory. Ignores failures. */
void sandbox_core_dumps(void);

/*
 * Gives up system calls that a server does not need (start programs, inspect other processes, mounts, kernel modules,
 * keys, namespaces): they fail with EPERM in this thread and in all threads that start later. 0, CONCLAVE_EUNSUPPORTED
 * (not x86-64 or AArch64) or CONCLAVE_EIO (the kernel refuses).
 */
int sandbox_system_calls(void) CONCLAVE_MUST_USE;

#endif
