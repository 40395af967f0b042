/* Common parts of the tree commands: a stat as text and JSON, and walking a branch. */
#ifndef CLI_COMMON_NODE_OUTPUT_H
#define CLI_COMMON_NODE_OUTPUT_H

#include "base/json.h"

#include <conclave/client.h>

/* Key "stat" and its object. */
void stat_json(struct json *j, const struct conclave_stat *stat);

/* One "name value" per line. */
void stat_print(const struct conclave_stat *stat);

/* Names in order of their bytes; an array of borrowed names to be freed by the caller. NULL when memory is out. */
const char **names_sorted(const char *const *names, size_t count);

/* Milliseconds since 1970 in ISO 8601 (UTC, milliseconds kept), written to buf, which is returned. */
#define TIME_TEXT_MAX 40
const char *time_text(int64_t ms, char buf[TIME_TEXT_MAX]);

/* parent/name on the heap; NULL when memory is out. */
char *node_path(const char *parent, const char *name);

/* Called for each node of a branch; children: the node's children and stat, NULL when they may not be
 * read (not of the root). An error ends the walk. */
typedef int (*branch_fn)(const char *path, int depth, const struct conclave_reply *children,
                         void *ctx);

/* Walks a branch: parents before their children, children in order, no deeper than max_depth (the
 * root has depth 0). A node that goes while it is walked is left out, unless it is the root.
 * linearizable: the walk shows all that was acknowledged before it began. 0 or the error. */
int branch_walk(struct conclave_client *client, const char *root, int max_depth, bool linearizable,
                branch_fn fn, void *ctx);

/* All paths of a branch, in the order of branch_walk. 0 or the error; ret_paths is an array of ret_count heap strings: branch_free.
 * CONCLAVE_NO_AUTH: it is the one node whose children may not be listed, or nothing if that is root. */
int branch_list(struct conclave_client *client, const char *root, bool linearizable,
                char ***ret_paths, size_t *ret_count);
void branch_free(char **paths, size_t count);

/* Sends a write, together with a check that fenced_by (NULL: none) exists. *ret_reply is to be freed; *ret_result, in
 * it, is the answer to op, or NULL. CONCLAVE_EFENCED: fenced_by is gone, and nothing was written. */
int call_fenced(struct conclave_client *client, const char *fenced_by, const struct conclave_op *op,
                struct conclave_reply **ret_reply, const struct conclave_reply **ret_result);

/* As fail, for the error of a call_fenced. */
int fail_write(const char *command, const char *path, const char *fenced_by, int error);

#endif
