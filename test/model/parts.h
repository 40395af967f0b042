/* What the files of the model share: model.c has the writes, fence.c what fencing says to them, members.c the
 * members of the ensemble, read.c the reads. */
#ifndef MODEL_PARTS_H
#define MODEL_PARTS_H

#include "model/model.h"

/* A command being applied. */
struct model_call {
    struct model *m;
    int64_t session_id;
    struct wire_vector ids;
    uint32_t options;
    int32_t cxid;
    int64_t origin;
    int64_t time_ms;
    struct model_effects *e;
    bool expiry;        /* the session ends without its client's word */
    struct slice multi; /* body of the multi that it is a part of, or null */
};

/* Whether fencing lets a write through, 0 or the error. kind: create, delete, setData or setACL by 'c', 'd', 's', 'a';
 * lasting: a plain persistent create. */
int model_fence(struct model_call *c, char kind, const char *path, struct slice data, bool lasting);
/* A node is about to go. */
void model_fence_leaving(struct model_call *c, const struct model_node *node, bool expiry);
/* 0: it is there, 1: it is to be made, or the error. */
int model_fence_open(struct model_call *c);

bool model_is_ephemeral(const struct model_node *node);
void model_set_data(struct model_node *node, struct slice data);

int model_children(const struct model *m, const char *path);
bool model_permits(const struct model_node *node, struct wire_vector ids, int32_t perms);
void model_put_stat(const struct model *m, const struct model_node *n, struct buf *out);
void model_parent(const char *path, char *out);
bool model_path_string(struct slice path, char *out);
void model_event(struct model_effects *e, int type, const struct model_node *node);
void model_quota_counts(struct model *m, const char *path, long long nodes, long long bytes);
/* Why the caller may not write, or 0. */
int model_refused(struct model_call *c);
/* Operation 16, and the end of one that was given up. */
int model_reconfig(struct model_call *c, struct slice body);
int model_reconfig_end(struct model_call *c, struct slice body);
bool model_is_below(const char *path, const char *top);

#endif
