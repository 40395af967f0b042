/*
 * A whole test of a fail-over, in milliseconds: two candidates for a lock, a server for tests, and the faults that hardly
 * ever happen elsewhere.
 *
 *     cc test_server.c -o test_server $(pkg-config --cflags --libs conclave)
 *     ./test_server          # exit code 0: the candidates are right
 *
 * It starts the program `conclave`, which CONCLAVE or PATH names.
 */
#include <conclave/easy.h>
#include <conclave/test_server.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int check_rc = (call);                                                                     \
        if (check_rc != 0) {                                                                       \
            fprintf(stderr, "line %d: %s: %s %s\n", __LINE__, #call, conclave_strerror(check_rc),  \
                    server != NULL ? conclave_test_server_problem(server) : "");                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static struct conclave_test_server *server;

static struct conclave_client *connect_client(void)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    options.servers = conclave_test_server_hosts(server);
    CHECK(conclave_client_open(&options, &client));
    CHECK(conclave_client_start(client));
    CHECK(conclave_client_wait_connected(client, 30000));
    return client;
}

static int64_t session_of(struct conclave_client *client)
{
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    conclave_client_session(client, &session);
    return session.id;
}

/* The leader's session ends: its node goes at once, and the other candidate can take its place. */
static void test_leader_expires(struct conclave_client *leader, struct conclave_client *other)
{
    CHECK(conclave_create(leader, "/leader", "one", 3, CONCLAVE_EPHEMERAL, NULL));
    EXPECT(conclave_create(other, "/leader", "two", 3, CONCLAVE_EPHEMERAL, NULL) ==
           CONCLAVE_NODE_EXISTS);
    CHECK(conclave_test_server_expire(server, session_of(leader)));
    CHECK(conclave_create(other, "/leader", "two", 3, CONCLAVE_EPHEMERAL, NULL));
    printf("the session of the leader expired, and the other leads\n");
}

/* The answer of a committed write is lost: it was done once, whatever the client says. */
static void test_answer_is_lost(struct conclave_client *client)
{
    char *data = NULL;
    CHECK(conclave_test_server_drop(server, session_of(client), CONCLAVE_TEST_AFTER, "create"));
    int rc = conclave_create(client, "/once", "1", 1, CONCLAVE_PERSISTENT, NULL);
    EXPECT(rc == 0 || rc == CONCLAVE_CONNECTION_LOSS);
    CHECK(conclave_client_wait_connected(client, 30000));
    CHECK(conclave_get(client, "/once", &data, NULL, NULL));
    EXPECT(strcmp(data, "1") == 0);
    free(data);
    printf("an answer was lost: the client got \"%s\", and the node is there\n",
           conclave_strerror(rc));
}

/* Twenty minutes pass at once: who is silent is gone, who lives stays. */
static void test_time_passes(struct conclave_client *live)
{
    struct conclave_client *silent = connect_client();
    uint64_t expired = 0;
    CHECK(conclave_create(silent, "/silent", "", 0, CONCLAVE_EPHEMERAL, NULL));
    CHECK(conclave_test_server_pause(server, session_of(silent), CONCLAVE_TEST_FOREVER));
    CHECK(conclave_exists(live, "/", NULL)); /* a sign of life */
    CHECK(conclave_test_server_advance(server, 20 * 60 * 1000, &expired));
    EXPECT(expired == 1);
    EXPECT(conclave_exists(live, "/silent", NULL) == CONCLAVE_NO_NODE);
    CHECK(conclave_test_server_clear(server));
    conclave_client_close(silent, 1000);
    printf("20 minutes passed, and the silent session ended\n");
}

static void test_report(struct conclave_client *client)
{
    struct conclave_test_report *report;
    CHECK(conclave_test_server_mark(server));
    for (int i = 0; i < 3; i++) {
        CHECK(conclave_set(client, "/once", "2", 1, -1, NULL));
    }
    CHECK(conclave_test_server_report(server, &report));
    EXPECT(conclave_test_report_requests(report, "setData") == 3);
    EXPECT(conclave_test_report_requests(report, "delete") == 0);
    EXPECT(report->sessions_open == report->session_count && report->session_count >= 1);
    conclave_test_report_free(report);
    printf("the report counts 3 writes\n");
}

/* What cannot be done is said. */
static void test_problems(void)
{
    EXPECT(conclave_test_server_expire(server, 0x77) == CONCLAVE_NO_NODE);
    EXPECT(strstr(conclave_test_server_problem(server), "no such session") != NULL);
    EXPECT(conclave_test_server_advance(server, -5, NULL) == CONCLAVE_EINVAL);
    EXPECT(conclave_test_server_drop(server, CONCLAVE_TEST_ALL, CONCLAVE_TEST_AFTER, "no&") ==
           CONCLAVE_EINVAL);
    struct conclave_test_server_options options = CONCLAVE_TEST_SERVER_OPTIONS_INIT;
    struct conclave_test_server *none = NULL;
    char *problem = NULL;
    options.program = "/nowhere/conclave";
    EXPECT(conclave_test_server_open(&options, &none, &problem) == CONCLAVE_EIO);
    EXPECT(none == NULL && problem != NULL && strstr(problem, "/nowhere/conclave") != NULL);
    free(problem);
}

int main(void)
{
    struct timespec began;
    struct timespec ready;
    char *problem = NULL;
    clock_gettime(CLOCK_MONOTONIC, &began);
    if (conclave_test_server_open(NULL, &server, &problem) != 0) {
        fprintf(stderr, "%s\n", problem != NULL ? problem : "out of memory");
        free(problem);
        return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &ready);
    printf("ready after %.1f ms: %s\n",
           (double)(ready.tv_sec - began.tv_sec) * 1e3 +
               (double)(ready.tv_nsec - began.tv_nsec) / 1e6,
           conclave_test_server_hosts(server));
    struct conclave_client *leader = connect_client();
    struct conclave_client *other = connect_client();
    test_leader_expires(leader, other);
    test_answer_is_lost(other);
    test_time_passes(other);
    test_report(other);
    test_problems();
    conclave_client_close(leader, 1000);
    CHECK(conclave_test_server_reset(server));
    conclave_client_close(other, 1000);
    int rc = conclave_test_server_close(server);
    server = NULL;
    CHECK(rc);
    printf("passed\n");
    return 0;
}
