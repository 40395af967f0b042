/*
 * What the server measures for operators, under the names of Apache ZooKeeper 3.9 (ServerMetrics.java) where it has
 * one, otherwise beginning with conclave_. One row per figure; the struct and the table
 * (daemon/metric_table.h) follow from the lists.
 *
 * Times are kept in microseconds where `scale` is 0.001: ZooKeeper's names mean milliseconds.
 */
#ifndef FRONT_LIMITS_SERVER_METRICS_H
#define FRONT_LIMITS_SERVER_METRICS_H

#include "base/metrics.h"

/* X(name, help) */
#define SERVER_COUNTERS(X)                                                                         \
    X(bytes_received_count, "Bytes of requests read from clients")                                 \
    X(response_bytes, "Bytes of replies given to clients")                                         \
    X(watch_bytes, "Bytes of watch events given to clients")                                       \
    X(connection_request_count, "Session requests: new sessions and sessions taken up again")      \
    X(connection_revalidate_count, "Sessions taken up again")                                      \
    X(connection_rejected, "Connections refused: over a limit, or out of descriptors")             \
    X(connection_drop_count, "Connections that ended, for whatever reason")                        \
    X(sessionless_connections_expired, "Connections closed because no session request came")       \
    X(stale_sessions_expired, "Sessions that expired")                                             \
    X(request_throttle_wait_count, "Times that a connection had to wait for other requests")       \
    X(unrecoverable_error_count, "Failures after which the server takes no more writes")           \
    X(unsuccessful_handshake, "TLS handshakes that failed, on either side")                        \
    X(snapshot_error_count, "Snapshots asked for over HTTP that failed")                           \
    X(snapshot_rate_limited_count, "Snapshots asked for over HTTP too soon")                       \
    X(restore_error_count, "Restores over HTTP that failed")                                       \
    X(restore_rate_limited_count, "Restores asked for over HTTP too soon")                         \
    X(conclave_refused_connections, "Connections refused over maxCnxns or the limit of files")     \
    X(conclave_refused_connections_address, "Connections refused over maxClientCnxns")             \
    X(conclave_refused_tls_handshakes, "TLS handshakes refused or dropped over a limit")           \
    X(conclave_reading_paused, "Times that nothing more was read of a connection for a while")     \
    X(conclave_waits_address_bytes, "Waits of a connection for its address's bytes")               \
    X(conclave_waits_buffers, "Waits of a connection until its address or all keep fewer bytes")   \
    X(conclave_waits_share, "Waits of a connection that had its share of the requests in work")    \
    X(conclave_answers_refused, "Large answers refused because clients did not read others")       \
    X(conclave_growth_refused, "Writes refused because the data reached maxDataBytes")             \
    X(conclave_slow_clients_cut, "Connections cut off because they did not read")                  \
    X(conclave_auth_put_off, "Connections ended instead of a password's check: over a limit")      \
    X(conclave_auth_required, "Connections closed because they had not authenticated")             \
    X(conclave_watches_refused, "Watches refused over a limit")                                    \
    X(conclave_sessions_refused, "Sessions refused over a limit")                                  \
    X(conclave_requests_throttled, "Requests refused over the rate of their address")              \
    X(conclave_requests_oversized,                                                                 \
      "Requests refused before the log: too many operations, ids or ACL entries, too long paths")  \
    X(conclave_replies_oversized, "Reads refused because their answer was too large")              \
    X(conclave_writes_repeated, "Writes that came again and got their first answer")               \
    X(conclave_events_hidden, "Watch events not told for want of the permission READ")             \
    X(conclave_quota_exceeded, "Writes beyond a soft or hard quota")                               \
    X(conclave_fenced_writes_refused, "Writes below a bound prefix by others than the holder")     \
    X(conclave_token_checks, "Questions over HTTP whether a token is the newest")                  \
    X(conclave_token_checks_stale, "Those of them that were answered by no")

/* X(name, scale, help) */
#define SERVER_SUMMARIES(X)                                                                        \
    X(readlatency, 0.001, "Time from reading a request to its reply, for reads, ms")               \
    X(updatelatency, 0.001, "Time from reading a request to its reply, for writes, ms")            \
    X(fsynctime, 0.001, "Time of one sync of the log, ms")                                         \
    X(snapshottime, 1, "Time of one snapshot until it is durable, ms")                             \
    X(restore_time, 1, "Time of a restore over HTTP until it is done, ms")                         \
    X(dbinittime, 1, "Time to recover the state at start, ms")                                     \
    X(startup_txns_loaded, 1, "Writes replayed from the log at start")                             \
    X(sync_processor_batch_size, 1, "Writes in one log entry")                                     \
    X(node_created_watch_count, 1, "Watchers told of one creation")                                \
    X(node_deleted_watch_count, 1, "Watchers told of one deletion")                                \
    X(node_changed_watch_count, 1, "Watchers told of one change of data")                          \
    X(node_children_watch_count, 1, "Watchers told of one change of children")                     \
    X(jvm_pause_time_ms, 1, "Times for which this process did not run, ms; there is no JVM")

struct server_metrics {
#define SERVER_METRIC_FIELD(name, ...) uint64_t name;
    SERVER_COUNTERS(SERVER_METRIC_FIELD)
#undef SERVER_METRIC_FIELD
#define SERVER_METRIC_FIELD(name, ...) struct summary name;
    SERVER_SUMMARIES(SERVER_METRIC_FIELD)
#undef SERVER_METRIC_FIELD
    int64_t response_last; /* bytes of a reply; -1: none yet */
    int64_t response_min;
    int64_t response_max;
};

/* Everything begins anew, as the four-letter word srst wants it. Also the start. */
void server_metrics_reset(struct server_metrics *m);

#endif
