/*
 * What the server measures for operators, under the names of Apache ZooKeeper 3.9 (ServerMetrics.java) where it has
 * one, otherwise with the prefix conclave_. One row per metric; the struct and the table (daemon/metric_table.h) follow
 * from the lists.
 *
 * Where `scale` is 0.001, times are kept in microseconds and shown in milliseconds, the unit of ZooKeeper's names.
 */
#ifndef FRONT_LIMITS_SERVER_METRICS_H
#define FRONT_LIMITS_SERVER_METRICS_H

#include "base/metrics.h"

/* X(name, help) */
#define SERVER_COUNTERS(X)                                                                         \
    X(bytes_received_count, "Bytes of requests read from clients")                                 \
    X(response_bytes, "Bytes of replies sent to clients")                                          \
    X(watch_bytes, "Bytes of watch events sent to clients")                                        \
    X(connection_request_count, "Session requests: new sessions and resumed sessions")             \
    X(connection_revalidate_count, "Sessions that a client resumed on another connection")         \
    X(connection_rejected, "Connections refused: over a limit, or no descriptors left")            \
    X(connection_drop_count, "Connections that ended, for any reason")                             \
    X(sessionless_connections_expired,                                                             \
      "Connections closed because they requested no session in time")                              \
    X(stale_sessions_expired, "Sessions that expired")                                             \
    X(request_throttle_wait_count, "Times that a connection waited for other requests")            \
    X(unrecoverable_error_count, "Failures after which the server accepts no more writes")         \
    X(unsuccessful_handshake, "TLS handshakes that failed, as server or client")                   \
    X(snapshot_error_count, "Snapshots requested over HTTP that failed")                           \
    X(snapshot_rate_limited_count, "Snapshots requested over HTTP too soon")                       \
    X(restore_error_count, "Restores over HTTP that failed")                                       \
    X(restore_rate_limited_count, "Restores requested over HTTP too soon")                         \
    X(conclave_refused_connections_total,                                                          \
      "Connections refused by maxCnxns or the limit of open files")                                \
    X(conclave_refused_connections_address_total, "Connections refused by maxClientCnxns")         \
    X(conclave_refused_tls_handshakes_total,                                                       \
      "TLS handshakes refused or dropped because of a limit")                                      \
    X(conclave_reading_paused_total, "Times that the server paused reading from a connection")     \
    X(conclave_waits_address_total, "Pauses because requests of the address had too many bytes")   \
    X(conclave_waits_buffers_total,                                                                \
      "Pauses because the address, or all clients, buffered too much")                             \
    X(conclave_waits_share_total, "Pauses because a connection had its share of requests")         \
    X(conclave_answers_refused_total,                                                              \
      "Large answers refused because clients did not read earlier ones")                           \
    X(conclave_growth_refused_total, "Writes refused because the data reached maxDataBytes")       \
    X(conclave_slow_clients_cut_total, "Connections closed because the client did not read")       \
    X(conclave_auth_put_off_total,                                                                 \
      "Connections closed because too many passwords were to be checked")                          \
    X(conclave_auth_required_total, "Connections closed because the client did not authenticate")  \
    X(conclave_watches_refused_total, "Watches refused because of a limit")                        \
    X(conclave_sessions_refused_total, "Sessions refused because of a limit")                      \
    X(conclave_requests_throttled_total,                                                           \
      "Requests refused because the address sent too many per second")                             \
    X(conclave_requests_oversized_total,                                                           \
      "Requests refused: too many operations, ids or ACL entries, or too long paths")              \
    X(conclave_replies_oversized_total, "Reads refused because their answer was too large")        \
    X(conclave_writes_repeated_total, "Repeated writes that got their first answer again")         \
    X(conclave_events_hidden_total, "Watch events withheld because the client lacks READ")         \
    X(conclave_quota_exceeded_total, "Writes beyond a soft or hard quota")                         \
    X(conclave_fenced_writes_refused_total,                                                        \
      "Refused writes below a bound prefix by clients that do not hold the lock")                  \
    X(conclave_slow_requests_total, "Requests slower than slowlog.threshold")                      \
    X(conclave_traces_exported_total, "Traces of requests that the collector took")                \
    X(conclave_traces_dropped_total,                                                               \
      "Traces of requests without room, or that the collector refused")                            \
    X(conclave_trace_exports_failed_total, "Requests to the collector that failed")                \
    X(conclave_clock_steps_total, "Steps of the system's clock of a second or more")               \
    X(conclave_token_checks_total, "Requests over HTTP that asked whether a token is the newest")  \
    X(conclave_token_checks_stale_total, "Requests over HTTP that asked about an old token")

/* X(name, scale, help) */
#define SERVER_SUMMARIES(X)                                                                        \
    X(readlatency, 0.001, "Time from reading a request to its reply, for reads, ms")               \
    X(updatelatency, 0.001, "Time from reading a request to its reply, for writes, ms")            \
    X(fsynctime, 0.001, "Time of one sync of the log, ms")                                         \
    X(snapshottime, 1, "Time until a snapshot is durable, ms")                                     \
    X(restore_time, 1, "Time of a restore over HTTP, ms")                                          \
    X(dbinittime, 1, "Time to recover the state at start, ms")                                     \
    X(startup_txns_loaded, 1, "Writes replayed from the log at start")                             \
    X(sync_processor_batch_size, 1, "Writes in one log entry")                                     \
    X(node_created_watch_count, 1, "Watchers notified of one creation")                            \
    X(node_deleted_watch_count, 1, "Watchers notified of one deletion")                            \
    X(node_changed_watch_count, 1, "Watchers notified of one change of data")                      \
    X(node_children_watch_count, 1, "Watchers notified of one change of children")                 \
    X(jvm_pause_time_ms, 1, "Times in which this process did not run, ms; there is no JVM")

/* X(field, metric, label or NULL, help or NULL): times, kept in microseconds and shown in seconds. */
#define SERVER_HISTOGRAMS(X)                                                                       \
    X(duration_read, "conclave_request_duration_seconds", "type=\"read\"",                         \
      "Time from reading a request to its reply")                                                  \
    X(duration_write, "conclave_request_duration_seconds", "type=\"write\"", NULL)                 \
    X(part_queue, "conclave_request_part_seconds", "part=\"queue\"",                               \
      "Time of writes in each part of their way, and of all requests in sending")                  \
    X(part_forward, "conclave_request_part_seconds", "part=\"forward\"", NULL)                     \
    X(part_disk, "conclave_request_part_seconds", "part=\"disk\"", NULL)                           \
    X(part_quorum, "conclave_request_part_seconds", "part=\"quorum\"", NULL)                       \
    X(part_apply, "conclave_request_part_seconds", "part=\"apply\"", NULL)                         \
    X(part_send, "conclave_request_part_seconds", "part=\"send\"", NULL)                           \
    X(fsync_duration, "conclave_fsync_duration_seconds", NULL, "Time of one sync of the log")

struct server_metrics {
#define SERVER_METRIC_FIELD(name, ...) uint64_t name;
    SERVER_COUNTERS(SERVER_METRIC_FIELD)
#undef SERVER_METRIC_FIELD
#define SERVER_METRIC_FIELD(name, ...) struct summary name;
    SERVER_SUMMARIES(SERVER_METRIC_FIELD)
#undef SERVER_METRIC_FIELD
#define SERVER_METRIC_FIELD(name, ...) struct histogram name;
    SERVER_HISTOGRAMS(SERVER_METRIC_FIELD)
#undef SERVER_METRIC_FIELD
    int64_t response_last; /* bytes of the latest reply; -1: none yet */
    int64_t response_min;
    int64_t response_max;
};

/* Resets everything, for the four-letter word srst and at the start. */
void server_metrics_reset(struct server_metrics *m);

#endif
