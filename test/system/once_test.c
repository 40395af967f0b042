/*
 * A client with exactly-once writes, for once_test.py:
 *
 *   once_test write SERVERS MS          writes without pause, many at a time, for so long
 *   once_test sweep SERVER_PORT CHROOT FIRST STEP
 *                                       through a proxy of its own to 127.0.0.1:SERVER_PORT, whose link is cut
 *                                       after every STEPth byte of a create and a set, both ways, from the FIRST on
 *   once_test plain SERVERS             says "granted" or "not granted", and writes once
 *
 * Writes are sequential creates below /once, sets of /once/counter and transactions of both. Their answers say how
 * often each was carried out: the Kth create is the Kth child, the Kth set makes version K. Whatever else is
 * answered, or that a write's outcome is not known, is told on stderr and ends it with exit code 1.
 */
#include "support/fault_proxy.h"

#include <conclave/client.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    WINDOW = 32, /* writes without an answer */
    SESSION_MS = 30000,
    WAIT_MS = 60000,
    SWEEP_BYTES = 250, /* of the writes of one step, or their answers, and then some */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int unanswered;
static atomic_int suspended;
static int32_t creates; /* asked for */
static int32_t sets;

static void die(const char *what, int64_t want, int64_t got)
{
    fprintf(stderr, "%s: %" PRId64 " instead of %" PRId64 "\n", what, got, want);
    exit(1);
}

static void on_state(struct conclave_client *client, enum conclave_state state, void *ctx)
{
    atomic_fetch_add(&suspended, state == CONCLAVE_STATE_SUSPENDED);
    if (state == CONCLAVE_STATE_LOST) {
        fprintf(stderr, "the session was lost\n");
        exit(1);
    }
}

static struct conclave_client *open_client(const char *servers)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    options.servers = servers;
    options.session_timeout_ms = SESSION_MS;
    options.exactly_once = true;
    options.on_state = on_state;
    int rc = conclave_client_open(&options, &client);
    rc = rc == 0 ? conclave_client_start(client) : rc;
    rc = rc == 0 ? conclave_client_wait_connected(client, WAIT_MS) : rc;
    if (rc != 0) {
        fprintf(stderr, "%s: %s\n", servers, conclave_strerror(rc));
        exit(1);
    }
    return client;
}

static struct conclave_reply *call(struct conclave_client *client, const struct conclave_op *op)
{
    struct conclave_reply *reply = NULL;
    int rc = conclave_call(client, op, &reply);
    if (rc != 0) {
        fprintf(stderr, "operation %d: %s\n", (int)op->type, conclave_strerror(rc));
        exit(1);
    }
    return reply;
}

static void create_node(struct conclave_client *client, const char *path)
{
    struct conclave_op op = conclave_op_create(path, "0", 1, CONCLAVE_PERSISTENT);
    conclave_reply_free(call(client, &op));
}

static void begin(struct conclave_client *client)
{
    create_node(client, "/once");
    create_node(client, "/once/counter");
    creates = 1; /* the counter is the first child */
    sets = 0;
}

/* --- requests and their expected answers ----------------------------------------------------------- */

struct server_query {
    int32_t child;   /* number that the new node must have, -1: none is made */
    int32_t version; /* that the counter must have, -1: it is not set */
};

static void check_child(const struct server_query *ask, const struct conclave_reply *reply)
{
    const char *number = reply->path != NULL ? strrchr(reply->path, '-') : NULL;
    if (number == NULL || strtol(number + 1, NULL, 10) != ask->child) {
        die("child", ask->child, number != NULL ? strtol(number + 1, NULL, 10) : -1);
    }
}

static void check_version(const struct server_query *ask, const struct conclave_reply *reply)
{
    if (reply->stat.version != ask->version) {
        die("version", ask->version, reply->stat.version);
    }
}

static void check(const struct server_query *ask, const struct conclave_reply *reply)
{
    if (reply->error != 0) {
        fprintf(stderr, "a write was answered %s\n", conclave_errname(reply->error));
        exit(1);
    }
    if (ask->child >= 0 && ask->version >= 0) {
        check_child(ask, reply->results[0]);
        check_version(ask, reply->results[1]);
    } else if (ask->child >= 0) {
        check_child(ask, reply);
    } else {
        check_version(ask, reply);
    }
}

static void on_reply(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    struct server_query *ask = ctx;
    check(ask, reply);
    free(ask);
    pthread_mutex_lock(&lock);
    unanswered--;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void submit(struct conclave_client *client, int32_t number)
{
    struct conclave_op parts[2] = {
        conclave_op_create("/once/n-", "x", 1, CONCLAVE_PERSISTENT_SEQUENTIAL),
        conclave_op_set("/once/counter", "x", 1, -1)};
    struct conclave_op multi = conclave_op_multi(parts, 2);
    int kind = number % 3;
    struct server_query *ask = malloc(sizeof *ask);
    *ask = (struct server_query){kind != 1 ? creates : -1, kind != 0 ? sets + 1 : -1};
    creates += kind != 1;
    sets += kind != 0;
    pthread_mutex_lock(&lock);
    unanswered++;
    pthread_mutex_unlock(&lock);
    int rc = conclave_submit(client, kind == 2 ? &multi : &parts[kind], on_reply, ask);
    if (rc != 0) {
        fprintf(stderr, "submit: %s\n", conclave_strerror(rc));
        exit(1);
    }
}

static void wait_below(int count)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_MS / 1000;
    pthread_mutex_lock(&lock);
    while (unanswered >= count) {
        if (pthread_cond_timedwait(&changed, &lock, &until) != 0) {
            fprintf(stderr, "no answer in time\n");
            exit(1);
        }
    }
    pthread_mutex_unlock(&lock);
}

/* In the end the tree has exactly the requested nodes. */
static void check_all(struct conclave_client *client)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/once", 0);
    op.linearizable = true;
    struct conclave_reply *reply = call(client, &op);
    if (reply->stat.num_children != creates) {
        die("children", creates, reply->stat.num_children);
    }
    conclave_reply_free(reply);
    op.path = "/once/counter";
    reply = call(client, &op);
    if (reply->stat.version != sets) {
        die("sets", sets, reply->stat.version);
    }
    conclave_reply_free(reply);
}

/* --- the ways ------------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void write_for(const char *servers, int64_t ms)
{
    struct conclave_client *client = open_client(servers);
    begin(client);
    printf("begun\n");
    fflush(stdout);
    int32_t writes = 0;
    for (int64_t end = now_ms() + ms; now_ms() < end; writes++) {
        wait_below(WINDOW);
        submit(client, writes);
    }
    wait_below(1);
    check_all(client);
    printf("%d writes, %d links lost\n", (int)writes, atomic_load(&suspended));
    conclave_client_close(client, 1000);
}

static void sweep(uint16_t server_port, const char *chroot, int first, int step)
{
    static const char *const directions[] = {"up", "down"};
    struct fault_proxy *proxy = fault_proxy_start(0, server_port);
    if (proxy == NULL) {
        perror("proxy");
        exit(1);
    }
    char host[64];
    snprintf(host, sizeof host, "127.0.0.1:%u%s", fault_proxy_port(proxy), chroot);
    struct conclave_client *client = open_client(host);
    begin(client);
    int32_t writes = 0;
    for (int at = first; at < SWEEP_BYTES; at += step) {
        for (int i = 0; i < 2; i++) {
            fault_proxy_do(proxy, "cut-at %s %d", directions[i], at);
            submit(client, writes++);
            submit(client, writes++);
            wait_below(1);
            fault_proxy_do(proxy, "pass");
        }
    }
    check_all(client);
    printf("%d writes, %d links lost\n", (int)writes, atomic_load(&suspended));
    conclave_client_close(client, 1000);
    fault_proxy_stop(proxy);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "write") == 0) {
        write_for(argv[2], strtol(argv[3], NULL, 10));
        return 0;
    }
    if (argc == 6 && strcmp(argv[1], "sweep") == 0) {
        sweep((uint16_t)strtoul(argv[2], NULL, 10), argv[3], atoi(argv[4]), atoi(argv[5]));
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "plain") == 0) {
        struct conclave_client *client = open_client(argv[2]);
        printf("%s\n", conclave_client_exactly_once(client) ? "granted" : "not granted");
        begin(client);
        submit(client, 0);
        wait_below(1);
        check_all(client);
        conclave_client_close(client, 1000);
        return 0;
    }
    fprintf(
        stderr,
        "usage: once_test write SERVERS MS | sweep SERVER_PORT CHROOT FIRST STEP | plain SERVERS\n");
    return 64;
}
