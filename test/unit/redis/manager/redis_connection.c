/* The link to a Redis server: against a fake that stalls, cuts, refuses and talks nonsense, and against a real
 * redis-server where there is one. */
#include "redis/manager/redis_connection.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWERS_MAX = 8, TIMEOUT_MS = 5000, SHORT_MS = 120 };

/* The fake: says the next of its lines whenever something arrives. */
struct fake {
    uv_tcp_t listener;
    uv_tcp_t peer;
    const char *const *script; /* NULL-ended; "" says nothing, "!" cuts */
    size_t at;
    char heard[4096];
    size_t heard_len;
    int accepted;
    bool peer_open;
};

struct answers {
    struct redis_answer list[ANSWERS_MAX];
    char texts[ANSWERS_MAX][128];
    int count;
    int cuts;
    enum redis_probe cut_why;
    struct redis_link *again; /* sends one more from inside the first answer */
    bool closed;
    struct redis_facts facts; /* of an answer that is long enough */
    int facts_rc;
};

struct world {
    uv_loop_t loop;
    struct fake fake;
    struct stream_buffer *buffer;
    struct redis_access access;
    struct redis_link *link;
    struct answers answers;
    int port;
};

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char room[4096];
    *buf = uv_buf_init(room, sizeof room);
}

static void on_peer_closed(uv_handle_t *handle)
{
    ((struct fake *)handle->data)->peer_open = false;
}

static void fake_cut(struct fake *f)
{
    if (f->peer_open && !uv_is_closing((uv_handle_t *)&f->peer)) {
        uv_close((uv_handle_t *)&f->peer, on_peer_closed);
    }
}

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
    struct fake *f = stream->data;
    if (nread < 0) {
        fake_cut(f);
        return;
    }
    size_t keep = (size_t)nread < sizeof f->heard - 1 - f->heard_len ? (size_t)nread : 0;
    memcpy(f->heard + f->heard_len, buf->base, keep);
    f->heard_len += keep;
    const char *line = f->script[f->at];
    if (line == NULL || line[0] == '\0') {
        return;
    }
    f->at++;
    if (line[0] == '!') {
        fake_cut(f);
        return;
    }
    uv_buf_t out = uv_buf_init((char *)line, (unsigned)strlen(line));
    assert_int_equal(uv_try_write(stream, &out, 1), (int)strlen(line));
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct fake *f = listener->data;
    assert_int_equal(status, 0);
    assert_false(f->peer_open);
    uv_tcp_init(listener->loop, &f->peer);
    f->peer.data = f;
    f->peer_open = true;
    f->accepted++;
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&f->peer), 0);
    assert_int_equal(uv_read_start((uv_stream_t *)&f->peer, on_alloc, on_read), 0);
}

static int fake_listen(struct world *w, const char *const *script)
{
    struct sockaddr_in at;
    int len = sizeof at;
    w->fake.script = script;
    w->fake.listener.data = &w->fake;
    uv_ip4_addr("127.0.0.1", 0, &at);
    assert_int_equal(uv_tcp_init(&w->loop, &w->fake.listener), 0);
    assert_int_equal(uv_tcp_bind(&w->fake.listener, (struct sockaddr *)&at, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&w->fake.listener, 8, on_connection), 0);
    uv_tcp_getsockname(&w->fake.listener, (struct sockaddr *)&at, &len);
    return ntohs(at.sin_port);
}

static void on_answer(void *ctx, const struct redis_answer *answer)
{
    static const char *const PING[] = {"PING"};
    struct answers *a = ctx;
    assert_true(a->count < ANSWERS_MAX);
    a->list[a->count] = *answer;
    snprintf(a->texts[a->count], sizeof a->texts[0], "%s", answer->text);
    a->count++;
    a->facts_rc = answer->len > 1000 ? redis_facts_read(answer->text, answer->len, &a->facts) : 1;
    if (a->again != NULL) {
        struct redis_link *link = a->again;
        a->again = NULL;
        assert_int_equal(redis_link_send(link, 1, PING, TIMEOUT_MS, on_answer, a), 0);
    }
}

static void on_cut(void *ctx, enum redis_probe why, const char *text)
{
    struct answers *a = ctx;
    assert_true(text[0] != '\0');
    a->cuts++;
    a->cut_why = why;
}

static void on_closed(void *ctx)
{
    ((struct answers *)ctx)->closed = true;
}

#define TWO_ADDRESSES "two-addresses.test"

/* In place of the C library's: a name of two addresses, one that has no route and the own. */
__attribute__((visibility("default"))) int getaddrinfo(const char *host, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **ret)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (host == NULL || strcmp(host, TWO_ADDRESSES) != 0) {
        return real(host, service, hints, ret);
    }
    int rc = real("255.255.255.255", service, hints, ret);
    return rc != 0 ? rc : real("127.0.0.1", service, hints, &(*ret)->ai_next);
}

static void world_link_to(struct world *w, const char *host, int port)
{
    struct redis_link_settings settings = {.loop = &w->loop,
                                           .read_buffer = w->buffer,
                                           .access = &w->access,
                                           .host = host,
                                           .port = port,
                                           .silence_ms = 1000,
                                           .on_cut = on_cut,
                                           .ctx = &w->answers};
    assert_int_equal(redis_link_create(&settings, &w->link), 0);
}

static void world_link(struct world *w, int port)
{
    world_link_to(w, "127.0.0.1", port);
}

static struct world *world_create(const char *const *script)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(uv_loop_init(&w->loop), 0);
    w->buffer = stream_buffer_create();
    if (script != NULL) {
        w->port = fake_listen(w, script);
        world_link(w, w->port);
    }
    return w;
}

static void world_destroy(struct world *w)
{
    redis_link_close(w->link, on_closed, &w->answers);
    fake_cut(&w->fake);
    if (w->fake.script != NULL) {
        uv_close((uv_handle_t *)&w->fake.listener, NULL);
    }
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_true(w->answers.closed);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    stream_buffer_release(w->buffer);
    free(w);
}

static void send_ping(struct world *w, int64_t timeout_ms)
{
    static const char *const PING[] = {"PING"};
    int before = w->answers.count;
    assert_int_equal(redis_link_send(w->link, 1, PING, timeout_ms, on_answer, &w->answers), 0);
    assert_int_equal(w->answers.count, before); /* never from inside */
}

static void run_until_answered(struct world *w, int count)
{
    int64_t end = redis_link_now_ms() + 2L * TIMEOUT_MS;
    while (w->answers.count < count) {
        assert_true(redis_link_now_ms() < end);
        uv_run(&w->loop, UV_RUN_ONCE);
    }
}

static void run_until_cut(struct world *w, int cuts)
{
    while (w->answers.cuts < cuts) {
        uv_run(&w->loop, UV_RUN_ONCE);
    }
}

static void test_answers_in_order(void **state)
{
    static const char *const SCRIPT[] = {"+PONG\r\n:42\r\n$5\r\nhello\r\n*2\r\n$1\r\na\r\n:1\r\n",
                                         "", NULL};
    struct world *w = world_create(SCRIPT);
    for (int i = 0; i < 4; i++) {
        send_ping(w, TIMEOUT_MS);
    }
    run_until_answered(w, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(w->answers.list[i].outcome, REDIS_PROBE_OK);
        assert_true(w->answers.list[i].latency_us >= 0);
    }
    assert_string_equal(w->answers.texts[0], "PONG");
    assert_string_equal(w->answers.texts[1], "");
    assert_string_equal(w->answers.texts[2], "hello");
    assert_string_equal(w->answers.texts[3], "");
    assert_true(redis_link_stands(w->link));
    assert_int_equal(w->fake.accepted, 1);
    world_destroy(w);
}

static void expect_one(const char *const *script, enum redis_probe outcome, const char *text)
{
    struct world *w = world_create(script);
    send_ping(w, SHORT_MS * 20);
    run_until_answered(w, 1);
    assert_string_equal(redis_probe_name(w->answers.list[0].outcome), redis_probe_name(outcome));
    if (text != NULL) {
        assert_string_equal(w->answers.texts[0], text);
    }
    assert_int_equal(w->answers.cuts, 0);
    world_destroy(w);
}

static void test_errors_are_told_apart(void **state)
{
    static const char *const LOADING[] = {"-LOADING Redis is loading\r\n", NULL};
    static const char *const BUSY[] = {"-BUSY a script runs\r\n", NULL};
    static const char *const NOAUTH[] = {"-NOAUTH Authentication required.\r\n", NULL};
    static const char *const MASTERDOWN[] = {"-MASTERDOWN Link is down\r\n", NULL};
    static const char *const ERROR[] = {"-ERR no\r\n", NULL};
    static const char *const NONSENSE[] = {"HTTP/1.1 400 Bad Request\r\n\r\n", NULL};
    static const char *const LONG[] = {"*100000000\r\n", NULL};
    static const char *const CUT[] = {"!", NULL};
    static char nested[4 * 2000 + 1];
    const char *const NESTED[] = {nested, NULL};
    for (int i = 0; i < 2000; i++) {
        memcpy(nested + 4L * i, "*1\r\n", 4);
    }
    expect_one(LOADING, REDIS_PROBE_LOADING, "LOADING Redis is loading");
    expect_one(BUSY, REDIS_PROBE_BUSY, "BUSY a script runs");
    expect_one(NOAUTH, REDIS_PROBE_NOAUTH, "NOAUTH Authentication required.");
    expect_one(MASTERDOWN, REDIS_PROBE_MASTERDOWN, NULL);
    expect_one(ERROR, REDIS_PROBE_ERROR, "ERR no");
    expect_one(NONSENSE, REDIS_PROBE_ERROR, "it does not speak Redis' protocol");
    expect_one(LONG, REDIS_PROBE_ERROR, NULL);
    expect_one(NESTED, REDIS_PROBE_ERROR, NULL);
    expect_one(CUT, REDIS_PROBE_CUT, "it closed the connection");
}

static void test_stall_ends_all_that_wait(void **state)
{
    static const char *const SCRIPT[] = {"", NULL};
    struct world *w = world_create(SCRIPT);
    int64_t began = redis_link_now_ms();
    send_ping(w, TIMEOUT_MS);
    send_ping(w, SHORT_MS);
    run_until_answered(w, 2);
    assert_true(redis_link_now_ms() - began >= SHORT_MS);
    assert_true(redis_link_now_ms() - began < TIMEOUT_MS);
    assert_int_equal(w->answers.list[0].outcome, REDIS_PROBE_TIMEOUT);
    assert_int_equal(w->answers.list[1].outcome, REDIS_PROBE_TIMEOUT);
    assert_string_equal(w->answers.texts[1], "no answer in time");
    assert_int_equal(w->answers.list[1].latency_us, -1);
    assert_false(redis_link_stands(w->link));
    world_destroy(w);
}

static void test_connects_again(void **state)
{
    static const char *const SCRIPT[] = {"+ONE\r\n", "!", "+TWO\r\n", NULL};
    struct world *w = world_create(SCRIPT);
    send_ping(w, TIMEOUT_MS);
    run_until_answered(w, 1);
    send_ping(w, TIMEOUT_MS);
    run_until_answered(w, 2);
    assert_int_equal(w->answers.list[1].outcome, REDIS_PROBE_CUT);
    assert_int_equal(w->answers.cuts, 0); /* reported to the command that waited */
    send_ping(w, TIMEOUT_MS);
    run_until_answered(w, 3);
    assert_string_equal(w->answers.texts[2], "TWO");
    assert_int_equal(w->fake.accepted, 2);
    world_destroy(w);
}

static void test_idle_end_is_told_at_once(void **state)
{
    static const char *const SCRIPT[] = {"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", NULL};
    struct world *w = world_create(SCRIPT);
    send_ping(w, SHORT_MS);
    run_until_answered(w, 1);
    int64_t began = redis_link_now_ms();
    fake_cut(&w->fake);
    run_until_cut(w, 1);
    assert_int_equal(w->answers.cut_why, REDIS_PROBE_CUT);
    assert_true(redis_link_now_ms() - began < SHORT_MS);
    world_destroy(w);
}

static void test_refused(void **state)
{
    static const char *const SCRIPT[] = {"", NULL};
    struct world *w = world_create(SCRIPT);
    uv_close((uv_handle_t *)&w->fake.listener, NULL);
    w->fake.script = NULL;
    uv_run(&w->loop, UV_RUN_NOWAIT);
    send_ping(w, TIMEOUT_MS);
    w->answers.again = w->link;
    run_until_answered(w, 2);
    assert_int_equal(w->answers.list[0].outcome, REDIS_PROBE_REFUSED);
    assert_int_equal(w->answers.list[1].outcome, REDIS_PROBE_REFUSED);
    world_destroy(w);
}

/* Nobody listens at one address; the other says nothing of it. */
static void test_a_refusal_counts_if_all_refuse(void **state)
{
    static const char *const SCRIPT[] = {"+PONG\r\n", NULL};
    struct world *w = world_create(SCRIPT);
    struct redis_link *plain = w->link;
    world_link_to(w, TWO_ADDRESSES, w->port);
    send_ping(w, TIMEOUT_MS);
    run_until_answered(w, 1);
    assert_int_equal(w->answers.list[0].outcome, REDIS_PROBE_OK); /* the second one answers */
    redis_link_drop(w->link);
    uv_close((uv_handle_t *)&w->fake.listener, NULL);
    w->fake.script = NULL;
    uv_run(&w->loop, UV_RUN_NOWAIT);
    send_ping(w, TIMEOUT_MS);
    run_until_answered(w, 2);
    assert_int_equal(w->answers.list[1].outcome, REDIS_PROBE_UNREACHABLE);
    redis_link_close(plain, NULL, NULL);
    world_destroy(w);
}

/* An array whose items come one by one, each of them small, to whom waits for nothing. */
static void test_an_answer_in_pieces_is_bounded(void **state)
{
    enum { HEAD = 8, BODY = 60000 };
    static const char *const SCRIPT[] = {"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*1000\r\n",
                                         NULL};
    static char item[HEAD + BODY + 2];
    struct world *w = world_create(SCRIPT);
    size_t said = 0;
    memset(item, 'x', sizeof item);
    memcpy(item, "$60000\r\n", HEAD);
    memcpy(item + HEAD + BODY, "\r\n", 2);
    send_ping(w, TIMEOUT_MS);
    run_until_answered(w, 1);
    while (w->answers.cuts == 0) {
        size_t at = said % sizeof item;
        uv_buf_t out = uv_buf_init(item + at, (unsigned)(sizeof item - at));
        int n = w->fake.peer_open ? uv_try_write((uv_stream_t *)&w->fake.peer, &out, 1) : 0;
        said += n > 0 ? (size_t)n : 0;
        assert_true(said < 4 * (size_t)REDIS_ANSWER_MAX);
        uv_run(&w->loop, UV_RUN_NOWAIT);
    }
    assert_true(said > REDIS_ANSWER_MAX);
    assert_int_equal(w->answers.cut_why, REDIS_PROBE_ERROR);
    world_destroy(w);
}

static void test_login(void **state)
{
    static const char *const GOOD[] = {"+OK\r\n", "+PONG\r\n", NULL};
    static const char *const BAD[] = {"-WRONGPASS invalid username-password pair\r\n", NULL};
    static const char *const NEEDLESS[] = {
        "-ERR AUTH <password> called without any password configured\r\n", "+PONG\r\n", NULL};
    const char *const *scripts[] = {GOOD, BAD, NEEDLESS};
    for (size_t i = 0; i < 3; i++) {
        struct world *w = world_create(scripts[i]);
        w->access = (struct redis_access){.user = "ops", .password = "se cret"};
        send_ping(w, TIMEOUT_MS);
        run_until_answered(w, 1);
        assert_int_equal(w->answers.list[0].outcome, i == 1 ? REDIS_PROBE_NOAUTH : REDIS_PROBE_OK);
        assert_null(strstr(w->answers.texts[0], "se cret"));
        assert_memory_equal(w->fake.heard, "*3\r\n$4\r\nAUTH\r\n$3\r\nops\r\n$7\r\nse cret\r\n",
                            36);
        world_destroy(w);
    }
}

static void test_drop_and_close(void **state)
{
    static const char *const SCRIPT[] = {"", NULL};
    struct world *w = world_create(SCRIPT);
    send_ping(w, TIMEOUT_MS);
    redis_link_drop(w->link); /* still connecting */
    run_until_answered(w, 1);
    assert_int_equal(w->answers.list[0].outcome, REDIS_PROBE_CUT);
    send_ping(w, TIMEOUT_MS);
    uv_run(&w->loop, UV_RUN_ONCE);
    send_ping(w, TIMEOUT_MS);
    world_destroy(w); /* with two that wait */
}

/* A port that no other process gets while ret_socket is open: it is bound and does not listen, so only a socket with
 * SO_REUSEADDR that asks for this very port gets it, as a Redis server's does. */
static int reserved_port(int *ret_socket)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *ret_socket = fd;
    return ntohs(at.sin_port);
}

/* Debian's redis-tools has the server's program under another name. */
static const char *server_program(void)
{
    static const char *const programs[] = {"/usr/bin/redis-server", "/usr/bin/redis-check-rdb"};
    return access(programs[0], X_OK) == 0   ? programs[0]
           : access(programs[1], X_OK) == 0 ? programs[1]
                                            : NULL;
}

static pid_t server_start(int port)
{
    char text[16];
    snprintf(text, sizeof text, "%d", port);
    pid_t pid = fork();
    if (pid == 0) {
        const char *where = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
        if (freopen("/dev/null", "w", stdout) != NULL && chdir(where) == 0) {
            execl(server_program(), "redis-server", "--port", text, "--bind", "127.0.0.1", "--save",
                  "", "--requirepass", "geheim", (char *)NULL);
        }
        _exit(127);
    }
    return pid;
}

/* A real server's answers, and how fast its death by signal 9 is noticed on a connection that only subscribes. */
static void test_real_server(void **state)
{
    static const char *const SUBSCRIBE[] = {"SUBSCRIBE", "__conclave"};
    static const char *const INFO[] = {"INFO"};
    struct world *w = world_create(NULL);
    int reserved;
    int status;
    if (server_program() == NULL) {
        uv_loop_close(&w->loop);
        stream_buffer_release(w->buffer);
        free(w);
        skip(); /* no redis-server here: tools/install-deps --test */
    }
    w->port = reserved_port(&reserved);
    w->access = (struct redis_access){.password = "geheim"};
    world_link(w, w->port);
    pid_t pid = server_start(w->port);
    for (int i = 1; w->answers.count == 0 || w->answers.list[0].outcome != REDIS_PROBE_OK; i++) {
        assert_true(i < 3000);
        w->answers.count = 0;
        send_ping(w, TIMEOUT_MS);
        run_until_answered(w, 1);
        usleep(10000);
    }
    assert_int_equal(redis_link_send(w->link, 1, INFO, TIMEOUT_MS, on_answer, &w->answers), 0);
    run_until_answered(w, 2);
    assert_int_equal(w->answers.facts_rc, 0);
    assert_int_equal(w->answers.facts.role, REDIS_ROLE_MASTER);
    assert_int_equal(redis_link_send(w->link, 2, SUBSCRIBE, TIMEOUT_MS, on_answer, &w->answers), 0);
    run_until_answered(w, 3);
    assert_int_equal(w->answers.list[2].outcome, REDIS_PROBE_OK);
    int64_t began = redis_link_now_ms();
    kill(pid, SIGKILL);
    run_until_cut(w, 1);
    assert_true(redis_link_now_ms() - began < TIMEOUT_MS);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    send_ping(w, TIMEOUT_MS);
    run_until_answered(w, 4);
    assert_int_equal(w->answers.list[3].outcome, REDIS_PROBE_REFUSED);
    close(reserved);
    world_destroy(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_in_order),
        cmocka_unit_test(test_errors_are_told_apart),
        cmocka_unit_test(test_stall_ends_all_that_wait),
        cmocka_unit_test(test_connects_again),
        cmocka_unit_test(test_idle_end_is_told_at_once),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_a_refusal_counts_if_all_refuse),
        cmocka_unit_test(test_an_answer_in_pieces_is_bounded),
        cmocka_unit_test(test_login),
        cmocka_unit_test(test_drop_and_close),
        cmocka_unit_test(test_real_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
