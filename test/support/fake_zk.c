#define _GNU_SOURCE /* accept4, pipe2, memmem */
#include "support/fake_zk_server.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TICK_MS = 5, CONNS_MAX = 256, OVERSIZED_BYTES = 17 << 20 };

static int64_t now_ms(void)
{
    return clock_monotonic_ms(clock_system());
}

void fake_server_wake(struct fake_zk *zk)
{
    ssize_t n = write(zk->wake[1], "x", 1);
    (void)n; /* a full pipe wakes as well */
}

/* --- watches ---------------------------------------------------------------------- */

static void send_event(struct fake_zk *zk, struct conn *c, int type, const char *path, int64_t zxid)
{
    struct wire_reply_header header = {WIRE_XID_NOTIFICATION, zxid, 0};
    struct wire_watcher_event event = {type, WIRE_STATE_SYNC_CONNECTED, slice_str(path)};
    size_t frame = wire_frame_begin(&c->out);
    wire_encode_reply_header(&c->out, &header);
    wire_encode_watcher_event(&c->out, &event);
    wire_frame_end(&c->out, frame);
    zk->events++;
}

static bool watch_take(struct conn *c, enum fake_watch_kind kind, const char *path)
{
    bool found = false;
    LIST_FOREACH (it, &c->watches) {
        struct fake_watch *w = CONTAINER_OF(it, struct fake_watch, link);
        if (w->kind == kind && strcmp(w->path, path) == 0) {
            list_remove(&w->link);
            free(w);
            found = true;
        }
    }
    return found;
}

static void watch_put(struct conn *c, enum fake_watch_kind kind, struct slice path)
{
    struct fake_watch *w = malloc(sizeof *w + path.len + 1);
    if (w == NULL) {
        abort();
    }
    w->kind = kind;
    memcpy(w->path, path.data, path.len);
    w->path[path.len] = '\0';
    (void)watch_take(c, kind, w->path);
    list_push_back(&c->watches, &w->link);
}

static void watch_add(struct conn *c, bool child, struct slice path)
{
    watch_put(c, child ? FAKE_WATCH_CHILD : FAKE_WATCH_DATA, path);
}

/* Whether a persistent watch gets an event on path. */
static bool watch_stays(const struct fake_watch *w, int type, const char *path)
{
    size_t len = strcmp(w->path, "/") == 0 ? 0 : strlen(w->path);
    if (w->kind == FAKE_WATCH_PERSISTENT) {
        return strcmp(w->path, path) == 0;
    }
    return w->kind == FAKE_WATCH_RECURSIVE && type != WIRE_EVENT_NODE_CHILDREN_CHANGED &&
           strncmp(w->path, path, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static bool watched_for_good(const struct conn *c, int type, const char *path)
{
    LIST_FOREACH (it, &c->watches) {
        if (watch_stays(CONTAINER_OF(it, struct fake_watch, link), type, path)) {
            return true;
        }
    }
    return false;
}

void fake_server_fire(struct fake_zk *zk, int type, const char *path)
{
    char parent[512];
    (void)snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    slash[slash == parent ? 1 : 0] = '\0';
    LIST_FOREACH (it, &zk->conns) {
        struct conn *c = CONTAINER_OF(it, struct conn, link);
        if (c->cut) {
            continue; /* its watches end with the link */
        }
        bool data = watch_take(c, FAKE_WATCH_DATA, path);
        bool child = type == WIRE_EVENT_NODE_DELETED && watch_take(c, FAKE_WATCH_CHILD, path);
        if (data || child || watched_for_good(c, type, path)) {
            send_event(zk, c, type, path, zk->tree.zxid);
        }
        if (type != WIRE_EVENT_NODE_DATA_CHANGED &&
            (watch_take(c, FAKE_WATCH_CHILD, parent) ||
             watched_for_good(c, WIRE_EVENT_NODE_CHILDREN_CHANGED, parent))) {
            send_event(zk, c, WIRE_EVENT_NODE_CHILDREN_CHANGED, parent, zk->tree.zxid);
        }
    }
}

/* --- sessions --------------------------------------------------------------------- */

static struct fake_session *session_find(struct fake_zk *zk, int64_t id)
{
    LIST_FOREACH (it, &zk->sessions) {
        struct fake_session *s = CONTAINER_OF(it, struct fake_session, link);
        if (s->id == id) {
            return s;
        }
    }
    return NULL;
}

static void session_end(struct fake_zk *zk, struct fake_session *s)
{
    if (s->conn != NULL) {
        s->conn->session = NULL;
    }
    zk->tree.zxid++;
    for (bool again = true; again;) {
        again = false;
        for (struct map_node *it = map_next(&zk->tree.nodes, NULL); it != NULL;
             it = map_next(&zk->tree.nodes, it)) {
            struct fake_node *n = (struct fake_node *)(void *)it;
            if (n->stat.ephemeral_owner == s->id) {
                char path[512];
                (void)snprintf(path, sizeof path, "%s", n->path);
                (void)fake_tree_delete(&zk->tree, slice_str(path), -1);
                fake_server_fire(zk, WIRE_EVENT_NODE_DELETED, path);
                again = true; /* a deletion ends the walk */
                break;
            }
        }
    }
    list_remove(&s->link);
    free(s);
}

void fake_server_expire(struct fake_zk *zk, struct fake_session *s)
{
    if (s->conn != NULL) {
        s->conn->cut = true;
    }
    session_end(zk, s);
}

static void expire_due(struct fake_zk *zk)
{
    LIST_FOREACH (it, &zk->sessions) {
        struct fake_session *s = CONTAINER_OF(it, struct fake_session, link);
        if (now_ms() > s->heard_ms + s->timeout_ms) {
            fake_server_expire(zk, s);
        }
    }
}

static void handshake(struct fake_zk *zk, struct conn *c, struct slice body)
{
    struct wire_reader r = wire_reader_make(body);
    struct wire_connect_request request;
    uint8_t passwd[WIRE_PASSWD_LEN] = {0};
    if (wire_decode_connect_request(&r, &request) != 0) {
        c->cut = true;
        return;
    }
    struct fake_session *s = NULL;
    if (request.session_id == 0) {
        s = calloc(1, sizeof *s);
        if (s == NULL) {
            abort();
        }
        s->id = ++zk->last_session;
        s->timeout_ms = zk->session_max_ms > 0 && zk->session_max_ms < request.timeout_ms
                            ? zk->session_max_ms
                            : request.timeout_ms;
        list_push_back(&zk->sessions, &s->link);
    } else {
        s = session_find(zk, request.session_id);
    }
    struct wire_connect_response response = {.passwd = slice_make(passwd, sizeof passwd)};
    if (s != NULL) {
        if (s->conn != NULL) {
            s->conn->session = NULL;
            s->conn->cut = true;
        }
        s->conn = c;
        s->heard_ms = now_ms();
        response.timeout_ms = (int32_t)s->timeout_ms;
        response.session_id = s->id;
        memset(passwd, (int)(s->id & 0x7f), sizeof passwd);
    } else {
        c->ending = true;
    }
    c->session = s;
    c->connected = true;
    size_t frame = wire_frame_begin(&c->out);
    wire_encode_connect_response(&c->out, &response);
    if (wire_left(&r) > 0) {
        wire_write_boolean(&c->out, zk->endpoints[c->endpoint].read_only);
    }
    wire_frame_end(&c->out, frame);
}

/* --- requests ---------------------------------------------------------------------- */

static const struct fake_tree *view(const struct fake_zk *zk, const struct conn *c)
{
    const struct endpoint *ep = &zk->endpoints[c->endpoint];
    return ep->frozen ? &ep->view : &zk->tree;
}

/* Its first entry; a node that a test made has all permissions for everybody. */
static int do_get_acl(const struct fake_tree *t, struct slice path, struct buf *out)
{
    const struct fake_node *node = fake_tree_find(t, path);
    if (node == NULL) {
        return CONCLAVE_NO_NODE;
    }
    const char *text = node->acl[0] == '\0' ? "world:anyone:31" : node->acl;
    const char *id = strchr(text, ':') + 1;
    const char *perms = strrchr(text, ':') + 1;
    struct wire_stat stat = fake_node_stat(node);
    wire_write_i32(out, 1);
    wire_write_i32(out, (int32_t)strtol(perms, NULL, 10));
    wire_write_string(out, slice_make(text, (size_t)(id - 1 - text)));
    wire_write_string(out, slice_make(id, (size_t)(perms - 1 - id)));
    wire_encode_stat(out, &stat);
    return 0;
}

static void reply_children(const struct fake_tree *t, const struct fake_node *node, bool with_stat,
                           struct buf *out)
{
    size_t at = out->len;
    int32_t count = 0;
    buf_append_i32(out, 0);
    for (struct map_node *it = map_next(&t->nodes, NULL); it != NULL;
         it = map_next(&t->nodes, it)) {
        const char *name = fake_node_child_of((struct fake_node *)(void *)it, node->path);
        if (name != NULL) {
            wire_write_string(out, slice_str(name));
            count++;
        }
    }
    buf_put_i32(out, at, count);
    if (with_stat) {
        struct wire_stat stat = fake_node_stat(node);
        wire_encode_stat(out, &stat);
    }
}

static int do_read(struct fake_zk *zk, struct conn *c, int32_t op, struct wire_reader *r,
                   struct buf *out)
{
    struct wire_exists_request request; /* the same form as the others */
    if (wire_decode_exists_request(r, &request) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    const struct fake_tree *t = view(zk, c);
    const struct fake_node *node = fake_tree_find(t, request.path);
    bool child = op == WIRE_GET_CHILDREN || op == WIRE_GET_CHILDREN2;
    if (request.watch && (node != NULL || op == WIRE_EXISTS)) {
        watch_add(c, child, request.path);
    }
    if (node == NULL) {
        return CONCLAVE_NO_NODE;
    }
    struct wire_stat stat = fake_node_stat(node);
    if (child) {
        reply_children(t, node, op == WIRE_GET_CHILDREN2, out);
        return 0;
    }
    if (op == WIRE_GET_DATA) {
        wire_write_buffer(out, slice_make(node->data, node->data_len));
    }
    wire_encode_stat(out, &stat);
    return 0;
}

/* A change by a transaction: its events are sent after the commit. */
struct change {
    int type;
    char path[512];
};

struct changes {
    struct change list[16];
    size_t count;
};

static void changed(struct changes *changes, int type, const char *path)
{
    if (changes->count == sizeof changes->list / sizeof changes->list[0]) {
        abort();
    }
    struct change *change = &changes->list[changes->count++];
    change->type = type;
    (void)snprintf(change->path, sizeof change->path, "%s", path);
}

static void keep_acl(struct fake_node *node, struct wire_vector *list)
{
    struct wire_acl acl;
    if (wire_next_acl(list, &acl)) {
        (void)snprintf(node->acl, sizeof node->acl, "%.*s:%.*s:%d", SLICE_FMT(acl.id.scheme),
                       SLICE_FMT(acl.id.id), acl.perms);
    }
}

static int do_set_acl(struct fake_zk *zk, struct wire_reader *r, struct buf *out)
{
    struct wire_set_acl_request request;
    if (wire_decode_set_acl_request(r, &request) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    struct fake_node *node = fake_tree_find(&zk->tree, request.path);
    if (node == NULL) {
        return CONCLAVE_NO_NODE;
    }
    keep_acl(node, &request.acl);
    struct wire_stat stat = fake_node_stat(node);
    wire_encode_stat(out, &stat);
    return 0;
}

static int do_create(struct fake_zk *zk, struct conn *c, int32_t op, struct wire_reader *r,
                     struct buf *out, struct changes *changes)
{
    struct wire_create_request request;
    struct fake_node *node;
    if (wire_decode_create_request(r, &request) != 0 ||
        (op == WIRE_CREATE_TTL && wire_read_i64(r) <= 0)) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    if (op == WIRE_CREATE_TTL) {
        request.flags = WIRE_MODE_PERSISTENT; /* the test deletes it */
    }
    int error = fake_tree_create(&zk->tree, request.path, request.data, request.flags,
                                 c->session->id, &node);
    if (error != 0) {
        return error;
    }
    keep_acl(node, &request.acl);
    struct wire_stat stat = fake_node_stat(node);
    wire_write_string(out, slice_str(node->path));
    if (op != WIRE_CREATE) {
        wire_encode_stat(out, &stat);
    }
    changed(changes, WIRE_EVENT_NODE_CREATED, node->path);
    return 0;
}

static int do_write(struct fake_zk *zk, struct conn *c, int32_t op, struct wire_reader *r,
                    struct buf *out, struct changes *changes)
{
    struct wire_delete_request request;
    struct wire_set_data_request set;
    struct fake_node *node;
    char path[512];
    int error;
    switch (op) {
    case WIRE_CREATE:
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
    case WIRE_CREATE_TTL:
        return do_create(zk, c, op, r, out, changes);
    case WIRE_SET_ACL:
        return do_set_acl(zk, r, out);
    case WIRE_SET_DATA:
        if (wire_decode_set_data_request(r, &set) != 0) {
            return CONCLAVE_MARSHALLING_ERROR;
        }
        error = fake_tree_set(&zk->tree, set.path, set.data, set.version, &node);
        if (error == 0) {
            struct wire_stat stat = fake_node_stat(node);
            wire_encode_stat(out, &stat);
            changed(changes, WIRE_EVENT_NODE_DATA_CHANGED, node->path);
        }
        return error;
    default:
        if (wire_decode_delete_request(r, &request) != 0) {
            return CONCLAVE_MARSHALLING_ERROR;
        }
        (void)snprintf(path, sizeof path, "%.*s", SLICE_FMT(request.path));
        if (op == WIRE_CHECK) {
            return fake_tree_check(&zk->tree, request.path, request.version);
        }
        error = fake_tree_delete(&zk->tree, request.path, request.version);
        if (error == 0) {
            changed(changes, WIRE_EVENT_NODE_DELETED, path);
        }
        return error;
    }
}

static void multi_result(struct buf *out, int32_t type, int error)
{
    struct wire_multi_header header = {error == 0 ? type : -1, false, error};
    wire_encode_multi_header(out, &header);
}

/* Results of a failed transaction: 0 before the failed part, -2 after it. */
static void multi_failure(struct buf *out, int count, int culprit, int error)
{
    buf_reset(out);
    for (int i = 0; i < count; i++) {
        struct wire_error_response response = {i < culprit    ? 0
                                               : i == culprit ? error
                                                              : CONCLAVE_RUNTIME_INCONSISTENCY};
        struct wire_multi_header header = {-1, false, response.err};
        wire_encode_multi_header(out, &header);
        wire_encode_error_response(out, &response);
    }
}

static int do_multi(struct fake_zk *zk, struct conn *c, struct wire_reader *r, struct buf *out,
                    struct changes *changes)
{
    struct fake_tree before;
    struct wire_multi_header header;
    int count = 0;
    int culprit = -1;
    int error = 0;
    fake_tree_copy(&before, &zk->tree); /* for the rollback: the trees are small */
    while (wire_decode_multi_header(r, &header) == 0 && !header.done) {
        struct buf part;
        struct buf skipped;
        struct changes ignored = {.count = 0};
        buf_init(&part, 0);
        buf_init(&skipped, 0);
        int result = do_write(zk, c, header.type, r, culprit < 0 ? &part : &skipped,
                              culprit < 0 ? changes : &ignored);
        if (culprit < 0 && result != 0) {
            culprit = count;
            error = result;
        }
        if (culprit < 0) {
            multi_result(out, header.type == WIRE_CREATE_CONTAINER ? WIRE_CREATE2 : header.type, 0);
            buf_append_slice(out, buf_slice(&part));
        }
        buf_finish(&part);
        buf_finish(&skipped);
        count++;
    }
    if (culprit >= 0) {
        multi_failure(out, count, culprit, error);
        int64_t zxid = zk->tree.zxid;
        fake_tree_finish(&zk->tree);
        zk->tree = before;
        zk->tree.zxid = zxid;
        changes->count = 0;
    } else {
        fake_tree_finish(&before);
    }
    struct wire_multi_header end = {-1, true, -1};
    wire_encode_multi_header(out, &end);
    return r->failed ? CONCLAVE_MARSHALLING_ERROR : 0;
}

static void replay(struct fake_zk *zk, struct conn *c, struct wire_vector paths, int kind,
                   int64_t zxid)
{
    const struct fake_tree *t = view(zk, c);
    struct slice path;
    char name[512];
    while (wire_next_string(&paths, &path)) {
        const struct fake_node *n = fake_tree_find(t, path);
        (void)snprintf(name, sizeof name, "%.*s", SLICE_FMT(path));
        if (kind == 1 && n != NULL) {
            send_event(zk, c, WIRE_EVENT_NODE_CREATED, name, -1);
        } else if (kind != 1 && n == NULL) {
            send_event(zk, c, WIRE_EVENT_NODE_DELETED, name, -1);
        } else if (kind == 0 && n->stat.mzxid > zxid) {
            send_event(zk, c, WIRE_EVENT_NODE_DATA_CHANGED, name, -1);
        } else if (kind == 2 && n->stat.pzxid > zxid) {
            send_event(zk, c, WIRE_EVENT_NODE_CHILDREN_CHANGED, name, -1);
        } else {
            watch_add(c, kind == 2, path);
        }
    }
}

static int do_set_watches(struct fake_zk *zk, struct conn *c, struct wire_reader *r)
{
    struct wire_set_watches request;
    if (wire_decode_set_watches(r, &request) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    replay(zk, c, request.data_watches, 0, request.relative_zxid);
    replay(zk, c, request.exist_watches, 1, request.relative_zxid);
    replay(zk, c, request.child_watches, 2, request.relative_zxid);
    return 0;
}

/* The lists of a setWatches, then those of persistent watches. */
static int do_set_watches2(struct fake_zk *zk, struct conn *c, struct wire_reader *r)
{
    struct wire_set_watches2 request;
    struct slice path;
    if (wire_decode_set_watches2(r, &request) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    replay(zk, c, request.data_watches, 0, request.relative_zxid);
    replay(zk, c, request.exist_watches, 1, request.relative_zxid);
    replay(zk, c, request.child_watches, 2, request.relative_zxid);
    while (wire_next_string(&request.persistent_watches, &path)) {
        watch_put(c, FAKE_WATCH_PERSISTENT, path);
    }
    while (wire_next_string(&request.persistent_recursive_watches, &path)) {
        watch_put(c, FAKE_WATCH_RECURSIVE, path);
    }
    return 0;
}

static int do_add_watch(struct conn *c, struct wire_reader *r, struct buf *out)
{
    struct wire_add_watch_request request;
    struct wire_error_response response = {0};
    if (wire_decode_add_watch_request(r, &request) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    watch_put(c, request.mode == 1 ? FAKE_WATCH_RECURSIVE : FAKE_WATCH_PERSISTENT, request.path);
    wire_encode_error_response(out, &response);
    return 0;
}

static int do_remove_watches(struct conn *c, struct wire_reader *r)
{
    struct wire_remove_watches_request request;
    char path[512];
    if (wire_decode_remove_watches_request(r, &request) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    (void)snprintf(path, sizeof path, "%.*s", SLICE_FMT(request.path));
    bool found = false;
    for (int32_t kind = FAKE_WATCH_CHILD; kind <= FAKE_WATCH_RECURSIVE; kind++) {
        if (request.type == 3 || request.type == kind) {
            found = watch_take(c, (enum fake_watch_kind)kind, path) || found;
        }
    }
    return found ? 0 : CONCLAVE_NO_WATCHER;
}

void fake_server_thaw(struct endpoint *ep)
{
    if (ep->frozen) {
        fake_tree_finish(&ep->view);
        ep->frozen = false;
    }
}

static int do_op(struct fake_zk *zk, struct conn *c, int32_t op, struct wire_reader *r,
                 struct buf *out, struct changes *changes)
{
    switch (op) {
    case WIRE_EXISTS:
    case WIRE_GET_DATA:
    case WIRE_GET_CHILDREN:
    case WIRE_GET_CHILDREN2:
        return do_read(zk, c, op, r, out);
    case WIRE_GET_ACL:
        return do_get_acl(view(zk, c), wire_read_string(r), out);
    case WIRE_SYNC:
        fake_server_thaw(&zk->endpoints[c->endpoint]);
        buf_append_slice(out, wire_rest(r));
        return 0;
    case WIRE_SET_WATCHES:
        return do_set_watches(zk, c, r);
    case WIRE_SET_WATCHES2:
        return do_set_watches2(zk, c, r);
    case WIRE_ADD_WATCH:
        return zk->endpoints[c->endpoint].old ? CONCLAVE_UNIMPLEMENTED : do_add_watch(c, r, out);
    case WIRE_REMOVE_WATCHES:
        return do_remove_watches(c, r);
    case WIRE_AUTH:
        c->ending = zk->refuse_auth;
        return zk->refuse_auth ? CONCLAVE_AUTH_FAILED : 0;
    case WIRE_PING:
        return 0;
    case WIRE_CLOSE_SESSION:
        session_end(zk, c->session);
        c->ending = true;
        return 0;
    case WIRE_CREATE:
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
    case WIRE_CREATE_TTL:
    case WIRE_DELETE:
    case WIRE_SET_DATA:
    case WIRE_SET_ACL:
    case WIRE_MULTI:
        if (zk->endpoints[c->endpoint].read_only) {
            return CONCLAVE_NOT_READ_ONLY;
        }
        zk->tree.zxid++;
        return op == WIRE_MULTI ? do_multi(zk, c, r, out, changes)
                                : do_write(zk, c, op, r, out, changes);
    default:
        return CONCLAVE_UNIMPLEMENTED;
    }
}

/* --- hooks ------------------------------------------------------------------------ */

static struct slice request_path(int32_t op, struct slice rest)
{
    struct wire_reader r = wire_reader_make(rest);
    struct wire_multi_header header;
    if (op == WIRE_MULTI && wire_decode_multi_header(&r, &header) != 0) {
        return SLICE_NULL;
    }
    return wire_read_string(&r);
}

static bool ends_with(struct slice s, const char *suffix)
{
    size_t len = strlen(suffix);
    return s.len >= len && memcmp(s.data + s.len - len, suffix, len) == 0;
}

static bool contains(struct slice s, const char *part)
{
    return s.data != NULL && memmem(s.data, s.len, part, strlen(part)) != NULL;
}

/* The hook that catches this request, removed from the list; false: none. */
static bool hook_take(struct fake_zk *zk, const struct conn *c, int32_t op, struct slice rest,
                      struct fake_hook *ret)
{
    if (op == WIRE_PING || op == WIRE_SET_WATCHES || op == WIRE_SET_WATCHES2 || op == WIRE_AUTH ||
        op == WIRE_CLOSE_SESSION) {
        return false;
    }
    for (size_t i = 0; i < zk->hooks_count; i++) {
        struct fake_hook *h = &zk->hooks[i];
        struct slice path = request_path(op, rest);
        bool match =
            (h->endpoint == FAKE_ANY_ENDPOINT || h->endpoint == c->endpoint) &&
            (h->op == FAKE_ANY_OP || h->op == op || (h->op == WIRE_CREATE && op == WIRE_CREATE2)) &&
            (h->path == NULL || ends_with(path, h->path) ||
             (op == WIRE_MULTI && contains(rest, h->path)));
        if (match && --h->nth <= 0) {
            *ret = *h;
            memmove(h, h + 1, (zk->hooks_count - i - 1) * sizeof *h);
            zk->hooks_count--;
            return true;
        }
    }
    return false;
}

static void count(struct fake_zk *zk, const struct conn *c, int32_t op)
{
    struct endpoint *ep = &zk->endpoints[c->endpoint];
    if (op >= 0 && op < FAKE_COUNTS) {
        ep->counts[op]++;
    }
    if (op != WIRE_PING) {
        ep->counts[FAKE_COUNTS]++;
    }
}

/* Executes the request and answers it. */
static void answer(struct fake_zk *zk, struct conn *c, const struct wire_request_header *header,
                   struct wire_reader *r, int forced)
{
    struct buf body;
    struct changes changes = {.count = 0};
    buf_init(&body, 0);
    int error = forced != 0 ? forced : do_op(zk, c, header->type, r, &body, &changes);
    for (size_t i = 0; i < changes.count; i++) {
        fake_server_fire(zk, changes.list[i].type, changes.list[i].path);
    }
    struct wire_reply_header reply = {header->xid, view(zk, c)->zxid, error};
    size_t frame = wire_frame_begin(&c->out);
    wire_encode_reply_header(&c->out, &reply);
    if (error == 0) {
        buf_append_slice(&c->out, buf_slice(&body));
    }
    wire_frame_end(&c->out, frame);
    buf_finish(&body);
}

static void answer_oversized(struct fake_zk *zk, struct conn *c,
                             const struct wire_request_header *header)
{
    struct wire_reply_header reply = {header->xid, zk->tree.zxid, 0};
    size_t frame = wire_frame_begin(&c->out);
    wire_encode_reply_header(&c->out, &reply);
    void *zeros = calloc(1, OVERSIZED_BYTES);
    if (zeros == NULL) {
        abort();
    }
    buf_append(&c->out, zeros, OVERSIZED_BYTES);
    free(zeros);
    wire_frame_end(&c->out, frame);
}

static void serve(struct fake_zk *zk, struct conn *c, struct slice body)
{
    struct wire_reader r = wire_reader_make(body);
    struct wire_request_header header;
    struct fake_hook hook;
    if (wire_decode_request_header(&r, &header) != 0 || c->session == NULL) {
        c->cut = true;
        return;
    }
    c->session->heard_ms = now_ms();
    if (header.type != WIRE_PING &&
        (c->stalled || header.type == zk->endpoints[c->endpoint].hold)) {
        c->stalled = true;
        buf_append_i32(&c->held, (int32_t)body.len);
        buf_append_slice(&c->held, body);
        return;
    }
    count(zk, c, header.type);
    if (!hook_take(zk, c, header.type, wire_rest(&r), &hook)) {
        answer(zk, c, &header, &r, 0);
        return;
    }
    struct fake_session *session = c->session;
    switch (hook.action) {
    case FAKE_CUT_BEFORE:
        c->cut = true;
        break;
    case FAKE_DROP_REPLY:
        answer(zk, c, &header, &r, 0);
        c->cut = true;
        break;
    case FAKE_ERROR:
        answer(zk, c, &header, &r, hook.error);
        break;
    case FAKE_CALL:
        hook.fn(zk, hook.ctx);
        if (c->session != NULL) {
            answer(zk, c, &header, &r, 0);
        }
        break;
    case FAKE_EXPIRE_BEFORE:
        fake_server_expire(zk, session);
        break;
    case FAKE_EXPIRE_AFTER:
        answer(zk, c, &header, &r, 0);
        fake_server_expire(zk, session);
        break;
    case FAKE_OVERSIZED:
        answer_oversized(zk, c, &header);
        break;
    }
}

/* --- connections -------------------------------------------------------------------- */

static void conn_free(struct conn *c)
{
    list_remove(&c->link);
    if (c->session != NULL) {
        c->session->conn = NULL;
    }
    LIST_FOREACH (it, &c->watches) {
        free(CONTAINER_OF(it, struct fake_watch, link));
    }
    buf_finish(&c->in);
    buf_finish(&c->out);
    buf_finish(&c->held);
    (void)close(c->fd);
    free(c);
}

static void consume(struct fake_zk *zk, struct conn *c, struct buf *frames)
{
    struct slice body;
    int32_t len;
    while (!c->cut && !c->ending && wire_frame_cut(buf_slice(frames), 1 << 24, &body, &len) == 1) {
        struct buf copy; /* serving may append to the same buf */
        buf_init(&copy, 0);
        buf_append_slice(&copy, body);
        buf_consume(frames, (size_t)len + 4);
        if (!c->connected) {
            handshake(zk, c, buf_slice(&copy));
        } else {
            serve(zk, c, buf_slice(&copy));
        }
        buf_finish(&copy);
    }
}

static void conn_read(struct fake_zk *zk, struct conn *c)
{
    uint8_t bytes[65536];
    for (;;) {
        ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n > 0) {
            buf_append(&c->in, bytes, (size_t)n);
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            break;
        } else {
            c->cut = true;
            return;
        }
    }
    consume(zk, c, &c->in);
}

static void conn_write(struct conn *c)
{
    size_t sent = 0;
    while (sent < c->out.len) {
        ssize_t n = send(c->fd, c->out.data + sent, c->out.len - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0) {
            c->cut = c->cut || (errno != EAGAIN && errno != EINTR);
            break;
        }
        sent += (size_t)n;
    }
    buf_consume(&c->out, sent);
    c->cut = c->cut || (c->ending && c->out.len == 0);
}

static void conn_accept(struct fake_zk *zk, int endpoint)
{
    int fd = accept4(zk->endpoints[endpoint].listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int one = 1;
    if (fd < 0) {
        return;
    }
    if (zk->endpoints[endpoint].link == FAKE_REFUSE) {
        (void)close(fd);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct conn *c = calloc(1, sizeof *c);
    if (c == NULL) {
        abort();
    }
    c->fd = fd;
    c->endpoint = endpoint;
    buf_init(&c->in, 0);
    buf_init(&c->out, 0);
    buf_init(&c->held, 0);
    list_init(&c->watches);
    list_push_back(&zk->conns, &c->link);
}

void fake_server_resume(struct fake_zk *zk, struct conn *c)
{
    c->stalled = false;
    consume(zk, c, &c->held);
}

/* Writes nothing on links that a hook has cut: a lost answer stays lost. */
static void sweep(struct fake_zk *zk)
{
    LIST_FOREACH (it, &zk->conns) {
        struct conn *c = CONTAINER_OF(it, struct conn, link);
        if (!c->cut && zk->endpoints[c->endpoint].link != FAKE_SILENT) {
            conn_write(c);
        }
    }
    LIST_FOREACH (it, &zk->conns) {
        struct conn *c = CONTAINER_OF(it, struct conn, link);
        if (c->cut) {
            conn_free(c);
        }
    }
}

static void *run(void *arg)
{
    struct fake_zk *zk = arg;
    struct pollfd fds[CONNS_MAX];
    struct conn *owners[CONNS_MAX];
    (void)pthread_mutex_lock(&zk->lock);
    while (!zk->stopping) {
        nfds_t n = 0;
        fds[n++] = (struct pollfd){zk->wake[0], POLLIN, 0};
        for (int i = 0; i < FAKE_ENDPOINTS; i++) {
            fds[n++] = (struct pollfd){zk->endpoints[i].listener, POLLIN, 0};
        }
        LIST_FOREACH (it, &zk->conns) {
            struct conn *c = CONTAINER_OF(it, struct conn, link);
            if (zk->endpoints[c->endpoint].link != FAKE_SILENT && n < CONNS_MAX) {
                owners[n] = c;
                fds[n++] = (struct pollfd){c->fd, c->out.len > 0 ? POLLIN | POLLOUT : POLLIN, 0};
            }
        }
        (void)pthread_mutex_unlock(&zk->lock);
        (void)poll(fds, n, TICK_MS);
        (void)pthread_mutex_lock(&zk->lock);
        if (fds[0].revents != 0) {
            char bytes[64];
            ssize_t ignored = read(zk->wake[0], bytes, sizeof bytes);
            (void)ignored;
        }
        for (int i = 0; i < FAKE_ENDPOINTS; i++) {
            if (fds[1 + i].revents != 0) {
                conn_accept(zk, i);
            }
        }
        for (nfds_t i = 1 + FAKE_ENDPOINTS; i < n; i++) {
            if (fds[i].revents != 0 && !owners[i]->cut &&
                zk->endpoints[owners[i]->endpoint].link != FAKE_SILENT) {
                conn_read(zk, owners[i]);
            }
        }
        expire_due(zk);
        sweep(zk); /* the only place that frees links: `owners` is not used after it */
    }
    (void)pthread_mutex_unlock(&zk->lock);
    return NULL;
}

/* --- start and stop ------------------------------------------------------------------ */

static bool endpoint_open(struct endpoint *ep)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    ep->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (ep->listener < 0 || bind(ep->listener, (struct sockaddr *)&addr, sizeof addr) != 0 ||
        listen(ep->listener, 128) != 0 ||
        getsockname(ep->listener, (struct sockaddr *)&addr, &len) != 0) {
        return false;
    }
    (void)snprintf(ep->address, sizeof ep->address, "127.0.0.1:%u", ntohs(addr.sin_port));
    return true;
}

struct fake_zk *fake_zk_start(void)
{
    struct fake_zk *zk = calloc(1, sizeof *zk);
    if (zk == NULL || pipe2(zk->wake, O_CLOEXEC | O_NONBLOCK) != 0) {
        free(zk);
        return NULL;
    }
    fake_tree_init(&zk->tree);
    list_init(&zk->conns);
    list_init(&zk->sessions);
    zk->last_session = 0x100000000000000;
    (void)pthread_mutex_init(&zk->lock, NULL);
    for (int i = 0; i < FAKE_ENDPOINTS; i++) {
        if (!endpoint_open(&zk->endpoints[i])) {
            return NULL;
        }
    }
    return pthread_create(&zk->thread, NULL, run, zk) == 0 ? zk : NULL;
}

void fake_zk_stop(struct fake_zk *zk)
{
    (void)pthread_mutex_lock(&zk->lock);
    zk->stopping = true;
    (void)pthread_mutex_unlock(&zk->lock);
    fake_server_wake(zk);
    (void)pthread_join(zk->thread, NULL);
    LIST_FOREACH (it, &zk->conns) {
        conn_free(CONTAINER_OF(it, struct conn, link));
    }
    LIST_FOREACH (it, &zk->sessions) {
        free(CONTAINER_OF(it, struct fake_session, link));
    }
    for (int i = 0; i < FAKE_ENDPOINTS; i++) {
        fake_server_thaw(&zk->endpoints[i]);
        (void)close(zk->endpoints[i].listener);
    }
    fake_tree_finish(&zk->tree);
    (void)close(zk->wake[0]);
    (void)close(zk->wake[1]);
    (void)pthread_mutex_destroy(&zk->lock);
    free(zk);
}

const char *fake_zk_address(const struct fake_zk *zk, int endpoint)
{
    return zk->endpoints[endpoint].address;
}
