/*
 * A second implementation of the state machine, to compare the real one with: flat arrays, whole
 * paths, linear search, a copy of everything before each multi. Slow, and written to be obviously
 * right against the protocol's rules, not against the tree. Uses of the house only the wire's
 * records.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "wire/ops.h"

#include <stdbool.h>

struct model_acl {
    int32_t perms;
    char scheme[16];
    char id[64];
};

enum { MODEL_ACLS = 16, MODEL_PATH = 512 };

struct model_node {
    char path[MODEL_PATH];
    bool null_data;
    uint8_t *data;
    size_t data_len;
    struct model_acl acl[MODEL_ACLS];
    int acl_count;
    int64_t czxid, mzxid, pzxid, ctime, mtime, owner;
    int32_t version, aversion, creates;
};

struct model_session {
    int64_t id;
    int32_t timeout_ms;
    char passwd[16];
    int64_t owner; /* server that may write for it, 0: all */
};

enum { MODEL_IDS = 8 };

enum model_role { MODEL_ABSENT, MODEL_VOTER, MODEL_OBSERVER, MODEL_SPARE };

/* What a server is; its address is "10.0.0.HOST:2888:3888:ROLE;10.0.0.HOST:2181". */
struct model_member {
    enum model_role role;
    int host;
};

/* Who belongs to the ensemble, by number, and where a reconfig leads. */
struct model_config {
    struct model_member now[MODEL_IDS + 1];
    struct model_member target[MODEL_IDS + 1];
    int64_t version;  /* that /zookeeper/config shows, 0: none */
    bool unpublished; /* `now` is not what it shows */
    int64_t pending;  /* zxid of the reconfig, 0: none */
    int64_t origin, session_id;
    int32_t cxid;
};

struct model {
    struct model_node *nodes; /* in order of creation */
    size_t count;
    size_t cap;
    struct model_session sessions[64];
    size_t session_count;
    int64_t zxid;
    int64_t time_ms; /* of the last command */
    struct model_config config;
};

/* What a command did; events as lines "TYPE PATH ACL\n": each entry as perms:scheme:id, "open" for the open list. */
struct model_effects {
    int32_t err;
    int64_t zxid;
    struct buf reply;
    struct buf events;
    bool quota_exceeded; /* softly or hard */
    bool fenced;         /* refused below a bound prefix */
    bool deferred;       /* the answer comes later */
    struct {
        bool is; /* the answer of an earlier one: that of this session and cxid, at this server */
        int64_t origin, session_id;
        int32_t cxid, err;
    } resumed;
};

void model_init(struct model *m);
void model_finish(struct model *m);
void model_effects_init(struct model_effects *e);
void model_effects_finish(struct model_effects *e);

/* The options of a command, as bits: the numbers are those of enum command_options. */
enum {
    MODEL_TTL = 1,
    MODEL_QUOTA = 2,
    MODEL_RECONFIG = 4,
    MODEL_ENSEMBLE = 32,
    MODEL_ALONE = 64,
    MODEL_FENCING = 128,
};

/* Who sends a command. */
struct model_caller {
    int64_t session_id;
    struct wire_vector ids; /* vector of wire_id */
    uint32_t options;
    int32_t cxid;
    int64_t origin; /* server that sends it, 0: none in particular */
};

/* The numbers are those of enum command_type. */
enum { MODEL_ATTACH_SESSION = -1001, MODEL_RECONFIG_END = -1002, MODEL_FENCE_OPEN = -1003 };

/* Applies a command given by its parts, as state_apply does. */
void model_apply(struct model *m, const struct model_caller *caller, int32_t type,
                 struct slice body, int64_t time_ms, struct model_effects *e);

/* The ensemble has these members now, by number: as state_configure does. */
void model_configure(struct model *m, const struct model_member members[MODEL_IDS + 1],
                     struct model_effects *e);

/* What stands behind server.N= for such a member. */
void model_address(struct model_member member, char *text, size_t size);

/* Answers a read as state_query does. Children come in order of creation. */
int model_query(const struct model *m, int32_t type, struct wire_vector ids, struct slice body,
                struct buf *out);

/* The node at a path, or NULL. */
const struct model_node *model_find(const struct model *m, const char *path);

/* Answers getEphemerals as state_ephemerals does, oldest first. */
void model_ephemerals_of(const struct model *m, int64_t session_id, const char *prefix,
                         struct buf *out);

/* Nodes as ZooKeeper counts them. */
size_t model_nodes(const struct model *m);

size_t model_ephemerals(const struct model *m);

/* Containers and nodes with a TTL. */
size_t model_collectable(const struct model *m);

#endif
