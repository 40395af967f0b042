#include "state/machine.h"

#include "tree/acl_rules.h"

/* Most nodes have the open list, whose number says enough. */
bool state_permits(const struct state *s, const struct znode *node, struct wire_vector ids,
                   int32_t perms)
{
    return node->acl == ACL_OPEN || acl_permits(state_acl(s, node), ids, perms);
}

/* A read being answered. */
struct query {
    const struct state *s;
    struct wire_vector ids;
    struct buf *out;
    struct state_watch *watch;
};

/* The node if the caller may read it (has one of `perms`). */
static int find_readable(const struct query *q, struct slice path, int32_t perms,
                         const struct znode **ret)
{
    if (slice_is_null(path)) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    const struct znode *node = tree_find(&q->s->tree, path);
    if (node == NULL) {
        return CONCLAVE_NO_NODE;
    }
    if (!state_permits(q->s, node, q->ids, perms)) {
        return CONCLAVE_NO_AUTH;
    }
    *ret = node;
    return 0;
}

/* The only read that leaves a watch when there is no node, and that refuses a NUL. */
static int query_exists(const struct query *q, struct wire_reader *r)
{
    struct wire_exists_request request;
    if (wire_decode_exists_request(r, &request) != 0 || slice_is_null(request.path)) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    if (request.path.len > 0 && memchr(request.path.data, '\0', request.path.len) != NULL) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    const struct znode *node;
    int rc = find_readable(q, request.path, WIRE_PERM_READ, &node);
    if (request.watch && (rc == 0 || rc == CONCLAVE_NO_NODE)) {
        *q->watch = (struct state_watch){STATE_WATCH_DATA, request.path};
    }
    if (rc == 0) {
        znode_append_stat(node, q->out);
    }
    return rc;
}

static int query_get_data(const struct query *q, struct wire_reader *r)
{
    struct wire_get_data_request request;
    if (wire_decode_get_data_request(r, &request) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    const struct znode *node;
    int rc = find_readable(q, request.path, WIRE_PERM_READ, &node);
    if (rc != 0) {
        return rc;
    }
    wire_write_buffer(q->out, znode_data(node));
    znode_append_stat(node, q->out);
    if (request.watch) {
        *q->watch = (struct state_watch){STATE_WATCH_DATA, request.path};
    }
    return 0;
}

/* getChildren and getChildren2: the names, and the stat for the latter. Requests are alike. */
static int query_get_children(const struct query *q, struct wire_reader *r, bool with_stat)
{
    struct wire_get_children_request request;
    if (wire_decode_get_children_request(r, &request) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    const struct znode *node;
    int rc = find_readable(q, request.path, WIRE_PERM_READ, &node);
    if (rc != 0) {
        return rc;
    }
    wire_write_i32(q->out, (int32_t)znode_children(node));
    const struct znode *child = node->dir != NULL ? node->dir->first : NULL;
    for (; child != NULL; child = child->next) {
        wire_write_string(q->out, znode_name(child));
    }
    if (with_stat) {
        znode_append_stat(node, q->out);
    }
    if (request.watch) {
        *q->watch = (struct state_watch){STATE_WATCH_CHILD, request.path};
    }
    return 0;
}

/* Who may read but not administer sees digests hidden. */
static int query_get_acl(const struct query *q, struct wire_reader *r)
{
    struct wire_get_acl_request request;
    if (wire_decode_get_acl_request(r, &request) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    const struct znode *node;
    int rc = find_readable(q, request.path, WIRE_PERM_READ | WIRE_PERM_ADMIN, &node);
    if (rc != 0) {
        return rc;
    }
    struct wire_vector acl = state_acl(q->s, node);
    if (state_permits(q->s, node, q->ids, WIRE_PERM_ADMIN)) {
        wire_write_vector(q->out, &acl);
    } else {
        acl_redact(acl, q->out);
    }
    znode_append_stat(node, q->out);
    return 0;
}

static int query_sync(const struct query *q, struct wire_reader *r)
{
    struct wire_sync_request request;
    if (wire_decode_sync_request(r, &request) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    wire_write_string(q->out, request.path);
    return 0;
}

static int query_run(const struct query *q, int32_t type, struct wire_reader *r)
{
    switch (type) {
    case WIRE_EXISTS:
        return query_exists(q, r);
    case WIRE_GET_DATA:
        return query_get_data(q, r);
    case WIRE_GET_CHILDREN:
        return query_get_children(q, r, false);
    case WIRE_GET_CHILDREN2:
        return query_get_children(q, r, true);
    case WIRE_GET_ACL:
        return query_get_acl(q, r);
    case WIRE_SYNC:
        return query_sync(q, r);
    default:
        return CONCLAVE_UNIMPLEMENTED;
    }
}

int state_query(const struct state *s, int32_t type, struct wire_vector ids, struct slice body,
                struct buf *out, struct state_watch *ret_watch)
{
    struct query q = {s, ids, out, ret_watch};
    struct wire_reader r = wire_reader_make(body);
    size_t start = out->len;
    *ret_watch = (struct state_watch){STATE_WATCH_NONE, SLICE_NULL};
    int rc = query_run(&q, type, &r);
    if (rc == 0 && !buf_ok(out)) {
        *ret_watch = (struct state_watch){STATE_WATCH_NONE, SLICE_NULL};
        rc = CONCLAVE_SYSTEM_ERROR;
    }
    if (rc != 0) {
        out->len = start;
    }
    return rc;
}

int state_rewatch(const struct state *s, enum state_rewatch kind, struct slice path,
                  int64_t relative_zxid)
{
    const struct znode *node = tree_find(&s->tree, path);
    if (kind == STATE_REWATCH_EXIST) {
        return node != NULL ? WIRE_EVENT_NODE_CREATED : 0;
    }
    if (node == NULL) {
        return WIRE_EVENT_NODE_DELETED;
    }
    if (kind == STATE_REWATCH_DATA) {
        return node->mzxid > relative_zxid ? WIRE_EVENT_NODE_DATA_CHANGED : 0;
    }
    return znode_pzxid(node) > relative_zxid ? WIRE_EVENT_NODE_CHILDREN_CHANGED : 0;
}
