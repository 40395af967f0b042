/*
 * Structs that begin with their size (`size_t size`), so that programs that were built with older or newer headers can
 * exchange them with this library: see conclave/error.h. Pure memory.
 */
#ifndef CLIENT_CORE_SIZED_H
#define CLIENT_CORE_SIZED_H

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>

enum { SIZED_MAX = 4096 }; /* of a caller's struct: a larger size was never set */

/* Reads a caller's struct into *own, which has been initialised by its *_INIT macro: what the caller does not know
 * keeps its default. 0, or CONCLAVE_EINVAL: NULL, a size that is not possible, or members are set that are not
 * known here. *own is then as it was. */
int sized_read(void *own, const void *given) CONCLAVE_MUST_USE;

/* The same for one element of an array, whose elements all have the size of the first. */
int sized_read_item(void *own, const void *array, size_t index) CONCLAVE_MUST_USE;

/* The arguments of a recipe: options are needed, callbacks may be NULL. */
int sized_read_both(void *own_options, const void *options, void *own_callbacks,
                    const void *callbacks) CONCLAVE_MUST_USE;

/* Whether a struct in which the caller wants a result has a size that is possible. NULL has. */
bool sized_can_write(const void *given);

/* Fills the caller's struct from *own, with as much as fits. The size in *given stays; members that are not known here
 * become 0. A size that is not possible: writes nothing. */
void sized_write(void *given, const void *own);

#endif
