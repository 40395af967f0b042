/*
 * The tree below /zookeeper/fence mirrors the tree that it fences, like the one of quotas. To write at /zookeeper/fence
 * PATH, a client needs ADMIN at PATH, or at the nearest existing node above it: a binding is a rule about who may
 * change data, as an ACL is. The leader creates the first node (version -1, which no client can create), so a node that
 * a client created there on a server without fencing binds nothing.
 *
 * A write belongs to the holder if its session owns the first contender's node, or if it is part of a multi that checks
 * that node. So a process to which the holder gave the node's name can write, too, and no process can any more once the
 * node is deleted. The lock itself and the path to it are never fenced. Deletions that servers propose (ephemerals of
 * an ended session, spent containers) are not checked.
 *
 * The check comes after the ACLs and before all checks of the existing data (existence, version, children, quotas): a
 * client that was fenced off learns that, and not that another one was faster. Existing bindings stay in force whatever
 * the servers' options are; the options only switch off the creation of bindings.
 */
#include "state/fence.h"

#include "state/digest.h"
#include "state/state_internal.h"
#include "tree/path.h"

#define SERVERS_OWN "/zookeeper"

/* The next question reads all bindings again, and the children of a lock. */
static void bindings_change(struct write *w)
{
    struct state *s = w->s;
    fence_index_forget(&s->fence);
    s->fence.changed = true;
    s->fence.changed_at = w->zxid;
    w->looked_at += FENCE_NODES_MAX;
}

/* --- the nodes of bindings -------------------------------------------------------------------- */

static bool is_leaf(struct slice path)
{
    size_t slash = path_last_slash(path);
    return slice_equal_str(slice_make(path.data + slash + 1, path.len - slash - 1), FENCE_LEAF);
}

void fence_changed(struct write *w, struct slice path)
{
    if (fence_is_within(path, slice_str(FENCE_ROOT)) && is_leaf(path)) {
        bindings_change(w);
    }
}

void fence_came(struct write *w, const struct znode *node)
{
    fence_changed(w, w->path);
    fence_child_came(w->s, node, w->zxid);
}

/* If a contender is deleted, the others may have to be searched. */
void fence_gone(struct write *w, const struct znode *node)
{
    fence_changed(w, w->path);
    if (fence_child_went(w->s, node, w->zxid)) {
        w->looked_at += znode_children(node->parent);
    }
}

/* The first contender. If that needs a search, the lock's children count as visited by this command. */
static const struct znode *first_contender(struct write *w, struct fence_binding *b)
{
    const struct znode *lock =
        w->s->fence.changed_at == w->zxid ? tree_find(&w->s->tree, b->terms.lock) : NULL;
    w->looked_at += lock != NULL ? znode_children(lock) : 0;
    return fence_first(w->s, b, w->zxid);
}

/* The lock's node, the nodes below it, and the node beside an election (LOCK.leader), where its leader says that it is
 * ready and which has its own check. Whether a client may contend must not depend on who holds the lock. */
static bool belongs_to_lock(struct slice path, struct slice lock)
{
    if (fence_is_within(path, lock)) {
        return true;
    }
    struct slice beside = slice_str(".leader");
    return slice_starts_with(path, lock) &&
           fence_is_within(slice_make(path.data + lock.len, path.len - lock.len), beside);
}

/* Whether the caller may decide who writes at a path. */
static bool permits_binding(const struct write *w, struct slice prefix)
{
    const struct znode *node;
    while ((node = tree_find(&w->s->tree, prefix)) == NULL) {
        prefix.len = path_last_slash(prefix);
    }
    return state_permits(w->s, node, w->command->ids, WIRE_PERM_ADMIN);
}

/* Whether only the holder of b's lock could contend for the lock of a. Not so if a itself is the deeper binding over
 * its lock. */
static bool shuts_out(struct slice prefix, struct slice lock, struct slice other_prefix,
                      struct slice other_lock)
{
    return fence_is_within(lock, other_prefix) && !belongs_to_lock(lock, other_lock) &&
           !(prefix.len > other_prefix.len && fence_is_within(lock, prefix));
}

/* Two bindings that shut out each other's lock would block all writes, and no lock should depend on another one's
 * holder by accident. To exempt the nodes below every binding's lock instead would let a client that may bind one
 * prefix open that of others. */
static bool goes_with_others(struct state *s, struct slice prefix, struct slice lock)
{
    size_t count = state_fence_bindings(s);
    for (size_t i = 0; i < count; i++) {
        const struct fence_binding *b = &s->fence.bindings[i];
        if (!slice_equal(b->prefix, prefix) &&
            (shuts_out(prefix, lock, b->prefix, b->terms.lock) ||
             shuts_out(b->prefix, b->terms.lock, prefix, lock))) {
            return false;
        }
    }
    return true;
}

/* Also refuses a binding that would bind nothing. */
static int check_terms(struct state *s, struct slice data, struct slice prefix)
{
    struct fence_terms terms;
    bool good = fence_terms_parse(data, &terms) && terms.until_ms == 0 && path_valid(terms.lock) &&
                terms.lock.len > 1 && !fence_is_within(terms.lock, slice_str(SERVERS_OWN)) &&
                prefix.len > 1 && !belongs_to_lock(prefix, terms.lock) &&
                !fence_is_within(prefix, slice_str(SERVERS_OWN)) &&
                goes_with_others(s, prefix, terms.lock);
    return good ? 0 : CONCLAVE_BAD_ARGUMENTS;
}

static int check_leaf(struct write *w, const struct fence_write *f, struct slice prefix)
{
    if (f->kind == FENCE_DELETE || f->kind == FENCE_SET_ACL) {
        return 0;
    }
    if ((w->command->options & COMMAND_FENCING) == 0) {
        return CONCLAVE_UNIMPLEMENTED;
    }
    if (f->kind == FENCE_CREATE && !f->lasting) {
        return CONCLAVE_BAD_ARGUMENTS; /* a binding must not end by itself */
    }
    return check_terms(w->s, f->data, prefix);
}

static int check_below_root(struct write *w, const struct fence_write *f)
{
    const struct znode *root = tree_find(&w->s->tree, slice_str(FENCE_ROOT));
    struct slice prefix =
        slice_make(f->path.data + sizeof FENCE_ROOT - 1, f->path.len - (sizeof FENCE_ROOT - 1));
    if (root == NULL || root->version != -1) {
        return 0;
    }
    if (prefix.len == 0) {
        if (f->kind == FENCE_SET_ACL) {
            /* a closed ACL there prevents all others from binding */
            return !w->bounded || permits_binding(w, prefix) ? 0 : CONCLAVE_NO_AUTH;
        }
        return f->kind == FENCE_CREATE ? 0 : CONCLAVE_BAD_ARGUMENTS;
    }
    struct slice above = slice_make(f->path.data, path_last_slash(f->path));
    bool leaf = is_leaf(f->path);
    if (leaf) {
        prefix.len = path_last_slash(prefix);
    }
    if (f->kind == FENCE_CREATE && is_leaf(above)) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    int rc = leaf ? check_leaf(w, f, prefix) : 0;
    if (rc == 0 && !permits_binding(w, prefix)) {
        rc = CONCLAVE_NO_AUTH;
    }
    if (rc == 0 && f->kind == FENCE_CREATE && znode_below(root) >= FENCE_NODES_MAX) {
        rc = CONCLAVE_QUOTA_EXCEEDED;
    }
    return rc;
}

/* --- writes below a binding ------------------------------------------------------------------- */

/* Whether the write is part of a multi that checks this node. */
static bool multi_checks(struct write *w, const struct znode *node)
{
    struct buf *path = &w->s->fence.path;
    if (w->command->type != WIRE_MULTI) {
        return false;
    }
    buf_reset(path);
    znode_append_path(node, path);
    state_need(buf_ok(path));
    return multi_has_check(w, buf_slice(path));
}

/* A lock with a fixed node name has the same name for every holder, so a check of the name proves nothing. */
static bool is_the_holders(struct write *w, const struct fence_binding *b,
                           const struct znode *first)
{
    if (first == NULL) {
        return false;
    }
    bool fixed = znode_path_len(first) == b->terms.lock.len;
    if (!fixed && fence_is_reader(first)) {
        return false;
    }
    return znode_owner(first) == w->command->session_id || (!fixed && multi_checks(w, first));
}

/* The lock and the path to it stay writable for every client that wants to hold it. */
static bool serves_the_lock(const struct fence_binding *b, const struct fence_write *f)
{
    return belongs_to_lock(f->path, b->terms.lock) ||
           (f->kind == FENCE_CREATE && fence_is_within(b->terms.lock, f->path));
}

static int refuse(struct write *w, const struct fence_binding *b, bool delayed)
{
    struct effects *e = w->effects;
    e->fenced = (struct state_fenced){.refused = true, .delayed = delayed};
    buf_reset(&e->fence_prefix);
    buf_append_slice(&e->fence_prefix, b->prefix);
    state_need(buf_ok(&e->fence_prefix));
    return CONCLAVE_NO_AUTH;
}

int fence_check(struct write *w, const struct fence_write *f)
{
    if (w->bounded && w->looked_at > BOUNDS_NODES) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    if (fence_is_within(f->path, slice_str(FENCE_ROOT))) {
        return check_below_root(w, f);
    }
    struct fence_binding *b = fence_find(w->s, f->path);
    if (b == NULL || serves_the_lock(b, f)) {
        return 0;
    }
    if (b->terms.until_ms > 0 && w->time_ms < b->terms.until_ms) {
        return refuse(w, b, true);
    }
    return is_the_holders(w, b, first_contender(w, b)) ? 0 : refuse(w, b, false);
}

/* --- the delay -------------------------------------------------------------------------------- */

/* Written without a new version, zxid or event, like the counts of quotas. */
static void set_until(struct write *w, struct fence_binding *b, int64_t until_ms)
{
    struct state *s = w->s;
    struct buf text;
    fence_note(s, b);
    b->terms.until_ms = until_ms;
    buf_init(&text, 0);
    fence_terms_print(&b->terms, &text);
    buf_reset(&s->fence.path);
    znode_append_path(b->node, &s->fence.path);
    state_need(buf_ok(&text) && buf_ok(&s->fence.path));
    struct slice path = buf_slice(&s->fence.path);
    int64_t grown = (int64_t)text.len - (int64_t)znode_data(b->node).len;
    uint64_t digest = digest_path(path);
    s->nodes_digest -= digest_node(s, b->node, digest);
    write_replace_data(s, b->node, buf_slice(&text));
    s->nodes_digest += digest_node(s, b->node, digest);
    quota_count(s, path, 0, grown);
    buf_finish(&text);
}

/* Limited to the largest time that can be written. */
static int64_t delay_end(int64_t now_ms, int64_t delay_ms)
{
    return now_ms < FENCE_TIME_MAX_MS - delay_ms ? now_ms + delay_ms : FENCE_TIME_MAX_MS;
}

static void begin_delays(struct write *w, const struct znode *node, struct slice lock)
{
    size_t count;
    struct fence_binding **bound = fence_of_lock(w->s, lock, &count);
    for (size_t i = 0; i < count; i++) {
        struct fence_binding *b = bound[i];
        int64_t until_ms = delay_end(w->time_ms, b->terms.delay_ms);
        bool fixed = lock.len == w->path.len;
        if (b->terms.delay_ms > 0 && b->terms.until_ms < until_ms &&
            (fixed || !fence_is_reader(node)) && fence_first(w->s, b, w->zxid) == node) {
            set_until(w, b, until_ms);
        }
    }
}

void fence_leaving(struct write *w, const struct znode *node)
{
    const struct command *c = w->command;
    int64_t owner = znode_owner(node);
    if (tree_owner_kind(owner) != TREE_OWNER_SESSION || state_fence_bindings(w->s) == 0) {
        return;
    }
    bool expiry = c->type == WIRE_CLOSE_SESSION && c->cxid == 0;
    if (c->session_id == owner && !expiry) {
        return;
    }
    begin_delays(w, node, w->path);
    begin_delays(w, node, slice_make(w->path.data, path_last_slash(w->path)));
}

/* --- the first node --------------------------------------------------------------------------- */

int write_fence_open(struct write *w)
{
    switch (state_fence(w->s)) {
    case STATE_FENCE_OPEN:
        return 0;
    case STATE_FENCE_FOREIGN:
        return CONCLAVE_NODE_EXISTS;
    case STATE_FENCE_ABSENT:
        break;
    }
    struct znode *parent = tree_find(&w->s->tree, slice_str(SERVERS_OWN));
    if (parent == NULL) {
        return CONCLAVE_NO_NODE; /* a snapshot may lack the node */
    }
    acl_ref(&w->s->tree.acls, ACL_OPEN);
    struct znode_spec spec = {.path = slice_str(FENCE_ROOT),
                              .data = slice_str(""),
                              .acl = ACL_OPEN,
                              .zxid = w->zxid,
                              .time_ms = w->time_ms};
    struct znode *root = write_add(w, parent, &spec);
    uint64_t digest = digest_path(spec.path);
    w->s->nodes_digest -= digest_node(w->s, root, digest);
    root->version = -1;
    w->s->nodes_digest += digest_node(w->s, root, digest);
    quota_count(w->s, spec.path, 1, 0);
    bindings_change(w);
    return 0;
}
