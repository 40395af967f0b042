/* The memory that this process may have, and returning memory that it no longer needs. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

/* The least of the machine's memory, the limits of the process' control groups (versions 1 and 2), and RLIMIT_AS. Never
 * 0. Unreadable limits are ignored. */
size_t memory_limit(void);

/* The same with files below another root than "", for tests: /proc/self/cgroup and /sys/fs/cgroup. */
size_t memory_limit_below(const char *root, size_t machine);

/* Returns freed memory to the system, which the allocator otherwise keeps. It visits all free memory: call it
 * rarely. */
void memory_give_back(void);

#endif
