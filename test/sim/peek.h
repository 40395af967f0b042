/* A server's state, read from outside, without its connections. */
#ifndef SIM_PEEK_H
#define SIM_PEEK_H

#include "sim/machine.h"

#include <conclave/client.h>

/* A node: whether it is there, its version, and the number at the head of its data. */
/* Owner of an ephemeral node; 0: none, or there is no such node. */
int64_t peek_owner(struct machine *m, const char *path);

/* Whether the state has such a session. */
bool peek_session(struct machine *m, int64_t id);

bool peek_node(struct machine *m, const char *path, int32_t *ret_version, uint64_t *ret_number);

/* The version of a key, 0 when it is not there. */
int32_t peek_version(struct machine *m, unsigned key);

/* Calls fn for each child. */
void peek_children(struct machine *m, const char *path,
                   void (*fn)(void *ctx, struct machine *m, const char *name), void *ctx);

/* The number at the head of data; 0: there is none. */
uint64_t peek_number(struct slice data);

#endif
