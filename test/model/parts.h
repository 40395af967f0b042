/* What the files of the model share: model.c has the writes, read.c the reads. */
#ifndef MODEL_PARTS_H
#define MODEL_PARTS_H

#include "model/model.h"

int model_children(const struct model *m, const char *path);
bool model_permits(const struct model_node *node, struct wire_vector ids, int32_t perms);
void model_put_stat(const struct model *m, const struct model_node *n, struct buf *out);
void model_parent(const char *path, char *out);
bool model_path_string(struct slice path, char *out);
bool model_is_below(const char *path, const char *top);

#endif
