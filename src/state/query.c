/* Reads: answers getData, exists, getChildren, getACL and other reads from the tree. */
#include "state/query.h"

#include "state/state_internal.h"

#include "tree/acl_rules.h"
#include "wire/java_number.h"

/* Most nodes have the open list, so its number is checked first. */
bool state_permits(const struct state *s, const struct znode *node, struct wire_vector ids,
                   int32_t perms)
{
    return node->acl == ACL_OPEN ||
           acl_decisions_permit(s->decisions, node->acl, state_acl(s, node), 0, ids, perms);
}

const struct znode *state_node(const struct state *s, struct slice path)
{
    return tree_find(&s->tree, path);
}

struct wire_vector state_node_acl(const struct state *s, const struct znode *node)
{
    return state_acl(s, node);
}

bool state_node_is_public(const struct state *s, const struct znode *node, int32_t perms)
{
    const struct wire_vector nobody = {slice_str(""), 0};
    return node->acl == ACL_OPEN || acl_permits(state_acl(s, node), nobody, perms);
}

/* A read in progress. */
struct query {
    const struct state *s;
    struct wire_vector ids;
    struct buf *out;
    struct state_watch *watch;
};

/* The node, if the caller may read it (has one of `perms`). */
static int find_readable(const struct query *q, struct slice path, int32_t perms,
                         const struct znode **ret)
{
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

static void append_children(const struct znode *node, struct buf *out)
{
    wire_write_i32(out, (int32_t)znode_children(node));
    for (const struct znode *c = znode_first_child(node); c != NULL; c = c->next) {
        wire_write_string(out, znode_name(c));
    }
}

/* For callers with READ but without ADMIN, digests are hidden. */
static void append_acl(const struct query *q, const struct znode *node)
{
    struct wire_vector acl = state_acl(q->s, node);
    if (state_permits(q->s, node, q->ids, WIRE_PERM_ADMIN)) {
        wire_write_vector(q->out, &acl);
    } else {
        acl_redact(acl, q->out);
    }
}

static void append_answer(const struct query *q, int32_t type, const struct znode *node)
{
    switch (type) {
    case WIRE_GET_DATA:
        wire_write_buffer(q->out, znode_data(node));
        break;
    case WIRE_GET_CHILDREN:
        append_children(node, q->out);
        return;
    case WIRE_GET_CHILDREN2:
        append_children(node, q->out);
        break;
    case WIRE_GET_ACL:
        append_acl(q, node);
        break;
    case WIRE_GET_ALL_CHILDREN_NUMBER: /* all nodes below; for "/" including the boot tree, as in ZooKeeper */
        wire_write_i32(q->out, (int32_t)znode_below(node));
        return;
    default: /* exists */
        break;
    }
    znode_append_stat(node, q->out);
}

/* Decodes the path, and the watch flag of reads that have one: their records are equal to getData's. */
static int decode_read(int32_t type, struct wire_reader *r, struct wire_get_data_request *ret)
{
    struct wire_sync_request no_watch;
    int rc;
    if (type == WIRE_GET_ACL || type == WIRE_GET_ALL_CHILDREN_NUMBER) {
        rc = wire_decode_sync_request(r, &no_watch);
        *ret = (struct wire_get_data_request){.path = no_watch.path};
    } else {
        rc = wire_decode_get_data_request(r, ret);
    }
    return rc != 0 || slice_is_null(ret->path) ? CONCLAVE_MARSHALLING_ERROR : 0;
}

/* A read of one node. Only exists leaves a watch if the node does not exist, and refuses a NUL. */
static int query_node(const struct query *q, int32_t type, struct wire_reader *r)
{
    struct wire_get_data_request request;
    const struct znode *node;
    int rc = decode_read(type, r, &request);
    if (rc != 0) {
        return rc;
    }
    bool exists = type == WIRE_EXISTS;
    if (exists && request.path.len > 0 &&
        memchr(request.path.data, '\0', request.path.len) != NULL) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    rc = find_readable(q, request.path,
                       type == WIRE_GET_ACL ? WIRE_PERM_READ | WIRE_PERM_ADMIN : WIRE_PERM_READ,
                       &node);
    if (request.watch && (rc == 0 || (exists && rc == CONCLAVE_NO_NODE))) {
        bool data = exists || type == WIRE_GET_DATA;
        *q->watch = (struct state_watch){data ? STATE_WATCH_DATA : STATE_WATCH_CHILD, request.path};
    }
    if (rc == 0) {
        append_answer(q, type, node);
    }
    return rc;
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

/* Walks the parts of a multiRead without answering them: one part that is not a read spoils all. */
static int check_reads(struct slice body)
{
    struct wire_reader r = wire_reader_make(body);
    struct wire_multi_header header;
    struct wire_get_data_request request; /* getChildren has the same record */
    int rc;
    while ((rc = wire_decode_multi_header(&r, &header)) == 0 && !header.done) {
        if ((header.type != WIRE_GET_DATA && header.type != WIRE_GET_CHILDREN) ||
            wire_decode_get_data_request(&r, &request) != 0 || slice_is_null(request.path)) {
            return CONCLAVE_MARSHALLING_ERROR;
        }
    }
    return rc;
}

/* Each part has its own error, and none leaves a watch. */
static int query_multi_read(const struct query *q, struct wire_reader *r)
{
    int rc = check_reads(wire_rest(r));
    size_t start = q->out->len;
    struct wire_multi_header header;
    struct state_watch watch;
    struct query part = {q->s, q->ids, q->out, &watch};
    while (rc == 0 && wire_decode_multi_header(r, &header) == 0 && !header.done) {
        size_t place = q->out->len;
        wire_encode_multi_header(q->out, &(struct wire_multi_header){header.type, false, 0});
        int err = query_node(&part, header.type, r);
        if (err != 0) {
            q->out->len = place;
            wire_encode_multi_header(q->out, &(struct wire_multi_header){WIRE_ERROR, false, err});
            wire_write_i32(q->out, err);
        }
        if (!buf_ok(q->out) || q->out->len - start > STATE_MULTI_READ_MAX) {
            rc = CONCLAVE_SYSTEM_ERROR;
        }
    }
    wire_encode_multi_header(q->out, &(struct wire_multi_header){WIRE_ERROR, true, -1});
    return rc;
}

static int query_run(const struct query *q, int32_t type, struct wire_reader *r)
{
    switch (type) {
    case WIRE_EXISTS:
    case WIRE_GET_DATA:
    case WIRE_GET_CHILDREN:
    case WIRE_GET_CHILDREN2:
    case WIRE_GET_ACL:
    case WIRE_GET_ALL_CHILDREN_NUMBER:
        return query_node(q, type, r);
    case WIRE_MULTI_READ:
        return query_multi_read(q, r);
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
    state_caller_begin(s);
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

/* Whether the text is empty or "/". */
static bool is_root_or_blank(struct slice s)
{
    s = text_trim(s);
    return s.len == 0 || slice_equal_str(s, "/");
}

/* The prefix is a prefix of bytes, not of a path: "/a" finds "/ab". None, "" and "/" find all. */
int state_ephemerals(const struct state *s, int64_t session_id, struct slice body, struct buf *out)
{
    struct wire_reader r = wire_reader_make(body);
    struct wire_get_ephemerals_request request;
    if (wire_decode_get_ephemerals_request(&r, &request) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    struct slice prefix = request.prefix_path;
    bool all = is_root_or_blank(prefix);
    const struct session *session = session_find(s, session_id);
    size_t start = out->len;
    int32_t count = 0;
    wire_write_i32(out, 0);
    if (session != NULL) {
        LIST_FOREACH (link, &session->ephemerals) {
            const struct znode *node = znode_of_link(link);
            size_t place = out->len;
            wire_write_i32(out, (int32_t)znode_path_len(node));
            znode_append_path(node, out);
            if (!buf_ok(out)) {
                break;
            }
            struct slice path = slice_make(out->data + place + 4, out->len - place - 4);
            if (all || slice_starts_with(path, prefix)) {
                count++;
            } else {
                out->len = place;
            }
        }
    }
    if (!buf_ok(out)) {
        out->len = start;
        return CONCLAVE_SYSTEM_ERROR;
    }
    buf_put_i32(out, start, count);
    return 0;
}

void state_ephemerals_each(const struct state *s, int64_t session_id,
                           bool (*fn)(void *ctx, const struct znode *node), void *ctx)
{
    const struct session *session = session_find(s, session_id);
    if (session == NULL) {
        return;
    }
    LIST_FOREACH (link, &session->ephemerals) {
        if (!fn(ctx, znode_of_link(link))) {
            return;
        }
    }
}

void state_caller_begin(const struct state *s)
{
    acl_decisions_begin(s->decisions);
}

int state_rewatch(const struct state *s, enum state_rewatch kind, struct wire_vector ids,
                  struct slice path, int64_t relative_zxid)
{
    const struct znode *node = tree_find(&s->tree, path);
    if (node != NULL && !state_permits(s, node, ids, WIRE_PERM_READ)) {
        return 0;
    }
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

/* The length of an answer, without making it */

enum {
    LENGTH = 4,      /* before a list, a string or a buffer */
    STAT_LEN = 68,   /* of a node */
    PART_LEN = 13,   /* header and error of a multiRead's part */
    WALK_NODES = 64, /* limit of nodes visited for one answer */
};

/* A bound for the names of the children. */
static size_t bound_names(const struct znode *node)
{
    size_t len = LENGTH;
    if (znode_children(node) > WALK_NODES) {
        return STATE_REPLY_LONG;
    }
    for (const struct znode *c = znode_first_child(node); c != NULL; c = c->next) {
        len += LENGTH + znode_name(c).len;
    }
    return len + STAT_LEN;
}

static size_t bound_node(const struct state *s, int32_t type, struct slice path)
{
    const struct znode *node = slice_is_null(path) ? NULL : tree_find(&s->tree, path);
    if (node == NULL) {
        return 0;
    }
    switch (type) {
    case WIRE_EXISTS:
        return STAT_LEN;
    case WIRE_GET_DATA:
        return LENGTH + znode_data(node).len + STAT_LEN;
    case WIRE_GET_CHILDREN:
    case WIRE_GET_CHILDREN2:
        return bound_names(node);
    case WIRE_GET_ACL:
        return LENGTH + state_acl(s, node).items.len + STAT_LEN; /* hidden ids are shorter */
    case WIRE_GET_ALL_CHILDREN_NUMBER:
        return LENGTH;
    default:
        return 0;
    }
}

static size_t bound_multi_read(const struct state *s, struct wire_reader *r)
{
    struct wire_multi_header header;
    struct wire_get_data_request part; /* getChildren has the same record */
    size_t len = PART_LEN;
    for (int n = 0; wire_decode_multi_header(r, &header) == 0 && !header.done; n++) {
        if (n == WALK_NODES) {
            return STATE_REPLY_LONG;
        }
        if (wire_decode_get_data_request(r, &part) != 0) {
            return 0;
        }
        size_t bound = bound_node(s, header.type, part.path);
        if (bound == STATE_REPLY_LONG) {
            return bound;
        }
        len += PART_LEN + bound;
    }
    return len;
}

/* A path has two bytes or more, with its length before it. */
static size_t bound_ephemerals(const struct state *s, int64_t session_id)
{
    const struct session *session = session_find(s, session_id);
    return LENGTH + (session != NULL ? (size_t)session->path_bytes * (1 + LENGTH / 2) : 0);
}

size_t state_reply_bound(const struct state *s, int64_t session_id, int32_t type, struct slice body)
{
    struct wire_reader r = wire_reader_make(body);
    struct wire_sync_request path; /* other reads begin with it */
    switch (type) {
    case WIRE_MULTI_READ:
        return bound_multi_read(s, &r);
    case WIRE_GET_EPHEMERALS:
        return bound_ephemerals(s, session_id);
    case WIRE_SYNC:
        return body.len;
    default:
        return wire_decode_sync_request(&r, &path) == 0 ? bound_node(s, type, path.path) : 0;
    }
}
