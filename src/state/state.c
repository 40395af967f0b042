#include "state/state_internal.h"
#include "tree/memory.h"

#include "state/digest.h"
#include "state/initial_acls.h"
#include "state/mirror.h"

#include <assert.h>

struct state *state_create_empty(const struct hash_key *key)
{
    struct state *s = calloc(1, sizeof *s);
    if (s == NULL || tree_init(&s->tree, key) != 0) {
        free(s);
        return NULL;
    }
    s->decisions = acl_decisions_create(key);
    if (s->decisions == NULL) {
        tree_finish(&s->tree);
        free(s);
        return NULL;
    }
    tree_set_account(&s->tree, &s->account);
    map_init(&s->sessions);
    buf_init(&s->scratch, 0);
    buf_init(&s->name, 0);
    buf_init(&s->quota, 0);
    fence_index_init(&s->fence);
    buf_init(&s->snapshot.pending, 0);
    return s;
}

/* Adds a node of the boot tree: zxid and times 0, no create counted at its parent. */
static bool add_boot_node(struct state *s, const char *path, uint32_t acl)
{
    struct slice p = slice_str(path);
    size_t parent_len = (size_t)(strrchr(path, '/') - path);
    struct znode *parent = tree_find(&s->tree, slice_make(p.data, parent_len));
    struct znode_spec spec = {.path = p, .data = slice_make("", 0), .acl = acl};
    acl_ref(&s->tree.acls, acl);
    if (tree_add(&s->tree, parent, &spec) == NULL) {
        acl_unref(&s->tree.acls, acl);
        return false;
    }
    znode_dir(parent)->cversion = 0;
    return true;
}

/* /zookeeper/config is read-only, and its aversion is -1, because ZooKeeper sets its ACL by a setACL of version -1. */
static bool add_config_node(struct state *s)
{
    struct wire_acl read_only = {
        .perms = WIRE_PERM_READ,
        .id = {.scheme = slice_str("world"), .id = slice_str("anyone")},
    };
    uint32_t acl = 0;
    buf_reset(&s->scratch);
    wire_encode_acl(&s->scratch, &read_only);
    if (!buf_ok(&s->scratch) ||
        acl_take(&s->tree.acls, wire_vector_make(&s->scratch, 1), &acl) != 0) {
        return false;
    }
    bool added = add_boot_node(s, "/zookeeper/config", acl);
    acl_unref(&s->tree.acls, acl);
    struct znode *node = added ? tree_find(&s->tree, slice_str("/zookeeper/config")) : NULL;
    struct znode_dir *dir = node != NULL ? znode_dir_need(node) : NULL;
    if (dir != NULL) {
        dir->aversion = -1;
    }
    return dir != NULL;
}

struct state *state_create(const struct hash_key *key)
{
    struct state *s = state_create_empty(key);
    if (s == NULL) {
        return NULL;
    }
    if (!add_boot_node(s, "/zookeeper", ACL_OPEN) ||
        !add_boot_node(s, "/zookeeper/quota", ACL_OPEN) || !add_config_node(s) ||
        !digest_nodes(s, &s->nodes_digest)) {
        state_destroy(s);
        return NULL;
    }
    return s;
}

void state_destroy(struct state *s)
{
    if (s == NULL) {
        return;
    }
    assert(s->undo_count == 0);
    sessions_free(s);
    tree_finish(&s->tree);
    buf_finish(&s->scratch);
    buf_finish(&s->name);
    buf_finish(&s->quota);
    fence_index_finish(&s->fence);
    free(s->checks.paths);
    acl_decisions_destroy(s->decisions);
    buf_finish(&s->snapshot.pending);
    configuration_finish(&s->configuration);
    mirror_clear(s);
    free(s->origins);
    free(s->undo);
    free(s);
}

int64_t state_time_ms(const struct state *s)
{
    return s->time_ms;
}

int64_t state_zxid(const struct state *s)
{
    return s->zxid;
}

const struct tree *state_tree(const struct state *s)
{
    return &s->tree;
}

void state_succeed(struct state *s, const struct state *before)
{
    assert(s->undo_count == 0 && !s->snapshot.active);
    s->zxid = 1 + (s->zxid > before->zxid ? s->zxid : before->zxid);
    s->time_ms = before->time_ms;
    origins_copy(s, before);
    sessions_disown(s);
    struct effects unseen;
    effects_init(&unseen);
    struct write w = {.s = s, .zxid = s->zxid, .time_ms = s->time_ms, .effects = &unseen};
    configuration_succeed(&w, before);
    mirror_clear(s); /* of a mirror's backup: nobody follows a source here */
    write_commit(s);
    effects_finish(&unseen);
}

int state_check_write(int32_t type, struct slice body)
{
    struct wire_reader r = wire_reader_make(body);
    struct operation op;
    bool own = type == COMMAND_MIRROR_BEGIN || type == COMMAND_MIRROR_END;
    return own || type == WIRE_MULTI || type == WIRE_CLOSE_SESSION
               ? 0
               : operation_decode(&r, type, &op);
}

void state_begin(struct state *s)
{
    acl_release(&s->tree.acls);
    acl_decisions_begin(s->decisions);
}

static int write_simple(struct write *w)
{
    struct wire_reader r = wire_reader_make(w->command->body);
    struct operation op;
    int rc = operation_decode(&r, w->command->type, &op);
    return rc != 0 ? rc : operation_run(w, &op);
}

/* The origin that must own the sessions of a batch's commands. A state that began with batches of version 2 and one
 * restored from a later snapshot must be the same. */
static int64_t owning_origin(const struct batch_header *header)
{
    return header->previous == BATCH_PREVIOUS_UNKNOWN ? 0 : header->origin;
}

/* Frees memory that one large command needed. */
static void state_trim(struct state *s)
{
    buf_trim(&s->scratch, STATE_SCRATCH_KEEP);
    buf_trim(&s->name, STATE_SCRATCH_KEEP);
    buf_trim(&s->quota, STATE_SCRATCH_KEEP);
    if (s->undo_cap > STATE_SCRATCH_KEEP / sizeof *s->undo && s->undo_count == 0) {
        free(s->undo);
        s->undo = NULL;
        s->undo_cap = 0;
    }
}

/* A mirror refuses everything but its end, without a zxid. */
static bool state_refuses(struct state *s, const struct command *command, struct effects *effects)
{
    int32_t type = command->type;
    if (s->mirror.id == 0 || type == COMMAND_MIRROR_END) {
        return false;
    }
    state_begin(s);
    effects_begin(effects, s->zxid);
    effects->err = type == COMMAND_MIRROR_BEGIN ? CONCLAVE_NODE_EXISTS : CONCLAVE_NOT_READ_ONLY;
    effects_seal(effects);
    return true;
}

void state_apply(struct state *s, const struct batch_header *header, const struct command *command,
                 struct effects *effects)
{
    if (state_refuses(s, command, effects)) {
        return;
    }
    bool numbered = (command->options & COMMAND_NUMBERED) != 0;
    struct write w = {.s = s,
                      .command = command,
                      .zxid = s->zxid,
                      .time_ms = header->time_ms,
                      .origin = owning_origin(header),
                      .effects = effects};
    s->time_ms = header->previous == BATCH_PREVIOUS_UNKNOWN ? 0 : header->time_ms;
    w.bounded = (command->options & COMMAND_BOUNDED) != 0;
    assert(s->undo_count == 0);
    state_begin(s);
    effects_begin(effects, s->zxid);
    if (numbered && once_results_answer(&w)) {
        effects_seal(effects);
        return;
    }
    assert(effects->err == 0 && !effects->repeated && !effects->deferred);
    s->undo_digest = s->nodes_digest;
    s->zxid += command->type != COMMAND_ATTACH_SESSION && command->type != COMMAND_MIRROR_END;
    w.zxid = effects->zxid = s->zxid;
    switch (command->type) {
    case WIRE_CREATE_SESSION:
        effects->err = write_create_session(&w);
        break;
    case COMMAND_ATTACH_SESSION:
        effects->err = write_attach_session(&w);
        break;
    case WIRE_CLOSE_SESSION:
        effects->err = write_close_session(&w);
        break;
    case COMMAND_RECONFIG_END:
        effects->err = write_reconfig_end(&w);
        break;
    case COMMAND_FENCE_OPEN:
        effects->err = write_fence_open(&w);
        break;
    case COMMAND_CLOSE_ACLS:
        effects->err = write_close_acls(&w);
        break;
    case COMMAND_MIRROR_BEGIN:
        effects->err = write_mirror_begin(&w);
        break;
    case COMMAND_MIRROR_END:
        effects->err = write_mirror_end(&w);
        break;
    case WIRE_MULTI:
        effects->err = write_multi(&w);
        break;
    default:
        effects->err = write_simple(&w);
        break;
    }
    if (effects->err != 0) {
        write_rollback(s);
        effects_clear(effects);
    } else {
        write_commit(s);
    }
    assert(s->undo_count == 0);
    assert(effects->err == 0 || effects->events_count == 0);
    assert(effects->zxid == s->zxid);
    state_need(buf_ok(&effects->reply));
    if (numbered) {
        once_results_keep(&w);
    }
    once_results_resume(s, effects);
    effects_seal(effects);
    state_trim(s);
}

void state_stats(const struct state *s, struct state_stats *ret)
{
    *ret = (struct state_stats){
        .nodes = tree_count(&s->tree),
        .ephemerals = s->tree.ephemerals,
        .collectable = s->tree.extended_count,
        .sessions = map_count(&s->sessions),
        .data_bytes = s->tree.bytes,
        .results = s->account.charges[ACCOUNT_RESULTS],
        .results_bytes = s->account.bytes[ACCOUNT_RESULTS],
        .memory = account_state(&s->account),
    };
}
