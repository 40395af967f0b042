/* A multi: parts that are applied all together or not at all. */
#ifndef STATE_MULTI_H
#define STATE_MULTI_H

#include "base/slice.h"

#include <stdbool.h>

struct operation;
struct wire_reader;
struct write;

/* The paths that the current multi checks, kept for repeated questions. */
struct multi_checks {
    struct slice *paths; /* ascending; in the command's body */
    size_t count;
    size_t cap;
    int64_t zxid; /* zxid of that multi */
};

/* Decodes the next part's header and record: 1 and *ret; 0: no more; CONCLAVE_MARSHALLING_ERROR. */
int multi_next_part(struct wire_reader *r, struct operation *ret);

/* The reply's err is 0 even if a part failed: the results contain the error. */
int write_multi(struct write *w);

/* Whether the write is part of a multi that checks the node at this path, at any position. */
bool multi_has_check(struct write *w, struct slice path);

#endif
