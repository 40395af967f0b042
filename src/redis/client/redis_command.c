/*
 * One command: a server, a connection, the exchange; and again, as long as nothing can have been executed twice.
 *
 * A try ends with an error and with `sent`: whether the server may have executed the command. A reply that refuses the
 * command as a whole counts as not sent.
 */
#include "base/backoff.h"
#include "base/clock.h"
#include "redis/client/redis_client.h"
#include "redis/client/reply_reader.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MS INT64_C(1000000)

enum { PAUSE_MIN_MS = 10, PAUSE_MAX_MS = 500, FALLBACK_MS = 500 };

struct redis_call {
    struct conclave_redis_client *client;
    enum conclave_redis_kind kind;
    struct buf bytes; /* the command, and WAIT after a write */
    bool waits;       /* there is a WAIT */
    int64_t deadline_ns;
    unsigned tries;
    /* of the present try */
    struct command_target target;
    bool sent;
    /* of the command */
    bool scripted; /* a program on the server writes its errors */
};

/* Commands that need a connection of their own, or change it for the next command. */
static const char *const OF_A_CONNECTION[] = {
    "ASKING",      "AUTH",       "CLIENT", "DISCARD",      "EXEC",      "HELLO",        "MONITOR",
    "MULTI",       "PSUBSCRIBE", "PSYNC",  "PUNSUBSCRIBE", "QUIT",      "READONLY",     "READWRITE",
    "REPLCONF",    "RESET",      "SELECT", "SSUBSCRIBE",   "SUBSCRIBE", "SUNSUBSCRIBE", "SYNC",
    "UNSUBSCRIBE", "UNWATCH",    "WAIT",   "WAITAOF",      "WATCH",
};

/* Replies by which a server says that it has not executed the command, and that another time or server is better. */
static const char *const REFUSALS[] = {"READONLY ", "LOADING ", "MASTERDOWN ", "NOREPLICAS ",
                                       "BUSY "};

static bool needs_a_connection(const char *word, size_t len)
{
    for (size_t i = 0; i < sizeof OF_A_CONNECTION / sizeof OF_A_CONNECTION[0]; i++) {
        if (strlen(OF_A_CONNECTION[i]) == len && strncasecmp(OF_A_CONNECTION[i], word, len) == 0) {
            return true;
        }
    }
    return false;
}

/* A script, a function, or a command of a module: after its error it may have written all the same. */
static bool is_scripted(const char *word, size_t len)
{
    return memchr(word, '.', len) != NULL || (len >= 4 && strncasecmp(word, "EVAL", 4) == 0) ||
           (len >= 5 && strncasecmp(word, "FCALL", 5) == 0);
}

static bool is_refusal(const struct conclave_redis_reply *reply)
{
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        if (reply->type == CONCLAVE_REDIS_REPLY_ERROR &&
            strncmp(reply->text, REFUSALS[i], strlen(REFUSALS[i])) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_write(const struct redis_call *call)
{
    return call->kind == CONCLAVE_REDIS_WRITE || call->kind == CONCLAVE_REDIS_WRITE_IDEMPOTENT;
}

static int may_write(const struct redis_call *call)
{
    return conclave_redis_may_write(call->client->redis, call->target.epoch);
}

/* While a server does not answer: the client is closed, or the server is the master no more. A master that is being
 * replaced still answers writes that it refuses. */
static int command_stop(void *ctx)
{
    const struct redis_call *call = ctx;
    if (connection_pool_is_closing(&call->client->pool)) {
        return CONCLAVE_ECLOSED;
    }
    return call->target.epoch != 0 && may_write(call) == CONCLAVE_EFENCED ? CONCLAVE_EFENCED : 0;
}

static struct redis_patience patience_of(struct redis_call *call, int64_t timeout_ms)
{
    int64_t end = clock_monotonic_ns(clock_system()) + timeout_ms * MS;
    return (struct redis_patience){.deadline_ns = end < call->deadline_ns ? end : call->deadline_ns,
                                   .stop = command_stop,
                                   .ctx = call};
}

/* --- the server ---------------------------------------------------------------------------- */

static int find_target(struct redis_call *call)
{
    struct conclave_redis_client *c = call->client;
    enum conclave_redis_reads reads = c->options.reads;
    int64_t deadline_ns = call->deadline_ns;
    bool to_replica = call->kind == CONCLAVE_REDIS_READ && reads != CONCLAVE_REDIS_READS_MASTER;
    if (to_replica && reads == CONCLAVE_REDIS_READS_REPLICA_OR_MASTER) {
        struct redis_patience brief = patience_of(call, FALLBACK_MS);
        deadline_ns = brief.deadline_ns;
        to_replica = call->tries % 2 == 0; /* after a replica that failed, the master */
    }
    if (to_replica) {
        int error = command_target_replica(&c->targets, deadline_ns, &call->target);
        if (error == CONCLAVE_EEMPTY) {
            redis_client_note(c, "", "no replica is fit to read from");
        }
        if (error != CONCLAVE_EEMPTY || reads == CONCLAVE_REDIS_READS_REPLICA) {
            return error;
        }
    }
    int error = command_target_master(&c->targets, deadline_ns, &call->target);
    if (error == CONCLAVE_ETIMEDOUT) {
        redis_client_note(c, "", "there is no master that may be written to");
    }
    return error;
}

static bool has_line(const char *text, const char *line)
{
    const char *at = strstr(text, line);
    return at != NULL && (at == text || at[-1] == '\n') && at[strlen(line)] == '\r';
}

/* Whether the server itself says that it is what it was chosen as. */
static int check_target(struct redis_call *call, struct redis_socket *socket,
                        const struct redis_patience *patience, char why[REDIS_PROBLEM_MAX])
{
    static const char *const INFO[] = {"INFO"};
    struct conclave_redis_reply *info = NULL;
    int error = redis_socket_ask(socket, 1, INFO, patience, &info);
    if (error == 0 && info->type != CONCLAVE_REDIS_REPLY_STRING) {
        snprintf(why, REDIS_PROBLEM_MAX, "to INFO: %.200s", info->text);
        error = CONCLAVE_EPROTO;
    } else if (error == 0 && call->target.epoch != 0) {
        error =
            conclave_redis_check(call->client->redis, call->target.epoch, info->text, info->len);
    } else if (error == 0) {
        bool good =
            has_line(info->text, "role:slave") && has_line(info->text, "master_link_status:up");
        error = good ? 0 : CONCLAVE_ENOTOWNER;
    }
    if (error == CONCLAVE_ENOTOWNER) {
        snprintf(why, REDIS_PROBLEM_MAX, "%s",
                 call->target.epoch != 0 ? "it is not the master that the record names"
                                         : "it is not a replica with a link to its master");
    }
    conclave_redis_reply_free(info);
    return error;
}

static int call_connect(struct redis_call *call, struct pooled_connection *to)
{
    struct conclave_redis_client *c = call->client;
    struct redis_patience patience = patience_of(call, c->options.connect_timeout_ms);
    char why[REDIS_PROBLEM_MAX] = "";
    assert(to->busy && to->socket == NULL);
    int error = redis_socket_open(&c->credentials, call->target.host, call->target.port, &patience,
                                  &to->socket, why);
    if (error == 0) {
        error = check_target(call, to->socket, &patience, why);
    }
    if (error != 0) {
        redis_client_note(c, call->target.server, why[0] != '\0' ? why : conclave_strerror(error));
    }
    return error;
}

/* --- the exchange --------------------------------------------------------------------------- */

/* The number of WAIT's answer. -1: none came, and the connection is of no use. */
static int64_t receive_replicas(struct redis_call *call, struct redis_socket *socket,
                                const struct redis_patience *patience)
{
    struct conclave_redis_reply *copies = NULL;
    int64_t replicas = -1;
    if (redis_socket_receive(socket, patience, &copies) == 0) {
        replicas = copies->type == CONCLAVE_REDIS_REPLY_INTEGER ? copies->integer : -1;
    }
    conclave_redis_reply_free(copies);
    return replicas;
}

/* Sends the command and takes its reply, which must count. */
static int call_exchange(struct redis_call *call, struct redis_socket *socket, bool *ret_keep,
                         struct conclave_redis_reply **ret)
{
    const struct conclave_redis_client_options *o = &call->client->options;
    struct conclave_redis_reply *reply = NULL;
    struct redis_patience patience =
        patience_of(call, o->answer_timeout_ms + (call->waits ? o->wait_ms : 0));
    int error = redis_socket_send(socket, buf_slice(&call->bytes), &patience, &call->sent);
    if (error == 0) {
        error = redis_socket_receive(socket, &patience, &reply);
    }
    if (error == 0 && !call->scripted && is_refusal(reply)) {
        redis_client_note(call->client, call->target.server, reply->text);
        call->sent = false;
        error = CONCLAVE_EBUSY;
        goto out;
    }
    if (error != 0) {
        redis_client_note(call->client, call->target.server,
                          error == CONCLAVE_ETIMEDOUT ? "no answer in time"
                                                      : conclave_strerror(error));
        goto out;
    }
    *ret_keep = true;
    if (call->waits) {
        reply->replicas = receive_replicas(call, socket, &patience);
        *ret_keep = reply->replicas >= 0;
    }
    int epoch_error = is_write(call) ? may_write(call) : 0;
    if (epoch_error == CONCLAVE_EFENCED || epoch_error == CONCLAVE_EDISCONNECTED) {
        error =
            epoch_error; /* the next master may not have it, or nobody knows whether there is one */
        goto out;
    }
    error = reply_set_server(reply, call->target.server, call->target.epoch);
    if (error == 0) {
        *ret = reply;
        return 0;
    }
out:
    conclave_redis_reply_free(reply);
    return error;
}

static int call_try(struct redis_call *call, struct conclave_redis_reply **ret)
{
    struct conclave_redis_client *c = call->client;
    struct pooled_connection *connection;
    bool keep = false;
    call->sent = false;
    int error = find_target(call);
    if (error == 0) {
        error = connection_pool_take(&c->pool, &call->target, call->deadline_ns, &connection);
    }
    if (error != 0) {
        return error;
    }
    if (connection->socket == NULL) {
        error = call_connect(call, connection);
    }
    if (error == 0 && call->target.epoch != 0) {
        error = may_write(call);
    }
    if (error == 0) {
        error = call_exchange(call, connection->socket, &keep, ret);
    }
    connection_pool_put(&c->pool, connection, keep);
    if (error != 0 && call->target.epoch == 0) {
        command_targets_doubt(&c->targets);
    }
    return error;
}

/* --- tries ------------------------------------------------------------------------------------ */

/* Whether another try can help, also at another server. */
static bool is_passing(int error)
{
    switch (error) {
    case CONCLAVE_EBUSY:
    case CONCLAVE_EDISCONNECTED:
    case CONCLAVE_EEMPTY:
    case CONCLAVE_EFENCED:
    case CONCLAVE_ENOTOWNER:
    case CONCLAVE_EPROTO:
    case CONCLAVE_ERESOLVE:
    case CONCLAVE_ETIMEDOUT:
    case CONCLAVE_ETLS:
        return true;
    default:
        return false;
    }
}

static int command_run(struct redis_call *call, struct conclave_redis_reply **ret)
{
    struct conclave_redis_client *c = call->client;
    bool unknown = false; /* whether a write was executed */
    for (;;) {
        int error = call_try(call, ret);
        if (error == 0) {
            return 0;
        }
        unknown = unknown || (call->sent && is_write(call));
        bool again = is_passing(error) && !(call->sent && call->kind == CONCLAVE_REDIS_WRITE);
        if (again) {
            int64_t pause_ms = backoff_pause(PAUSE_MIN_MS, PAUSE_MAX_MS, call->tries++);
            error = call->tries > (unsigned)c->options.retries
                        ? CONCLAVE_ETIMEDOUT
                        : connection_pool_pause(&c->pool, pause_ms, call->deadline_ns);
        }
        if (!again || error != 0) {
            return unknown                                ? CONCLAVE_CONNECTION_LOSS
                   : connection_pool_is_closing(&c->pool) ? CONCLAVE_ECLOSED
                                                          : error;
        }
    }
}

static int call_write_bytes(struct redis_call *call, int argc, const char *const *argv,
                            const size_t *lens)
{
    const struct conclave_redis_client_options *o = &call->client->options;
    char replicas[16];
    char wait_ms[24];
    const char *wait[] = {"WAIT", replicas, wait_ms};
    int error = redis_command_write(&call->bytes, argc, argv, lens);
    call->waits = is_write(call) && o->wait_replicas > 0;
    if (error == 0 && call->waits) {
        snprintf(replicas, sizeof replicas, "%d", o->wait_replicas);
        snprintf(wait_ms, sizeof wait_ms, "%lld", (long long)o->wait_ms);
        error = redis_command_write(&call->bytes, 3, wait, NULL);
    }
    return error;
}

int conclave_redis_command(struct conclave_redis_client *client, enum conclave_redis_kind kind,
                           int argc, const char *const *argv, const size_t *lens,
                           struct conclave_redis_reply **ret)
{
    struct redis_call call = {.client = client, .kind = kind};
    if (argc < 1 || (unsigned)kind > CONCLAVE_REDIS_READ_MASTER ||
        needs_a_connection(argv[0], lens != NULL ? lens[0] : strlen(argv[0]))) {
        return CONCLAVE_EINVAL;
    }
    if (client->pid != getpid()) {
        return CONCLAVE_EFORK;
    }
    call.scripted = is_scripted(argv[0], lens != NULL ? lens[0] : strlen(argv[0]));
    int error = connection_pool_enter(&client->pool);
    if (error != 0) {
        return error;
    }
    call.deadline_ns = clock_monotonic_ns(clock_system()) + client->options.timeout_ms * MS;
    buf_init(&call.bytes, 0);
    error = call_write_bytes(&call, argc, argv, lens);
    if (error == 0) {
        error = command_run(&call, ret);
    }
    buf_finish(&call.bytes);
    connection_pool_leave(&client->pool);
    return error;
}
