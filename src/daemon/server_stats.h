/* The figures of a whole server, gathered from its rooms for status and metrics. */
#ifndef DAEMON_SERVER_STATS_H
#define DAEMON_SERVER_STATS_H

#include "cluster/ensemble_status.h"
#include "cluster/replica.h"
#include "front/client_port.h"
#include "front/service.h"
#include "replication/replication.h"

struct server;

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
    size_t outstanding;       /* requests in progress */
    size_t outstanding_bytes; /* of these requests */
    int64_t zxid;
    int64_t uptime_ms;
    int64_t oldest_write_ms; /* age of the oldest unanswered write, 0: none */
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
