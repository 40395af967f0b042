/*
 * What both servers and clients know about enforced fencing: where bindings are, their text, and which names are those
 * of contenders. Pure.
 */
#ifndef WIRE_FENCE_RECORDS_H
#define WIRE_FENCE_RECORDS_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define FENCE_ROOT "/zookeeper/fence" /* created by a server, with version -1 */
#define FENCE_LEAF "conclave_fence"   /* name of the nodes that are bindings */

#define FENCE_DELAY_MAX_MS 86400000
#define FENCE_TIME_MAX_MS 999999999999999999 /* 18 digits */

/* The text of a binding: lines lock=PATH, lock_delay_ms=N, and until_ms=N, which only servers write. */
struct fence_terms {
    struct slice lock;
    int64_t delay_ms;
    /* no client writes before this time of the leader's clock; 0: no delay has begun */
    int64_t until_ms;
};

/* False: not a binding. *ret borrows. */
bool fence_terms_parse(struct slice text, struct fence_terms *ret);
void fence_terms_print(const struct fence_terms *terms, struct buf *out);

/* Whether a name ends in a sequence number as servers print it, and the number. For a number below -999999999 the sign
 * may belong to the name, so the number is returned without it. */
bool fence_name_contends(struct slice name, int64_t *ret_number);

/* Whether a contender's name says that it wants less than the whole lock. */
bool fence_name_reads(struct slice name);

#endif
