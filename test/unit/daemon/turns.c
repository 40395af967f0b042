/*
 * Nothing waits for an event that has nothing to do with it: what becomes possible in a pass of the loop leaves at the
 * end of that pass. A whole server on a loop, whose own timers are far away: what was left behind would stay until they
 * come, long after the time that this test allows.
 */
#define _GNU_SOURCE /* nftw */
#include "base/log.h"
#include "cluster/server_options.h"
#include "daemon/server.h"
#include "support/requests.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    BEAT_MS = 600000, /* of everything that the server does by time */
    WITHIN_MS = 20000,
    LOOK_MS = 400,
    /* A request comes in the first; it goes to the disk in the second; the answer leaves in the third. */
    PASSES = 3,
};

struct fixture {
    uv_loop_t loop;
    uv_prepare_t passes;
    uv_timer_t late; /* wakes a loop in which nothing happens */
    unsigned passed; /* passes of the loop */
    struct server *server;
    unsigned looks;
    bool ready;
    bool closed;
    char folder[64];
};

/* A client: a socket that this thread reads when the loop says that it can. */
struct caller {
    struct fixture *f;
    uv_poll_t poll;
    int fd;
    int32_t xid;
    struct buf in;
    unsigned answered_at; /* the pass in which the last byte came */
};

static void on_ready(void *ctx, struct server *s)
{
    struct fixture *f = ctx;
    f->ready = true;
}

static void on_failed(void *ctx, int error, const char *text)
{
    fail_msg("%s", text);
}

static void on_closed(void *ctx)
{
    struct fixture *f = ctx;
    f->closed = true;
}

static void on_pass(uv_prepare_t *handle)
{
    struct fixture *f = handle->data;
    f->passed++;
}

static void on_late(uv_timer_t *handle)
{
    fail_msg("nothing happened for %d ms", WITHIN_MS);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static struct server_options quiet_options(void)
{
    struct server_options o = server_options_default();
    snprintf(o.listen.host, sizeof o.listen.host, "127.0.0.1");
    o.listen.port = 0;
    o.limits.tick_ms = BEAT_MS;
    o.limits.session_min_ms = BEAT_MS;
    o.limits.session_max_ms = 20 * BEAT_MS;
    o.limits.handshake_ms = BEAT_MS;
    o.ensemble.election_ms = BEAT_MS;
    o.ensemble.heartbeat_ms = BEAT_MS;
    return o;
}

static void begin(struct fixture *f, struct server_options o)
{
    const struct server_callbacks callbacks = {f, on_ready, on_failed};
    char *text = NULL;
    log_set_level(LOG_ERROR);
    *f = (struct fixture){.folder = "/tmp/conclave-turns-XXXXXX"};
    assert_non_null(mkdtemp(f->folder));
    assert_int_equal(uv_loop_init(&f->loop), 0);
    o.data_dir = f->folder;
    assert_int_equal(server_open(&f->loop, &o, &callbacks, &f->server, &text), 0);
    while (!f->ready || server_why_not_ready(f->server) != NULL) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    assert_int_equal(uv_prepare_init(&f->loop, &f->passes), 0);
    assert_int_equal(uv_prepare_start(&f->passes, on_pass), 0);
    f->passes.data = f;
    assert_int_equal(uv_timer_init(&f->loop, &f->late), 0);
}

static void end(struct fixture *f)
{
    uv_close((uv_handle_t *)&f->passes, NULL);
    uv_close((uv_handle_t *)&f->late, NULL);
    server_close(f->server, on_closed, f);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_true(f->closed);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    nftw(f->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Callers */

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct caller *c = poll->data;
    char room[65536];
    ssize_t n;
    while ((n = recv(c->fd, room, sizeof room, MSG_DONTWAIT)) > 0) {
        buf_append(&c->in, room, (size_t)n);
    }
    assert_true(n < 0 && errno == EAGAIN); /* nobody is cut off */
    c->answered_at = c->f->passed;
}

static void call(struct caller *c, struct slice bytes)
{
    assert_int_equal(send(c->fd, bytes.data, bytes.len, 0), (ssize_t)bytes.len);
}

static void add_request(struct caller *c, struct buf *out, int32_t type, struct slice body)
{
    const struct wire_request_header header = {.xid = ++c->xid, .type = type};
    size_t place = wire_frame_begin(out);
    wire_encode_request_header(out, &header);
    buf_append_slice(out, body);
    wire_frame_end(out, place);
}

static void request(struct caller *c, int32_t type, struct slice body)
{
    struct buf out;
    buf_init(&out, 0);
    add_request(c, &out, type, body);
    call(c, buf_slice(&out));
    buf_finish(&out);
}

/* The number of whole frames that have come. */
static unsigned frames(const struct caller *c)
{
    struct slice rest = buf_slice(&c->in);
    struct slice body;
    int32_t len;
    unsigned n = 0;
    while (wire_frame_cut(rest, 1 << 24, &body, &len) == 1) {
        rest = slice_make(rest.data + 4 + body.len, rest.len - 4 - body.len);
        n++;
    }
    return n;
}

/* Runs the loop until n frames have come, and forgets them. No timer of the server is due by then. */
static void await_frames(struct caller *c, unsigned n)
{
    uv_update_time(&c->f->loop);
    assert_int_equal(uv_timer_start(&c->f->late, on_late, WITHIN_MS, 0), 0);
    while (frames(c) < n) {
        uv_run(&c->f->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&c->f->late);
    assert_int_equal(frames(c), n);
    buf_reset(&c->in);
}

static void on_look(uv_timer_t *handle)
{
    struct fixture *f = handle->data;
    f->looks++;
}

/* As await_frames, but reading the answers is no event of the loop: it looks for them once in a while. A server that
 * does one thing more with each look is far from done after so many. */
static void await_frames_unseen(struct fixture *f, struct caller *c, unsigned n)
{
    f->late.data = f;
    uv_update_time(&f->loop);
    assert_int_equal(uv_timer_start(&f->late, on_look, LOOK_MS, LOOK_MS), 0);
    while (frames(c) < n) {
        assert_true(f->looks < WITHIN_MS / LOOK_MS);
        uv_run(&f->loop, UV_RUN_ONCE);
        on_readable(&c->poll, 0, UV_READABLE);
    }
    uv_timer_stop(&f->late);
    assert_int_equal(frames(c), n);
}

/* The server's open work when the last answer came. */
static void settle(struct fixture *f)
{
    for (int i = 0; i < 20; i++) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
}

static void caller_init(struct caller *c, struct fixture *f)
{
    struct net_address at;
    struct sockaddr_in to = {.sin_family = AF_INET};
    const uint8_t passwd[WIRE_PASSWD_LEN] = {0};
    const struct wire_connect_request hello = {.timeout_ms = BEAT_MS,
                                               .passwd = slice_make(passwd, sizeof passwd)};
    struct buf out;
    *c = (struct caller){.f = f};
    buf_init(&c->in, 0);
    assert_true(server_address(f->server, PORT_CLIENT, &at));
    to.sin_port = htons(at.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(c->fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
    assert_int_equal(uv_poll_init(&f->loop, &c->poll, c->fd), 0);
    assert_int_equal(uv_poll_start(&c->poll, UV_READABLE, on_readable), 0);
    c->poll.data = c;
    buf_init(&out, 0);
    size_t place = wire_frame_begin(&out);
    wire_encode_connect_request(&out, &hello);
    wire_frame_end(&out, place);
    call(c, buf_slice(&out));
    await_frames(c, 1);
    buf_finish(&out);
}

static void caller_finish(struct caller *c)
{
    uv_close((uv_handle_t *)&c->poll, NULL);
    uv_run(&c->f->loop, UV_RUN_NOWAIT);
    close(c->fd);
    buf_finish(&c->in);
}

/* A write and its reply: two turns have something to do. */
static void test_a_write_takes_two_turns(void **state)
{
    struct fixture f;
    struct caller c;
    struct maker m;
    begin(&f, quiet_options());
    maker_init(&m);
    caller_init(&c, &f);
    request(&c, WIRE_CREATE, make_create(&m, "/n", "0", 0));
    await_frames(&c, 1);
    for (int i = 0; i < 20; i++) {
        settle(&f);
        unsigned before = f.passed;
        request(&c, WIRE_SET_DATA, make_set_data(&m, "/n", "1", -1));
        await_frames(&c, 1);
        assert_true(c.answered_at - before <= PASSES);
    }
    caller_finish(&c);
    maker_finish(&m);
    end(&f);
}

/* A watch event leaves in the turn in which the write's reply does. */
static void test_an_event_leaves_with_the_reply(void **state)
{
    struct fixture f;
    struct caller writer;
    struct caller watcher;
    struct maker m;
    begin(&f, quiet_options());
    maker_init(&m);
    caller_init(&writer, &f);
    caller_init(&watcher, &f);
    request(&writer, WIRE_CREATE, make_create(&m, "/n", "0", 0));
    await_frames(&writer, 1);
    for (int i = 0; i < 20; i++) {
        request(&watcher, WIRE_GET_DATA, make_read(&m, "/n", true));
        await_frames(&watcher, 1);
        settle(&f);
        unsigned before = f.passed;
        request(&writer, WIRE_SET_DATA, make_set_data(&m, "/n", "1", -1));
        await_frames(&writer, 1);
        await_frames(&watcher, 1);
        assert_true(writer.answered_at - before <= PASSES);
        assert_true(watcher.answered_at - before <= PASSES);
    }
    caller_finish(&watcher);
    caller_finish(&writer);
    maker_finish(&m);
    end(&f);
}

/* Connections that wait for each other's requests to be done: whenever one makes room, another goes on. */
static void test_who_waits_for_room_goes_on(void **state)
{
    enum { CALLERS = 4, ROUNDS = 60 };
    struct fixture f;
    struct caller c[CALLERS];
    struct maker m;
    struct buf out;
    struct server_options o = quiet_options();
    o.limits.outstanding_max = 4;
    o.limits.pipelined_max = 2;
    o.limits.output_pause = 2000;
    begin(&f, o);
    maker_init(&m);
    buf_init(&out, 0);
    for (int i = 0; i < CALLERS; i++) {
        caller_init(&c[i], &f);
    }
    char data[1001] = {0};
    memset(data, 'x', sizeof data - 1);
    request(&c[0], WIRE_CREATE, make_create(&m, "/n", "0", 0));
    await_frames(&c[0], 1);
    for (int i = 0; i < CALLERS; i++) {
        buf_reset(&out);
        for (int n = 0; n < ROUNDS; n++) {
            add_request(&c[i], &out, WIRE_SET_DATA, make_set_data(&m, "/n", data, -1));
            add_request(&c[i], &out, WIRE_GET_DATA, make_read(&m, "/n", false));
            add_request(&c[i], &out, WIRE_GET_DATA, make_read(&m, "/n", false));
        }
        uv_poll_stop(&c[i].poll);
        call(&c[i], buf_slice(&out));
    }
    for (int i = 0; i < CALLERS; i++) {
        await_frames_unseen(&f, &c[i], 3 * ROUNDS);
        caller_finish(&c[i]);
    }
    buf_finish(&out);
    maker_finish(&m);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_write_takes_two_turns),
        cmocka_unit_test(test_an_event_leaves_with_the_reply),
        cmocka_unit_test(test_who_waits_for_room_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
