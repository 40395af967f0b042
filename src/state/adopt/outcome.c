#include "state/adopt/outcome.h"

#include "base/endian.h"
#include "state/digest.h"
#include "state/state_internal.h"
#include "tree/path.h"

#include <assert.h>

/* One change of a transaction, or the whole of one that is not a multi. */
struct outcome_change {
    int32_t type;
    struct slice path;
    struct slice data;
    struct wire_vector acl;
    int64_t owner;
    int32_t version;          /* of a create: the parent's cversion; -1: one more than it has */
    int32_t timeout_ms;       /* of a new session */
    struct wire_vector paths; /* of a closed session: its nodes */
};

enum { DIGEST_LEN = 4 + 8 };

/* --- reading ---------------------------------------------------------------------------------- */

static bool is_create(int32_t type)
{
    return type == WIRE_CREATE || type == WIRE_CREATE2 || type == WIRE_CREATE_TTL ||
           type == WIRE_CREATE_CONTAINER;
}

static int read_plain_create(struct wire_reader *r, int64_t session_id, struct outcome_change *c)
{
    struct wire_reader start = *r;
    struct wire_txn_create create;
    if (wire_decode_txn_create(r, &create) != 0) { /* 3.3 had no counter of the parent */
        struct wire_txn_create_old old;
        *r = start;
        if (wire_decode_txn_create_old(r, &old) != 0) {
            return CONCLAVE_ECORRUPT;
        }
        create = (struct wire_txn_create){old.path, old.data, old.acl, old.ephemeral, -1};
    }
    c->path = create.path;
    c->data = create.data;
    c->acl = create.acl;
    c->owner = create.ephemeral ? session_id : 0;
    c->version = create.parent_cversion;
    return create.ephemeral && tree_owner_kind(session_id) != TREE_OWNER_SESSION ? CONCLAVE_ECORRUPT
                                                                                 : 0;
}

static int read_create_ttl(struct wire_reader *r, struct outcome_change *c)
{
    struct wire_txn_create_ttl create;
    if (wire_decode_txn_create_ttl(r, &create) != 0 || !ttl_valid(create.ttl_ms)) {
        return CONCLAVE_ECORRUPT;
    }
    c->path = create.path;
    c->data = create.data;
    c->acl = create.acl;
    c->owner = tree_ttl_owner(create.ttl_ms);
    c->version = create.parent_cversion;
    return 0;
}

static int read_create_container(struct wire_reader *r, struct outcome_change *c)
{
    struct wire_txn_create_container create;
    if (wire_decode_txn_create_container(r, &create) != 0) {
        return CONCLAVE_ECORRUPT;
    }
    c->path = create.path;
    c->data = create.data;
    c->acl = create.acl;
    c->owner = TREE_OWNER_CONTAINER;
    c->version = create.parent_cversion;
    return 0;
}

static int read_set_data(struct wire_reader *r, struct outcome_change *c)
{
    struct wire_set_data_request set;
    int rc = wire_decode_set_data_request(r, &set);
    c->path = set.path;
    c->data = set.data;
    c->version = set.version;
    return rc;
}

static int read_set_acl(struct wire_reader *r, struct outcome_change *c)
{
    struct wire_set_acl_request set;
    int rc = wire_decode_set_acl_request(r, &set);
    c->path = set.path;
    c->acl = set.acl;
    c->version = set.version;
    return rc;
}

static int read_path(struct wire_reader *r, struct outcome_change *c)
{
    c->path = wire_read_string(r);
    if (c->type == WIRE_CHECK) {
        c->version = wire_read_i32(r);
    }
    return r->failed ? CONCLAVE_ECORRUPT : 0;
}

static int read_create_session(struct wire_reader *r, int64_t session_id, struct outcome_change *c)
{
    struct wire_txn_create_session create;
    int rc = wire_decode_txn_create_session(r, &create);
    c->timeout_ms = create.timeout_ms;
    return rc == 0 && tree_owner_kind(session_id) == TREE_OWNER_SESSION ? 0 : CONCLAVE_ECORRUPT;
}

/* Before 3.6 the record is empty. Later it has the paths, unless a property switches them off. */
static int read_close_session(struct wire_reader *r, struct outcome_change *c)
{
    struct wire_reader start = *r;
    struct wire_txn_close_session close;
    if (wire_decode_txn_close_session(r, &close) == 0 &&
        (wire_left(r) == 0 || wire_left(r) == DIGEST_LEN)) {
        c->paths = close.paths;
        return 0;
    }
    *r = start;
    c->paths = WIRE_VECTOR_NULL;
    return wire_left(r) == 0 || wire_left(r) == DIGEST_LEN ? 0 : CONCLAVE_ECORRUPT;
}

static int read_by_type(struct wire_reader *r, int64_t session_id, struct outcome_change *c)
{
    switch (c->type) {
    case WIRE_CREATE:
    case WIRE_CREATE2:
        return read_plain_create(r, session_id, c);
    case WIRE_CREATE_TTL:
        return read_create_ttl(r, c);
    case WIRE_CREATE_CONTAINER:
        return read_create_container(r, c);
    case WIRE_DELETE:
    case WIRE_DELETE_CONTAINER:
    case WIRE_CHECK:
        return read_path(r, c);
    case WIRE_SET_DATA:
    case WIRE_RECONFIG:
        return read_set_data(r, c);
    case WIRE_SET_ACL:
        return read_set_acl(r, c);
    case WIRE_CREATE_SESSION:
        return read_create_session(r, session_id, c);
    case WIRE_CLOSE_SESSION:
        return read_close_session(r, c);
    case WIRE_ERROR:
        (void)wire_read_i32(r);
        return r->failed ? CONCLAVE_ECORRUPT : 0;
    default:
        return CONCLAVE_ECORRUPT;
    }
}

static bool names_a_node(int32_t type)
{
    return type != WIRE_CREATE_SESSION && type != WIRE_CLOSE_SESSION && type != WIRE_ERROR;
}

static int read_change(struct wire_reader *r, int64_t session_id, int32_t type,
                       struct outcome_change *ret)
{
    *ret =
        (struct outcome_change){.type = type, .acl = WIRE_VECTOR_NULL, .paths = WIRE_VECTOR_NULL};
    if (read_by_type(r, session_id, ret) != 0) {
        return CONCLAVE_ECORRUPT;
    }
    bool root = slice_equal_str(ret->path, "/");
    bool makes_or_ends = is_create(type) || type == WIRE_DELETE || type == WIRE_DELETE_CONTAINER;
    if (names_a_node(type) && (!path_valid(ret->path) || (root && makes_or_ends))) {
        return CONCLAVE_ECORRUPT;
    }
    bool has_acl = is_create(type) || type == WIRE_SET_ACL;
    return has_acl && ret->acl.count <= 0 ? CONCLAVE_ECORRUPT : 0;
}

/* The next part of a multi: its type, and a buffer with its record. */
static int read_part(struct wire_reader *r, int64_t session_id, struct outcome_change *ret)
{
    int32_t type = wire_read_i32(r);
    struct slice record = wire_read_buffer(r);
    bool session =
        type == WIRE_CREATE_SESSION || type == WIRE_CLOSE_SESSION || type == WIRE_RECONFIG;
    if (r->failed || session) {
        return CONCLAVE_ECORRUPT;
    }
    struct wire_reader part = wire_reader_make(record);
    return read_change(&part, session_id, type, ret);
}

static int check_multi(struct wire_reader *r, int64_t session_id)
{
    int32_t count = wire_read_i32(r);
    for (int32_t i = 0; i < count; i++) {
        struct outcome_change change;
        if (read_part(r, session_id, &change) != 0) {
            return CONCLAVE_ECORRUPT;
        }
    }
    return r->failed || count < 0 ? CONCLAVE_ECORRUPT : 0;
}

int outcome_read(struct slice bytes, struct outcome *ret)
{
    struct wire_reader r = wire_reader_make(bytes);
    *ret = (struct outcome){0};
    if (wire_decode_txn_header(&r, &ret->header) != 0 || ret->header.zxid <= 0) {
        return CONCLAVE_ECORRUPT;
    }
    const uint8_t *start = r.pos;
    struct outcome_change change;
    int rc = ret->header.type == WIRE_MULTI
                 ? check_multi(&r, ret->header.session_id)
                 : read_change(&r, ret->header.session_id, ret->header.type, &change);
    ret->record = slice_make(start, (size_t)(r.pos - start));
    if (rc == 0 && wire_left(&r) > 0) {
        rc = wire_decode_txn_digest(&r, &ret->digest);
        ret->has_digest = rc == 0;
    }
    return rc == 0 && wire_left(&r) == 0 ? 0 : CONCLAVE_ECORRUPT;
}

/* --- applying --------------------------------------------------------------------------------- */

/* Sets what creates and deletes below a node left in it. */
static void set_child_counts(struct write *w, struct znode *parent, struct slice path,
                             int32_t cversion, int64_t pzxid)
{
    struct state *s = w->s;
    if (znode_cversion(parent) == cversion && znode_pzxid(parent) == pzxid) {
        return;
    }
    snapshot_touch(s, parent);
    struct znode_dir *dir = znode_dir_need(parent);
    state_need(dir != NULL);
    uint64_t digest = digest_path(path);
    s->nodes_digest -= digest_children(parent, digest);
    dir->cversion = cversion;
    dir->pzxid = pzxid;
    s->nodes_digest += digest_children(parent, digest);
}

static struct slice parent_path(struct slice path)
{
    return slice_make(path.data, path_last_slash(path));
}

/* As Apache, the counter of creates never goes back, and pzxid follows it. */
static void count_create(struct write *w, struct znode *parent, const struct outcome_change *c,
                         int32_t before, int64_t pzxid_before)
{
    int32_t counted = c->version == -1 ? (int32_t)((uint32_t)before + 1) : c->version;
    bool newer = counted > before;
    set_child_counts(w, parent, parent_path(c->path), newer ? counted : before,
                     newer ? w->zxid : pzxid_before);
}

static uint32_t take_acl(struct state *s, struct wire_vector acl)
{
    uint32_t id;
    state_need(acl_take(&s->tree.acls, acl, &id) == 0);
    return id;
}

static void replace_list(struct state *s, struct znode *node, struct slice path,
                         struct wire_vector acl, int32_t aversion)
{
    snapshot_touch(s, node);
    struct znode_dir *dir = aversion != 0 || znode_dir(node) != NULL ? znode_dir_need(node) : NULL;
    state_need(dir != NULL || (aversion == 0 && znode_dir(node) == NULL));
    uint64_t digest = digest_path(path);
    s->nodes_digest -= digest_node(s, node, digest);
    uint32_t id = take_acl(s, acl);
    acl_unref(&s->tree.acls, node->acl);
    node->acl = id;
    if (dir != NULL) {
        dir->aversion = aversion;
    }
    s->nodes_digest += digest_node(s, node, digest);
}

/* The node is there already: it came with a snapshot that was written while this happened. Its list may be one that the
 * snapshot's table does not have; this transaction has it. */
static void create_again(struct write *w, struct znode *parent, struct znode *node,
                         const struct outcome_change *c)
{
    if (node->czxid == w->zxid && znode_aversion(node) == 0) {
        replace_list(w->s, node, c->path, c->acl, 0);
    }
    if (c->type == WIRE_CREATE) {
        count_create(w, parent, c, znode_cversion(parent), znode_pzxid(parent));
    }
}

/* The session of an ephemeral node. A snapshot may lack one that was opened while it was written, and its transaction
 * follows: until then it has no timeout. */
static struct session *need_owner(struct state *s, int64_t id)
{
    struct session *session = session_find(s, id);
    if (session == NULL) {
        struct state_session made = {.id = id};
        outcome_password(id, made.passwd);
        session = session_put(s, &made);
        state_need(session != NULL);
    }
    return session;
}

static int apply_create(struct write *w, const struct outcome_change *c)
{
    struct state *s = w->s;
    struct znode *parent = tree_find(&s->tree, parent_path(c->path));
    if (parent == NULL) {
        return 0;
    }
    struct znode *node = tree_find(&s->tree, c->path);
    if (node != NULL) {
        create_again(w, parent, node, c);
        return 0;
    }
    if (znode_is_ephemeral(parent)) {
        return CONCLAVE_ECORRUPT;
    }
    bool ephemeral = tree_owner_kind(c->owner) == TREE_OWNER_SESSION;
    struct znode_spec spec = {
        .path = c->path,
        .data = c->data,
        .acl = take_acl(s, c->acl),
        .owner = c->owner,
        .owned = ephemeral ? &need_owner(s, c->owner)->ephemerals : NULL,
        .zxid = w->zxid,
        .time_ms = w->time_ms,
    };
    int32_t cversion = znode_cversion(parent);
    int64_t pzxid = znode_pzxid(parent);
    node = write_add(w, parent, &spec);
    count_create(w, parent, c, cversion, pzxid);
    write_created(w, node);
    return 0;
}

static void remove_node(struct write *w, struct znode *node)
{
    struct znode *parent = node->parent;
    int64_t pzxid = znode_pzxid(parent);
    write_remove(w, node);
    if (pzxid > w->zxid) {
        set_child_counts(w, parent, parent_path(w->path), znode_cversion(parent), pzxid);
    }
}

/* A node that has children cannot be deleted. If this one has some, they are of its successor of the same name, came
 * with the snapshot, and their own transactions follow. */
static void remove_branch(struct write *w, struct znode *top)
{
    struct znode *node = top;
    for (;;) {
        while (znode_first_child(node) != NULL) {
            node = znode_first_child(node);
        }
        struct znode *parent = node->parent;
        bool done = node == top;
        remove_node(w, node);
        if (done) {
            return;
        }
        node = parent;
    }
}

static void apply_delete(struct write *w, struct slice path)
{
    struct state *s = w->s;
    struct znode *node = tree_find(&s->tree, path);
    if (node != NULL && node->parent != NULL) {
        remove_branch(w, node);
        return;
    }
    struct znode *parent = node == NULL ? tree_find(&s->tree, parent_path(path)) : NULL;
    if (parent != NULL && w->zxid > znode_pzxid(parent)) {
        set_child_counts(w, parent, parent_path(path), znode_cversion(parent), w->zxid);
    }
}

static void apply_set_data(struct write *w, const struct outcome_change *c)
{
    struct state *s = w->s;
    struct znode *node = tree_find(&s->tree, c->path);
    if (node == NULL) {
        return;
    }
    int64_t bytes = (int64_t)c->data.len - (int64_t)znode_data(node).len;
    uint64_t digest = digest_path(c->path);
    s->nodes_digest -= digest_node(s, node, digest);
    write_replace_data(s, node, c->data);
    fence_changed(w, c->path);
    node->version = c->version;
    node->mzxid = w->zxid;
    node->mtime = w->time_ms;
    s->nodes_digest += digest_node(s, node, digest);
    write_tell_data(w, node);
    quota_count(s, c->path, 0, bytes);
}

static void apply_create_session(struct write *w, const struct outcome_change *c, int64_t id)
{
    struct state_session session = {.id = id, .timeout_ms = c->timeout_ms};
    outcome_password(id, session.passwd);
    state_need(session_put(w->s, &session) != NULL);
    w->effects->session_change = STATE_SESSION_CREATED;
    w->effects->session_id = id;
}

/* The paths come first, as a snapshot may lack nodes of the session in its own list, and have others there. */
static int apply_close_session(struct write *w, const struct outcome_change *c, int64_t id)
{
    struct wire_vector paths = c->paths;
    struct slice path;
    while (wire_next_string(&paths, &path)) {
        if (!path_valid(path) || slice_equal_str(path, "/")) {
            return CONCLAVE_ECORRUPT;
        }
        struct znode *node = tree_find(&w->s->tree, path);
        if (node == NULL || znode_owner(node) == id) {
            apply_delete(w, path);
        }
    }
    struct session *session = session_find(w->s, id);
    if (session != NULL) {
        session_end(w, session);
    }
    return 0;
}

static int apply_change(struct write *w, const struct outcome_change *c, int64_t session_id)
{
    struct znode *node;
    switch (c->type) {
    case WIRE_DELETE:
    case WIRE_DELETE_CONTAINER:
        apply_delete(w, c->path);
        return 0;
    case WIRE_SET_DATA:
    case WIRE_RECONFIG:
        apply_set_data(w, c);
        return 0;
    case WIRE_SET_ACL:
        node = tree_find(&w->s->tree, c->path);
        if (node != NULL) {
            replace_list(w->s, node, c->path, c->acl, c->version);
        }
        return 0;
    case WIRE_CREATE_SESSION:
        apply_create_session(w, c, session_id);
        return 0;
    case WIRE_CLOSE_SESSION:
        return apply_close_session(w, c, session_id);
    case WIRE_CHECK:
    case WIRE_ERROR:
        return 0;
    default:
        assert(is_create(c->type));
        return apply_create(w, c);
    }
}

/* A multi with a refused part has changed nothing. */
static bool multi_failed(struct slice record, int64_t session_id)
{
    struct wire_reader r = wire_reader_make(record);
    bool failed = false;
    for (int32_t left = wire_read_i32(&r); left > 0; left--) {
        struct outcome_change part;
        int rc = read_part(&r, session_id, &part);
        assert(rc == 0);
        failed |= rc != 0 || part.type == WIRE_ERROR;
    }
    return failed;
}

static int apply_multi(struct write *w, const struct outcome *o)
{
    if (multi_failed(o->record, o->header.session_id)) {
        return 0;
    }
    struct wire_reader r = wire_reader_make(o->record);
    int rc = 0;
    for (int32_t left = wire_read_i32(&r); left > 0 && rc == 0; left--) {
        struct outcome_change part;
        rc = read_part(&r, o->header.session_id, &part);
        rc = rc == 0 ? apply_change(w, &part, o->header.session_id) : rc;
    }
    return rc;
}

/* The record and what follows it lie together, which close_session's reading relies on. */
static int apply_one(struct write *w, const struct outcome *o)
{
    struct wire_reader r = wire_reader_make(o->record);
    struct outcome_change change;
    int rc = read_change(&r, o->header.session_id, o->header.type, &change);
    assert(rc == 0);
    return rc == 0 ? apply_change(w, &change, o->header.session_id) : rc;
}

int outcome_apply(struct state *s, const struct outcome *o, struct effects *effects)
{
    struct write w = {
        .s = s, .zxid = o->header.zxid, .time_ms = o->header.time_ms, .effects = effects};
    assert(s->undo_count == 0);
    state_begin(s);
    effects_begin(effects, o->header.zxid);
    s->time_ms = o->header.time_ms;
    s->zxid = o->header.zxid;
    int rc = o->header.type == WIRE_MULTI ? apply_multi(&w, o) : apply_one(&w, o);
    write_commit(s);
    effects_seal(effects);
    assert(s->undo_count == 0);
    return rc;
}

/* --- Apache's own numbers --------------------------------------------------------------------- */

static uint32_t node_crc(const struct znode *node, struct slice path,
                         uint32_t (*crc)(uint32_t before, struct slice bytes))
{
    uint8_t stat[5 * 8 + 3 * 4 + 8];
    put_be64(stat, (uint64_t)node->czxid);
    put_be64(stat + 8, (uint64_t)node->mzxid);
    put_be64(stat + 16, (uint64_t)znode_pzxid(node));
    put_be64(stat + 24, (uint64_t)node->ctime);
    put_be64(stat + 32, (uint64_t)node->mtime);
    put_be32(stat + 40, (uint32_t)node->version);
    put_be32(stat + 44, (uint32_t)znode_cversion(node));
    put_be32(stat + 48, (uint32_t)znode_aversion(node));
    put_be64(stat + 52, (uint64_t)znode_owner(node));
    return crc(crc(crc(0, path), znode_data(node)), slice_make(stat, sizeof stat));
}

uint64_t outcome_tree_digest(const struct state *s,
                             uint32_t (*crc)(uint32_t before, struct slice bytes))
{
    static const char own[] = "/zookeeper/";
    uint64_t sum = 0;
    struct buf path;
    buf_init(&path, 0);
    for (const struct znode *node = s->tree.root; node != NULL; node = tree_next(node)) {
        buf_reset(&path);
        znode_append_path(node, &path);
        state_need(buf_ok(&path));
        if (node->parent == NULL) {
            path.len = 0; /* Apache calls the root "" */
        }
        if (!slice_starts_with(buf_slice(&path), slice_str(own))) {
            sum += node_crc(node, buf_slice(&path), crc);
        }
    }
    buf_finish(&path);
    return sum;
}

/* java.util.Random, seeded as Apache does, and its nextBytes: numbers of 32 bits, the low byte first. */
void outcome_password(int64_t session_id, uint8_t ret[WIRE_PASSWD_LEN])
{
    enum { SHIFT = 16 };
    const uint64_t multiplier = 0x5deece66dULL;
    const uint64_t mask = (1ULL << 48) - 1;
    uint64_t seed = (((uint64_t)session_id ^ 0xb3415c00ULL) ^ multiplier) & mask;
    for (size_t i = 0; i < WIRE_PASSWD_LEN; i += 4) {
        seed = (seed * multiplier + 0xb) & mask;
        uint32_t number = (uint32_t)(seed >> SHIFT);
        for (size_t byte = 0; byte < 4; byte++) {
            ret[i + byte] = (uint8_t)(number >> 8 * byte);
        }
    }
}
