/*
 * Memory that runs out: the allocator of a program that links this fails one chosen allocation of
 * the calling threads and of those that they start. It counts their blocks that are not
 * freed, by whatever thread. Works under the sanitizers, whose allocator is below.
 *
 * Blocks that a shared library or the C library allocates by malloc count, too.
 */
#ifndef SUPPORT_STARVE_H
#define SUPPORT_STARVE_H

#include <stdbool.h>

struct starve; /* a counter; several can be used at the same time */

struct starve *starve_create(void); /* NULL: no memory */
void starve_destroy(struct starve *s);

/* From now on the calling thread's allocations count, and all allocations of the threads that it
 * starts before starve_leave. */
void starve_enter(struct starve *s);
void starve_leave(void);

/* Fails the nth allocation from now on, 0: the next; negative: none. With CONCLAVE_ALLOCATION in
 * the environment prints the place of the allocation. */
void starve_arm(struct starve *s, long n);
/* Whether the allocation has failed. */
bool starve_failed(const struct starve *s);

/* Blocks that are not freed. */
long starve_live(const struct starve *s);
/* Prints where they were allocated. Call it when no thread allocates any more. */
void starve_print_live(const struct starve *s);

#endif
