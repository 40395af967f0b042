/*
 * Java properties, the form of zoo.cfg: `key=value`, `key: value` or `key value` per line, comments
 * with # or !, a backslash at the end joins the next line, backslash escapes in keys and values.
 * Values lose the blanks at their end, as Apache ZooKeeper trims them. Source:
 * java.util.Properties.load.
 */
#ifndef BASE_PROPERTIES_H
#define BASE_PROPERTIES_H

#include "base/slice.h"

#include <conclave/error.h>

/* One pair; line counts from 1 (the first of a joined line). Anything but 0 ends the reading. */
typedef int (*properties_fn)(void *ctx, const char *key, const char *value, unsigned line);

/* Calls fn for each pair of the text. 0, what fn returned, CONCLAVE_EINVAL for a NUL byte, or
 * CONCLAVE_ENOMEM. */
int properties_parse(struct slice text, properties_fn fn, void *ctx) CONCLAVE_MUST_USE;

#endif
