/* Writes to the tree: create, delete, setData, check, setACL; their checks in ZooKeeper's order, and the undoing of a
 * multi that fails. */
#include "state/state_internal.h"

#include "state/digest.h"
#include "state/initial_acls.h"
#include "tree/acl_rules.h"
#include "tree/path.h"

#include <assert.h>
#include <stdio.h>

/* --- undoing ---------------------------------------------------------------------------------- */

static struct undo *undo_add(struct state *s)
{
    state_need(array_room(&s->undo, s->undo_count, &s->undo_cap, sizeof *s->undo));
    return &s->undo[s->undo_count++];
}

void write_commit(struct state *s)
{
    for (size_t i = 0; i < s->undo_count; i++) {
        struct undo *u = &s->undo[i];
        if (u->kind == UNDO_DELETE) {
            znode_destroy(&s->tree, u->node);
        } else if (u->kind == UNDO_SET_DATA) {
            free(u->data);
        }
    }
    s->undo_count = 0;
    fence_commit(s);
}

static struct list *owner_list(const struct state *s, int64_t owner)
{
    struct session *session = session_find(s, owner);
    return session != NULL ? &session->ephemerals : NULL;
}

static void undo_one(struct state *s, const struct undo *u)
{
    struct znode *node = u->node;
    assert(node != NULL);
    switch (u->kind) {
    case UNDO_CREATE:
        assert(znode_children(node) == 0); /* nodes created below it were undone before */
        snapshot_leave(s, node);
        session_count_path(s, znode_owner(node), -(int64_t)znode_path_len(node));
        tree_take_out(&s->tree, node, u->pzxid);
        znode_dir(node->parent)->cversion = u->cversion;
        znode_destroy(&s->tree, node);
        break;
    case UNDO_DELETE:
        tree_put_back(&s->tree, node, u->pzxid, owner_list(s, znode_owner(node)));
        session_count_path(s, znode_owner(node), (int64_t)znode_path_len(node));
        break;
    case UNDO_SET_DATA:
        free(tree_swap_data(&s->tree, node, u->data));
        node->mzxid = u->mzxid;
        node->mtime = u->mtime;
        node->version = u->version;
        break;
    }
}

void write_rollback(struct state *s)
{
    while (s->undo_count > 0) {
        undo_one(s, &s->undo[--s->undo_count]);
    }
    s->nodes_digest = s->undo_digest;
    fence_rollback(s);
}

/* --- events ----------------------------------------------------------------------------------- */

/* The event borrows the ACL. */
static void write_tell(struct write *w, enum wire_event_type type, size_t offset, size_t len,
                       const struct znode *node)
{
    struct acl_table *acls = &w->s->tree.acls;
    const struct acl_list *acl = acl_get(acls, node->acl);
    assert(acl != NULL);
    state_need(acl->id == ACL_OPEN || acl_keep(acls, acl) == 0);
    effects_event(w->effects, type, offset, len, acl);
}

/* A node was created or deleted: reports it to its watchers, then to those of its parent's children. */
static void tell_node_and_parent(struct write *w, enum wire_event_type type,
                                 const struct znode *node)
{
    struct effects *e = w->effects;
    size_t offset = effects_path(e, node);
    size_t len = e->paths.len - offset;
    assert(len > znode_name(node).len);
    size_t parent_len = len - znode_name(node).len - 1;
    write_tell(w, type, offset, len, node);
    if (type == WIRE_EVENT_NODE_DELETED && znode_is_ephemeral(node)) {
        effects_gone(e, node);
    }
    write_tell(w, WIRE_EVENT_NODE_CHILDREN_CHANGED, offset, parent_len > 0 ? parent_len : 1,
               node->parent);
    w->path = slice_make(e->paths.data + offset, len);
}

void write_tell_data(struct write *w, const struct znode *node)
{
    size_t offset = effects_path(w->effects, node);
    write_tell(w, WIRE_EVENT_NODE_DATA_CHANGED, offset, w->effects->paths.len - offset, node);
}

void write_replace_data(struct state *s, struct znode *node, struct slice data)
{
    struct znode_data *block;
    snapshot_touch(s, node);
    state_need(znode_data_make(data, &block));
    *undo_add(s) = (struct undo){
        .kind = UNDO_SET_DATA,
        .node = node,
        .data = tree_swap_data(&s->tree, node, block),
        .mzxid = node->mzxid,
        .mtime = node->mtime,
        .version = node->version,
    };
}

/* --- create ----------------------------------------------------------------------------------- */

static bool mode_ephemeral(int32_t mode)
{
    return mode == WIRE_MODE_EPHEMERAL || mode == WIRE_MODE_EPHEMERAL_SEQUENTIAL;
}

/* Only creates of these types use the mode: see create_owner. */
static bool makes_ephemeral(int32_t type, int32_t mode)
{
    return (type == WIRE_CREATE || type == WIRE_CREATE2) && mode_ephemeral(mode);
}

/* A createTTL whose mode has no TTL is always refused: in ZooKeeper a negative TTL ends the server. */
static int check_mode(const struct write *w, int32_t type, const struct wire_create_ttl_request *r)
{
    if (r->flags < WIRE_MODE_PERSISTENT || r->flags > WIRE_MODE_PERSISTENT_SEQUENTIAL_TTL) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    if (!mode_has_ttl(r->flags)) {
        return type == WIRE_CREATE_TTL ? CONCLAVE_BAD_ARGUMENTS : 0;
    }
    if ((w->command->options & COMMAND_TTL) == 0) {
        return CONCLAVE_UNIMPLEMENTED;
    }
    return ttl_valid(r->ttl_ms) ? 0 : CONCLAVE_BAD_ARGUMENTS;
}

/* The path followed by the parent's count of creates, "%010d" as an int32. Stored in s->name. */
static struct slice sequential_path(struct state *s, struct slice path, int32_t cversion)
{
    char suffix[16];
    int len = snprintf(suffix, sizeof suffix, "%010d", cversion);
    buf_reset(&s->name);
    buf_append_slice(&s->name, path);
    buf_append(&s->name, suffix, (size_t)len);
    state_need(buf_ok(&s->name));
    return buf_slice(&s->name);
}

/* Puts the ACL to store into s->scratch. */
static int fixup_acl(struct write *w, struct wire_vector acl, int32_t *ret_count)
{
    if (w->bounded && !command_bounds_acl(&command_ceilings, acl, w->command->ids,
                                          w->command->body.len, &w->acl_bytes)) {
        return CONCLAVE_INVALID_ACL;
    }
    uint32_t options = w->command->options;
    uint32_t schemes = ((options & COMMAND_SASL) != 0 ? ACL_SCHEME_SASL : 0u) |
                       ((options & COMMAND_X509) != 0 ? ACL_SCHEME_X509 : 0u) |
                       ((options & COMMAND_NO_DIGEST) != 0 ? ACL_NO_DIGEST : 0u);
    buf_reset(&w->s->scratch);
    int rc = acl_fixup(acl, w->command->ids, schemes, &w->s->tree.key, &w->s->scratch, ret_count);
    state_need(rc != CONCLAVE_ENOMEM);
    return rc;
}

/* All checks of a create in ZooKeeper's order. Then the ACL to store is in s->scratch. */
static int check_create(struct write *w, int32_t type, const struct wire_create_ttl_request *r,
                        struct slice *path, struct znode **parent, int32_t *acl_count)
{
    struct state *s = w->s;
    int rc = check_mode(w, type, r);
    if (rc != 0) {
        return rc;
    }
    rc = write_check_session(w);
    if (rc == 0 && makes_ephemeral(type, r->flags) &&
        session_find(s, w->command->session_id) == NULL) {
        rc = CONCLAVE_EPHEMERAL_ON_LOCAL_SESSION; /* its server should have made it global */
    }
    if (rc != 0) {
        return rc;
    }
    if (slice_is_null(r->path)) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    if (!path_plausible(r->path)) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    rc = fixup_acl(w, r->acl, acl_count);
    if (rc != 0) {
        return rc;
    }
    *parent = tree_find(&s->tree, slice_make(r->path.data, path_last_slash(r->path)));
    if (*parent == NULL) {
        return CONCLAVE_NO_NODE;
    }
    if (!state_permits(s, *parent, w->command->ids, WIRE_PERM_CREATE)) {
        return CONCLAVE_NO_AUTH;
    }
    *path =
        mode_sequential(r->flags) ? sequential_path(s, r->path, znode_cversion(*parent)) : r->path;
    if (!path_valid(*path) || (w->bounded && !command_bounds_path(&command_ceilings, *path))) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    rc = quota_check_node(w, *path, r->data);
    if (rc != 0) {
        return rc;
    }
    bool plain = type == WIRE_CREATE || type == WIRE_CREATE2;
    rc =
        fence_check(w, &(struct fence_write){.kind = FENCE_CREATE,
                                             .path = *path,
                                             .data = r->data,
                                             .lasting = plain && r->flags == WIRE_MODE_PERSISTENT});
    if (rc != 0) {
        return rc;
    }
    if (tree_find(&s->tree, *path) != NULL) {
        return CONCLAVE_NODE_EXISTS;
    }
    if (znode_is_ephemeral(*parent)) {
        return CONCLAVE_NO_CHILDREN_FOR_EPHEMERALS;
    }
    const struct session *owner =
        w->bounded && mode_ephemeral(r->flags) ? session_find(s, w->command->session_id) : NULL;
    if (owner != NULL && owner->path_bytes + (int64_t)path->len > BOUNDS_EPHEMERAL_BYTES) {
        return CONCLAVE_QUOTA_EXCEEDED;
    }
    return quota_check(w, *path, 1, (int64_t)r->data.len);
}

/* The owner of the new node. The operation makes a container, not the mode. */
static int64_t create_owner(const struct write *w, int32_t type,
                            const struct wire_create_ttl_request *r)
{
    if (type == WIRE_CREATE_CONTAINER) {
        return TREE_OWNER_CONTAINER;
    }
    if (type == WIRE_CREATE_TTL) {
        return tree_ttl_owner(r->ttl_ms);
    }
    return makes_ephemeral(type, r->flags) ? w->command->session_id : 0;
}

struct znode *write_add(struct write *w, struct znode *parent, const struct znode_spec *spec)
{
    struct state *s = w->s;
    assert(!znode_is_ephemeral(parent) && spec->zxid == w->zxid);
    snapshot_touch(s, parent);
    struct undo *undo = undo_add(s);
    *undo = (struct undo){
        .kind = UNDO_CREATE, .pzxid = znode_pzxid(parent), .cversion = znode_cversion(parent)};
    uint64_t above = digest_path(slice_make(spec->path.data, path_last_slash(spec->path)));
    uint64_t digest = digest_path(spec->path);
    s->nodes_digest -= digest_children(parent, above);
    struct znode *node = tree_add(&s->tree, parent, spec);
    state_need(node != NULL);
    assert(undo->kind == UNDO_CREATE && undo->node == NULL);
    undo->node = node;
    s->nodes_digest += digest_children(parent, above) + digest_node(s, node, digest) +
                       digest_children(node, digest);
    session_count_path(s, spec->owner, (int64_t)spec->path.len);
    tell_node_and_parent(w, WIRE_EVENT_NODE_CREATED, node);
    fence_came(w, node);
    return node;
}

int write_create(struct write *w, int32_t type, const struct wire_create_ttl_request *r,
                 struct znode **ret)
{
    struct state *s = w->s;
    struct slice path;
    struct znode *parent;
    int32_t acl_count;
    int rc = check_create(w, type, r, &path, &parent, &acl_count);
    if (rc != 0) {
        return rc;
    }
    struct session *session = session_find(s, w->command->session_id); /* NULL: a local session */
    struct znode_spec spec = {
        .path = path,
        .data = r->data,
        .owner = create_owner(w, type, r),
        .owned = session != NULL ? &session->ephemerals : NULL,
        .zxid = w->zxid,
        .time_ms = w->time_ms,
    };
    rc = acl_take(&s->tree.acls, wire_vector_make(&s->scratch, acl_count), &spec.acl);
    state_need(rc == 0);
    *ret = write_add(w, parent, &spec);
    return 0;
}

void write_created(struct write *w, const struct znode *node)
{
    quota_node_created(w->s, node);
    quota_count(w->s, w->path, 1, (int64_t)znode_data(node).len);
}

/* --- delete ----------------------------------------------------------------------------------- */

void write_remove(struct write *w, struct znode *node)
{
    struct state *s = w->s;
    assert(node->parent != NULL && znode_children(node) == 0);
    snapshot_touch(s, node->parent);
    snapshot_touch(s, node);
    snapshot_leave(s, node);
    *undo_add(s) =
        (struct undo){.kind = UNDO_DELETE, .node = node, .pzxid = znode_pzxid(node->parent)};
    tell_node_and_parent(w, WIRE_EVENT_NODE_DELETED, node);
    fence_leaving(w, node);
    uint64_t above = digest_path(slice_make(w->path.data, path_last_slash(w->path)));
    uint64_t digest = digest_path(w->path);
    s->nodes_digest -= digest_children(node->parent, above) + digest_node(s, node, digest) +
                       digest_children(node, digest);
    session_count_path(s, znode_owner(node), -(int64_t)w->path.len);
    tree_take_out(&s->tree, node, w->zxid);
    fence_gone(w, node);
    s->nodes_digest += digest_children(node->parent, above);
    quota_count(s, w->path, -1, -(int64_t)znode_data(node).len);
}

static bool version_matches(int32_t have, int32_t expected)
{
    return expected == -1 || expected == have;
}

int write_delete(struct write *w, const struct wire_delete_request *r)
{
    struct state *s = w->s;
    int rc = write_check_session(w);
    if (rc != 0) {
        return rc;
    }
    if (slice_is_null(r->path)) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    if (!path_plausible(r->path) || path_special(r->path)) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    const struct znode *parent =
        tree_find(&s->tree, slice_make(r->path.data, path_last_slash(r->path)));
    if (parent == NULL) {
        return CONCLAVE_NO_NODE;
    }
    if (!state_permits(s, parent, w->command->ids, WIRE_PERM_DELETE)) {
        return CONCLAVE_NO_AUTH;
    }
    rc = fence_check(w, &(struct fence_write){.kind = FENCE_DELETE, .path = r->path});
    if (rc != 0) {
        return rc;
    }
    struct znode *node = tree_find(&s->tree, r->path);
    if (node == NULL) {
        return CONCLAVE_NO_NODE;
    }
    if (!version_matches(node->version, r->version)) {
        return CONCLAVE_BAD_VERSION;
    }
    if (znode_children(node) > 0) {
        return CONCLAVE_NOT_EMPTY;
    }
    write_remove(w, node);
    return 0;
}

/* --- setData, check, setACL: what concerns one node ------------------------------------------- */

/* The next version, which wraps but skips -1, because clients use that for "any version" (ZOOKEEPER-4743). */
static int32_t next_version(int32_t version)
{
    int32_t next = (int32_t)((uint32_t)version + 1);
    return next == -1 ? 0 : next;
}

static int check_session_and_path(const struct write *w, struct slice path)
{
    int rc = write_check_session(w);
    if (rc != 0) {
        return rc;
    }
    return path_valid(path) ? 0 : CONCLAVE_BAD_ARGUMENTS;
}

/* The node at the path, if the caller has the permission there. */
static int find_permitted(const struct write *w, struct slice path, int32_t perm,
                          struct znode **ret)
{
    struct znode *node = tree_find(&w->s->tree, path);
    if (node == NULL) {
        return CONCLAVE_NO_NODE;
    }
    if (!state_permits(w->s, node, w->command->ids, perm)) {
        return CONCLAVE_NO_AUTH;
    }
    *ret = node;
    return 0;
}

int write_set_data(struct write *w, const struct wire_set_data_request *r, struct znode **ret)
{
    struct state *s = w->s;
    struct znode *node;
    int rc = check_session_and_path(w, r->path);
    if (rc == 0) {
        rc = find_permitted(w, r->path, WIRE_PERM_WRITE, &node);
    }
    if (rc == 0) {
        rc = quota_check_node(w, r->path, r->data);
    }
    if (rc == 0) {
        rc = fence_check(
            w, &(struct fence_write){.kind = FENCE_SET_DATA, .path = r->path, .data = r->data});
    }
    if (rc != 0) {
        return rc;
    }
    int64_t bytes = (int64_t)r->data.len - (int64_t)znode_data(node).len;
    rc = quota_check(w, r->path, 0, bytes);
    if (rc != 0) {
        return rc;
    }
    if (!version_matches(node->version, r->version)) {
        return CONCLAVE_BAD_VERSION;
    }
    uint64_t digest = digest_path(r->path);
    s->nodes_digest -= digest_node(s, node, digest);
    write_replace_data(s, node, r->data);
    fence_changed(w, r->path);
    node->version = next_version(node->version);
    node->mzxid = w->zxid;
    node->mtime = w->time_ms;
    s->nodes_digest += digest_node(s, node, digest);

    write_tell_data(w, node);
    quota_count(s, r->path, 0, bytes);
    *ret = node;
    return 0;
}

int write_check(struct write *w, const struct wire_check_version_request *r)
{
    struct znode *node;
    int rc = check_session_and_path(w, r->path);
    if (rc == 0) {
        rc = find_permitted(w, r->path, WIRE_PERM_READ, &node);
    }
    if (rc == 0 && !version_matches(node->version, r->version)) {
        rc = CONCLAVE_BAD_VERSION;
    }
    return rc;
}

/* Never part of a multi, so it needs no rollback. Changes only the aversion, and fires no watch. The list is in
 * s->scratch. */
static void replace_acl(struct write *w, struct slice path, struct znode *node, int32_t acl_count)
{
    struct state *s = w->s;
    uint64_t digest = digest_path(path);
    s->nodes_digest -= digest_node(s, node, digest);
    snapshot_touch(s, node);
    uint32_t acl;
    struct znode_dir *dir = znode_dir_need(node);
    state_need(dir != NULL);
    state_need(acl_take(&s->tree.acls, wire_vector_make(&s->scratch, acl_count), &acl) == 0);
    acl_unref(&s->tree.acls, node->acl);
    node->acl = acl;
    dir->aversion = next_version(dir->aversion);
    s->nodes_digest += digest_node(s, node, digest);
}

int write_set_acl(struct write *w, const struct wire_set_acl_request *r, struct znode **ret)
{
    struct znode *node;
    int32_t acl_count;
    int rc = check_session_and_path(w, r->path);
    if (rc == 0) {
        rc = fixup_acl(w, r->acl, &acl_count);
    }
    if (rc == 0) {
        rc = find_permitted(w, r->path, WIRE_PERM_ADMIN, &node);
    }
    if (rc == 0) {
        rc = fence_check(w, &(struct fence_write){.kind = FENCE_SET_ACL, .path = r->path});
    }
    if (rc != 0) {
        return rc;
    }
    if (!version_matches(znode_aversion(node), r->version)) {
        return CONCLAVE_BAD_VERSION;
    }
    replace_acl(w, r->path, node, acl_count);
    *ret = node;
    return 0;
}

/* The ACLs of a new tree, and the permissions that everybody keeps when they are closed. */
static const struct {
    const char *path;
    int32_t perms;
} closed_acls[] = {
    {"/", WIRE_PERM_READ | WIRE_PERM_WRITE | WIRE_PERM_CREATE | WIRE_PERM_DELETE},
    {"/zookeeper", WIRE_PERM_READ},
    {"/zookeeper/quota", WIRE_PERM_READ},
};
enum { CLOSED_ACLS = sizeof closed_acls / sizeof closed_acls[0] };

/* NULL: a client changed the node's ACL, or the node does not exist. */
static struct znode *find_open(const struct state *s, size_t i)
{
    struct znode *node = tree_find(&s->tree, slice_str(closed_acls[i].path));
    return node != NULL && znode_aversion(node) == 0 ? node : NULL;
}

bool state_acls_are_open(const struct state *s)
{
    for (size_t i = 0; i < CLOSED_ACLS; i++) {
        if (find_open(s, i) != NULL) {
            return true;
        }
    }
    return false;
}

int write_close_acls(struct write *w)
{
    struct state *s = w->s;
    for (size_t i = 0; i < CLOSED_ACLS; i++) {
        struct znode *node = find_open(s, i);
        struct wire_acl entry = {.perms = closed_acls[i].perms,
                                 .id = {.scheme = slice_str("world"), .id = slice_str("anyone")}};
        if (node != NULL) {
            buf_reset(&s->scratch);
            wire_encode_acl(&s->scratch, &entry);
            state_need(buf_ok(&s->scratch));
            replace_acl(w, slice_str(closed_acls[i].path), node, 1);
        }
    }
    return 0;
}
