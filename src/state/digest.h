/* The parts of the state's digest, for the files that change the hashed data. See digest.c. */
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
/* The two hashes of a node; path is the hash of its path. */
uint64_t digest_node(const struct state *s, const struct znode *node, uint64_t path);
uint64_t digest_children(const struct znode *node, uint64_t path);
uint64_t digest_session(const struct session *session);
/* The hash of the remembered results without the results themselves. */
uint64_t digest_results(const struct session *session);
uint64_t digest_result(int64_t session_id, const struct once_result *result);
/* The hashes of all nodes. False: out of memory. */
bool digest_nodes(const struct state *s, uint64_t *ret);

#endif
