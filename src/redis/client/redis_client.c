/* Options, opening and closing of a client. */
#include "redis/client/redis_client.h"

#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS INT64_C(1000000)

enum {
    TIME_MAX_MS = 24 * 3600 * 1000,
    CONNECTIONS_MAX = 1024,
    REPLY_LEAST = 65536,
    RETRIES_MAX = 1000000,
    REPLICAS_MAX = 1000,
    DATABASE_MAX = 1000000,
    OPTIONS_MAX = 4096, /* bytes: a larger size was never set */
};

/* Structs of programs that were built with older or newer headers: conclave/error.h. */
static bool options_read(struct conclave_redis_client_options *own,
                         const struct conclave_redis_client_options *given)
{
    const uint8_t *bytes = (const uint8_t *)given;
    size_t size = given == NULL ? 0 : given->size;
    if (size <= sizeof(size_t) || size > OPTIONS_MAX) {
        return false;
    }
    for (size_t i = sizeof *own; i < size; i++) {
        if (bytes[i] != 0) {
            return false; /* set, and not known here */
        }
    }
    size_t known = size < sizeof *own ? size : sizeof *own;
    memcpy((uint8_t *)own + sizeof(size_t), bytes + sizeof(size_t), known - sizeof(size_t));
    return true;
}

static bool is_within(int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most;
}

/* What conclave_redis_open does not check itself. */
static bool options_are_valid(const struct conclave_redis_client_options *o)
{
    return (o->user == NULL || o->password != NULL) && is_within(o->database, 0, DATABASE_MAX) &&
           is_within(o->reads, 0, CONCLAVE_REDIS_READS_REPLICA_OR_MASTER) &&
           (o->layout == CONCLAVE_REDIS_LAYOUT_NATIVE || o->reads == CONCLAVE_REDIS_READS_MASTER) &&
           o->max_lag_bytes >= -1 && is_within(o->wait_replicas, 0, REPLICAS_MAX) &&
           is_within(o->wait_ms, 1, TIME_MAX_MS) && is_within(o->timeout_ms, 1, TIME_MAX_MS) &&
           is_within(o->connect_timeout_ms, 1, TIME_MAX_MS) &&
           is_within(o->answer_timeout_ms, 1, TIME_MAX_MS) &&
           is_within(o->retries, 0, RETRIES_MAX) && is_within(o->connections, 1, CONNECTIONS_MAX) &&
           o->reply_max >= REPLY_LEAST && o->reply_max <= SIZE_MAX / 4;
}

static void credentials_finish(struct redis_credentials *c)
{
    free(c->user);
    text_wipe(&c->password);
    tls_context_release(c->tls);
}

/* A failure leaves what was made, for credentials_finish. */
static int credentials_make(struct redis_credentials *c,
                            const struct conclave_redis_client_options *o)
{
    char why[TLS_TEXT_MAX];
    struct tls_settings tls = {.peer = TLS_PEER_NEED,
                               .cert_file = o->cert_file,
                               .key_file = o->key_file,
                               .trust_file = o->ca_file};
    int error = 0;
    c->database = o->database;
    c->tls_any_name = o->tls_any_name;
    c->reply_max = o->reply_max;
    if (o->user != NULL) {
        error = text_replace(&c->user, o->user);
    }
    if (error == 0 && o->password != NULL) {
        error = text_replace(&c->password, o->password);
    }
    if (error == 0 &&
        (o->tls || o->ca_file != NULL || o->cert_file != NULL || o->key_file != NULL)) {
        error = tls_context_create(&tls, &c->tls, why);
    }
    return error;
}

static int redis_client_follow(struct conclave_redis_client *c, struct conclave_recipes *recipes,
                               const struct conclave_redis_client_options *o)
{
    struct conclave_redis_options follow = CONCLAVE_REDIS_OPTIONS_INIT;
    follow.cluster = o->cluster;
    follow.path = o->path;
    follow.layout = o->layout;
    follow.stale_ms = o->stale_ms;
    return conclave_redis_open(recipes, &follow, NULL, NULL, &c->redis);
}

int conclave_redis_client_open(struct conclave_recipes *recipes,
                               const struct conclave_redis_client_options *options,
                               struct conclave_redis_client **ret)
{
    struct conclave_redis_client_options own = CONCLAVE_REDIS_CLIENT_OPTIONS_INIT;
    if (!options_read(&own, options) || !options_are_valid(&own)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_redis_client *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return CONCLAVE_ENOMEM;
    }
    c->pid = getpid();
    int error = credentials_make(&c->credentials, &own);
    if (error != 0) {
        goto out;
    }
    error = connection_pool_init(&c->pool, (size_t)own.connections);
    if (error != 0) {
        goto out;
    }
    error = redis_client_follow(c, recipes, &own);
    if (error != 0) {
        connection_pool_finish(&c->pool);
        goto out;
    }
    own.user = own.password = own.ca_file = own.cert_file = own.key_file = NULL;
    own.cluster = own.path = NULL;
    c->options = own;
    command_targets_init(&c->targets, c->redis, own.max_lag_bytes, own.stale_ms);
    thread_signals_init(&c->problem_signals);
    *ret = c;
    return 0;
out:
    credentials_finish(&c->credentials);
    free(c);
    return error;
}

void conclave_redis_client_close(struct conclave_redis_client *c)
{
    if (c->pid == getpid()) {
        connection_pool_close(&c->pool);
        conclave_redis_close(c->redis); /* wakes the commands that wait for a master */
    }
}

int conclave_redis_client_close_wait(struct conclave_redis_client *c, int64_t timeout_ms)
{
    int64_t now_ns = clock_monotonic_ns(clock_system());
    bool ends = timeout_ms != CONCLAVE_FOREVER && timeout_ms <= TIME_MAX_MS;
    if (c->pid != getpid()) {
        return CONCLAVE_EFORK;
    }
    conclave_redis_client_close(c);
    int error = conclave_redis_close_wait(c->redis, timeout_ms);
    if (error == 0) {
        error = connection_pool_wait_end(&c->pool, ends ? now_ns + timeout_ms * MS : INT64_MAX);
    }
    return error;
}

void conclave_redis_client_destroy(struct conclave_redis_client *c)
{
    if (c == NULL || c->pid != getpid()) {
        return;
    }
    if (connection_pool_wait_end(&c->pool, 0) != 0 || !connection_pool_is_closing(&c->pool)) {
        (void)fprintf(stderr, "conclave: conclave_redis_client_destroy: the client is open: first "
                              "call conclave_redis_client_close_wait\n");
        abort();
    }
    conclave_redis_destroy(c->redis);
    command_targets_finish(&c->targets);
    connection_pool_finish(&c->pool);
    credentials_finish(&c->credentials);
    thread_signals_finish(&c->problem_signals);
    free(c);
}

void redis_client_note(struct conclave_redis_client *c, const char *server, const char *why)
{
    thread_signals_lock(&c->problem_signals);
    if (server[0] != '\0') {
        snprintf(c->problem, sizeof c->problem, "%.100s: %.150s", server, why);
    } else {
        snprintf(c->problem, sizeof c->problem, "%.250s", why);
    }
    c->problem[strcspn(c->problem, "\r\n")] = '\0';
    thread_signals_unlock(&c->problem_signals);
}

void conclave_redis_client_problem(struct conclave_redis_client *c, char *text, size_t size)
{
    thread_signals_lock(&c->problem_signals);
    if (size > 0) {
        snprintf(text, size, "%s", c->problem);
    }
    thread_signals_unlock(&c->problem_signals);
}
