/* The parts of the state's digest, for those who change what they are of. See digest.c. */
#ifndef STATE_DIGEST_H
#define STATE_DIGEST_H

#include "base/slice.h"

#include <stdbool.h>

struct once_result;
struct session;
struct state;
struct znode;

/* Hash of a path; "" is "/". */
uint64_t digest_path(struct slice path);
/* A node's two parts of the digest; path is its path's. */
uint64_t digest_node(const struct state *s, const struct znode *node, uint64_t path);
uint64_t digest_children(const struct znode *node, uint64_t path);
uint64_t digest_session(const struct session *session);
/* What is remembered of its writes, save for each result. */
uint64_t digest_results(const struct session *session);
uint64_t digest_result(int64_t session_id, const struct once_result *result);
/* Both parts of all nodes. False when memory is out. */
bool digest_nodes(const struct state *s, uint64_t *ret);

#endif
