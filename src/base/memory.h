/* How much memory this process may have, and giving back what it no longer needs. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

/* The least of the machine's memory, the limits of the control groups that the process is in (versions 1 and 2),
 * and RLIMIT_AS. Never 0. What cannot be read does not count. */
size_t memory_limit(void);

/* The same with files below another root than "", for tests: /proc/self/cgroup and /sys/fs/cgroup. */
size_t memory_limit_below(const char *root, size_t machine);

/* Gives freed memory back to the system, which the allocator keeps otherwise. Looks at all that is free: for rare use. */
void memory_give_back(void);

#endif
