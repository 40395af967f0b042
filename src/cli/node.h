/* What several tree commands share: a stat as text and JSON, and walking a branch. */
#ifndef CLI_NODE_H
#define CLI_NODE_H

#include "base/json.h"

#include <conclave/client.h>

/* Key "stat" and its object. */
void stat_json(struct json *j, const struct conclave_stat *stat);

/* One "name value" per line. */
void stat_print(const struct conclave_stat *stat);

/* Names in order of their bytes; an array of borrowed names to be freed by the caller. NULL when
 * memory is out. */
const char **names_sorted(const char *const *names, size_t count);

/* parent/name on the heap; NULL when memory is out. */
char *node_path(const char *parent, const char *name);

/* All paths of a branch, parents before their children, children in order. A node that goes
 * while it is walked is left out, unless it is the root of the branch. 0 or the error; ret_paths
 * is an array of ret_count heap strings: branch_free. */
int branch_list(struct conclave_client *client, const char *root, char ***ret_paths,
                size_t *ret_count);
void branch_free(char **paths, size_t count);

#endif
