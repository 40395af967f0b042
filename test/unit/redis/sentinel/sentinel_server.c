/* The port under clients that mean harm, and under clients that end: real sockets, one loop. */
#include "redis/sentinel/sentinel_server.h"

#include "net/connector.h"

#include "support/certificates.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake_facts.inc"

enum {
    PATIENCE_S = 30, /* of the test */
    LONG_MS = 600000,
    SHORT_MS = 600,
    NO_READ = 4096, /* receive buffer of a client that does not read */
};

#define ASK_MASTER "SENTINEL MASTER shop\r\n"

static struct fake_facts fake;
static uv_loop_t loop;
static struct sentinel_server *server;
static struct sentinel_server_settings settings;
static struct tls_context *server_context;
static struct tls_context *client_context;
static size_t looks;           /* calls of backend.facts */
static uint64_t asked_session; /* by the last call of backend.failover */
static size_t refused;
static char refused_why[200];
static const char *refused_peer; /* the only one that may be */
static bool closed;

static void count_facts(void *ctx, struct sentinel_facts *ret)
{
    looks++;
    fake_get(ctx, ret);
}

static int keep_failover(void *ctx, uint64_t session_id)
{
    asked_session = session_id;
    return 0;
}

static void on_refused(void *ctx, const char *peer, const char *why)
{
    assert_ptr_equal(ctx, &fake);
    assert_string_equal(peer, refused_peer);
    refused++;
    snprintf(refused_why, sizeof refused_why, "%s", why);
}

static int set_up(void **state)
{
    fake_init(&fake);
    settings = (struct sentinel_server_settings){.loop = &loop,
                                                 .host = "127.0.0.1",
                                                 .patience_ms = LONG_MS,
                                                 .rates = SENTINEL_RATES,
                                                 .refused = on_refused,
                                                 .backend = {.facts = count_facts,
                                                             .failover = keep_failover,
                                                             .failover_allowed = true,
                                                             .ctx = &fake}};
    looks = refused = 0;
    refused_peer = "127.0.0.1";
    asked_session = 0;
    server = NULL;
    return uv_loop_init(&loop);
}

static void open_server(void)
{
    int detail;
    assert_int_equal(sentinel_server_open(&settings, &server, &detail), 0);
}

static void set_users(const char *lines)
{
    char path[] = "/tmp/conclave-users-XXXXXX";
    char why[SENTINEL_WHY_MAX];
    struct sentinel_users *users;
    int fd = mkstemp(path);
    assert_int_equal(write(fd, lines, strlen(lines)), strlen(lines));
    close(fd);
    assert_int_equal(sentinel_users_open(path, &users, why), 0);
    unlink(path);
    settings.backend.users = users;
}

static void on_server_closed(void *ctx)
{
    closed = true;
}

/* Nothing may be left in the loop. */
static int tear_down(void **state)
{
    closed = false;
    sentinel_server_close(server, on_server_closed, NULL);
    while (!closed) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    sentinel_users_close((struct sentinel_users *)settings.backend.users);
    free(fake.managers);
    return uv_loop_close(&loop);
}

/* --- clients */

/* A client from this address; its reads and writes do not block. room: of its receive buffer, or 0. */
static int join_from(const char *from, int room)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)sentinel_server_port(server))};
    struct sockaddr_in at = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, from, &at.sin_addr), 1);
    assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &to.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    if (room > 0) {
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    }
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static int join(void)
{
    return join_from("127.0.0.1", 0);
}

static uint64_t deadline_ns(void)
{
    return uv_hrtime() + PATIENCE_S * UINT64_C(1000000000);
}

static void turn_loop(void)
{
    (void)uv_run(&loop, UV_RUN_NOWAIT);
}

/* Sends all of it while the loop runs. */
static void tell(int fd, const char *bytes, size_t len)
{
    uint64_t end = deadline_ns();
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        assert_true(n > 0 || errno == EAGAIN);
        assert_true(uv_hrtime() < end);
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
        turn_loop();
    }
}

static void say(int fd, const char *text)
{
    tell(fd, text, strlen(text));
}

static char *repeated(const char *text, size_t count)
{
    char *many = malloc(strlen(text) * count + 1);
    assert_non_null(many);
    for (size_t i = 0; i < count; i++) {
        strcpy(many + i * strlen(text), text);
    }
    return many;
}

/* One read. -1: nothing yet; 0: the end, also by a reset. */
static ssize_t hear_some(int fd, struct buf *got)
{
    char bytes[65536];
    ssize_t n = recv(fd, bytes, sizeof bytes, 0);
    assert_true(n >= 0 || errno == EAGAIN || errno == ECONNRESET);
    buf_append(got, bytes, n > 0 ? (size_t)n : 0);
    return n >= 0 ? n : errno == EAGAIN ? -1 : 0;
}

/* Reads while the loop runs, until the answers have this length, or to the end. Returns whether the end came. */
static bool hear(int fd, struct buf *got, size_t len)
{
    uint64_t end = deadline_ns();
    while (got->len < len) {
        if (hear_some(fd, got) == 0) {
            return true;
        }
        assert_true(uv_hrtime() < end);
        turn_loop();
    }
    return false;
}

static void expect(int fd, const char *answer)
{
    struct buf got;
    buf_init(&got, 0);
    (void)hear(fd, &got, strlen(answer));
    assert_string_equal(buf_cstr(&got), answer);
    buf_finish(&got);
}

/* The end of the connection, with these answers before it. */
static void expect_end(int fd, const char *answers)
{
    struct buf got;
    buf_init(&got, 0);
    assert_true(hear(fd, &got, SIZE_MAX));
    assert_string_equal(buf_cstr(&got), answers);
    buf_finish(&got);
    close(fd);
}

static void expect_served(int fd)
{
    say(fd, "PING\r\n");
    expect(fd, "+PONG\r\n");
}

static void expect_served_subscriber(int fd)
{
    say(fd, "PING x\r\n");
    expect(fd, "*2\r\n$4\r\npong\r\n$1\r\nx\r\n");
}

/* --- work per turn */

static void test_pipelining_shares_the_loop(void **state)
{
    enum { MANY = 6000 };
    static const char ANSWER[] = "*2\r\n$8\r\nsentinel\r\n*1\r\n$4\r\nshop\r\n";
    char *many = repeated("ROLE\r\n", MANY);
    uint64_t end = deadline_ns();
    struct buf got;
    open_server();
    buf_init(&got, 0);
    int greedy = join();
    int modest = join();
    expect_served(greedy);
    expect_served(modest);
    assert_int_equal(send(greedy, many, strlen(many), 0), strlen(many));
    assert_int_equal(send(modest, "PING\r\n", 6, 0), 6);
    size_t answered_at = 0; /* requests of the other client before this one's answer */
    char answer[8];
    while (got.len < MANY * (sizeof ANSWER - 1)) {
        size_t before = looks;
        turn_loop();
        assert_true(looks - before <= SENTINEL_TURN_REQUESTS);
        if (answered_at == 0 && recv(modest, answer, sizeof answer, 0) == 7) {
            answered_at = looks;
        }
        assert_int_not_equal(hear_some(greedy, &got), 0);
        assert_true(uv_hrtime() < end);
    }
    assert_int_equal(looks, MANY);
    assert_in_range(answered_at, 1, MANY / 10);
    buf_finish(&got);
    free(many);
    close(greedy);
    close(modest);
}

/* --- ends */

/* The socket of the server behind a client's. */
static int end_of_server(int fd)
{
    struct sockaddr_in own;
    struct sockaddr_in peer;
    socklen_t len = sizeof own;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &len), 0);
    for (int other = 0; other < 1000; other++) {
        len = sizeof peer;
        if (getpeername(other, (struct sockaddr *)&peer, &len) == 0 && peer.sin_family == AF_INET &&
            peer.sin_port == own.sin_port) {
            return other;
        }
    }
    fail_msg("no such socket");
    return -1;
}

static void test_answers_after_the_end_of_requests(void **state)
{
    enum { MANY = 40 };
    char *many = repeated(ASK_MASTER, MANY);
    struct buf one;
    struct buf got;
    open_server();
    buf_init(&one, 0);
    buf_init(&got, 0);
    int fd = join();
    say(fd, ASK_MASTER);
    while (one.len == 0) {
        assert_false(hear(fd, &one, 1));
    }
    close(fd);
    /* All requests and the end of this side, while the answers have no room in the kernel. */
    static const size_t COUNTS[] = {1, 2, 3, 5, MANY};
    for (size_t which = 0; which < sizeof COUNTS / sizeof COUNTS[0]; which++) {
        fd = join_from("127.0.0.1", NO_READ);
        say(fd, "PING\r\n");
        expect(fd, "+PONG\r\n");
        int room = 1; /* the least that the kernel gives */
        assert_int_equal(setsockopt(end_of_server(fd), SOL_SOCKET, SO_SNDBUF, &room, sizeof room),
                         0);
        size_t len = COUNTS[which] * strlen(ASK_MASTER);
        assert_int_equal(send(fd, many, len, 0), len);
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        for (int i = 0; i < MANY; i++) {
            turn_loop();
        }
        buf_reset(&got);
        assert_true(hear(fd, &got, SIZE_MAX));
        assert_int_equal(got.len, COUNTS[which] * one.len);
        close(fd);
    }
    /* A request that is answered later; one that ends the session; a part of one; nothing. */
    fd = join();
    say(fd, "SENTINEL FAILOVER shop\r\n");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    uint64_t end = deadline_ns();
    while (asked_session == 0 && uv_hrtime() < end) {
        turn_loop();
    }
    sentinel_server_requested(server, asked_session, 0);
    expect_end(fd, "+OK\r\n");
    fd = join();
    say(fd, "PING\r\nQUIT\r\nPING\r\n");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    expect_end(fd, "+PONG\r\n+OK\r\n");
    fd = join();
    say(fd, "PING\r\nPI");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    expect_end(fd, "+PONG\r\n");
    fd = join();
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    expect_end(fd, "");
    buf_finish(&one);
    buf_finish(&got);
    free(many);
}

/* --- refused clients */

static void test_browsers_are_sent_away(void **state)
{
    static const char *const FORMS[] = {
        "POST /x HTTP/1.1\r\nHost: a\r\n\r\nSENTINEL FAILOVER shop\r\n",
        "Host: localhost:26379\r\nSENTINEL FAILOVER shop\r\n",
        "post\r\nSENTINEL FAILOVER shop\r\n",
        "*1\r\n$4\r\nPOST\r\nSENTINEL FAILOVER shop\r\n",
    };
    open_server();
    for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0]; i++) {
        int fd = join();
        say(fd, FORMS[i]);
        expect_end(fd, "");
    }
    assert_int_equal(asked_session, 0);
    assert_int_equal(refused, 1);
    assert_non_null(strstr(refused_why, "POST"));
    int fd = join(); /* with an answer before it */
    say(fd, "PING\r\nHost: x\r\nPING\r\n");
    expect_end(fd, "+PONG\r\n");
}

static void test_wrong_passwords(void **state)
{
#define WRONG "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
    set_users("ops secret\n");
    open_server();
    int fd = join();
    say(fd,
        "AUTH ops wrong\r\nRESET\r\nAUTH ops wrong\r\nHELLO 3 AUTH ops wrong\r\nAUTH ops secret\r\n");
    expect_end(fd, WRONG "+RESET\r\n" WRONG WRONG);
    assert_int_equal(refused, 1);
    fd = join();
    say(fd, "AUTH ops wrong\r\nAUTH ops wrong\r\nAUTH ops secret\r\nPING\r\n");
    expect(fd, WRONG WRONG "+OK\r\n+PONG\r\n");
    close(fd);
}

static void test_time_to_log_in(void **state)
{
    set_users("ops secret\n");
    settings.patience_ms = SHORT_MS;
    open_server();
    int good = join();
    assert_int_equal(send(good, "AUTH ops secret\r\n", 17, 0), 17); /* before its time begins */
    expect(good, "+OK\r\n");
    int silent = join();
    int busy = join();
    struct buf got;
    uint64_t end = deadline_ns();
    buf_init(&got, 0);
    do { /* requests do not lengthen the time */
        (void)send(busy, "PING\r\n", 6, MSG_NOSIGNAL);
        turn_loop();
        assert_true(uv_hrtime() < end);
    } while (hear_some(busy, &got) != 0);
    buf_finish(&got);
    close(busy);
    expect_end(silent, "");
    expect_served(good);
    say(good, "RESET\r\n");
    expect_end(good, "+RESET\r\n");
}

/* --- slow readers */

static size_t entries_of(const char *folder)
{
    size_t count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    while (readdir(entries) != NULL) {
        count++;
    }
    closedir(entries);
    return count;
}

/* Of both ends, and of the loop: shows that the server has closed a connection whose client reads nothing. */
static size_t open_files(void)
{
    return entries_of("/proc/self/fd");
}

static void test_subscriber_that_does_not_read(void **state)
{
    enum { EVENT = 1000, MOST = 20000 };
    char event[EVENT + 1];
    struct buf heard;
    memset(event, 'x', EVENT);
    event[EVENT] = '\0';
    open_server();
    buf_init(&heard, 0);
    int deaf = join_from("127.0.0.1", NO_READ);
    int good = join();
    say(deaf, "PSUBSCRIBE +*\r\n");
    say(good, "SUBSCRIBE +x\r\n");
    while (heard.len == 0) {
        (void)hear(good, &heard, 1);
    }
    size_t before = heard.len;
    size_t count = 0;
    size_t files = open_files();
    while (open_files() == files && count < MOST) {
        sentinel_server_publish(server, "+x", event);
        count++;
        turn_loop();
        (void)hear_some(good, &heard);
    }
    assert_true(count < MOST);
    assert_int_equal(open_files(), files - 1);
    close(deaf);
    size_t one = strlen("*3\r\n$7\r\nmessage\r\n$2\r\n+x\r\n$1000\r\n\r\n") + EVENT;
    (void)hear(good, &heard, before + count * one);
    assert_int_equal(heard.len, before + count * one);
    buf_finish(&heard);
    close(good);
}

static void test_client_that_stops_reading(void **state)
{
    enum { MANY = 20000 };
    char *many = repeated(ASK_MASTER, MANY);
    uint64_t end = deadline_ns();
    settings.patience_ms = SHORT_MS;
    open_server();
    int deaf = join_from("127.0.0.1", NO_READ);
    int half = join_from("127.0.0.1", NO_READ); /* has ended its side, too */
    expect_served(deaf);
    expect_served(half);
    size_t files = open_files();
    (void)send(half, many, strlen(ASK_MASTER) * MANY / 20, MSG_NOSIGNAL);
    assert_int_equal(shutdown(half, SHUT_WR), 0);
    while (open_files() > files - 2 && uv_hrtime() < end) {
        (void)send(deaf, many, strlen(many), MSG_NOSIGNAL);
        turn_loop();
    }
    assert_int_equal(open_files(), files - 2);
    assert_true(looks < MANY / 2); /* it was not served meanwhile */
    free(many);
    close(half);
    close(deaf);
}

/* --- many connections */

/* Whether the server has closed a connection of which nothing waits to be sent. */
static bool is_over(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof info;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    return info.tcpi_state != TCP_ESTABLISHED;
}

static size_t count_over(const int *fds, size_t count)
{
    size_t over = 0;
    for (size_t i = 0; i < count; i++) {
        over += is_over(fds[i]);
    }
    return over;
}

static void test_one_address_cannot_end_the_others(void **state)
{
    enum { MANY = SENTINEL_CLIENTS_MAX + 100 };
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_cur < 2 * MANY + 100) {
        skip();
    }
    open_server();
    int own = join();
    int quiet = join();
    say(own, "SUBSCRIBE +x\r\n");
    expect(own, "*3\r\n$9\r\nsubscribe\r\n$2\r\n+x\r\n:1\r\n");
    static int many[MANY];
    for (size_t i = 0; i < MANY; i++) {
        many[i] = join_from("127.0.0.2", 0);
        say(many[i], "PSUBSCRIBE *\r\n"); /* none of them is without a subscription */
    }
    uint64_t end = deadline_ns();
    while (count_over(many, MANY) < MANY + 2 - SENTINEL_CLIENTS_MAX && uv_hrtime() < end) {
        turn_loop();
    }
    expect_served(quiet); /* although it was silent longer than all of them */
    expect_served_subscriber(own);
    int next = join();
    expect_served(next);
    assert_in_range(MANY - count_over(many, MANY), SENTINEL_CLIENTS_MAX - 10, SENTINEL_CLIENTS_MAX);
    for (size_t i = 0; i < MANY; i++) {
        close(many[i]);
    }
    close(own);
    close(quiet);
    close(next);
}

/* --- what all use together */

/* A client whose unsent bytes wait in the server, not in the kernel. */
static int join_deaf(const char *from)
{
    int fd = join_from(from, NO_READ);
    expect_served(fd);
    int room = 1; /* the least that the kernel gives */
    assert_int_equal(setsockopt(end_of_server(fd), SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
    return fd;
}

/* Subscribers that read nothing, each within its own limit. */
static void test_all_together_leave_no_more_unread(void **state)
{
    enum { MANY = 80, EVENT = 1000, EVENTS = 240, IN_KERNEL = 20000 };
    static int deaf[MANY];
    char event[EVENT + 1];
    struct buf heard;
    memset(event, 'x', EVENT);
    event[EVENT] = '\0';
    refused_peer = "127.0.0.2";
    open_server();
    buf_init(&heard, 0);
    int good = join();
    for (size_t i = 0; i < MANY; i++) {
        deaf[i] = join_deaf("127.0.0.2");
        say(deaf[i], "PSUBSCRIBE +*\r\n");
    }
    say(good, "SUBSCRIBE +x\r\n");
    expect(good, "*3\r\n$9\r\nsubscribe\r\n$2\r\n+x\r\n:1\r\n");
    size_t files = open_files();
    for (size_t i = 0; i < EVENTS; i++) {
        sentinel_server_publish(server, "+x", event);
        turn_loop();
        (void)hear_some(good, &heard);
    }
    size_t one = strlen("*3\r\n$7\r\nmessage\r\n$2\r\n+x\r\n$1000\r\n\r\n") + EVENT;
    (void)hear(good, &heard, EVENTS * one);
    const size_t most = (SENTINEL_UNSENT_TOTAL + MANY * IN_KERNEL) / (EVENTS * EVENT);
    uint64_t end = deadline_ns();
    while (open_files() > files - MANY + most && uv_hrtime() < end) {
        turn_loop();
    }
    assert_in_range(open_files(), files - MANY + 1, files - MANY + most);
    assert_int_equal(refused, 1); /* one line for all of them */
    assert_non_null(strstr(refused_why, "unread"));
    expect_served_subscriber(good);
    for (size_t i = 0; i < MANY; i++) {
        close(deaf[i]);
    }
    buf_finish(&heard);
    close(good);
}

static void test_all_together_have_no_more_subscriptions(void **state)
{
    enum { EACH = 60, MANY = SENTINEL_CHANNELS_TOTAL / EACH + 10 };
    static int many[MANY];
    struct buf words;
    buf_init(&words, 0);
    buf_append_str(&words, "PSUBSCRIBE");
    for (int i = 0; i < EACH; i++) {
        buf_printf(&words, " %d*", i);
    }
    buf_append_str(&words, "\r\n");
    refused_peer = "127.0.0.2";
    open_server();
    int good = join();
    say(good, "SUBSCRIBE +x\r\n");
    expect(good, "*3\r\n$9\r\nsubscribe\r\n$2\r\n+x\r\n:1\r\n");
    size_t files = open_files();
    for (size_t i = 0; i < MANY; i++) {
        many[i] = join_from("127.0.0.2", 0);
        say(many[i], buf_cstr(&words));
    }
    const size_t most = SENTINEL_CHANNELS_TOTAL / EACH; /* beside the good one's */
    uint64_t end = deadline_ns();
    while ((refused == 0 || open_files() != files + MANY + most) && uv_hrtime() < end) {
        turn_loop();
    }
    assert_int_equal(open_files(), files + MANY + most);
    assert_int_equal(refused, 1);
    assert_non_null(strstr(refused_why, "subscriptions"));
    expect_served_subscriber(good);
    for (size_t i = 0; i < MANY; i++) {
        close(many[i]);
    }
    buf_finish(&words);
    close(good);
}

/* --- rates of an address */

static void test_an_address_that_asks_too_often_waits(void **state)
{
    enum { BURST = 200, MANY = 4000 };
    char *many = repeated("ROLE\r\n", MANY);
    struct buf got;
    uint64_t end = deadline_ns();
    refused_peer = "127.0.0.2";
    settings.rates.requests = (struct sentinel_rate){20, BURST};
    open_server();
    buf_init(&got, 0);
    int greedy = join_from("127.0.0.2", 0);
    int modest = join();
    assert_int_equal(send(greedy, many, strlen(many), 0), strlen(many));
    while (refused == 0 && uv_hrtime() < end) {
        (void)hear_some(greedy, &got);
        turn_loop();
    }
    assert_int_equal(refused, 1);
    assert_non_null(strstr(refused_why, "wait"));
    assert_in_range(looks, BURST, MANY - 1);
    size_t before = looks;
    for (int i = 0; i < 20; i++) { /* another does not wait */
        expect_served(modest);
    }
    while (looks < before + 10 && uv_hrtime() < end) { /* nor does it for ever */
        (void)hear_some(greedy, &got);
        turn_loop();
    }
    assert_true(looks >= before + 10);
    assert_true(looks < MANY);
    buf_finish(&got);
    free(many);
    close(greedy);
    close(modest);
}

static void test_an_address_that_connects_too_often_is_refused(void **state)
{
    enum { BURST = 20, MANY = 400 };
    uint64_t end = deadline_ns();
    size_t count = 0;
    refused_peer = "127.0.0.2";
    settings.rates.connects = (struct sentinel_rate){1, BURST};
    open_server();
    int good = join();
    for (; refused == 0 && count < MANY; count++) {
        int fd = join_from("127.0.0.2", 0);
        turn_loop();
        close(fd);
        assert_true(uv_hrtime() < end);
    }
    assert_int_equal(refused, 1);
    assert_true(count >= BURST);
    assert_non_null(strstr(refused_why, "connects"));
    int next = join();
    expect_served(next);
    expect_served(good);
    close(next);
    close(good);
}

/* They come back together after a fail-over: all connect, subscribe and ask. */
static void test_fifty_ordinary_clients_share_an_address(void **state)
{
    enum { CLIENTS = 50, ASK_TIMES = 20, ROUNDS = 3 };
    static int fds[CLIENTS];
    open_server();
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < CLIENTS; i++) {
            fds[i] = join();
            say(fds[i], "SUBSCRIBE +x\r\nUNSUBSCRIBE +x\r\n");
            expect(fds[i], "*3\r\n$9\r\nsubscribe\r\n$2\r\n+x\r\n:1\r\n"
                           "*3\r\n$11\r\nunsubscribe\r\n$2\r\n+x\r\n:0\r\n");
            for (int n = 0; n < ASK_TIMES; n++) {
                expect_served(fds[i]);
            }
        }
        for (size_t i = 0; i < CLIENTS; i++) {
            close(fds[i]);
        }
    }
    assert_int_equal(refused, 0);
}

/* As ioredis: 10 ms behind the first try, 10 ms later each time, at most a second; each connects, logs in and asks. */
static void test_fifty_clients_that_try_again_stay_within_the_rates(void **state)
{
    enum { CLIENTS = 50, MS = 1000000, MINUTE_MS = 60000, ASKS = 4 };
    static struct sentinel_limits limits;
    const struct sentinel_rates rates = SENTINEL_RATES;
    struct sentinel_share share;
    sentinel_limits_init(&limits, &rates);
    sentinel_limits_join(&limits, &share, "10.0.0.1");
    for (int64_t at_ms = 0, pause_ms = 10; at_ms < MINUTE_MS; at_ms += pause_ms) {
        for (int i = 0; i < CLIENTS; i++) {
            assert_true(sentinel_limits_connects(&limits, &share, at_ms * MS));
            assert_true(sentinel_limits_may_ask(&limits, &share, at_ms * MS));
            sentinel_limits_asked(&limits, &share, ASKS, at_ms * MS);
        }
        pause_ms = pause_ms < 1000 ? pause_ms + 10 : pause_ms;
    }
    sentinel_limits_leave(&limits, &share);
    sentinel_limits_finish(&limits);
}

/* Clients that read their last answer, and end nothing. */
static void test_lingering_is_bounded(void **state)
{
    enum { MANY = 200 };
    static int many[MANY];
    size_t left = 0;
    open_server();
    for (size_t i = 0; i < MANY; i++) {
        many[i] = join();
        say(many[i], "QUIT\r\n");
        expect(many[i], "+OK\r\n");
    }
    uint64_t end = deadline_ns();
    char bytes[10];
    for (size_t i = 0; i < MANY; i++) {
        while (recv(many[i], bytes, sizeof bytes, 0) < 0 && errno == EAGAIN) {
            turn_loop();
            assert_true(uv_hrtime() < end);
        }
    }
    /* The server has closed the others for good: to write there is an error. */
    for (size_t i = 0; i < MANY; i++) {
        (void)send(many[i], "x", 1, MSG_NOSIGNAL);
    }
    for (size_t i = 0; i < MANY; i++) {
        left += send(many[i], "x", 1, MSG_NOSIGNAL) == 1;
        close(many[i]);
    }
    assert_true(left <= 64);
}

/* --- TLS */

struct tls_client {
    struct stream *stream;
    struct buf got;
    bool secured;
    bool over;
    bool gone;
};

static size_t on_data(void *owner, struct slice bytes)
{
    buf_append_slice(&((struct tls_client *)owner)->got, bytes);
    return bytes.len;
}

static void on_sent(void *owner)
{
}

static void on_secured(void *owner)
{
    ((struct tls_client *)owner)->secured = true;
}

static void on_ended(void *owner, int error)
{
    ((struct tls_client *)owner)->over = true;
}

static void on_closed(void *owner)
{
    ((struct tls_client *)owner)->gone = true;
}

static const struct stream_handler TLS_HANDLER = {.data = on_data,
                                                  .sent = on_sent,
                                                  .secured = on_secured,
                                                  .ended = on_ended,
                                                  .closed = on_closed};

static void on_connected(void *ctx, struct stream *stream, int error)
{
    struct tls_client *c = ctx;
    assert_non_null(stream);
    c->stream = stream;
    assert_int_equal(stream_use_tls_client(stream, client_context, "localhost", true), 0);
    assert_int_equal(stream_start(stream, &TLS_HANDLER, c), 0);
}

#define RUN_UNTIL(condition)                                                                       \
    do {                                                                                           \
        uint64_t until = deadline_ns();                                                            \
        while (!(condition) && uv_hrtime() < until) {                                              \
            turn_loop();                                                                           \
        }                                                                                          \
        assert_true(condition);                                                                    \
    } while (0)

static int make_contexts(void **state)
{
    struct certificate ca;
    struct certificate cert;
    char why[TLS_TEXT_MAX];
    certificate_make(&ca, NULL, "ca", NULL, 9, true);
    certificate_make(&cert, &ca, "localhost", "DNS:localhost", 9, false);
    struct tls_settings own = {.server = true,
                               .peer = TLS_PEER_NONE,
                               .cert_file = certificate_write_cert(&cert, "cert.pem", false),
                               .key_file = certificate_write_key(&cert, "key.pem", false, NULL)};
    struct tls_settings theirs = {.peer = TLS_PEER_NEED,
                                  .trust_file = certificate_write_cert(&ca, "ca.pem", false)};
    assert_int_equal(tls_context_create(&own, &server_context, why), 0);
    assert_int_equal(tls_context_create(&theirs, &client_context, why), 0);
    certificate_finish(&ca);
    certificate_finish(&cert);
    return 0;
}

static int drop_contexts(void **state)
{
    tls_context_release(server_context);
    tls_context_release(client_context);
    certificate_folder_remove();
    return 0;
}

/* The beginning of a record of TLS. */
static const uint8_t HELLO[] = {0x16, 0x03, 0x01, 0x00, 0x05, 0x01};

static void test_handshakes_have_their_own_thread(void **state)
{
    struct tls_client client = {.stream = NULL};
    struct connector *connector;
    struct stream_buffer *buffer = stream_buffer_create();
    struct buf out;
    size_t threads = entries_of("/proc/self/task");
    settings.tls = server_context;
    open_server();
    assert_int_equal(entries_of("/proc/self/task"), threads + 1);
    /* One that begins a handshake and stays to the server's end, one that ends in it, one that is not TLS. */
    int begun = join();
    int ended = join();
    int plain = join();
    tell(begun, (const char *)HELLO, sizeof HELLO);
    tell(ended, (const char *)HELLO, sizeof HELLO);
    close(ended);
    say(plain, "PING\r\n");
    struct net_address at = {.host = "127.0.0.1", .port = (uint16_t)sentinel_server_port(server)};
    assert_int_equal(connector_start(&loop, &at, 0, buffer, on_connected, &client, &connector), 0);
    stream_buffer_release(buffer);
    buf_init(&client.got, 0);
    RUN_UNTIL(client.secured);
    buf_init(&out, 0);
    buf_append_str(&out, "PING\r\nQUIT\r\n");
    stream_send(client.stream, &out);
    RUN_UNTIL(client.over);
    assert_string_equal(buf_cstr(&client.got), "+PONG\r\n+OK\r\n");
    stream_close(client.stream);
    RUN_UNTIL(client.gone);
    struct buf got;
    buf_init(&got, 0);
    assert_true(hear(plain, &got, SIZE_MAX));
    close(begun);
    close(plain);
    buf_finish(&got);
    buf_finish(&out);
    buf_finish(&client.got);
}

static void test_time_for_a_handshake(void **state)
{
    settings.tls = server_context;
    settings.patience_ms = SHORT_MS;
    open_server();
    int begun = join();
    tell(begun, (const char *)HELLO, sizeof HELLO);
    expect_end(begun, "");
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_pipelining_shares_the_loop),
        T(test_answers_after_the_end_of_requests),
        T(test_browsers_are_sent_away),
        T(test_wrong_passwords),
        T(test_time_to_log_in),
        T(test_subscriber_that_does_not_read),
        T(test_client_that_stops_reading),
        T(test_one_address_cannot_end_the_others),
        T(test_all_together_leave_no_more_unread),
        T(test_all_together_have_no_more_subscriptions),
        T(test_an_address_that_asks_too_often_waits),
        T(test_an_address_that_connects_too_often_is_refused),
        T(test_fifty_ordinary_clients_share_an_address),
        cmocka_unit_test(test_fifty_clients_that_try_again_stay_within_the_rates),
        T(test_lingering_is_bounded),
        T(test_handshakes_have_their_own_thread),
        T(test_time_for_a_handshake),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, make_contexts, drop_contexts);
}
