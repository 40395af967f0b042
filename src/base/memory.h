/* The memory that this process may have, and returning memory that it no longer needs. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include "base/slice.h"

/* The least of the machine's memory, the limits of the process' control groups (versions 1 and 2), and RLIMIT_AS. Never
 * 0. Unreadable limits are ignored. */
size_t memory_limit(void);

/* The same with files below another root than "", for tests: /proc/self/cgroup and /sys/fs/cgroup. */
size_t memory_limit_below(const char *root, size_t machine);

/* Returns freed memory to the system, which the allocator otherwise keeps. It visits all free memory: call it
 * rarely. */
void memory_give_back(void);

/* For memory that is read from front to end and then not needed any more: gives its pages back while the rest is still being
 * read, so that a large file and what is made of it are not in memory at the same time. How far that is; zero at first. */
struct pages_passed {
    size_t released; /* bytes from the beginning */
};

/* Takes the pages of these bytes, which begin where those of the call before began, out of memory. Their content stays: they
 * are read from their file when somebody looks at them again. Does nothing for memory without a file. */
void pages_pass(struct pages_passed *p, struct slice bytes);

/* The same for memory of the caller (malloc): the content is lost. */
void pages_forget(struct pages_passed *p, struct slice bytes);

#endif
