/*
 * Two ends of a connection on loopback: what the owner does not take is kept, ends are told once and after the bytes
 * before them, and a stream that is closed at a bad moment is silent. Plain, and with TLS by the loop and by a worker.
 */
#include "net/connector.h"
#include "net/listener.h"

#include "support/certificates.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 20000, LINGER_MS = 50, PIECE = 7, MANY = 300000, NO_END = 12345 };
enum { MUCH = 12000000 }; /* more than the kernel takes for a connection of which nobody reads */

/* One end of a connection. */
struct end {
    struct stream *stream;
    struct buf got;
    size_t at_most;    /* bytes that it takes at once; 0: all */
    bool whole_pieces; /* takes multiples of PIECE only */
    bool closes_at_data;
    bool closes_at_secured;
    bool refuses_tls;
    int ended; /* NO_END: not yet */
    unsigned ends;
    unsigned sent;
    unsigned secured;
    unsigned closed;
};

static uv_loop_t loop;
static struct listener *listener;
static struct end server; /* the accepted one */
static struct end client;
static struct tls_context *server_context;
static struct tls_context *client_context;
static struct worker worker;
static struct worker *handshake_worker; /* NULL: the loop's thread */
static bool server_tls;
static enum stream_tls tls_mode;
static bool client_tls;
static bool drops; /* new connections are closed at once */
static unsigned refused;
static int connect_error;

/* --- an end --------------------------------------------------------------------------------------- */

static size_t on_data(void *owner, struct slice bytes)
{
    struct end *e = owner;
    size_t take = e->at_most != 0 && bytes.len > e->at_most ? e->at_most : bytes.len;
    take -= e->whole_pieces ? take % PIECE : 0;
    assert_int_equal(e->closed, 0);
    buf_append(&e->got, bytes.data, take);
    if (e->closes_at_data) {
        stream_close(e->stream);
    }
    return take;
}

static void on_sent(void *owner)
{
    ((struct end *)owner)->sent++;
}

static bool on_securing(void *owner)
{
    return !((struct end *)owner)->refuses_tls;
}

static void on_secured(void *owner)
{
    struct end *e = owner;
    e->secured++;
    if (e->closes_at_secured) {
        stream_close(e->stream);
    }
}

static void on_ended(void *owner, int error)
{
    struct end *e = owner;
    assert_int_equal(e->closed, 0);
    e->ends++;
    e->ended = error;
}

static void on_closed(void *owner)
{
    struct end *e = owner;
    e->closed++;
    e->stream = NULL;
}

static const struct stream_handler handler = {.data = on_data,
                                              .sent = on_sent,
                                              .securing = on_securing,
                                              .secured = on_secured,
                                              .ended = on_ended,
                                              .closed = on_closed};

/* --- making a pair -------------------------------------------------------------------------------- */

static void on_accepted(void *ctx, struct stream *stream)
{
    if (drops) {
        stream_close(stream);
        return;
    }
    server.stream = stream;
    if (server_tls) {
        assert_int_equal(stream_use_tls(stream, server_context, tls_mode, handshake_worker), 0);
    }
    if (stream_start(stream, &handler, &server) != 0) {
        stream_close(stream);
    }
}

static void on_refused(void *ctx, int error)
{
    refused++;
}

static void on_connected(void *ctx, struct stream *stream, int error)
{
    connect_error = error;
    if (stream == NULL) {
        return;
    }
    client.stream = stream;
    if (client_tls) {
        assert_int_equal(stream_use_tls_client(stream, client_context, "localhost", false), 0);
    }
    assert_int_equal(stream_start(stream, &handler, &client), 0);
}

static void on_patience(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* Runs the loop until it holds. */
#define RUN_UNTIL(condition)                                                                       \
    do {                                                                                           \
        bool over = false;                                                                         \
        uv_timer_t patience;                                                                       \
        assert_int_equal(uv_timer_init(&loop, &patience), 0);                                      \
        patience.data = &over;                                                                     \
        assert_int_equal(uv_timer_start(&patience, on_patience, PATIENCE_MS, 0), 0);               \
        while (!(condition) && !over) {                                                            \
            uv_run(&loop, UV_RUN_ONCE);                                                            \
        }                                                                                          \
        assert_true(condition);                                                                    \
        bool gone = false;                                                                         \
        patience.data = &gone;                                                                     \
        uv_close((uv_handle_t *)&patience, on_timer_gone);                                         \
        while (!gone) {                                                                            \
            uv_run(&loop, UV_RUN_NOWAIT);                                                          \
        }                                                                                          \
    } while (0)

static void on_timer_gone(uv_handle_t *timer)
{
    *(bool *)timer->data = true;
}

static void end_init(struct end *e)
{
    *e = (struct end){.ended = NO_END};
    buf_init(&e->got, 0);
}

static int setup(void **state)
{
    end_init(&server);
    end_init(&client);
    server_tls = client_tls = drops = false;
    tls_mode = STREAM_TLS_ONLY;
    handshake_worker = NULL;
    refused = 0;
    connect_error = NO_END;
    return uv_loop_init(&loop);
}

static void listen_on(const char *host, struct net_address *ret)
{
    const struct listener_callbacks callbacks = {.accepted = on_accepted, .refused = on_refused};
    struct net_address address = {.port = 0};
    int detail = 0;
    strcpy(address.host, host);
    assert_int_equal(listener_open(&loop, &address, &listener, &detail), 0);
    assert_int_equal(listener_start(listener, 8, &callbacks, &detail), 0);
    listener_address(listener, ret);
    assert_int_not_equal(ret->port, 0);
}

static struct connector *connect_to(const struct net_address *to)
{
    struct connector *c = NULL;
    struct stream_buffer *buffer = stream_buffer_create();
    assert_non_null(buffer);
    assert_int_equal(connector_start(&loop, to, 0, buffer, on_connected, NULL, &c), 0);
    stream_buffer_release(buffer);
    return c;
}

static void connect_pair(void)
{
    struct net_address address;
    listen_on("127.0.0.1", &address);
    (void)connect_to(&address);
    RUN_UNTIL(server.stream != NULL && client.stream != NULL);
}

/* A socket that the test reads and writes itself, without a stream. */
static int connect_raw(void)
{
    struct net_address address;
    struct sockaddr_storage sa;
    listen_on("127.0.0.1", &address);
    assert_int_equal(net_address_resolve(&address, &sa), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(struct sockaddr_in)), 0);
    RUN_UNTIL(server.stream != NULL);
    return fd;
}

static void on_worker_closed(void *ctx)
{
}

static int teardown(void **state)
{
    listener_close(listener, NULL, NULL);
    listener = NULL;
    struct end *ends[] = {&server, &client};
    for (size_t i = 0; i < 2; i++) {
        if (ends[i]->stream != NULL) {
            stream_close(ends[i]->stream);
        }
    }
    while (ends[0]->stream != NULL || ends[1]->stream != NULL) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    if (handshake_worker != NULL) {
        worker_close(handshake_worker, on_worker_closed, NULL);
    }
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    buf_finish(&server.got);
    buf_finish(&client.got);
    return uv_loop_close(&loop); /* nothing is left open */
}

/* The byte at a place of the sent stream. */
static uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 31 + i / 251);
}

static void send_bytes(struct end *e, size_t count)
{
    struct buf out;
    buf_init(&out, 0);
    for (size_t i = 0; i < count; i++) {
        buf_append_u8(&out, byte_at(i));
    }
    stream_send(e->stream, &out);
    assert_int_equal(out.len, 0);
    buf_finish(&out);
}

static void expect_bytes(const struct end *e, size_t count)
{
    assert_int_equal(e->got.len, count);
    for (size_t i = 0; i < count; i++) {
        if (e->got.data[i] != byte_at(i)) {
            fail_msg("byte %zu of %zu is another", i, count);
        }
    }
}

/* --- connections ---------------------------------------------------------------------------------- */

static void test_a_port_in_use(void **state)
{
    struct net_address address;
    struct listener *second = NULL;
    const struct listener_callbacks callbacks = {.accepted = on_accepted, .refused = on_refused};
    int detail = 0;
    listen_on("127.0.0.1", &address);
    int rc = listener_open(&loop, &address, &second, &detail);
    rc = rc == 0 ? listener_start(second, 8, &callbacks, &detail) : rc; /* libuv may say it late */
    assert_int_equal(rc, CONCLAVE_EBUSY);
    assert_int_equal(detail, UV_EADDRINUSE);
    listener_close(second, NULL, NULL);
    second = NULL;
    struct net_address nowhere = {.host = "no such host", .port = 0};
    assert_int_equal(listener_open(&loop, &nowhere, &second, &detail), CONCLAVE_ERESOLVE);
    struct net_address foreign = {.host = "192.0.2.1", .port = 0}; /* for documentation: nobody's */
    assert_int_equal(listener_open(&loop, &foreign, &second, &detail), CONCLAVE_EIO);
    assert_int_equal(detail, UV_EADDRNOTAVAIL);
    assert_null(second);
    listener_close(NULL, NULL, NULL);
}

static void test_every_interface_has_both_families(void **state)
{
    struct net_address address;
    listen_on("", &address);
    strcpy(address.host, "127.0.0.1");
    (void)connect_to(&address);
    RUN_UNTIL(server.stream != NULL && client.stream != NULL);
    assert_string_equal(stream_peer(server.stream)->host, "127.0.0.1"); /* not ::ffff:127.0.0.1 */
}

static void test_nobody_listens(void **state)
{
    struct net_address address;
    listen_on("127.0.0.1", &address);
    listener_close(listener, NULL, NULL);
    listener = NULL;
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    (void)connect_to(&address);
    RUN_UNTIL(connect_error != NO_END);
    assert_int_equal(connect_error, UV_ECONNREFUSED);
    connect_error = NO_END;
    struct net_address nowhere = {.host = "no such host", .port = 1};
    (void)connect_to(&nowhere);
    RUN_UNTIL(connect_error != NO_END);
    assert_true(connect_error != 0 && connect_error != UV_ECONNREFUSED);
    assert_null(client.stream);
}

/* Given up at any moment before its end: nobody is called. */
static void test_giving_up(void **state)
{
    enum { TURN_MS = 2 };
    struct net_address address;
    drops = true;
    listen_on("127.0.0.1", &address);
    connector_cancel(NULL);
    for (int turns = 0; client.stream == NULL; turns++) {
        struct connector *c = connect_to(&address);
        for (int turn = 0; turn < turns && connect_error == NO_END; turn++) {
            usleep(TURN_MS * 1000); /* the thread that looks names up answers meanwhile */
            (void)uv_run(&loop, UV_RUN_NOWAIT);
        }
        if (connect_error != NO_END) {
            break;
        }
        connector_cancel(c);
        for (int turn = 0; turn < 20; turn++) {
            usleep(TURN_MS * 1000);
            (void)uv_run(&loop, UV_RUN_NOWAIT);
        }
        assert_int_equal(connect_error, NO_END);
        assert_null(client.stream);
    }
    assert_int_equal(connect_error, 0);
}

/* --- plain streams -------------------------------------------------------------------------------- */

/* The owner takes whole pieces: what is left is offered again with what follows, in order and once. */
static void test_what_is_not_taken_is_offered_again(void **state)
{
    connect_pair();
    server.whole_pieces = true;
    stream_set_room(server.stream, 100000);
    send_bytes(&client, MANY / PIECE * PIECE);
    RUN_UNTIL(server.got.len == MANY / PIECE * PIECE);
    expect_bytes(&server, MANY / PIECE * PIECE);
    assert_int_equal(server.ends, 0);
}

static void test_a_paused_stream_offers_nothing(void **state)
{
    connect_pair();
    stream_pause(server.stream);
    assert_true(stream_paused(server.stream));
    send_bytes(&client, 1000);
    usleep(20000);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(server.got.len, 0);
    stream_resume(server.stream);
    stream_resume(server.stream);
    RUN_UNTIL(server.got.len == 1000);
    expect_bytes(&server, 1000);
    /* The rest comes at once when the owner resumes, without new bytes. */
    server.at_most = 1;
    send_bytes(&client, 1);
    RUN_UNTIL(server.got.len == 1001);
}

/* More than the peer takes now: the rest goes when it reads, and `sent` says when. */
static void test_a_slow_reader(void **state)
{
    connect_pair();
    stream_pause(client.stream);
    struct buf big;
    buf_init(&big, 0);
    for (size_t i = 0; i < 8u << 20; i++) {
        buf_append_u8(&big, byte_at(i));
    }
    stream_send(server.stream, &big);
    assert_int_equal(big.len, 0);
    assert_true(stream_sending(server.stream) > 0);
    buf_append_str(&big, "later");
    stream_send(server.stream, &big); /* an earlier send is on its way */
    assert_int_equal(big.len, 5);
    assert_int_equal(server.sent, 0);
    stream_resume(client.stream);
    RUN_UNTIL(server.sent == 1);
    assert_int_equal(stream_sending(server.stream), 0);
    RUN_UNTIL(client.got.len == 8u << 20);
    expect_bytes(&client, 8u << 20);
    buf_finish(&big);
}

/* The last bytes arrive before the end, although the sender is gone. */
static void test_finish_loses_nothing(void **state)
{
    connect_pair();
    client.at_most = 100;
    send_bytes(&server, MANY);
    stream_finish(server.stream, PATIENCE_MS);
    stream_finish(server.stream, PATIENCE_MS);
    send_bytes(&client, 10); /* dropped */
    RUN_UNTIL(client.ended != NO_END);
    client.at_most = 0;
    assert_int_equal(client.ended, 0);
    assert_int_equal(client.ends, 1);
    assert_int_equal(server.closed, 0); /* it waits for the peer's end */
    stream_close(client.stream);
    RUN_UNTIL(server.closed == 1 && client.closed == 1);
    assert_int_equal(server.got.len, 0);
    assert_int_equal(server.ends, 0);
}

/* The peer ends its side, and reads the rest after that. */
static void test_finish_sends_the_rest_to_a_peer_that_has_ended(void **state)
{
    static char bytes[STREAM_READ_SIZE];
    size_t got = 0;
    ssize_t n = 1;
    int fd = connect_raw();
    int room = STREAM_READ_SIZE;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    send_bytes(&server, MUCH);
    stream_finish(server.stream, PATIENCE_MS);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(server.closed, 0);
    while (n != 0) { /* up to the end */
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        assert_true(n >= 0 || errno == EAGAIN);
        for (ssize_t i = 0; i < n; i++) {
            assert_true((uint8_t)bytes[i] == byte_at(got++));
        }
    }
    assert_int_equal(got, MUCH);
    RUN_UNTIL(server.closed == 1);
    close(fd);
}

static void test_finish_does_not_wait_for_ever(void **state)
{
    int fd = connect_raw();
    stream_finish(server.stream, LINGER_MS);
    RUN_UNTIL(server.closed == 1);
    assert_int_equal(server.ends, 0);
    close(fd);
}

static void test_a_broken_connection_is_told_once(void **state)
{
    int fd = connect_raw();
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    close(fd);
    RUN_UNTIL(server.ended != NO_END);
    assert_int_equal(server.ended, UV_ECONNRESET);
    send_bytes(&server, 10); /* fails, and the owner may hear of that as well */
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_true(server.ended < 0);
    stream_close(server.stream);
    stream_close(server.stream);
    RUN_UNTIL(server.closed == 1);
}

/* It breaks while it says goodbye: it closes by itself. */
static void test_a_connection_that_breaks_at_its_end(void **state)
{
    int fd = connect_raw();
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    stream_pause(server.stream);
    struct buf big;
    buf_init(&big, 0);
    for (size_t i = 0; i < 8u << 20; i++) {
        buf_append_u8(&big, 0);
    }
    stream_send(server.stream, &big);
    buf_finish(&big);
    stream_finish(server.stream, PATIENCE_MS);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    close(fd);
    RUN_UNTIL(server.closed == 1);
    assert_int_equal(server.ends, 0);
}

static void test_closed_while_it_takes_bytes(void **state)
{
    connect_pair();
    server.closes_at_data = true;
    server.at_most = 1;
    send_bytes(&client, MANY);
    RUN_UNTIL(server.closed == 1);
    assert_int_equal(server.got.len, 1);
    assert_int_equal(server.ends, 0);
}

/* --- TLS ------------------------------------------------------------------------------------------ */

static struct certificate ca;
static struct certificate own;

static struct tls_context *make_context(bool is_server)
{
    char why[TLS_TEXT_MAX];
    struct tls_context *context = NULL;
    struct tls_settings settings = {
        .server = is_server,
        .peer = is_server ? TLS_PEER_NONE : TLS_PEER_NEED,
        .cert_file = is_server ? certificate_path("own.pem") : NULL,
        .trust_file = certificate_path("ca.pem"),
    };
    if (tls_context_create(&settings, &context, why) != 0) {
        print_error("%s\n", why);
    }
    return context;
}

static int setup_group(void **state)
{
    (void)signal(SIGPIPE, SIG_IGN);
    certificate_make(&ca, NULL, "CA", NULL, 30, true);
    certificate_make(&own, &ca, "server", "DNS:localhost", 30, false);
    certificate_write_cert(&ca, "ca.pem", false);
    certificate_write_cert(&own, "own.pem", false);
    certificate_write_key(&own, "own.pem", true, NULL);
    server_context = make_context(true);
    client_context = make_context(false);
    return server_context != NULL && client_context != NULL ? 0 : -1;
}

static int teardown_group(void **state)
{
    tls_context_release(server_context);
    tls_context_release(client_context);
    certificate_finish(&ca);
    certificate_finish(&own);
    certificate_folder_remove();
    return 0;
}

static void start_worker(unsigned threads)
{
    const struct worker_options options = {.threads = threads};
    assert_int_equal(worker_init(&worker, &loop, &options), 0);
    handshake_worker = &worker;
}

static void secure_pair(void)
{
    server_tls = client_tls = true;
    connect_pair();
    RUN_UNTIL(server.secured == 1 && client.secured == 1);
    assert_false(stream_in_handshake(server.stream));
    assert_null(stream_tls_problem(server.stream));
    assert_true(stream_peer_is_for(client.stream, "localhost"));
    assert_false(stream_peer_is_for(client.stream, "other"));
    assert_false(
        stream_peer_is_for(server.stream, "localhost")); /* a client without a certificate */
}

static void exchange(void)
{
    secure_pair();
    send_bytes(&client, MANY);
    RUN_UNTIL(server.got.len == MANY);
    expect_bytes(&server, MANY);
    send_bytes(&server, 10);
    RUN_UNTIL(client.got.len == 10);
}

static void test_tls_on_the_loop(void **state)
{
    exchange();
}

static void test_tls_by_a_worker(void **state)
{
    start_worker(2);
    exchange();
}

static void test_tls_by_a_worker_without_threads(void **state)
{
    start_worker(0);
    exchange();
}

/* Nothing is said to a peer that is not known yet. */
static void test_nothing_is_sent_before_the_handshake(void **state)
{
    server_tls = true;
    connect_pair(); /* the client is silent */
    struct buf out;
    buf_init(&out, 0);
    buf_append_str(&out, "secret");
    stream_send(server.stream, &out);
    assert_int_equal(out.len, 6);
    assert_true(stream_in_handshake(server.stream));
    struct buf subject;
    buf_init(&subject, 0);
    stream_peer_subject(server.stream, &subject);
    assert_int_equal(subject.len, 0);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(client.got.len, 0);
    buf_finish(&subject);
    buf_finish(&out);
}

/* The peer's last bytes and its end come while the owner has paused: first the bytes, then the end. */
static void test_tls_the_end_waits_for_the_bytes_before_it(void **state)
{
    secure_pair();
    stream_pause(server.stream);
    send_bytes(&client, 1000);
    stream_finish(client.stream, PATIENCE_MS);
    for (int i = 0; i < 5; i++) {
        usleep(10000);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(server.got.len, 0);
    assert_int_equal(server.ends, 0);
    server.at_most = 999;
    stream_resume(server.stream);
    RUN_UNTIL(server.ended != NO_END);
    assert_int_equal(server.ended, 0);
    assert_true(server.got.len >= 999);
    assert_int_equal(server.ends, 1);
}

static void test_rubbish_in_place_of_tls(void **state)
{
    static const char rubbish[] = "\x16\x03\x01\xff\xff rubbish";
    for (int by_worker = 0; by_worker < 2; by_worker++) {
        if (by_worker) {
            start_worker(1);
        }
        server_tls = true;
        end_init(&server);
        int fd = connect_raw();
        assert_int_equal(write(fd, rubbish, sizeof rubbish), (ssize_t)sizeof rubbish);
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        RUN_UNTIL(server.ended != NO_END);
        assert_true(server.ended == UV_EPROTO || server.ended == 0);
        assert_int_equal(server.secured, 0);
        stream_finish(server.stream, LINGER_MS);
        RUN_UNTIL(server.closed == 1);
        close(fd);
        listener_close(listener, NULL, NULL);
        listener = NULL;
    }
}

/* The first byte decides, and the owner may refuse. */
static void test_both_kinds_on_one_port(void **state)
{
    server_tls = true;
    tls_mode = STREAM_TLS_OR_PLAIN;
    int fd = connect_raw();
    assert_int_equal(write(fd, "plain", 5), 5);
    RUN_UNTIL(server.got.len == 5);
    assert_memory_equal(server.got.data, "plain", 5);
    assert_false(stream_in_handshake(server.stream));
    close(fd);
    RUN_UNTIL(server.ends == 1);
    stream_close(server.stream);
    RUN_UNTIL(server.closed == 1);
    listener_close(listener, NULL, NULL);
    buf_finish(&server.got);
    end_init(&server);
    exchange();
}

static void test_tls_refused_by_the_owner(void **state)
{
    server_tls = client_tls = true;
    tls_mode = STREAM_TLS_OR_PLAIN;
    server.refuses_tls = true;
    connect_pair();
    for (int i = 0; i < 5; i++) {
        usleep(10000);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(server.secured + client.secured, 0);
    assert_int_equal(server.ends, 0);
    stream_finish(server.stream, LINGER_MS);
    RUN_UNTIL(client.ends == 1 && server.closed == 1);
}

/* At any moment of the handshake: whoever closes hears `closed`, once, and nothing after it. */
static void test_closed_during_the_handshake(void **state)
{
    start_worker(1);
    bool awaited = false;
    for (int turns = 0; turns < 12; turns++) {
        server_tls = client_tls = true;
        end_init(&server);
        end_init(&client);
        connect_pair();
        for (int i = 0; i < turns && server.secured == 0; i++) {
            (void)uv_run(&loop, UV_RUN_NOWAIT);
        }
        awaited |= stream_awaits_worker(server.stream);
        stream_pause(server.stream);
        stream_resume(server.stream);
        if (turns % 2 == 0) {
            stream_close(server.stream);
        } else {
            stream_finish(server.stream, LINGER_MS);
        }
        RUN_UNTIL(server.closed == 1 && client.ends == 1);
        assert_int_equal(server.ends, 0);
        stream_close(client.stream);
        RUN_UNTIL(client.closed == 1);
        listener_close(listener, NULL, NULL);
        listener = NULL;
    }
    assert_true(awaited);
}

static void test_closed_as_soon_as_it_is_secure(void **state)
{
    start_worker(1);
    server_tls = client_tls = true;
    server.closes_at_secured = true;
    connect_pair();
    RUN_UNTIL(server.closed == 1 && client.ends == 1);
    assert_int_equal(server.secured, 1);
    assert_int_equal(server.ends, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_a_port_in_use),
        T(test_every_interface_has_both_families),
        T(test_nobody_listens),
        T(test_giving_up),
        T(test_what_is_not_taken_is_offered_again),
        T(test_a_paused_stream_offers_nothing),
        T(test_a_slow_reader),
        T(test_finish_loses_nothing),
        T(test_finish_sends_the_rest_to_a_peer_that_has_ended),
        T(test_finish_does_not_wait_for_ever),
        T(test_a_broken_connection_is_told_once),
        T(test_a_connection_that_breaks_at_its_end),
        T(test_closed_while_it_takes_bytes),
        T(test_tls_on_the_loop),
        T(test_tls_by_a_worker),
        T(test_tls_by_a_worker_without_threads),
        T(test_nothing_is_sent_before_the_handshake),
        T(test_tls_the_end_waits_for_the_bytes_before_it),
        T(test_rubbish_in_place_of_tls),
        T(test_both_kinds_on_one_port),
        T(test_tls_refused_by_the_owner),
        T(test_closed_during_the_handshake),
        T(test_closed_as_soon_as_it_is_secure),
    };
    return cmocka_run_group_tests(tests, setup_group, teardown_group);
}
