#include "support/core_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* --- reports of the core
 * ------------------------------------------------------------------------------ */

static void on_state(void *ctx, enum conclave_state state)
{
    struct peer *p = ctx;
    assert_true(p->states_count < sizeof p->states / sizeof *p->states);
    p->state_order[p->states_count] = p->order++;
    p->states[p->states_count++] = state;
}

/* Room for one more entry: doubled whenever the count is a power of two. */
static void *grow(void *entries, size_t count, size_t size)
{
    if ((count & (count - 1)) != 0) {
        return entries;
    }
    void *more = realloc(entries, (count == 0 ? 1 : count * 2) * size);
    assert_non_null(more);
    return more;
}

static void copy_text(char *to, size_t size, const void *text, size_t len)
{
    snprintf(to, size, "%.*s", (int)(text != NULL ? len : 0),
             text != NULL ? (const char *)text : "");
}

static void on_reply(void *ctx, struct client_request *r)
{
    struct peer *p = ctx;
    p->replies = grow(p->replies, p->replies_count, sizeof *p->replies);
    struct peer_reply *e = &p->replies[p->replies_count++];
    *e = (struct peer_reply){
        .id = (int)(intptr_t)r->ctx, .error = r->reply.error, .order = p->order++};
    e->has_stat = r->reply.has_stat;
    e->count = r->reply.children_count + r->reply.acl_count + r->reply.results_count +
               r->reply.identities_count + (size_t)r->reply.total_number;
    const char *path = r->reply.path;
    copy_text(e->path, sizeof e->path, path, path != NULL ? strlen(path) : 0);
    copy_text(e->data, sizeof e->data, r->reply.data, r->reply.data_len);
    request_unref(r);
}

static void on_watch(void *ctx, struct client_watch *w)
{
    struct peer *p = ctx;
    p->watches = grow(p->watches, p->watches_count, sizeof *p->watches);
    struct peer_watch *e = &p->watches[p->watches_count++];
    *e = (struct peer_watch){.id = (int)(intptr_t)w->ctx, .type = w->type, .order = p->order++};
    copy_text(e->path, sizeof e->path, w->path, w->path_len);
    free(w);
}

static void on_event(void *ctx, struct client_event *e)
{
    struct peer *p = ctx;
    p->watches = grow(p->watches, p->watches_count, sizeof *p->watches);
    struct peer_watch *log = &p->watches[p->watches_count++];
    *log = (struct peer_watch){
        .id = (int)(intptr_t)e->watch->ctx, .type = e->type, .order = p->order++};
    copy_text(log->path, sizeof log->path, e->path, strlen(e->path));
    free(e);
}

static int on_login(void *ctx, struct slice challenge)
{
    struct peer *p = ctx;
    p->logins++;
    p->challenge_first = slice_is_null(challenge);
    copy_text(p->challenge, sizeof p->challenge, challenge.data, challenge.len);
    return p->login_error;
}

static const struct core_events events = {
    .state = on_state, .reply = on_reply, .watch = on_watch, .event = on_event, .login = on_login};

/* --- begin and end
 * ------------------------------------------------------------------------------------ */

struct core_options peer_options(const char *chroot)
{
    return (struct core_options){
        .chroot = slice_str(chroot),
        .session_timeout_ms = PEER_TIMEOUT_MS,
        .request_timeout_ms = CONCLAVE_FOREVER,
        .max_request = WIRE_FRAME_MAX,
        .max_reply = 4 * 1024 * 1024,
        .new_session = true,
    };
}

void peer_init_with(struct peer *p, const struct core_options *options)
{
    *p = (struct peer){.now_ns = 1000000000000};
    buf_init(&p->sent, 0);
    assert_int_equal(core_init(&p->core, options, &events, p), 0);
}

void peer_init(struct peer *p, const char *chroot)
{
    struct core_options options = peer_options(chroot);
    peer_init_with(p, &options);
}

void peer_finish(struct peer *p)
{
    core_close(&p->core, p->now_ns, 0);
    assert_int_equal(p->core.state, CONCLAVE_STATE_CLOSED);
    for (size_t i = 0; i < p->replies_count; i++) {
        assert_int_not_equal(p->replies[i].id, 0);
    }
    core_finish(&p->core);
    buf_finish(&p->sent);
    free(p->replies);
    free(p->watches);
}

/* --- the program's side
 * ------------------------------------------------------------------------------- */

static void no_reply(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    fail_msg("the core calls no function of the program");
}

static void no_watch(struct conclave_client *client, enum conclave_event_type type,
                     const char *path, void *ctx)
{
    fail_msg("the core calls no function of the program");
}

int peer_submit(struct peer *p, const struct conclave_op *op, int id)
{
    return peer_submit_as(p, op, id, true);
}

int peer_submit_as(struct peer *p, const struct conclave_op *op, int id, bool counted)
{
    assert_int_equal(op_check(op), 0);
    struct client_request *r;
    assert_int_equal(request_create(op, &r), 0);
    r->fn = no_reply;
    r->ctx = (void *)(intptr_t)id;
    r->counted = counted;
    int rc = core_submit(&p->core, op, r, p->now_ns);
    if (rc != 0) {
        request_unref(r);
    }
    return rc;
}

void peer_watch(struct peer *p, enum conclave_op_type type, const char *path, int id)
{
    struct conclave_op op = conclave_op_watch(type, path, no_watch, (void *)(intptr_t)id);
    assert_int_equal(peer_submit(p, &op, id), 0);
}

void peer_add_watch(struct peer *p, const char *path, enum conclave_watch_kind kind, int id)
{
    struct conclave_op op = conclave_op_add_watch(path, kind, no_watch, (void *)(intptr_t)id);
    assert_int_equal(peer_submit(p, &op, id), 0);
}

bool peer_forget_watch(struct peer *p, const char *path, int id)
{
    struct client_watch *w =
        core_forget_watch(&p->core, path, no_watch, (void *)(intptr_t)id, false);
    free(w);
    return w != NULL;
}

/* --- the server's side
 * -------------------------------------------------------------------------------- */

bool peer_take(struct peer *p, struct peer_frame *ret, bool handshake)
{
    struct slice out = core_output(&p->core);
    buf_append_slice(&p->sent, out);
    core_sent(&p->core, out.len);
    struct slice all = buf_slice(&p->sent);
    struct slice rest = slice_make(all.data + p->sent_at, all.len - p->sent_at);
    struct slice body;
    int32_t len;
    if (wire_frame_cut(rest, 1 << 26, &body, &len) != 1) {
        assert_int_equal(rest.len, 0); /* the core sends whole frames */
        return false;
    }
    p->sent_at += 4 + body.len;
    *ret = (struct peer_frame){.body = body};
    if (!handshake) {
        struct wire_reader rd = wire_reader_make(body);
        ret->xid = wire_read_i32(&rd);
        ret->type = wire_read_i32(&rd);
        assert_false(rd.failed);
        ret->body = wire_rest(&rd);
    }
    return true;
}

struct peer_frame peer_expect(struct peer *p, int32_t type)
{
    struct peer_frame f;
    assert_true(peer_take(p, &f, false));
    assert_int_equal(f.type, type);
    return f;
}

void peer_feed(struct peer *p, struct slice bytes, size_t piece)
{
    while (bytes.len > 0 && p->core.link != LINK_NONE) {
        size_t n = piece == 0 || bytes.len < piece ? bytes.len : piece;
        uint8_t *room;
        size_t len;
        assert_int_equal(core_input(&p->core, n, &room, &len), 0);
        assert_true(len >= n);
        memcpy(room, bytes.data, n);
        core_received(&p->core, n, p->now_ns);
        bytes = slice_make(bytes.data + n, bytes.len - n);
    }
}

void peer_put_connect(struct buf *b, int32_t timeout_ms, int64_t session_id, size_t passwd_len)
{
    uint8_t passwd[64];
    memset(passwd, 0x5a, sizeof passwd);
    struct wire_connect_response response = {
        .timeout_ms = timeout_ms,
        .session_id = session_id,
        .passwd = slice_make(passwd, passwd_len),
    };
    size_t start = wire_frame_begin(b);
    wire_encode_connect_response(b, &response);
    wire_write_boolean(b, false);
    wire_frame_end(b, start);
}

void peer_put_reply(struct buf *b, int32_t xid, int64_t zxid, int32_t err, struct slice body)
{
    struct wire_reply_header header = {xid, zxid, err};
    size_t start = wire_frame_begin(b);
    wire_encode_reply_header(b, &header);
    buf_append_slice(b, body);
    wire_frame_end(b, start);
}

void peer_put_event(struct buf *b, int32_t type, const char *path)
{
    struct wire_reply_header header = {WIRE_XID_NOTIFICATION, -1, 0};
    struct wire_watcher_event event = {type, WIRE_STATE_SYNC_CONNECTED, slice_str(path)};
    size_t start = wire_frame_begin(b);
    wire_encode_reply_header(b, &header);
    wire_encode_watcher_event(b, &event);
    wire_frame_end(b, start);
}

void peer_put_stat(struct buf *b, int64_t zxid)
{
    struct wire_stat stat = {.czxid = zxid, .mzxid = zxid, .pzxid = zxid};
    wire_encode_stat(b, &stat);
}

void peer_answer_token(struct peer *p, const struct peer_frame *f, int32_t err, const char *token)
{
    struct buf b;
    buf_init(&b, 0);
    wire_encode_sasl_response(&b, &(struct wire_sasl_response){.token = slice_str(token)});
    peer_reply(p, f->xid, 0, err, buf_slice(&b));
    buf_finish(&b);
}

void peer_reply(struct peer *p, int32_t xid, int64_t zxid, int32_t err, struct slice body)
{
    struct buf b;
    buf_init(&b, 0);
    peer_put_reply(&b, xid, zxid, err, body);
    peer_feed(p, buf_slice(&b), 0);
    buf_finish(&b);
}

void peer_event(struct peer *p, int32_t type, const char *path)
{
    struct buf b;
    buf_init(&b, 0);
    peer_put_event(&b, type, path);
    peer_feed(p, buf_slice(&b), 0);
    buf_finish(&b);
}

void peer_answer_stat(struct peer *p, const struct peer_frame *f, int64_t zxid)
{
    struct buf b;
    buf_init(&b, 0);
    peer_put_stat(&b, zxid);
    peer_reply(p, f->xid, zxid, 0, buf_slice(&b));
    buf_finish(&b);
}

void peer_connect(struct peer *p, int64_t session_id)
{
    struct peer_frame f;
    p->sent_at = p->sent.len;
    core_link_up(&p->core, p->now_ns, 1000);
    assert_true(peer_take(p, &f, true));
    struct buf b;
    buf_init(&b, 0);
    peer_put_connect(&b, PEER_TIMEOUT_MS, session_id, WIRE_PASSWD_LEN);
    peer_feed(p, buf_slice(&b), 0);
    buf_finish(&b);
}

void peer_advance_ms(struct peer *p, int64_t ms)
{
    int64_t end_ns = p->now_ns + ms * 1000000;
    for (int64_t at_ns; (at_ns = core_deadline_ns(&p->core)) <= end_ns;) {
        p->now_ns = at_ns > p->now_ns ? at_ns : p->now_ns;
        core_tick(&p->core, p->now_ns);
    }
    p->now_ns = end_ns;
}

size_t peer_replies_of(const struct peer *p, int id)
{
    size_t n = 0;
    for (size_t i = 0; i < p->replies_count; i++) {
        n += p->replies[i].id == id;
    }
    return n;
}

size_t peer_watches_of(const struct peer *p, int id)
{
    size_t n = 0;
    for (size_t i = 0; i < p->watches_count; i++) {
        n += p->watches[i].id == id;
    }
    return n;
}

const struct peer_reply *peer_reply_of(const struct peer *p, int id)
{
    assert_int_equal(peer_replies_of(p, id), 1);
    for (size_t i = 0; i < p->replies_count; i++) {
        if (p->replies[i].id == id) {
            return &p->replies[i];
        }
    }
    return NULL;
}
