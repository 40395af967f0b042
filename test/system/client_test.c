/*
 * The client library against a real server, through the fault proxy: client_test SERVER_PORT NAME.
 * The server grants session timeouts from 1 s; all nodes stand below /client_test. The last line
 * counts the tests.
 */
#include "support/fault_proxy.h"

#include <conclave/uv.h>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

enum { SESSION_MS = 2000, WAIT_MS = 20000 };

static uint16_t server_port;
static int checks_failed;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("    line %d: %s\n", __LINE__, #condition);                                     \
            checks_failed++;                                                                       \
        }                                                                                          \
    } while (0)

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void sleep_ms(int64_t ms)
{
    struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&ts, NULL);
}

/* --- states, watches and replies, written down
 * --------------------------------------------------------- */

struct news {
    pthread_mutex_t lock;
    pthread_cond_t came;
    enum conclave_state states[64];
    int64_t at_ms[64];
    int count;
    int events;
    enum conclave_event_type last_event;
    char last_path[128];
    int replies;
    int last_error;
};

static void news_init(struct news *n)
{
    memset(n, 0, sizeof *n);
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->came, NULL);
}

static void on_state(struct conclave_client *client, enum conclave_state state, void *ctx)
{
    struct news *n = ctx;
    pthread_mutex_lock(&n->lock);
    n->at_ms[n->count] = now_ms();
    n->states[n->count++] = state;
    pthread_cond_broadcast(&n->came);
    pthread_mutex_unlock(&n->lock);
}

static void on_watch(struct conclave_client *client, enum conclave_event_type type,
                     const char *path, void *ctx)
{
    struct news *n = ctx;
    pthread_mutex_lock(&n->lock);
    n->events++;
    n->last_event = type;
    snprintf(n->last_path, sizeof n->last_path, "%s", path);
    pthread_cond_broadcast(&n->came);
    pthread_mutex_unlock(&n->lock);
}

static void on_reply(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    struct news *n = ctx;
    pthread_mutex_lock(&n->lock);
    n->replies++;
    n->last_error = reply->error;
    pthread_cond_broadcast(&n->came);
    pthread_mutex_unlock(&n->lock);
}

/* Waits until *counter >= value. */
static bool news_wait(struct news *n, const int *counter, int value)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    ts.tv_sec += WAIT_MS / 1000;
    pthread_mutex_lock(&n->lock);
    int rc = 0;
    while (*counter < value && rc == 0) {
        rc = pthread_cond_timedwait(&n->came, &n->lock, &ts);
    }
    bool there = *counter >= value;
    pthread_mutex_unlock(&n->lock);
    return there;
}

/* Index of the first `state` from `from` on, waited for; -1: it did not come. */
static int news_state(struct news *n, int from, enum conclave_state state)
{
    for (int i = from;; i++) {
        if (!news_wait(n, &n->count, i + 1)) {
            return -1;
        }
        if (n->states[i] == state) {
            return i;
        }
    }
}

/* --- shorthands
 * ---------------------------------------------------------------------------------------- */

static struct conclave_client *open_to(const char *servers, struct news *n)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    options.servers = servers;
    options.session_timeout_ms = SESSION_MS;
    options.on_state = n != NULL ? on_state : NULL;
    options.ctx = n;
    struct conclave_client *client = NULL;
    int rc = conclave_client_open(&options, &client);
    if (rc != 0) {
        printf("open: %s\n", conclave_strerror(rc));
        exit(1);
    }
    return client;
}

static struct conclave_client *start_on(uint16_t port, struct news *n)
{
    char servers[64];
    snprintf(servers, sizeof servers, "127.0.0.1:%u/client_test", port);
    struct conclave_client *client = open_to(servers, n);
    int rc = conclave_client_start(client);
    rc = rc == 0 ? conclave_client_wait_connected(client, WAIT_MS) : rc;
    CHECK(rc == 0);
    return client;
}

static int create(struct conclave_client *client, const char *path, enum conclave_create_mode mode)
{
    struct conclave_op op = conclave_op_create(path, "v", 1, mode);
    return conclave_call(client, &op, NULL);
}

static int set(struct conclave_client *client, const char *path, const char *data)
{
    struct conclave_op op = conclave_op_set(path, data, strlen(data), -1);
    return conclave_call(client, &op, NULL);
}

static int exists(struct conclave_client *client, const char *path)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    return conclave_call(client, &op, NULL);
}

static int watch(struct conclave_client *client, const char *path, struct news *n)
{
    struct conclave_op op = conclave_op_watch(CONCLAVE_OP_EXISTS, path, on_watch, n);
    return conclave_call(client, &op, NULL);
}

static int remove_node(struct conclave_client *client, const char *path)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, path, -1);
    return conclave_call(client, &op, NULL);
}

static int open_descriptors(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n;
}

/* --- tests
 * --------------------------------------------------------------------------------------------- */

static void test_all_operations(void)
{
    struct conclave_client *client = start_on(server_port, NULL);
    struct conclave_reply *r = NULL;
    struct conclave_op op = conclave_op_create("/ops", "one", 3, CONCLAVE_PERSISTENT);
    CHECK(conclave_call(client, &op, &r) == 0);
    CHECK(strcmp(r->path, "/ops") == 0 && r->has_stat && r->stat.czxid == r->zxid);
    conclave_reply_free(r);
    CHECK(conclave_call(client, &op, &r) == CONCLAVE_NODE_EXISTS &&
          r->error == CONCLAVE_NODE_EXISTS);
    conclave_reply_free(r);
    op = conclave_op_create("/ops/s-", NULL, 0, CONCLAVE_EPHEMERAL_SEQUENTIAL);
    CHECK(conclave_call(client, &op, &r) == 0 && strcmp(r->path, "/ops/s-0000000000") == 0);
    conclave_reply_free(r);
    op = conclave_op_set("/ops", "two", 3, 0);
    CHECK(conclave_call(client, &op, &r) == 0 && r->stat.version == 1);
    conclave_reply_free(r);
    CHECK(conclave_call(client, &op, NULL) == CONCLAVE_BAD_VERSION);
    op = conclave_op_path(CONCLAVE_OP_GET, "/ops", 0);
    CHECK(conclave_call(client, &op, &r) == 0 && r->data_len == 3 && !memcmp(r->data, "two", 3));
    conclave_reply_free(r);
    op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, "/ops", 0);
    CHECK(conclave_call(client, &op, &r) == 0 && r->children_count == 1 &&
          strcmp(r->children[0], "s-0000000000") == 0 && r->stat.num_children == 1);
    conclave_reply_free(r);
    const struct conclave_acl acl[] = {{CONCLAVE_PERM_ALL, "world", "anyone"},
                                       {CONCLAVE_PERM_READ, "ip", "10.0.0.1"}};
    op = conclave_op_path(CONCLAVE_OP_SET_ACL, "/ops", -1);
    op.acl = acl;
    op.acl_count = 2;
    CHECK(conclave_call(client, &op, NULL) == 0);
    op = conclave_op_path(CONCLAVE_OP_GET_ACL, "/ops", 0);
    CHECK(conclave_call(client, &op, &r) == 0 && r->acl_count == 2 &&
          strcmp(r->acl[1].id, "10.0.0.1") == 0 && r->stat.aversion == 1);
    conclave_reply_free(r);
    const struct conclave_op parts[] = {conclave_op_path(CONCLAVE_OP_CHECK, "/ops", 1),
                                        conclave_op_path(CONCLAVE_OP_DELETE, "/none", -1)};
    op = conclave_op_multi(parts, 2);
    CHECK(conclave_call(client, &op, &r) == CONCLAVE_NO_NODE && r->results_count == 2);
    conclave_reply_free(r);
    op = conclave_op_path(CONCLAVE_OP_SYNC, "/", 0);
    CHECK(conclave_call(client, &op, &r) == 0 && strcmp(r->path, "/") == 0);
    conclave_reply_free(r);
    CHECK(create(client, "/ops/c", CONCLAVE_CONTAINER) == 0);
    CHECK(create(client, "bad", CONCLAVE_PERSISTENT) == CONCLAVE_EINVAL);
    conclave_client_close(client, WAIT_MS);
}

enum { THREADS = 4, CALLS = 300 };

static void *caller(void *arg)
{
    struct conclave_client *client = arg;
    for (int i = 0; i < CALLS; i++) {
        struct conclave_op op =
            conclave_op_create("/many/n-", NULL, 0, CONCLAVE_PERSISTENT_SEQUENTIAL);
        struct conclave_reply *r;
        CHECK(conclave_call(client, &op, &r) == 0 && r != NULL);
        conclave_reply_free(r);
    }
    return NULL;
}

static void test_many_threads(void)
{
    struct conclave_client *client = start_on(server_port, NULL);
    CHECK(create(client, "/many", CONCLAVE_PERSISTENT) == 0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, caller, client);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, "/many", 0);
    struct conclave_reply *r;
    CHECK(conclave_call(client, &op, &r) == 0 && r->children_count == THREADS * CALLS);
    conclave_reply_free(r);
    conclave_client_close(client, WAIT_MS);
}

/* The link is cut; meanwhile another client changes what is watched. The session, its node and
 * the watch live on. */
static void test_reattach(void)
{
    struct fault_proxy *proxy = fault_proxy_start(0, server_port);
    struct news n;
    news_init(&n);
    struct conclave_client *other = start_on(server_port, NULL);
    struct conclave_client *client = start_on(fault_proxy_port(proxy), &n);
    struct conclave_session before = CONCLAVE_SESSION_INIT;
    conclave_client_session(client, &before);
    CHECK(create(client, "/moved", CONCLAVE_EPHEMERAL) == 0);
    CHECK(create(other, "/changed", CONCLAVE_PERSISTENT) == 0);
    CHECK(watch(client, "/changed", &n) == 0);
    CHECK(watch(client, "/unchanged", &n) == CONCLAVE_NO_NODE);
    fault_proxy_do(proxy, "refuse");
    fault_proxy_do(proxy, "cut");
    CHECK(news_state(&n, 0, CONCLAVE_STATE_SUSPENDED) == 1);
    struct conclave_loss loss = CONCLAVE_LOSS_INIT;
    conclave_client_why(other, &loss);
    CHECK(loss.size == sizeof loss && loss.cause == CONCLAVE_LOSS_NONE && loss.text[0] == '\0');
    conclave_client_why(client, &loss);
    CHECK(loss.cause == CONCLAVE_LOSS_ENDED || loss.cause == CONCLAVE_LOSS_PAUSED); /* under load */
    CHECK(!loss.session_lost && loss.session_id == before.id);
    CHECK(loss.timeout_ms == before.timeout_ms && strcmp(loss.server, before.server) == 0);
    CHECK(set(other, "/changed", "w") == 0);
    CHECK(n.events == 0);
    fault_proxy_do(proxy, "accept");
    CHECK(news_state(&n, 2, CONCLAVE_STATE_RECONNECTED) == 2);
    conclave_client_why(client, &loss);
    CHECK(loss.attempts > 0 && !loss.session_lost && loss.session_id == before.id);
    CHECK(news_wait(&n, &n.events, 1) && n.last_event == CONCLAVE_EVENT_DATA_CHANGED);
    CHECK(strcmp(n.last_path, "/changed") == 0);
    struct conclave_session after = CONCLAVE_SESSION_INIT;
    conclave_client_session(client, &after);
    CHECK(after.id == before.id && !memcmp(after.passwd, before.passwd, sizeof after.passwd));
    CHECK(exists(client, "/moved") == 0);
    CHECK(create(other, "/unchanged", CONCLAVE_PERSISTENT) == 0);
    CHECK(news_wait(&n, &n.events, 2) && n.last_event == CONCLAVE_EVENT_CREATED);
    conclave_client_close(client, WAIT_MS);
    CHECK(exists(other, "/moved") == CONCLAVE_NO_NODE);
    conclave_client_close(other, WAIT_MS);
    fault_proxy_stop(proxy);
}

static void test_reply_lost(void)
{
    struct fault_proxy *proxy = fault_proxy_start(0, server_port);
    struct conclave_client *client = start_on(fault_proxy_port(proxy), NULL);
    fault_proxy_do(proxy, "swallow down 1");
    CHECK(create(client, "/unknown", CONCLAVE_PERSISTENT) == CONCLAVE_CONNECTION_LOSS);
    CHECK(exists(client, "/unknown") == 0); /* waits for the next link, finds that it was done */
    fault_proxy_do(proxy, "cut-at up 7");
    CHECK(create(client, "/never", CONCLAVE_PERSISTENT) == CONCLAVE_CONNECTION_LOSS);
    CHECK(exists(client, "/never") == CONCLAVE_NO_NODE);
    conclave_client_close(client, WAIT_MS);
    fault_proxy_stop(proxy);
}

/* A black hole: SUSPENDED when the link is silent for too long, LOST when the timeout is over,
 * both by our own clock. */
static void test_expiry(void)
{
    struct fault_proxy *proxy = fault_proxy_start(0, server_port);
    struct news n;
    news_init(&n);
    struct conclave_client *other = start_on(server_port, NULL);
    struct conclave_client *client = start_on(fault_proxy_port(proxy), &n);
    struct conclave_session before = CONCLAVE_SESSION_INIT;
    conclave_client_session(client, &before);
    CHECK(create(client, "/expires", CONCLAVE_EPHEMERAL) == 0);
    CHECK(watch(client, "/expires", &n) == 0);
    int64_t start_ms = now_ms();
    fault_proxy_do(proxy, "hold both");
    CHECK(exists(client, "/expires") == CONCLAVE_CONNECTION_LOSS);
    CHECK(exists(client, "/expires") == CONCLAVE_SESSION_EXPIRED); /* was waiting for a link */
    CHECK(news_state(&n, 0, CONCLAVE_STATE_LOST) == 2);
    CHECK(n.states[1] == CONCLAVE_STATE_SUSPENDED);
    CHECK(n.at_ms[2] - start_ms <= before.timeout_ms + 500);
    CHECK(n.at_ms[2] - start_ms >= before.timeout_ms / 2);
    CHECK(news_wait(&n, &n.events, 1) && n.last_event == CONCLAVE_EVENT_LOST);
    struct conclave_loss loss = CONCLAVE_LOSS_INIT;
    conclave_client_why(client, &loss);
    CHECK(loss.session_lost && !loss.refused && loss.session_id == before.id);
    CHECK(loss.cause == CONCLAVE_LOSS_SILENT ||
          loss.cause == CONCLAVE_LOSS_PAUSED); /* under load */
    CHECK(loss.heard_ms >= before.timeout_ms / 2 && loss.attempts > 0);
    CHECK(strstr(loss.text, "within the session's timeout of") != NULL);
    sleep_ms(2 * SESSION_MS);
    CHECK(exists(other, "/expires") == CONCLAVE_NO_NODE);
    fault_proxy_do(proxy, "pass");
    CHECK(news_state(&n, 3, CONCLAVE_STATE_NEW_SESSION) == 3);
    struct conclave_session after = CONCLAVE_SESSION_INIT;
    conclave_client_session(client, &after);
    CHECK(after.id != 0 && after.id != before.id);
    conclave_client_close(client, WAIT_MS);
    conclave_client_close(other, WAIT_MS);
    fault_proxy_stop(proxy);
}

static void block(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    CHECK(exists(client, "/") == CONCLAVE_EDEADLK);
    CHECK(conclave_client_wait_connected(client, 1) == CONCLAVE_EDEADLK);
    sleep_ms(2 * SESSION_MS);
    atomic_store((atomic_int *)ctx, 1);
}

/* A callback that blocks for twice the session timeout: the session lives on, and other threads'
 * calls go through. */
static void test_blocked_callback(void)
{
    struct conclave_client *client = start_on(server_port, NULL);
    struct conclave_session before = CONCLAVE_SESSION_INIT;
    conclave_client_session(client, &before);
    atomic_int returned = 0;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, "/", 0);
    CHECK(conclave_submit(client, &op, block, &returned) == 0);
    while (!atomic_load(&returned)) {
        CHECK(exists(client, "/") == 0);
        sleep_ms(50);
    }
    struct conclave_session after = CONCLAVE_SESSION_INIT;
    conclave_client_session(client, &after);
    CHECK(after.id == before.id && after.state == CONCLAVE_STATE_CONNECTED);
    conclave_client_close(client, WAIT_MS);
}

static void test_request_timeout(void)
{
    struct fault_proxy *proxy = fault_proxy_start(0, server_port);
    struct conclave_client *client = start_on(fault_proxy_port(proxy), NULL);
    fault_proxy_do(proxy, "hold down");
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/", 0);
    op.timeout_ms = 100;
    int64_t start_ms = now_ms();
    CHECK(conclave_call(client, &op, NULL) == CONCLAVE_OPERATION_TIMEOUT);
    CHECK(now_ms() - start_ms >= 100 && now_ms() - start_ms < 1000);
    fault_proxy_do(proxy, "pass");
    CHECK(exists(client, "/") == 0); /* the late answer is not taken for this one's */
    conclave_client_close(client, WAIT_MS);
    fault_proxy_stop(proxy);
}

static void *blocked_caller(void *arg)
{
    return (void *)(intptr_t)exists(arg, "/");
}

static void test_close_under_waiters(void)
{
    struct fault_proxy *proxy = fault_proxy_start(0, server_port);
    struct news n;
    news_init(&n);
    struct conclave_client *client = start_on(fault_proxy_port(proxy), &n);
    CHECK(watch(client, "/watched", &n) == CONCLAVE_NO_NODE);
    fault_proxy_do(proxy, "hold both");
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, blocked_caller, client);
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, "/", 0);
    CHECK(conclave_submit(client, &op, on_reply, &n) == 0);
    sleep_ms(100);
    conclave_client_close(client, 100);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        CHECK((int)(intptr_t)result == CONCLAVE_ECLOSED);
    }
    CHECK(n.replies == 1 && n.last_error == CONCLAVE_ECLOSED);
    CHECK(n.events == 1 && n.last_event == CONCLAVE_EVENT_LOST);
    CHECK(n.states[n.count - 1] == CONCLAVE_STATE_CLOSED);
    fault_proxy_stop(proxy);
}

static void close_now(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    conclave_client_close(client, WAIT_MS);
}

static void test_close_inside_callback(void)
{
    struct news n;
    news_init(&n);
    struct conclave_client *client = start_on(server_port, &n);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, "/", 0);
    CHECK(conclave_submit(client, &op, close_now, NULL) == 0);
    CHECK(news_state(&n, 0, CONCLAVE_STATE_CLOSED) == 1);
    sleep_ms(50);

    news_init(&n);
    char servers[64];
    snprintf(servers, sizeof servers, "127.0.0.1:%u", server_port);
    client = open_to(servers, &n);
    CHECK(conclave_submit(client, &op, close_now, NULL) == 0);
    int rc = 0;
    while (rc == 0) {
        struct pollfd fd = {.fd = conclave_client_fd(client), .events = POLLIN};
        poll(&fd, 1, (int)conclave_client_timeout_ms(client));
        rc = conclave_client_dispatch(client);
    }
    CHECK(rc == CONCLAVE_ECLOSED);
    CHECK(n.count == 2 && n.states[1] == CONCLAVE_STATE_CLOSED);
}

/* The program's own loop: callbacks run inside dispatch only, blocking calls dispatch by
 * themselves. */
static void test_own_loop(void)
{
    struct news n;
    news_init(&n);
    char servers[64];
    snprintf(servers, sizeof servers, "127.0.0.1:%u/client_test", server_port);
    struct conclave_client *client = open_to(servers, &n);
    int fd_number = conclave_client_fd(client);
    CHECK((fcntl(fd_number, F_GETFD) & FD_CLOEXEC) != 0);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/", 0);
    for (int i = 0; i < 1000; i++) {
        CHECK(conclave_submit(client, &op, on_reply, &n) == 0);
    }
    CHECK(n.replies == 0);
    int turns = 0;
    while (n.replies < 1000 && turns++ < 10000) {
        struct pollfd fd = {.fd = fd_number, .events = POLLIN};
        poll(&fd, 1, (int)conclave_client_timeout_ms(client));
        CHECK(conclave_client_dispatch(client) == 0);
        CHECK(conclave_client_fd(client) == fd_number);
    }
    CHECK(n.replies == 1000 && n.last_error == 0 && n.states[0] == CONCLAVE_STATE_CONNECTED);
    CHECK(exists(client, "/") == 0);
    conclave_client_close(client, WAIT_MS);
    CHECK(n.states[n.count - 1] == CONCLAVE_STATE_CLOSED);
}

struct uv_case {
    struct news news;
    struct conclave_uv *uv;
    int closed;
};

static void uv_closed(void *ctx)
{
    ((struct uv_case *)ctx)->closed++;
}

static void uv_reply(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    struct uv_case *c = ctx;
    c->news.replies++;
    CHECK(reply->error == 0);
    conclave_uv_close(c->uv, WAIT_MS, uv_closed, c);
}

static void test_libuv(void)
{
    struct uv_case c = {0};
    news_init(&c.news);
    char servers[64];
    snprintf(servers, sizeof servers, "127.0.0.1:%u", server_port);
    struct conclave_client *client = open_to(servers, &c.news);
    uv_loop_t loop;
    uv_loop_init(&loop);
    CHECK(conclave_uv_open(&loop, client, &c.uv) == 0);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, "/", 0);
    CHECK(conclave_submit(client, &op, uv_reply, &c) == 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(c.news.replies == 1 && c.closed == 1);
    CHECK(c.news.count == 2 && c.news.states[1] == CONCLAVE_STATE_CLOSED);
    CHECK(uv_loop_close(&loop) == 0);
}

static void test_bad_servers_in_the_list(void)
{
    char servers[128];
    snprintf(servers, sizeof servers, "no-such-host.invalid:1,127.0.0.1:1,localhost:%u",
             server_port);
    for (int i = 0; i < 5; i++) {
        struct conclave_client *client = open_to(servers, NULL);
        CHECK(conclave_client_start(client) == 0);
        int64_t start_ms = now_ms();
        CHECK(conclave_client_wait_connected(client, WAIT_MS) == 0);
        CHECK(now_ms() - start_ms < 5000);
        conclave_client_close(client, WAIT_MS);
    }
    struct conclave_client *client = open_to("127.0.0.1:1", NULL);
    CHECK(conclave_client_wait_connected(client, 300) == CONCLAVE_ETIMEDOUT);
    char why[128];
    conclave_client_last_error(client, why, sizeof why);
    CHECK(strcmp(why, "127.0.0.1:1: Connection refused") == 0);
    conclave_client_close(client, WAIT_MS);
}

static void test_fork(void)
{
    struct conclave_client *client = start_on(server_port, NULL);
    pid_t child = fork();
    if (child == 0) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/", 0);
        bool ok = conclave_call(client, &op, NULL) == CONCLAVE_EFORK &&
                  conclave_submit(client, &op, NULL, NULL) == CONCLAVE_EFORK &&
                  conclave_client_dispatch(client) == CONCLAVE_EFORK;
        conclave_client_close(client, WAIT_MS);
        _exit(ok ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(exists(client, "/") == 0); /* the child's close has not touched the session */
    conclave_client_close(client, WAIT_MS);
}

static void test_auth(void)
{
    struct news n;
    news_init(&n);
    struct conclave_client *client = start_on(server_port, NULL);
    CHECK(conclave_client_add_auth(client, "digest", "u:p", 3) == 0);
    const struct conclave_acl acl = {CONCLAVE_PERM_ALL, "auth", ""};
    struct conclave_op op = conclave_op_create("/secret", "x", 1, CONCLAVE_PERSISTENT);
    op.acl = &acl;
    op.acl_count = 1;
    CHECK(conclave_call(client, &op, NULL) == 0);
    struct conclave_client *other = start_on(server_port, &n);
    op = conclave_op_path(CONCLAVE_OP_GET, "/secret", 0);
    CHECK(conclave_call(other, &op, NULL) == CONCLAVE_NO_AUTH);
    CHECK(conclave_call(client, &op, NULL) == 0);
    CHECK(remove_node(client, "/secret") == 0);
    CHECK(conclave_client_add_auth(other, "no-such-scheme", "x", 1) == 0);
    CHECK(news_state(&n, 0, CONCLAVE_STATE_AUTH_FAILED) == 1);
    CHECK(conclave_call(other, &op, NULL) == CONCLAVE_AUTH_FAILED);
    CHECK(conclave_client_wait_connected(other, 1000) == CONCLAVE_AUTH_FAILED);
    conclave_client_close(other, WAIT_MS);
    conclave_client_close(client, WAIT_MS);
}

static void test_watch_remove(void)
{
    struct news n;
    news_init(&n);
    struct conclave_client *client = start_on(server_port, NULL);
    CHECK(watch(client, "/w", &n) == CONCLAVE_NO_NODE);
    CHECK(conclave_watch_remove(client, "/w", on_watch, &n) == 0);
    CHECK(conclave_watch_remove(client, "/w", on_watch, &n) == CONCLAVE_NO_WATCHER);
    CHECK(news_wait(&n, &n.events, 1) && n.last_event == CONCLAVE_EVENT_LOST);
    CHECK(create(client, "/w", CONCLAVE_EPHEMERAL) == 0);
    conclave_client_close(client, WAIT_MS);
    CHECK(n.events == 1);
}

static int add_watch(struct conclave_client *client, const char *path,
                     enum conclave_watch_kind kind, struct news *n)
{
    struct conclave_op op = conclave_op_add_watch(path, kind, on_watch, n);
    return conclave_call(client, &op, NULL);
}

static int check_watches(struct conclave_client *client, const char *path)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_CHECK_WATCHES, path, 0);
    op.watch_kind = CONCLAVE_WATCH_ANY;
    return conclave_call(client, &op, NULL);
}

/* Events until LOST, by a client that also makes the changes: each comes before the reply. */
static void test_persistent_watch(void)
{
    struct news once;
    struct news all;
    news_init(&once);
    news_init(&all);
    struct conclave_client *client = start_on(server_port, NULL);
    CHECK(add_watch(client, "/p", CONCLAVE_WATCH_PERSISTENT, &once) == 0);
    CHECK(add_watch(client, "/", CONCLAVE_WATCH_RECURSIVE, &all) == 0);
    CHECK(check_watches(client, "/p") == 0);
    CHECK(create(client, "/p", CONCLAVE_PERSISTENT) == 0);
    CHECK(set(client, "/p", "x") == 0 && set(client, "/p", "y") == 0);
    CHECK(news_wait(&once, &once.events, 3) && once.last_event == CONCLAVE_EVENT_DATA_CHANGED);
    CHECK(create(client, "/p/c", CONCLAVE_PERSISTENT) == 0);
    CHECK(news_wait(&once, &once.events, 4) && once.last_event == CONCLAVE_EVENT_CHILDREN_CHANGED);
    CHECK(strcmp(once.last_path, "/p") == 0);
    CHECK(news_wait(&all, &all.events, 4) && all.last_event == CONCLAVE_EVENT_CREATED);
    CHECK(strcmp(all.last_path, "/p/c") == 0);
    CHECK(conclave_watch_remove(client, "/p", on_watch, &once) == 0);
    CHECK(conclave_watch_remove(client, "/p", on_watch, &once) == CONCLAVE_NO_WATCHER);
    CHECK(news_wait(&once, &once.events, 5) && once.last_event == CONCLAVE_EVENT_LOST);
    /* The server drops it, too: at once, or when it has said that it does not know the kind. */
    int rc = check_watches(client, "/p");
    for (int wait = 0; rc == 0 && wait < 100; wait++) {
        sleep_ms(20);
        rc = check_watches(client, "/p");
    }
    CHECK(rc == CONCLAVE_NO_WATCHER);
    CHECK(remove_node(client, "/p/c") == 0 && remove_node(client, "/p") == 0);
    CHECK(news_wait(&all, &all.events, 6) && all.last_event == CONCLAVE_EVENT_DELETED);
    CHECK(once.events == 5);
    conclave_client_close(client, WAIT_MS);
    CHECK(all.events == 7 && all.last_event == CONCLAVE_EVENT_LOST);
}

/* A lost link: the watch gets an event of it, and goes on, as does a one-shot watch. */
static void test_persistent_watch_resumes(void)
{
    struct news n;
    struct news one;
    struct news states;
    news_init(&n);
    news_init(&one);
    news_init(&states);
    struct fault_proxy *proxy = fault_proxy_start(0, server_port);
    struct conclave_client *direct = start_on(server_port, NULL);
    struct conclave_client *client = start_on(fault_proxy_port(proxy), &states);
    CHECK(create(direct, "/resume", CONCLAVE_PERSISTENT) == 0);
    CHECK(add_watch(client, "/resume", CONCLAVE_WATCH_RECURSIVE, &n) == 0);
    CHECK(watch(client, "/other", &one) == CONCLAVE_NO_NODE);
    fault_proxy_do(proxy, "cut");
    CHECK(news_state(&states, 0, CONCLAVE_STATE_RECONNECTED) > 0);
    CHECK(news_wait(&n, &n.events, 1) && n.last_event == CONCLAVE_EVENT_RESUMED);
    CHECK(strcmp(n.last_path, "/resume") == 0);
    CHECK(create(direct, "/resume/a", CONCLAVE_PERSISTENT) == 0);
    CHECK(news_wait(&n, &n.events, 2) && n.last_event == CONCLAVE_EVENT_CREATED);
    CHECK(strcmp(n.last_path, "/resume/a") == 0);
    CHECK(create(direct, "/other", CONCLAVE_EPHEMERAL) == 0);
    CHECK(news_wait(&one, &one.events, 1) && one.last_event == CONCLAVE_EVENT_CREATED);
    conclave_client_close(client, WAIT_MS);
    conclave_client_close(direct, WAIT_MS);
    fault_proxy_stop(proxy);
}

/* A callback that takes its own watch back. */
static void remove_own(struct conclave_client *client, enum conclave_event_type type,
                       const char *path, void *ctx)
{
    struct news *n = ctx;
    if (type == CONCLAVE_EVENT_CREATED) {
        CHECK(conclave_watch_remove(client, path, remove_own, ctx) == 0);
    }
    on_watch(client, type, path, n);
}

static void test_persistent_watch_inside(void)
{
    struct news n;
    news_init(&n);
    struct conclave_client *client = start_on(server_port, NULL);
    struct conclave_op op =
        conclave_op_add_watch("/inside", CONCLAVE_WATCH_PERSISTENT, remove_own, &n);
    CHECK(conclave_call(client, &op, NULL) == 0);
    CHECK(create(client, "/inside", CONCLAVE_PERSISTENT) == 0);
    CHECK(news_wait(&n, &n.events, 2) && n.last_event == CONCLAVE_EVENT_LOST);
    CHECK(remove_node(client, "/inside") == 0);
    conclave_client_close(client, WAIT_MS);
    CHECK(n.events == 2);
}

static void test_newer_operations(void)
{
    struct conclave_client *client = start_on(server_port, NULL);
    struct conclave_reply *r = NULL;
    struct conclave_op op = conclave_op_create("/ttl", "v", 1, CONCLAVE_PERSISTENT);
    op.ttl_ms = 3600000;
    CHECK(conclave_call(client, &op, &r) == 0 && r->has_stat && strcmp(r->path, "/ttl") == 0);
    conclave_reply_free(r);
    op = conclave_op_create("/ttl/s-", NULL, 0, CONCLAVE_PERSISTENT_SEQUENTIAL);
    op.ttl_ms = 3600000;
    struct conclave_op multi = conclave_op_multi(&op, 1);
    CHECK(conclave_call(client, &multi, &r) == 0 && r->results_count == 1 &&
          strcmp(r->results[0]->path, "/ttl/s-0000000000") == 0);
    conclave_reply_free(r);
    CHECK(create(client, "/ttl/e", CONCLAVE_EPHEMERAL) == 0);
    const struct conclave_op parts[] = {
        conclave_op_path(CONCLAVE_OP_GET_CHILDREN, "/ttl", 0),
        conclave_op_path(CONCLAVE_OP_GET, "/none", 0),
        conclave_op_path(CONCLAVE_OP_GET, "/ttl", 0),
    };
    op = conclave_op_multi(parts, 3);
    op.type = CONCLAVE_OP_MULTI_READ;
    CHECK(conclave_call(client, &op, &r) == 0 && r->results_count == 3 &&
          r->results[0]->children_count == 2 && r->results[1]->error == CONCLAVE_NO_NODE &&
          r->results[2]->data_len == 1 && r->results[2]->stat.num_children == 2);
    conclave_reply_free(r);
    op = conclave_op_path(CONCLAVE_OP_GET_EPHEMERALS, "/ttl", 0);
    CHECK(conclave_call(client, &op, &r) == 0 && r->children_count == 1 &&
          strcmp(r->children[0], "/ttl/e") == 0);
    conclave_reply_free(r);
    op = conclave_op_path(CONCLAVE_OP_GET_ALL_CHILDREN_NUMBER, "/ttl", 0);
    CHECK(conclave_call(client, &op, &r) == 0 && r->total_number == 2);
    conclave_reply_free(r);
    op = conclave_op_path(CONCLAVE_OP_WHO_AM_I, NULL, 0);
    int rc = conclave_call(client, &op, &r);
    CHECK(rc == CONCLAVE_UNIMPLEMENTED || /* Apache's before 3.7, and 3.8 up to some release */
          (rc == 0 && r->identities_count == 1 && strcmp(r->identities[0].scheme, "ip") == 0 &&
           strcmp(r->identities[0].id, "127.0.0.1") == 0));
    conclave_reply_free(r);
    conclave_client_close(client, WAIT_MS);
}

static void remove_tree(struct conclave_client *client, const char *path)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, path, 0);
    struct conclave_reply *r = NULL;
    if (conclave_call(client, &op, &r) == 0) {
        for (size_t i = 0; i < r->children_count; i++) {
            char child[512];
            snprintf(child, sizeof child, "%s/%s", path, r->children[i]);
            remove_tree(client, child);
        }
        (void)remove_node(client, path);
    }
    conclave_reply_free(r);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*fn)(void);
    } tests[] = {
        {"all operations", test_all_operations},
        {"many threads", test_many_threads},
        {"re-attach", test_reattach},
        {"reply lost", test_reply_lost},
        {"expiry", test_expiry},
        {"blocked callback", test_blocked_callback},
        {"request timeout", test_request_timeout},
        {"close under waiters", test_close_under_waiters},
        {"close inside a callback", test_close_inside_callback},
        {"own loop", test_own_loop},
        {"libuv", test_libuv},
        {"bad servers in the list", test_bad_servers_in_the_list},
        {"fork", test_fork},
        {"auth", test_auth},
        {"watch removed", test_watch_remove},
        {"persistent watch", test_persistent_watch},
        {"persistent watch resumes", test_persistent_watch_resumes},
        {"persistent watch inside", test_persistent_watch_inside},
        {"newer operations", test_newer_operations},
    };
    if (argc < 3) {
        fprintf(stderr, "usage: client_test SERVER_PORT NAME [TEST]\n");
        return 64;
    }
    server_port = (uint16_t)strtoul(argv[1], NULL, 10);
    setvbuf(stdout, NULL, _IOLBF, 0);
    char servers[64];
    snprintf(servers, sizeof servers, "127.0.0.1:%u", server_port);
    struct conclave_client *client = open_to(servers, NULL);
    remove_tree(client, "/client_test");
    CHECK(create(client, "/client_test", CONCLAVE_PERSISTENT) == 0);
    uv_loop_t loop; /* libuv keeps descriptors of its own from its first loop on */
    uv_loop_init(&loop);
    uv_loop_close(&loop);
    int descriptors = open_descriptors();
    int failed = 0;
    int count = 0;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (argc > 3 && strcmp(argv[3], tests[i].name) != 0) {
            continue;
        }
        checks_failed = 0;
        int64_t start_ms = now_ms();
        tests[i].fn();
        /* A lookup that was given up ends by itself, a moment later. */
        for (int wait = 0; wait < 100 && open_descriptors() > descriptors; wait++) {
            sleep_ms(50);
        }
        CHECK(open_descriptors() == descriptors);
        printf("%s %s: %s (%.1f s)\n", checks_failed == 0 ? "ok" : "FAILED", argv[2], tests[i].name,
               (double)(now_ms() - start_ms) / 1000);
        failed += checks_failed != 0;
        count++;
    }
    remove_tree(client, "/client_test");
    conclave_client_close(client, WAIT_MS);
    printf("%d passed, %d failed\n", count - failed, failed);
    return failed != 0;
}
