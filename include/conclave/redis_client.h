/*
 * Commands to a set of Redis servers that `conclave redis-failover` manages: writes go to the master,
 * reads to a replica or the master. A command is repeated, also through a fail-over, as long as it is
 * certain that this does not execute a write twice.
 *
 * This is a library of its own, libconclave-redis (pkg-config: conclave-redis): conclave/redis.h, which
 * says who is the master, together with libhiredis. No other header includes this one.
 *
 *     const char *argv[] = {"INCR", "visits"};
 *     struct conclave_redis_reply *reply;
 *     int error = conclave_redis_command(redis, CONCLAVE_REDIS_WRITE, 2, argv, NULL, &reply);
 *
 * - A connection to a master belongs to one epoch. The server's own answer to INFO has to say that it is
 *   the master of that epoch; before each command conclave_redis_may_write has to say yes, and an
 *   answer to a write that arrives after the end of the epoch does not count.
 * - A write is repeated if no byte of it was sent, or if the server refused it as a whole: READONLY,
 *   LOADING, MASTERDOWN, NOREPLICAS, BUSY. Otherwise it is not known whether it was executed:
 *   CONCLAVE_CONNECTION_LOSS, unless the program declared it idempotent. Reads are always repeated.
 * - All is bounded: the time of a call and its tries, the size of a reply, the number of connections.
 *   Only a look-up of a host name takes as long as the system's resolver takes.
 *
 * Calls block. Any number of threads may use one client; each command has a connection of its own
 * while it runs, so successive commands can use different ones. Commands that change or occupy a
 * connection are refused: MULTI, WATCH, SELECT, SUBSCRIBE, WAIT, ... A script (EVAL) is one command,
 * and serves as a transaction; the program gets its errors as replies, and nothing repeats it after
 * one, as it may have written before. A write that is repeated after a lost answer may also be carried
 * out twice with other writes between: SET is then not without harm. Redis Cluster is not supported.
 */
#ifndef CONCLAVE_REDIS_CLIENT_H
#define CONCLAVE_REDIS_CLIENT_H

#include <conclave/redis.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_redis_client;

/* Where CONCLAVE_REDIS_READ reads. What a replica has not received yet is not in its answers. */
enum conclave_redis_reads {
    CONCLAVE_REDIS_READS_MASTER,
    CONCLAVE_REDIS_READS_REPLICA,           /* only from replicas that are fit: see max_lag_bytes */
    CONCLAVE_REDIS_READS_REPLICA_OR_MASTER, /* the master, while no replica is fit or answers */
};

enum conclave_redis_kind {
    CONCLAVE_REDIS_WRITE, /* to the master; executed at most once, unless it returned an error
                                        and the program repeats it */
    CONCLAVE_REDIS_WRITE_IDEMPOTENT, /* to the master; twice, or late, does no harm: SADD, ... */
    CONCLAVE_REDIS_READ,             /* to where the options say */
    CONCLAVE_REDIS_READ_MASTER,      /* to the master: sees all acknowledged writes */
};

/* Begin with CONCLAVE_REDIS_CLIENT_OPTIONS_INIT, then set what differs. Strings are copied. */
struct conclave_redis_client_options {
    size_t size;
    const char *cluster; /* these four as in struct conclave_redis_options */
    const char *path;
    enum conclave_redis_layout layout; /* the gem's: reads from the master only */
    int64_t stale_ms;

    /* Log-in at the servers. The user needs the rights for INFO, and for WAIT if wait_replicas is set. */
    const char *user;     /* NULL: AUTH with the password alone */
    const char *password; /* NULL: no AUTH */
    int database;
    bool tls;            /* each of the next three implies it */
    const char *ca_file; /* PEM; NULL: the system's authorities */
    const char *cert_file;
    const char *key_file;
    bool tls_any_name; /* the certificate may be for another name than the server's */

    enum conclave_redis_reads reads;
    int64_t max_lag_bytes; /* of a replica, by the managers' latest reports; -1: any */

    /* After each write, on the same connection: WAIT wait_replicas wait_ms. See replicas of the reply. */
    int wait_replicas; /* 0: no WAIT */
    int64_t wait_ms;

    int64_t timeout_ms;         /* for a call with all its tries */
    int64_t connect_timeout_ms; /* for a connection with TLS and log-in */
    int64_t
        answer_timeout_ms; /* for an answer, without wait_ms; longer than BLPOP etc. may block */
    int retries;           /* after the first try, with growing pauses of at most 500 ms */
    int connections;       /* at the same time, to all servers; commands wait for a free one */
    size_t reply_max;      /* bytes of a reply in memory; at least 65536 */
};
#define CONCLAVE_REDIS_CLIENT_OPTIONS_INIT                                                         \
    CONCLAVE_INIT_WITH(                                                                            \
        conclave_redis_client_options,                                                             \
        CONCLAVE_SET(stale_ms, 5000) CONCLAVE_SET(max_lag_bytes, -1) CONCLAVE_SET(wait_ms, 1000)   \
            CONCLAVE_SET(timeout_ms, 10000) CONCLAVE_SET(connect_timeout_ms, 1000)                 \
                CONCLAVE_SET(answer_timeout_ms, 2000) CONCLAVE_SET(retries, 64)                    \
                    CONCLAVE_SET(connections, 8) CONCLAVE_SET(reply_max, 64 * 1024 * 1024))

/* Opens a client; connects with the first command. `recipes` belongs to a client with threads
 * (conclave_client_start), and outlives it. 0, CONCLAVE_EINVAL (an option, or an unusable file of TLS), CONCLAVE_ENOMEM, or
 * what conclave_redis_open says. */
CONCLAVE_API int conclave_redis_client_open(struct conclave_recipes *recipes,
                                            const struct conclave_redis_client_options *options,
                                            struct conclave_redis_client **ret) CONCLAVE_MUST_USE;

enum conclave_redis_reply_type {
    CONCLAVE_REDIS_REPLY_NIL,
    CONCLAVE_REDIS_REPLY_STATUS, /* "OK" */
    CONCLAVE_REDIS_REPLY_ERROR,  /* "WRONGTYPE Operation against ..." */
    CONCLAVE_REDIS_REPLY_STRING,
    CONCLAVE_REDIS_REPLY_INTEGER,
    CONCLAVE_REDIS_REPLY_ARRAY,
};

/* A server's reply, or one item of it. */
struct conclave_redis_reply {
    enum conclave_redis_reply_type type;
    int64_t integer;  /* INTEGER */
    const char *text; /* STATUS, ERROR, STRING: any bytes, then a NUL; else "" */
    size_t len;
    const struct conclave_redis_reply *const *list; /* ARRAY */
    size_t count;

    /* Of a whole reply, not of an item: */
    const char *server; /* "host:port" */
    int64_t epoch;      /* of this master; 0: a replica answered */
    /* Of a write with wait_replicas: replicas that confirmed it within wait_ms. Fewer than asked for: the
     * write is on the master, and a fail-over may lose it. -1: not asked, or no answer. */
    int64_t replicas;
};

/*
 * Executes one command. argc >= 1; lens: the arguments' lengths, NULL: they are strings. 0: *ret_reply is the
 * server's reply, to be freed with conclave_redis_reply_free; it may be an ERROR of the command.
 *
 * CONCLAVE_CONNECTION_LOSS: a write was sent, and it is not known whether it was executed, or will be.
 * Any other error: a write was not executed.
 * CONCLAVE_ETIMEDOUT: no fit server within timeout_ms or the retries; conclave_redis_client_problem says why.
 * CONCLAVE_AUTH_FAILED: a server refused the log-in. CONCLAVE_EINVAL: no arguments, or a command that is
 * refused (above). CONCLAVE_ETOOBIG: the command is longer than 512 MiB, or a read's reply than reply_max.
 * CONCLAVE_ENOMEM, CONCLAVE_EDEADLK (in a callback), CONCLAVE_ECLOSED, CONCLAVE_EFORK, or why the
 * following of the master ended (CONCLAVE_NO_AUTH, ...).
 */
CONCLAVE_API int conclave_redis_command(struct conclave_redis_client *client,
                                        enum conclave_redis_kind kind, int argc,
                                        const char *const *argv, const size_t *lens,
                                        struct conclave_redis_reply **ret_reply) CONCLAVE_MUST_USE;

/* NULL is allowed. */
CONCLAVE_API void conclave_redis_reply_free(struct conclave_redis_reply *reply);

/* Copies the last reason why a server was not used, one line such as "10.0.0.1:6379: Connection refused"; "": there
 * was none. Shortened to size - 1 bytes. Any thread. */
CONCLAVE_API void conclave_redis_client_problem(struct conclave_redis_client *client, char *text,
                                                size_t size);

/* Ends the client: commands that run return soon (CONCLAVE_ECLOSED; CONCLAVE_CONNECTION_LOSS for a write that was
 * sent), no further one begins. Asynchronous, any number of times, also from a callback. */
CONCLAVE_API void conclave_redis_client_close(struct conclave_redis_client *client);

/* Closes, and waits until no command runs. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK (in a callback), CONCLAVE_EFORK. */
CONCLAVE_API int conclave_redis_client_close_wait(struct conclave_redis_client *client,
                                                  int64_t timeout_ms);

/* Frees a client for which conclave_redis_client_close_wait has returned 0. NULL is allowed. */
CONCLAVE_API void conclave_redis_client_destroy(struct conclave_redis_client *client);

#ifdef __cplusplus
}
#endif
#endif
