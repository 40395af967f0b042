/*
 * The library's login by SASL against a real server, through the fault proxy:
 *
 *   sasl_client PORT DIGEST-MD5 ID USER PASSWORD    the environment has no say
 *   sasl_client PORT GSSAPI ID HOST                 Kerberos by the environment; HOST as in the principal
 *   sasl_client PORT stalled HOST                   GSSAPI with a key server that never answers
 *
 * ID is what the server makes of the user. All nodes stand below /sasl_client. The last line counts the
 * tests.
 */
#include "support/fault_proxy.h"

#include <conclave/client.h>

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SESSION_MS = 4000, WAIT_MS = 20000, CLIENTS = 8 };

static uint16_t server_port;
static const char *id;
static struct conclave_sasl_options sasl = CONCLAVE_SASL_OPTIONS_INIT;
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

static struct conclave_client *open_with(uint16_t port, const struct conclave_sasl_options *login)
{
    char servers[64];
    char why[256] = "";
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_sasl_options mine = {0};
    snprintf(servers, sizeof servers, "127.0.0.1:%u", port);
    options.servers = servers;
    options.session_timeout_ms = SESSION_MS;
    if (login != NULL) {
        mine = *login;
        mine.error = why;
        mine.error_len = sizeof why;
        options.sasl = &mine;
    }
    struct conclave_client *client = NULL;
    int rc = conclave_client_open(&options, &client);
    if (rc != 0) {
        printf("open: %s (%s)\n", conclave_strerror(rc), why);
        exit(1);
    }
    return client;
}

static struct conclave_client *start_with(uint16_t port, const struct conclave_sasl_options *login)
{
    struct conclave_client *client = open_with(port, login);
    if (conclave_client_start(client) != 0) {
        exit(1);
    }
    return client;
}

static struct conclave_client *start_on(uint16_t port)
{
    struct conclave_client *client = start_with(port, &sasl);
    CHECK(conclave_client_wait_connected(client, WAIT_MS) == 0);
    return client;
}

static struct conclave_session session_of(const struct conclave_client *client)
{
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    conclave_client_session(client, &session);
    return session;
}

/* Without threads the calls run the loop. */
static bool await_state(const struct conclave_client *client, enum conclave_state state)
{
    int64_t until_ms = now_ms() + WAIT_MS;
    while (session_of(client).state != state && now_ms() < until_ms) {
        sleep_ms(2);
    }
    return session_of(client).state == state;
}

/* Whether the server takes this client for the user. */
static bool is_logged_in(struct conclave_client *client)
{
    struct conclave_op op = {.size = sizeof op, .type = CONCLAVE_OP_WHO_AM_I};
    struct conclave_reply *reply = NULL;
    bool found = false;
    if (conclave_call(client, &op, &reply) == 0) {
        for (size_t i = 0; i < reply->identities_count; i++) {
            const struct conclave_identity *one = &reply->identities[i];
            found = found || (strcmp(one->scheme, "sasl") == 0 && strcmp(one->id, id) == 0);
        }
    }
    conclave_reply_free(reply);
    return found;
}

static int create(struct conclave_client *client, const char *path, enum conclave_create_mode mode)
{
    struct conclave_op op = conclave_op_create(path, "v", 1, mode);
    return conclave_call(client, &op, NULL);
}

static int exists(struct conclave_client *client, const char *path)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    return conclave_call(client, &op, NULL);
}

static bool last_error_has(const struct conclave_client *client, const char *text)
{
    char why[512];
    conclave_client_last_error(client, why, sizeof why);
    if (strstr(why, text) == NULL) {
        printf("    last error: %s\n", why);
        return false;
    }
    return true;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_login(void)
{
    struct conclave_client *client = start_on(server_port);
    CHECK(is_logged_in(client));
    CHECK(session_of(client).state == CONCLAVE_STATE_CONNECTED);
    conclave_client_close(client, WAIT_MS);
    client = start_with(server_port, NULL);
    CHECK(!is_logged_in(client));
    conclave_client_close(client, WAIT_MS);
}

/* Requests made before the link are carried out under the id, not before the login. */
static void test_requests_wait_for_the_login(void)
{
    struct conclave_client *client = start_with(server_port, &sasl);
    const struct conclave_acl acl[] = {{CONCLAVE_PERM_ALL, "auth", ""}};
    struct conclave_op op = conclave_op_create("/sasl_client/mine", "v", 1, CONCLAVE_PERSISTENT);
    op.acl = acl;
    op.acl_count = 1;
    CHECK(conclave_call(client, &op, NULL) == 0);
    op = conclave_op_path(CONCLAVE_OP_GET, "/sasl_client/mine", 0);
    struct conclave_client *other = start_with(server_port, NULL);
    CHECK(conclave_call(other, &op, NULL) == CONCLAVE_NO_AUTH);
    conclave_client_close(other, WAIT_MS);
    CHECK(conclave_call(client, &op, NULL) == 0);
    conclave_client_close(client, WAIT_MS);
}

/* The link is cut: session, ephemeral node and id are there again. */
static void test_reattach(void)
{
    struct fault_proxy *proxy = fault_proxy_start(0, server_port);
    struct conclave_client *client = start_on(fault_proxy_port(proxy));
    struct conclave_session before = session_of(client);
    CHECK(create(client, "/sasl_client/e", CONCLAVE_EPHEMERAL) == 0);
    for (int i = 0; i < 3; i++) {
        fault_proxy_do(proxy, "cut");
        CHECK(is_logged_in(client) || is_logged_in(client)); /* the first may lose its link */
        CHECK(session_of(client).state == CONCLAVE_STATE_RECONNECTED);
        CHECK(session_of(client).id == before.id);
        CHECK(exists(client, "/sasl_client/e") == 0);
    }
    conclave_client_close(client, WAIT_MS);
    fault_proxy_stop(proxy);
}

static long connections(struct fault_proxy *proxy)
{
    char stats[256];
    fault_proxy_command(proxy, "stats", stats, sizeof stats);
    return strtol(stats + strlen("connections="), NULL, 10);
}

/* The link ends at each step of a login, and the next attempt gets through. */
static void test_cut_at_every_step(void)
{
    static const char *const directions[] = {"up", "down"};
    struct fault_proxy *proxy = fault_proxy_start(0, server_port);
    struct conclave_client *client = start_on(fault_proxy_port(proxy));
    struct conclave_session before = session_of(client);
    for (int frame = 1; frame <= 3; frame++) {
        for (int i = 0; i < 2; i++) {
            fault_proxy_do(proxy, "refuse");
            fault_proxy_do(proxy, "cut");
            CHECK(await_state(client, CONCLAVE_STATE_SUSPENDED));
            long made = connections(proxy);
            fault_proxy_do(proxy, "cut-frame %s %d", directions[i], frame);
            fault_proxy_do(proxy, "accept");
            CHECK(await_state(client, CONCLAVE_STATE_RECONNECTED));
            CHECK(is_logged_in(client) || is_logged_in(client)); /* it may be cut just now */
            CHECK(connections(proxy) >= made + 2);
            CHECK(session_of(client).id == before.id);
        }
    }
    conclave_client_close(client, WAIT_MS);
    fault_proxy_stop(proxy);
}

/* The same without threads: the calls run the loop. */
static void test_own_loop(void)
{
    struct fault_proxy *proxy = fault_proxy_start(0, server_port);
    struct conclave_client *client = open_with(fault_proxy_port(proxy), &sasl);
    CHECK(conclave_client_wait_connected(client, WAIT_MS) == 0);
    struct conclave_session before = session_of(client);
    CHECK(is_logged_in(client));
    fault_proxy_do(proxy, "cut");
    CHECK(is_logged_in(client) || is_logged_in(client));
    CHECK(session_of(client).id == before.id);
    conclave_client_close(client, WAIT_MS);
    fault_proxy_stop(proxy);
}

/* Closing in the middle of a login waits at most for the given time. */
static void test_close_while_logging_in(void)
{
    struct fault_proxy *proxy = fault_proxy_start(0, server_port);
    fault_proxy_do(proxy, "delay 300");
    for (int64_t at_ms = 0; at_ms <= 1600; at_ms += 400) {
        struct conclave_client *client = start_with(fault_proxy_port(proxy), &sasl);
        sleep_ms(at_ms);
        int64_t start_ms = now_ms();
        conclave_client_close(client, at_ms % 800 == 0 ? 0 : 100);
        CHECK(now_ms() - start_ms < 2000);
    }
    fault_proxy_stop(proxy);
}

static void *log_in(void *ret)
{
    struct conclave_client *client = start_with(server_port, &sasl);
    *(bool *)ret = conclave_client_wait_connected(client, WAIT_MS) == 0 && is_logged_in(client);
    conclave_client_close(client, WAIT_MS);
    return NULL;
}

static void test_many_at_once(void)
{
    pthread_t threads[CLIENTS];
    bool good[CLIENTS] = {false};
    for (int i = 0; i < CLIENTS; i++) {
        CHECK(pthread_create(&threads[i], NULL, log_in, &good[i]) == 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(good[i]);
    }
}

static void expect_refused(const struct conclave_sasl_options *login, const char *problem)
{
    struct conclave_client *client = start_with(server_port, login);
    CHECK(conclave_client_wait_connected(client, WAIT_MS) == CONCLAVE_AUTH_FAILED);
    CHECK(session_of(client).state == CONCLAVE_STATE_AUTH_FAILED);
    CHECK(last_error_has(client, problem));
    CHECK(exists(client, "/") == CONCLAVE_AUTH_FAILED);
    conclave_client_close(client, WAIT_MS);
}

static void test_refused(void)
{
    struct conclave_sasl_options wrong = sasl;
    if (sasl.user != NULL) {
        wrong.password = "wrong";
        expect_refused(&wrong, "the server refused the login by SASL");
        wrong.user = "nobody";
        expect_refused(&wrong, "the server refused the login by SASL");
    } else {
        wrong.host = "elsewhere.test";
        expect_refused(&wrong, "SASL: GSSAPI Error");
    }
}

/* The key server holds a login up, but neither the program's calls nor its close. */
static void test_stalled_key_server(void)
{
    struct conclave_client *client = start_with(server_port, &sasl);
    int64_t longest_ms = 0;
    int64_t until_ms = now_ms() + 3000;
    while (now_ms() < until_ms) {
        int64_t start_ms = now_ms();
        CHECK(session_of(client).state == CONCLAVE_STATE_CONNECTING);
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/", 0);
        CHECK(conclave_submit(client, &op, NULL, NULL) == 0);
        longest_ms = now_ms() - start_ms > longest_ms ? now_ms() - start_ms : longest_ms;
        sleep_ms(10);
    }
    CHECK(longest_ms < 500);
    CHECK(conclave_client_wait_connected(client, SESSION_MS) == CONCLAVE_ETIMEDOUT);
    CHECK(last_error_has(client, "the login by SASL timed out"));
    int64_t start_ms = now_ms();
    conclave_client_close(client, 200);
    CHECK(now_ms() - start_ms < 1500);
}

/* --- the run ---------------------------------------------------------------------------------- */

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

struct test {
    const char *name;
    void (*fn)(void);
};

static int run(const struct test *tests, size_t count, const char *name, int descriptors)
{
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        checks_failed = 0;
        int64_t start_ms = now_ms();
        tests[i].fn();
        /* A step that was given up ends by itself, a moment later. */
        for (int wait = 0; wait < 100 && open_descriptors() > descriptors; wait++) {
            sleep_ms(50);
        }
        int open = open_descriptors();
        CHECK(descriptors < 0 || open <= descriptors);
        descriptors = open < descriptors ? open : descriptors; /* the warm-up may end late, too */
        printf("%s %s: %s (%.1f s)\n", checks_failed == 0 ? "ok" : "FAILED", name, tests[i].name,
               (double)(now_ms() - start_ms) / 1000);
        failed += checks_failed != 0;
    }
    printf("%d passed, %d failed\n", (int)count - failed, failed);
    return failed != 0;
}

int main(int argc, char **argv)
{
    static const struct test TESTS[] = {
        {"login", test_login},
        {"requests wait for the login", test_requests_wait_for_the_login},
        {"re-attach", test_reattach},
        {"cut at every step", test_cut_at_every_step},
        {"own loop", test_own_loop},
        {"close while logging in", test_close_while_logging_in},
        {"many at once", test_many_at_once},
        {"refused", test_refused},
    };
    static const struct test STALLED[] = {{"stalled key server", test_stalled_key_server}};
    bool gssapi = argc == 5 && strcmp(argv[2], "GSSAPI") == 0;
    bool stalled = argc == 4 && strcmp(argv[2], "stalled") == 0;
    if (!gssapi && !stalled && (argc != 6 || strcmp(argv[2], "DIGEST-MD5") != 0)) {
        fprintf(stderr, "usage: sasl_client PORT DIGEST-MD5 ID USER PASSWORD | GSSAPI ID HOST | "
                        "stalled HOST\n");
        return 64;
    }
    server_port = (uint16_t)strtoul(argv[1], NULL, 10);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (stalled) {
        sasl.mechanism = "GSSAPI";
        sasl.host = argv[3];
        int code = run(STALLED, 1, "GSSAPI", -1);
        fflush(stdout);
        _exit(
            code); /* Kerberos gives up much later: its libraries are not to be unloaded under it */
    }
    id = argv[3];
    sasl.mechanism = argv[2];
    sasl.host = gssapi ? argv[4] : NULL;
    sasl.user = gssapi ? NULL : argv[4];
    sasl.password = gssapi ? NULL : argv[5];
    struct conclave_client *client = start_on(server_port);
    CHECK(create(client, "/sasl_client", CONCLAVE_PERSISTENT) == 0);
    conclave_client_close(client, WAIT_MS);
    return checks_failed != 0 ||
           run(TESTS, sizeof TESTS / sizeof *TESTS, argv[2], open_descriptors());
}
