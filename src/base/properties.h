/*
 * Java properties, the form of zoo.cfg: `key=value`, `key: value` or `key value` per line, comments with # or !, a
 * backslash at the end joins the next line, backslash escapes in keys and values. Blanks at the end of values are
 * dropped, as in Apache ZooKeeper. Source: java.util.Properties.load.
 */
#ifndef BASE_PROPERTIES_H
#define BASE_PROPERTIES_H

#include "base/slice.h"

#include <conclave/error.h>

/* One pair; lines count from 1 (the first of a joined line). A result other than 0 ends the reading. */
typedef int (*properties_fn)(void *ctx, const char *key, const char *value, unsigned line);

/* Calls fn for each pair of the text. 0, fn's result, CONCLAVE_EINVAL (a NUL byte), or CONCLAVE_ENOMEM. */
int properties_parse(struct slice text, properties_fn fn, void *ctx) CONCLAVE_MUST_USE;

#endif
