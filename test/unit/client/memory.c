/*
 * Every allocation of the client fails once, in turn: calls answer CONCLAVE_ENOMEM or go on, each
 * request is answered once, nothing is leaked, nothing crashes. The C library's allocator is
 * replaced for that; under a sanitizer, which brings its own, there is nothing to replace and the
 * test is skipped.
 */
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REPLACED 0
#else
#define REPLACED 1
#endif

#include "base/endian.h"
#include "client/core/core.h"
#include "client/link_sasl.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static atomic_long live;         /* blocks allocated and not freed */
static atomic_long fail_at = -1; /* allocations to go until one fails; negative: none fails */
static _Thread_local bool armed; /* in a thread whose allocations these are */

#if REPLACED
/* Visible, so that the C library's own functions (strdup) come here, too. */
#pragma GCC visibility push(default)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

static bool refuse(void)
{
    bool refused_now = armed && atomic_load(&fail_at) >= 0 && atomic_fetch_sub(&fail_at, 1) == 0;
    if (refused_now) {
        errno = ENOMEM; /* the C library insists */
    }
    return refused_now;
}

static void *count(void *block)
{
    atomic_fetch_add(&live, block != NULL);
    return block;
}

void *malloc(size_t size)
{
    return refuse() ? NULL : count(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return refuse() ? NULL : count(__libc_calloc(n, size));
}

void *realloc(void *block, size_t size)
{
    if (refuse()) {
        return NULL;
    }
    void *moved = __libc_realloc(block, size);
    atomic_fetch_add(&live, block == NULL && moved != NULL);
    return moved;
}

void free(void *block)
{
    atomic_fetch_sub(&live, block != NULL);
    __libc_free(block);
}

#pragma GCC visibility pop
#endif

/* --- a conversation that touches every allocation of the core
 * ------------------------------------------ */

enum { IDS = 10, PERSISTENT_ID = 9 };

struct talk {
    int submitted[IDS + 1]; /* by id: accepted by core_submit */
    int answered[IDS + 1];
    int told[IDS + 1]; /* watches */
    int tokens;        /* wanted */
};

static void on_state(void *ctx, enum conclave_state state)
{
}

static void on_reply(void *ctx, struct client_request *r)
{
    ((struct talk *)ctx)->answered[(intptr_t)r->ctx]++;
    request_unref(r);
}

static void on_watch(void *ctx, struct client_watch *w)
{
    ((struct talk *)ctx)->told[(intptr_t)w->ctx]++;
    free(w);
}

static void on_event(void *ctx, struct client_event *e)
{
    free(e);
}

static int on_login(void *ctx, struct slice challenge)
{
    ((struct talk *)ctx)->tokens++;
    return 0;
}

static const struct core_events events = {
    .state = on_state, .reply = on_reply, .watch = on_watch, .event = on_event, .login = on_login};

static void no_watch(struct conclave_client *client, enum conclave_event_type type,
                     const char *path, void *ctx)
{
}

static void submit(struct core *c, struct talk *t, const struct conclave_op *op, intptr_t id)
{
    struct client_request *r;
    if (request_create(op, &r) != 0) {
        return;
    }
    r->ctx = (void *)id;
    int rc = core_submit(c, op, r, 1);
    if (rc != 0) {
        assert_int_equal(rc, CONCLAVE_ENOMEM);
        request_unref(r);
        return;
    }
    t->submitted[id]++;
}

static void submit_all(struct core *c, struct talk *t)
{
    const struct conclave_op part = conclave_op_path(CONCLAVE_OP_DELETE, "/a", -1);
    const struct conclave_op read = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, "/a", 0);
    struct conclave_op multi_read = conclave_op_multi(&read, 1);
    multi_read.type = CONCLAVE_OP_MULTI_READ;
    const struct conclave_op ops[IDS] = {
        conclave_op_create("/a", "v", 1, CONCLAVE_PERSISTENT),
        conclave_op_watch(CONCLAVE_OP_GET, "/a", no_watch, (void *)2),
        conclave_op_watch(CONCLAVE_OP_EXISTS, "/b", no_watch, (void *)3),
        conclave_op_watch(CONCLAVE_OP_GET_CHILDREN, "/a", no_watch, (void *)4),
        conclave_op_path(CONCLAVE_OP_GET_ACL, "/a", 0),
        conclave_op_set("/a", "w", 1, -1),
        conclave_op_multi(&part, 1),
        conclave_op_path(CONCLAVE_OP_SYNC, "/a", 0),
        conclave_op_add_watch("/", CONCLAVE_WATCH_RECURSIVE, no_watch, (void *)PERSISTENT_ID),
        multi_read,
    };
    for (int i = 0; i < IDS; i++) {
        submit(c, t, &ops[i], i + 1);
    }
}

/* Bodies of the server's answers, by operation. Static: the server needs no memory here. */
static struct slice answer_body(int32_t opcode)
{
    static uint8_t stat_only[68];
    static uint8_t path_stat[4 + 2 + 68] = {0, 0, 0, 2, '/', 'a'};
    static uint8_t data_stat[4 + 1 + 68] = {0, 0, 0, 1, 'v'};
    static uint8_t list_stat[4 + 5 + 68] = {0, 0, 0, 1, 0, 0, 0, 1, 'x'};
    static uint8_t acl_stat[4 + 4 + 5 + 5 + 68] = {0, 0, 0, 1,   0, 0, 0, 31, 0,
                                                   0, 0, 1, 'w', 0, 0, 0, 1,  'a'};
    static const uint8_t multi[] = {0,    0,    0,    2,    0, 0,    0,    0,    0,
                                    0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t multi_read[] = {0,    0,    0,    8,    0, 0,    0,    0,    0,
                                         0,    0,    0,    1,    0, 0,    0,    1,    'x',
                                         0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff};
    switch (opcode) {
    case WIRE_SASL:
        return slice_make(data_stat, 5);
    case WIRE_ADD_WATCH:
        return slice_make(stat_only, 4);
    case WIRE_MULTI_READ:
        return slice_make(multi_read, sizeof multi_read);
    case WIRE_CREATE2:
    case WIRE_SYNC:
        return slice_make(path_stat, sizeof path_stat);
    case WIRE_GET_DATA:
        return slice_make(data_stat, sizeof data_stat);
    case WIRE_GET_CHILDREN2:
        return slice_make(list_stat, sizeof list_stat);
    case WIRE_GET_ACL:
        return slice_make(acl_stat, sizeof acl_stat);
    case WIRE_MULTI:
        return slice_make(multi, sizeof multi);
    case WIRE_EXISTS:
    case WIRE_SET_DATA:
        return slice_make(stat_only, sizeof stat_only);
    default:
        return slice_make("", 0);
    }
}

static void feed(struct core *c, const uint8_t *bytes, size_t len)
{
    uint8_t *room;
    size_t space;
    if (c->link == LINK_NONE) {
        return;
    }
    if (core_input(c, len, &room, &space) != 0) {
        core_link_down(c, 1, CONCLAVE_ENOMEM);
        return;
    }
    memcpy(room, bytes, len);
    core_received(c, len, 1);
}

/* The server: answers everything that was sent; serve begins with a new link and accepts the
 * session. */
static void serve_link(struct core *c)
{
    static uint8_t frame[4 + 16 + 256];
    while ((c->link == LINK_UP || c->link == LINK_LOGIN) && core_output(c).len > 0) {
        struct slice out = core_output(c);
        struct wire_reader rd = wire_reader_make(out);
        int32_t len = wire_read_i32(&rd);
        int32_t xid = wire_read_i32(&rd);
        int32_t opcode = wire_read_i32(&rd);
        core_sent(c, 4 + (size_t)len);
        struct slice body = answer_body(opcode);
        put_be32(frame, (uint32_t)(16 + body.len));
        put_be32(frame + 4, (uint32_t)xid);
        put_be64(frame + 8, 5);
        put_be32(frame + 16, 0);
        memcpy(frame + 20, body.data, body.len);
        feed(c, frame, 20 + body.len);
    }
}

static void serve(struct core *c)
{
    if (c->link != LINK_NONE) {
        core_link_down(c, 1, CONCLAVE_EDISCONNECTED);
    }
    core_link_up(c, 1, 1000);
    core_sent(c, core_output(c).len);
    uint8_t connect[4 + 36] = {0, 0, 0, 36, [10] = 0x7f, [19] = 9, [23] = 16};
    feed(c, connect, sizeof connect);
    core_login(c, CORE_LOGIN_MORE, SLICE_NULL, 1);
    serve_link(c);
    core_login(c, CORE_LOGIN_LAST, slice_str("token"), 1);
    serve_link(c);
}

/* A change of /a, and the recursive watch is taken back. */
static void change_and_forget(struct core *c, struct talk *t)
{
    static const uint8_t event[4 + 16 + 14] = {0,    0,        0,        30,       0xff, 0xff, 0xff,
                                               0xff, [23] = 3, [27] = 3, [31] = 2, '/',  'a'};
    feed(c, event, sizeof event);
    struct client_watch *w;
    while ((w = core_forget_watch(c, "/", no_watch, (void *)PERSISTENT_ID, false)) != NULL) {
        t->told[PERSISTENT_ID]++;
        free(w);
    }
}

static void converse(void)
{
    struct talk t = {0};
    struct core c;
    struct core_options options = {
        .chroot = slice_make("", 0),
        .session_timeout_ms = 9000,
        .request_timeout_ms = CONCLAVE_FOREVER,
        .max_request = 1000000,
        .max_reply = 1000000,
        .new_session = true,
        .login = true,
    };
    if (core_init(&c, &options, &events, &t) == 0) {
        int rc = core_add_auth(&c, "digest", slice_str("a:b"));
        assert_true(rc == 0 || rc == CONCLAVE_ENOMEM);
        submit_all(&c, &t);
        serve(&c);
        submit_all(&c, &t);
        serve(&c);
        change_and_forget(&c, &t);
        submit_all(&c, &t);
        serve_link(&c);
        change_and_forget(&c, &t);
        serve_link(&c);
        core_tick(&c, 6000000000);
        core_close(&c, 1, 0);
        assert_int_equal(c.state, CONCLAVE_STATE_CLOSED);
    }
    core_finish(&c);
    for (int id = 1; id <= IDS; id++) {
        assert_int_equal(t.answered[id], t.submitted[id]);
        assert_true(t.told[id] <= t.answered[id]);
    }
}

/* --- the handle
 * ---------------------------------------------------------------------------------------- */

static int64_t refused;

static void on_log(struct conclave_client *client, const struct conclave_log_line *line, void *ctx)
{
    assert_non_null(line->text);
}

static void open_and_close(void)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    const struct conclave_acl acl = {CONCLAVE_PERM_ALL, "auth", ""};
    options.servers = "127.0.0.1:1,[::1]:1/chroot";
    options.acl = &acl;
    options.acl_count = 1;
    options.on_log = on_log;
    options.log_level = CONCLAVE_LOG_DEBUG;
    struct conclave_client *client;
    int rc = conclave_client_open(&options, &client);
    if (rc != 0) {
        assert_int_equal(rc, CONCLAVE_ENOMEM);
        refused++;
        return;
    }
    struct conclave_op op = conclave_op_create("/a", "v", 1, CONCLAVE_PERSISTENT);
    rc = conclave_submit(client, &op, NULL, NULL);
    assert_true(rc == 0 || rc == CONCLAVE_ENOMEM);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(conclave_client_dispatch(client), 0);
    }
    rc = conclave_client_set_servers(client, "127.0.0.1:2,127.0.0.1:3/chroot");
    assert_true(rc == 0 || rc == CONCLAVE_ENOMEM);
    assert_int_equal(conclave_client_dispatch(client), 0);
    conclave_client_close(client, 0);
}

/* NULL when memory was out. */
static struct conclave_client *open_with_sasl(void)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_sasl_options sasl = CONCLAVE_SASL_OPTIONS_INIT;
    struct conclave_client *client;
    options.servers = "127.0.0.1:1";
    options.sasl = &sasl;
    sasl.user = "bob";
    sasl.password = "geheim";
    int rc = conclave_client_open(&options, &client);
    if (rc != 0) {
        assert_int_equal(rc, CONCLAVE_ENOMEM);
        refused++;
        return NULL;
    }
    return client;
}

/* Waits until the login's thread has made a token, which nobody takes. */
static void await_token(struct conclave_client *client)
{
    struct pollfd fd = {.fd = link_sasl_fd(client), .events = POLLIN};
    uint64_t count;
    assert_int_equal(poll(&fd, 1, 20000), 1);
    assert_int_equal(read(fd.fd, &count, sizeof count), sizeof count);
    link_sasl_ready(client, 1);
}

/* The way of a token. Cyrus SASL is spared, in its own thread: where memory is out it crashes. */
static void make_tokens(void)
{
    static const char challenge[] = "realm=\"zk-sasl-md5\",nonce=\"a\",algorithm=md5-sess";
    struct conclave_client *client = open_with_sasl();
    if (client == NULL) {
        return;
    }
    int rc = link_sasl_want(client, "localhost", SLICE_NULL);
    if (rc == 0) {
        await_token(client);
        rc = link_sasl_want(client, "localhost", slice_str(challenge));
    }
    if (rc == 0) {
        await_token(client);
    }
    assert_true(rc == 0 || rc == CONCLAVE_ENOMEM || rc == CONCLAVE_EIO);
    refused += rc != 0;
    conclave_client_close(client, 0);
}

/* Blocks in use, once threads that have done their work are gone: when it stays the same. */
static long live_quiet(void)
{
    long before;
    do {
        before = atomic_load(&live);
        poll(NULL, 0, 100);
    } while (atomic_load(&live) != before);
    return before;
}

/* Waits until this number is in use. */
static long live_settled(long wanted)
{
    for (int i = 0; i < 5000 && atomic_load(&live) != wanted; i++) {
        poll(NULL, 0, 1);
    }
    return atomic_load(&live);
}

/* Runs the function with its first, second, ... allocation failing, until it gets through
 * without. */
static long sweep(void (*fn)(void))
{
    fn(); /* memory that the C library keeps for good is allocated now */
    long before = live_quiet();
    for (long n = 0;; n++) {
        armed = true;
        atomic_store(&fail_at, n);
        fn();
        bool done = atomic_exchange(&fail_at, -1) >= 0;
        assert_int_equal(live_settled(before), before);
        if (done) {
            return n;
        }
    }
}

static void test_core(void **state)
{
    if (!REPLACED) {
        skip();
    }
    assert_in_range(sweep(converse), 40, 1000);
}

static void test_handle(void **state)
{
    if (!REPLACED) {
        skip();
    }
    assert_in_range(sweep(open_and_close), 5, 100);
    assert_true(refused >= 4);
}

static void *wait_for_others(void *barrier)
{
    pthread_barrier_wait(barrier);
    return NULL;
}

/* Lets the C library keep the memory of more threads than run here at a time, as it does for good. */
static void keep_threads(void)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_others, &barrier), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&barrier);
}

static void test_tokens(void **state)
{
    if (!REPLACED) {
        skip();
    }
    refused = 0;
    keep_threads();
    make_tokens(); /* memory that the libraries keep for good */
    assert_in_range(sweep(make_tokens), 10, 100);
    assert_true(refused >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_core),
        cmocka_unit_test(test_handle),
        cmocka_unit_test(test_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
