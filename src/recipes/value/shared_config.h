/* The configuration's inside, shared by its files: shared_config.c (the machine), config_file.c (the last good
 * state in a file), config_acks.c (acknowledgements). */
#ifndef RECIPES_VALUE_SHARED_CONFIG_H
#define RECIPES_VALUE_SHARED_CONFIG_H

#include "base/buf.h"
#include "recipes/engine/tree_mirror.h"

#include <conclave/config.h>

/* --- config_file.c: no lock held -------------------------------------------------------- */

/* Writes the state by way of a temporary file. 0, CONCLAVE_EIO, CONCLAVE_ENOSPACE, CONCLAVE_ENOMEM. */
int config_file_write(const char *file, bool tree,
                      const struct conclave_config_state *state) CONCLAVE_MUST_USE;

/* A state read from a file; nodes point into bytes. */
struct config_file {
    struct buf bytes;
    struct conclave_config_node *nodes;
    struct conclave_config_node **list; /* copies of the nodes, as the public state has them */
    size_t count;
};

/* 0, CONCLAVE_NO_NODE (no such file), CONCLAVE_EIO, CONCLAVE_ECORRUPT, CONCLAVE_ENOMEM. */
int config_file_read(const char *file, bool tree, struct config_file *ret) CONCLAVE_MUST_USE;
void config_file_clear(struct config_file *f);

/* The folder of a path's acknowledgements; NULL without memory. */
char *config_ack_path(const char *path, const char *ack_path);

/* --- config_acks.c -------------------------------------------------------------------- */

/* The content of an acknowledgement's node. NULL without memory. */
char *ack_text(int64_t zxid, int64_t mzxid, int error, const char *why);

#endif
