/*
 * Memory that runs out: a program that uses this has an allocator of which one chosen allocation
 * fails, for the threads that asked for it and those that they start. What they allocated and is not
 * freed, by whatever thread, is counted. Works under the sanitizers, whose allocator is below.
 *
 * What a shared library or the C library allocates by malloc counts too.
 */
#ifndef SUPPORT_STARVE_H
#define SUPPORT_STARVE_H

#include <stdbool.h>

struct starve; /* a counter; several may be in use beside each other */

struct starve *starve_create(void); /* NULL: no memory */
void starve_destroy(struct starve *s);

/* From here on the calling thread's allocations count, and those of threads that it starts meanwhile,
 * for all their life. */
void starve_enter(struct starve *s);
void starve_leave(void);

/* The nth allocation from now on fails, 0 being the next; negative: none. With CONCLAVE_ALLOCATION in
 * the environment its place in the program is printed. */
void starve_arm(struct starve *s, long n);
/* Whether it has. */
bool starve_failed(const struct starve *s);

/* Blocks that are not freed. */
long starve_live(const struct starve *s);
/* Prints where they were allocated, when no thread allocates any more. */
void starve_print_live(const struct starve *s);

#endif
