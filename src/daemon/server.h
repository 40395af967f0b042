/*
 * A whole server on a libuv loop: the client ports, the service, and the node behind it. For `conclave
 * server`, for `conclave demo` (in a thread of its own) and for tests.
 *
 * All functions belong to the loop's thread. SIGPIPE is blocked in that thread. Log lines go to
 * base/log.
 */
#ifndef DAEMON_SERVER_H
#define DAEMON_SERVER_H

#include "cluster/ensemble_status.h"
#include "cluster/replica.h"
#include "front/client_port.h"
#include "front/service.h"
#include "net/address.h"
#include "replication/replication.h"

struct server;

struct server_callbacks {
    void *ctx;

    /* Clients are served from now on. */
    void (*ready)(void *ctx, struct server *s);

    /* The server cannot go on (told once; clients were cut off). Call server_close. text says what
     * and where. */
    void (*failed)(void *ctx, int error, const char *text);
};

/*
 * Binds the port, recovers the data folder and starts; `ready` follows from the loop. Borrows the
 * strings of options until server_close is done. 0, or an error with *ret_text (free it) saying
 * what, where and what to do: CONCLAVE_EINVAL (a bad option), CONCLAVE_ERESOLVE, CONCLAVE_EBUSY and
 * CONCLAVE_EDISCONNECTED (the port cannot be had), the errors of replication_open (the data
 * folder). After an error the loop must be run until it has closed all handles.
 */
int server_open(uv_loop_t *loop, const struct server_options *options,
                const struct server_callbacks *callbacks, struct server **ret,
                char **ret_text) CONCLAVE_MUST_USE;

/* Numeric address of a client port; false when it is off. */
bool server_address(const struct server *s, enum client_door door, struct net_address *ret);

/* Reads the certificate files again, for connections accepted from now on. Files that cannot be
 * used leave things as they are, with a log line. */
void server_reload(struct server *s);

int64_t server_id(const struct server *s);

/* Stops accepting, finishes the writes on their way, sends their replies, closes everything (within
 * about a second when the disk works) and calls cb; s is gone then. */
void server_close(struct server *s, void (*cb)(void *ctx), void *ctx);

/* NULL while clients are served and writes are answered; otherwise why not, as a fixed text. */
const char *server_why_not_ready(const struct server *s);

/* What operators should know of a server that serves, as a fixed text; NULL: nothing. */
const char *server_warning(const struct server *s);

/* For the admin room: who is connected (as client_port_each), and what there is to be shown. */
void server_connections_each(const struct server *s, bool (*fn)(void *ctx, struct connection *c),
                             void *ctx);
struct service *server_service(struct server *s);
struct replica *server_node(struct server *s);
const struct server_options *server_options(const struct server *s);

/* The newest snapshot that is durable, and what stands in it. */
void server_snapshot(const struct server *s, struct server_snapshot *ret);

/* Takes a snapshot soon, unless one is being taken or nothing has changed since the newest. */
void server_take_snapshot(struct server *s);

/* Figures for status and metrics. */
struct server_stats {
    struct service_stats service;
    struct client_port_stats port;
    struct replication_stats replication;
    struct state_stats state;
    struct watch_stats watches;
    struct ensemble_stats ensemble;
    struct ensemble_status quorum;
    size_t sessions; /* of all servers */
    size_t local_sessions;
    size_t fence_bindings;
    size_t outstanding;       /* requests being worked on */
    size_t outstanding_bytes; /* of them */
    int64_t zxid;
    int64_t uptime_ms;
    int64_t oldest_write_ms; /* age of the oldest write that is not answered, 0: none */
    int64_t latency_min_ms;  /* of reads and writes */
    int64_t latency_max_ms;
    double latency_avg_ms;
    const char *mode;                     /* as replica_mode */
    int data_level;                       /* enum data_level */
    const struct account *account;        /* memory kept for all clients; borrowed */
    const struct client_limits *limits;   /* borrowed */
    const struct server_metrics *metrics; /* counters and summaries; borrowed */
};
void server_stats(const struct server *s, struct server_stats *ret);

#endif
