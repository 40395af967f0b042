#include "server/metrics.h"

#include "server/server.h"

/* X(name, whether it has a fraction, expression over `s`, help) */
#define SERVER_GAUGES(X)                                                                           \
    X(avg_latency, true, s->latency_avg_ms, "Mean time from reading a request to its reply, ms")   \
    X(min_latency, false, s->latency_min_ms, "Least of these times, ms")                           \
    X(max_latency, false, s->latency_max_ms, "Greatest of these times, ms")                        \
    X(packets_received, false, s->service.packets_received, "Requests read")                       \
    X(packets_sent, false, s->service.packets_sent, "Replies and events given to clients")         \
    X(num_alive_connections, false, s->port.connections, "Client connections")                     \
    X(outstanding_requests, false, s->outstanding, "Requests being worked on")                     \
    X(uptime, false, s->uptime_ms, "Time since the start, ms")                                     \
    X(znode_count, false, s->state.nodes, "Znodes; the root counts twice, as in ZooKeeper")        \
    X(watch_count, false, s->watches.watches, "Watches")                                           \
    X(ephemerals_count, false, s->state.ephemerals, "Ephemeral znodes")                            \
    X(approximate_data_size, false, s->state.data_bytes, "Bytes of all paths and data")            \
    X(global_sessions, false, s->sessions, "Sessions")                                             \
    X(last_client_response_size, false, s->metrics->response_last, "Bytes of the latest reply")    \
    X(min_client_response_size, false, s->metrics->response_min, "Bytes of the smallest reply")    \
    X(max_client_response_size, false, s->metrics->response_max, "Bytes of the largest reply")     \
    X(auth_failed_count, false, s->service.auth_failed, "Auth requests refused")                   \
    X(outstanding_tls_handshake, false, s->port.tls_handshakes, "TLS handshakes under way")        \
    X(conclave_outstanding_bytes, false, s->outstanding_bytes, "Bytes of requests in work")        \
    X(conclave_connections_max, false, s->port.connections_max, "Most client connections")         \
    X(conclave_sessions_max, false, s->limits->sessions_max, "Most sessions")                      \
    X(conclave_watches_max, false, s->limits->watches_total_max, "Most watches")                   \
    X(conclave_outstanding_max, false, s->limits->outstanding_max, "Most requests in work")        \
    X(conclave_outstanding_bytes_max, false, s->limits->outstanding_bytes_max, "Most bytes")       \
    X(conclave_watched_paths, false, s->watches.paths, "Paths with at least one watch")            \
    X(conclave_watch_memory_bytes, false, s->watches.memory, "Memory of the watches")              \
    X(conclave_zxid, false, s->zxid, "Number of the newest change applied")                        \
    X(conclave_oldest_write_ms, false, s->oldest_write_ms, "Age of the oldest unanswered write")   \
    X(conclave_log_term, false, s->replication.term, "Term of the replicated log")                 \
    X(conclave_log_last_index, false, s->replication.last_index, "Newest entry of the log")        \
    X(conclave_log_commit_index, false, s->replication.commit_index, "Newest committed entry")     \
    X(conclave_log_applied_index, false, s->replication.applied_index, "Newest applied entry")     \
    X(conclave_log_bytes, false, s->replication.log_bytes, "Bytes of the log's segments")          \
    X(conclave_snapshot_index, false, s->replication.snapshot_index, "Entry of the newest snapshot")

#define SERVER_READ(gauge, fraction, expression, help)                                             \
    METRIC_GAUGE_READ(gauge, struct server_stats, s, expression)
SERVER_GAUGES(SERVER_READ)

#define COUNTER_ROW(counter, text)                                                                 \
    {.name = #counter,                                                                             \
     .kind = METRIC_COUNTER,                                                                       \
     .offset = offsetof(struct server_metrics, counter),                                           \
     .scale = 1,                                                                                   \
     .help = (text)},
#define SUMMARY_ROW(summary, factor, text)                                                         \
    {.name = #summary,                                                                             \
     .kind = METRIC_SUMMARY,                                                                       \
     .offset = offsetof(struct server_metrics, summary),                                           \
     .scale = (factor),                                                                            \
     .help = (text)},

const struct metric_row server_metric_table[] = {
    SERVER_GAUGES(METRIC_GAUGE_ROW) SERVER_COUNTERS(COUNTER_ROW) SERVER_SUMMARIES(SUMMARY_ROW)};

const size_t server_metric_count = sizeof server_metric_table / sizeof server_metric_table[0];

void server_metrics_reset(struct server_metrics *m)
{
    metrics_reset(server_metric_table, server_metric_count, m);
    m->response_last = m->response_min = m->response_max = -1;
}
