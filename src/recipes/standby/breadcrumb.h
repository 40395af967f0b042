/*
 * The texts of an elector's two nodes: the holder of the lock, and the last active member. Pure.
 *
 * Native: a first line that says what it is, lines "name=value", an empty line, the member's data.
 * Hadoop's: the member's data, a protobuf message, and behind it one more field, number 2047, that
 * holds the same lines; protobuf's readers skip what they do not know. What was not written by an
 * elector of this library is read as data of an unknown member.
 */
#ifndef RECIPES_STANDBY_BREADCRUMB_H
#define RECIPES_STANDBY_BREADCRUMB_H

#include "base/buf.h"

#include <conclave/elector.h>

/* Writes the text. check buf_ok. */
void breadcrumb_write(struct buf *out, enum conclave_elector_layout layout,
                      const struct conclave_breadcrumb *crumb);

/* The value of the line "name=..." at *at, its end made a NUL; moves *at behind it. NULL: it is another line. */
const char *breadcrumb_line(char **at, const char *end, const char *name);

/* Reads it, whichever the layout; text is changed, and what *ret points to lies in it. It must have
 * room for a NUL at text[len]. *ret always is something: see above. Its token is 0 when it has none. */
void breadcrumb_read(char *text, size_t len, struct conclave_breadcrumb *ret);

enum { OVERRIDE_MAX = 24 };

/* The text of an operator's override: the token of the member that is dead. Its length; whether it names that one. */
size_t override_write(char buf[OVERRIDE_MAX], int64_t token);
bool override_confirms(const void *data, size_t len, int64_t token);

#endif
