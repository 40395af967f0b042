/*
 * A program that writes to whichever Redis server is the master, found as one of three kinds of clients finds it, and
 * notes every write: for redis_test.py and the benchmark beside Redis Sentinel.
 *
 *     redis_actor znode|gem SERVERS PATH TAG wait|nowait INTERVAL_US
 *     redis_actor sentinel HOST:PORT,HOST:PORT,... NAME TAG wait|nowait INTERVAL_US
 *
 * Lines of its output, times in nanoseconds of the monotonic clock:
 *     on ADDRESS EPOCH                                   connected, and the server's role was checked
 *     ack SEQ SENT ACKED ADDRESS EPOCH REPLICAS         SET TAG:SEQ was acknowledged; "wait": by so many replicas
 *     miss SEQ SENT ADDRESS EPOCH REASON                its outcome is not known, or the server refused it
 * What was not acknowledged is not sent again: each number is written at most once. SIGTERM ends it.
 */
#include <conclave/redis.h>

#include <hiredis/hiredis.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MS = 1000, LOOK_MS = 10, SENTINELS_MAX = 8, SESSION_MS = 4000 };

static volatile sig_atomic_t stopping;

struct actor {
    struct conclave_redis *redis; /* NULL: by Sentinel */
    char *sentinels[SENTINELS_MAX];
    int sentinel_count;
    int sentinel_next;
    const char *name;
    const char *tag;
    bool wait;
    int64_t interval_us;
    int64_t seq;
    char address[280]; /* of the master it is connected to */
    int64_t epoch;
};

static void on_signal(int number)
{
    stopping = 1;
}

static int64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static bool may_go_on(const struct actor *a)
{
    return stopping == 0 && (a->redis == NULL || conclave_redis_may_write(a->redis, a->epoch) == 0);
}

/* --- one connection ----------------------------------------------------------------------- */

static redisContext *open_link(const char *host, int port)
{
    struct timeval limit = {.tv_usec = 300000};
    redisContext *link = redisConnectWithTimeout(host, port, limit);
    if (link != NULL && (link->err != 0 || redisSetTimeout(link, limit) != REDIS_OK)) {
        redisFree(link);
        link = NULL;
    }
    return link;
}

/* Waits for the answers to what was appended, no longer than the master may be written to. NULL: `*why`
 * says what was wrong, and the connection is of no use any more. */
static redisReply *answer(struct actor *a, redisContext *link, int64_t deadline_ns,
                          const char **why)
{
    void *reply = NULL;
    int done = 0;
    while (done == 0) {
        if (redisBufferWrite(link, &done) != REDIS_OK) {
            *why = link->errstr;
            return NULL;
        }
    }
    for (;;) {
        struct pollfd fd = {.fd = link->fd, .events = POLLIN};
        if (redisGetReplyFromReader(link, &reply) != REDIS_OK) {
            *why = link->errstr;
            return NULL;
        }
        if (reply != NULL) {
            return reply;
        }
        int ready = poll(&fd, 1, LOOK_MS);
        if (ready > 0 && redisBufferRead(link) != REDIS_OK) {
            *why = link->errstr;
            return NULL;
        }
        if (ready <= 0 && (!may_go_on(a) || now_ns() > deadline_ns)) {
            *why = may_go_on(a) ? "no answer" : "not the master any more";
            return NULL;
        }
    }
}

/* False: the connection is of no use any more. */
static bool write_one(struct actor *a, redisContext *link)
{
    const char *why = "";
    int64_t seq = ++a->seq;
    int64_t sent = now_ns();
    int64_t deadline = sent + ANSWER_MS * INT64_C(1000000);
    long long replicas = 0;
    if (!may_go_on(a)) {
        return false;
    }
    if (redisAppendCommand(link, "SET %s:%lld %lld", a->tag, (long long)seq, (long long)seq) !=
        REDIS_OK) {
        exit(1);
    }
    redisReply *set = answer(a, link, deadline, &why);
    bool acked = set != NULL && set->type == REDIS_REPLY_STATUS;
    if (acked && a->wait) {
        if (redisAppendCommand(link, "WAIT 1 %d", ANSWER_MS / 2) != REDIS_OK) {
            exit(1);
        }
        redisReply *copies = answer(a, link, deadline, &why);
        acked =
            copies !=
            NULL; /* else it is not known how many have it, and the program does not count on it */
        replicas = acked && copies->type == REDIS_REPLY_INTEGER ? copies->integer : 0;
        if (copies != NULL) {
            freeReplyObject(copies);
        }
    }
    if (acked) {
        printf("ack %" PRId64 " %" PRId64 " %" PRId64 " %s %" PRId64 " %lld\n", seq, sent, now_ns(),
               a->address, a->epoch, replicas);
    } else {
        printf("miss %" PRId64 " %" PRId64 " %s %" PRId64 " %s\n", seq, sent, a->address, a->epoch,
               set != NULL && set->type == REDIS_REPLY_ERROR ? set->str : why);
    }
    if (set != NULL) {
        freeReplyObject(set);
    }
    return acked;
}

static void write_on(struct actor *a, redisContext *link)
{
    printf("on %s %" PRId64 "\n", a->address, a->epoch);
    while (may_go_on(a) && write_one(a, link)) {
        (void)usleep((useconds_t)a->interval_us);
    }
}

/* --- by the record --------------------------------------------------------------------------- */

static bool check_by_info(struct actor *a, redisContext *link)
{
    redisReply *info = redisCommand(link, "INFO");
    bool good = info != NULL && info->type == REDIS_REPLY_STRING &&
                conclave_redis_check(a->redis, a->epoch, info->str, (size_t)info->len) == 0;
    if (info != NULL) {
        freeReplyObject(info);
    }
    return good;
}

static void follow_record(struct actor *a)
{
    struct conclave_redis_view *view = NULL;
    if (conclave_redis_wait_master(a->redis, 200, &view) != 0) {
        return;
    }
    redisContext *link = open_link(view->host, view->port);
    a->epoch = view->epoch;
    (void)snprintf(a->address, sizeof a->address, "%s", view->master);
    conclave_redis_view_free(view);
    if (link != NULL && check_by_info(a, link)) {
        write_on(a, link);
    }
    if (link != NULL) {
        redisFree(link);
    }
    (void)usleep(LOOK_MS * 1000);
}

/* --- by Sentinel -------------------------------------------------------------------------------- */

/* "host:port" into host and port. */
static int split(const char *address, char host[256])
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon - address > 255) {
        return 0;
    }
    memcpy(host, address, (size_t)(colon - address));
    host[colon - address] = '\0';
    return (int)strtol(colon + 1, NULL, 10);
}

/* The master by the next Sentinel that answers. */
static bool ask_sentinel(struct actor *a, char host[256], int *ret_port)
{
    const char *at = a->sentinels[a->sentinel_next];
    char sentinel[256];
    int port = split(at, sentinel);
    a->sentinel_next = (a->sentinel_next + 1) % a->sentinel_count;
    redisContext *link = open_link(sentinel, port);
    redisReply *reply =
        link == NULL ? NULL : redisCommand(link, "SENTINEL GET-MASTER-ADDR-BY-NAME %s", a->name);
    bool good = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2;
    if (good) {
        (void)snprintf(host, 256, "%s", reply->element[0]->str);
        *ret_port = (int)strtol(reply->element[1]->str, NULL, 10);
    }
    if (reply != NULL) {
        freeReplyObject(reply);
    }
    if (link != NULL) {
        redisFree(link);
    }
    return good;
}

static bool says_master(redisContext *link)
{
    redisReply *role = redisCommand(link, "ROLE");
    bool good = role != NULL && role->type == REDIS_REPLY_ARRAY && role->elements > 0 &&
                strcmp(role->element[0]->str, "master") == 0;
    if (role != NULL) {
        freeReplyObject(role);
    }
    return good;
}

static void follow_sentinel(struct actor *a)
{
    char host[256];
    int port = 0;
    redisContext *link = ask_sentinel(a, host, &port) ? open_link(host, port) : NULL;
    if (link != NULL && says_master(link)) {
        (void)snprintf(a->address, sizeof a->address, "%s:%d", host, port);
        write_on(a, link);
    }
    if (link != NULL) {
        redisFree(link);
    }
    (void)usleep(LOOK_MS * 1000);
}

/* --- start and end --------------------------------------------------------------------------------- */

static int by_record(struct actor *a, char **argv)
{
    struct conclave_client_options client_options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_redis_options options = CONCLAVE_REDIS_OPTIONS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    client_options.servers = argv[2];
    client_options.session_timeout_ms = SESSION_MS;
    options.path = argv[3];
    options.stale_ms = 2000;
    options.layout =
        strcmp(argv[1], "gem") == 0 ? CONCLAVE_REDIS_LAYOUT_GEM : CONCLAVE_REDIS_LAYOUT_NATIVE;
    int error = conclave_client_open(&client_options, &client);
    if (error != 0 || (error = conclave_client_start(client)) != 0 ||
        (error = conclave_recipes_open(client, &recipes)) != 0 ||
        (error = conclave_redis_open(recipes, &options, NULL, NULL, &a->redis)) != 0) {
        return error;
    }
    while (stopping == 0) {
        follow_record(a);
    }
    error = conclave_redis_close_wait(a->redis, 5000);
    if (error == 0) {
        conclave_redis_destroy(a->redis);
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 2000);
    }
    return error;
}

static int by_sentinel(struct actor *a, char **argv)
{
    char *rest = argv[2];
    a->name = argv[3];
    for (char *word; a->sentinel_count < SENTINELS_MAX && (word = strsep(&rest, ",")) != NULL;) {
        a->sentinels[a->sentinel_count++] = word;
    }
    while (stopping == 0) {
        follow_sentinel(a);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct actor a = {0};
    if (argc != 7) {
        fprintf(stderr,
                "usage: redis_actor znode|gem|sentinel SERVERS PATH TAG wait|nowait INTERVAL_US\n");
        return 64;
    }
    a.tag = argv[4];
    a.wait = strcmp(argv[5], "wait") == 0;
    a.interval_us = strtoll(argv[6], NULL, 10);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGTERM, on_signal);
    (void)signal(SIGPIPE, SIG_IGN);
    int error = strcmp(argv[1], "sentinel") == 0 ? by_sentinel(&a, argv) : by_record(&a, argv);
    if (error != 0) {
        fprintf(stderr, "redis_actor: %s\n", conclave_strerror(error));
    }
    return error == 0 ? 0 : 1;
}
