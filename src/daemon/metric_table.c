#include "daemon/metric_table.h"

#include "daemon/server.h"
#include "daemon/server_stats.h"

/* X(name, whether it has a fraction, expression over `s`, help) */
#define SERVER_GAUGES(X)                                                                           \
    X(avg_latency, true, s->latency_avg_ms, "Mean time from reading a request to its reply, ms")   \
    X(min_latency, false, s->latency_min_ms,                                                       \
      "Shortest time from reading a request to its reply, ms")                                     \
    X(max_latency, false, s->latency_max_ms,                                                       \
      "Longest time from reading a request to its reply, ms")                                      \
    X(packets_received, false, s->service.packets_received, "Requests read from clients")          \
    X(packets_sent, false, s->service.packets_sent, "Replies and events sent to clients")          \
    X(num_alive_connections, false, s->port.connections, "Client connections")                     \
    X(outstanding_requests, false, s->outstanding, "Requests in progress")                         \
    X(uptime, false, s->uptime_ms, "Time since the start, ms")                                     \
    X(znode_count, false, s->state.nodes, "Znodes; the root counts twice, as in ZooKeeper")        \
    X(watch_count, false, s->watches.watches, "Watches")                                           \
    X(ephemerals_count, false, s->state.ephemerals, "Ephemeral znodes")                            \
    X(approximate_data_size, false, s->state.data_bytes, "Bytes of all paths and data")            \
    X(global_sessions, false, s->sessions, "Sessions that all servers know")                       \
    X(local_sessions, false, s->local_sessions, "Sessions that only this server knows")            \
    X(last_client_response_size, false, s->metrics->response_last, "Bytes of the latest reply")    \
    X(min_client_response_size, false, s->metrics->response_min, "Bytes of the smallest reply")    \
    X(max_client_response_size, false, s->metrics->response_max, "Bytes of the largest reply")     \
    X(auth_failed_count, false, s->service.auth_failed, "Auth requests refused")                   \
    X(outstanding_tls_handshake, false, s->port.tls_handshakes, "TLS handshakes in progress")      \
    X(conclave_outstanding_bytes, false, s->outstanding_bytes, "Bytes of requests in progress")    \
    X(conclave_connections_max, false, s->port.connections_max, "Limit of client connections")     \
    X(conclave_sessions_max, false, s->limits->sessions_max, "Limit of sessions")                  \
    X(conclave_watches_max, false, s->limits->watches_total_max, "Limit of watches")               \
    X(conclave_outstanding_max, false, s->limits->outstanding_max,                                 \
      "Limit of requests in progress")                                                             \
    X(conclave_outstanding_bytes_max, false, s->limits->outstanding_bytes_max, "Most bytes")       \
    X(conclave_input_bytes, false, s->account->bytes[ACCOUNT_INPUT], "Unfinished requests, bytes") \
    X(conclave_output_bytes, false, s->account->bytes[ACCOUNT_OUTPUT], "Unread answers, bytes")    \
    X(conclave_ids_bytes, false, s->account->bytes[ACCOUNT_IDS], "Clients' ids, bytes")            \
    X(conclave_buffer_bytes_max, false, s->limits->buffers_max,                                    \
      "Limit of the bytes of these three")                                                         \
    X(conclave_watch_path_bytes, false, s->account->bytes[ACCOUNT_WATCHES],                        \
      "Bytes of the paths of watches, counted once per watch")                                     \
    X(conclave_watch_path_bytes_max, false, s->limits->watch_bytes_total_max,                      \
      "Limit of these bytes")                                                                      \
    X(conclave_data_bytes, false, s->state.memory, "Memory of nodes, sessions and results")        \
    X(conclave_data_bytes_max, false, s->limits->data_max, "Limit of this memory: maxDataBytes")   \
    X(conclave_data_level, false, s->data_level,                                                   \
      "1: the data are near their limit; 2: writes that add data are refused")                     \
    X(conclave_results, false, s->state.results, "Remembered results of writes")                   \
    X(conclave_results_bytes, false, s->state.results_bytes, "Memory of these results")            \
    X(conclave_watched_paths, false, s->watches.paths, "Paths with at least one watch")            \
    X(conclave_watch_memory_bytes, false, s->watches.memory, "Memory of the watches")              \
    X(conclave_fence_bindings, false, s->fence_bindings, "Prefixes that are bound to locks")       \
    X(conclave_zxid, false, s->zxid, "zxid of the newest applied change")                          \
    X(conclave_oldest_write_seconds, true, s->oldest_write_ms / 1e3,                               \
      "Age of the oldest unanswered write")                                                        \
    X(conclave_log_term, false, s->replication.term, "Term of the replicated log")                 \
    X(conclave_log_last_index, false, s->replication.last_index,                                   \
      "Index of the newest entry of the log")                                                      \
    X(conclave_log_commit_index, false, s->replication.commit_index,                               \
      "Index of the newest committed entry")                                                       \
    X(conclave_log_applied_index, false, s->replication.applied_index,                             \
      "Index of the newest applied entry")                                                         \
    X(conclave_log_bytes, false, s->replication.log_bytes, "Bytes of the log's segments")          \
    X(conclave_snapshot_index, false, s->replication.snapshot_index,                               \
      "Index of the newest snapshot's last entry")

/* As SERVER_GAUGES, of a member of an ensemble. */
#define MEMBER_GAUGES(X)                                                                           \
    X(quorum_size, false, s->quorum.voters, "Voters of the ensemble")                              \
    X(conclave_members, false, s->quorum.members, "Members of the ensemble")                       \
    X(conclave_leader_id, false, s->quorum.leader, "Id of the leader; 0: no leader is known")      \
    X(conclave_contact_seconds, true, s->quorum.contact_ms < 0 ? -1 : s->quorum.contact_ms / 1e3,  \
      "Time since the last contact with a leader with a quorum, s; -1: never")                     \
    X(conclave_stepped_aside, false, s->quorum.aside,                                              \
      "1 while the log of this member accepts no writes")                                          \
    X(conclave_damaged, false, s->quorum.damaged,                                                  \
      "1 while data of this member are damaged and not yet replaced")                              \
    X(conclave_links, false, s->quorum.links, "Links to other members that are up")                \
    X(conclave_batches_unapplied, false, s->ensemble.unapplied,                                    \
      "Own batches that are not applied yet")                                                      \
    X(conclave_batches_unapplied_bytes, false, s->ensemble.unapplied_bytes,                        \
      "Bytes of these batches")

/* Numbers of a member that only grow. */
#define MEMBER_COUNTERS(X)                                                                         \
    X(conclave_steps_aside_total, false, s->ensemble.steps_aside,                                  \
      "Times that the log stopped accepting writes")                                               \
    X(conclave_damages_total, false, s->ensemble.damaged,                                          \
      "Times that this member found its data damaged")                                             \
    X(conclave_healed_total, false, s->ensemble.healed,                                            \
      "Times that this member got all data from others")                                           \
    X(conclave_states_compared_total, false, s->ensemble.compared,                                 \
      "States compared with the leader's")                                                         \
    X(conclave_states_differed_total, false, s->ensemble.differed,                                 \
      "Times that the state differed from the leader's")                                           \
    X(conclave_elections_won_total, false, s->ensemble.elections,                                  \
      "Times that this server became leader")                                                      \
    X(conclave_links_made_total, false, s->quorum.links_made, "Times that a link came up")         \
    X(conclave_link_sent_bytes_total, false, s->quorum.bytes_sent, "Bytes sent over links")        \
    X(conclave_link_received_bytes_total, false, s->quorum.bytes_received,                         \
      "Bytes received over links")                                                                 \
    X(conclave_link_frames_dropped_total, false, s->quorum.dropped,                                \
      "Messages not sent because a link was down or full")                                         \
    X(conclave_peers_refused_total, false, s->quorum.refused,                                      \
      "Connections refused on the peer port")                                                      \
    X(conclave_batches_forwarded_total, false, s->ensemble.forwarded,                              \
      "Own batches sent to a leader, including repetitions")                                       \
    X(conclave_batches_resent_total, false, s->ensemble.resent, "Own batches sent again")          \
    X(conclave_batches_taken_total, false, s->ensemble.taken,                                      \
      "Batches of other members that this server proposed")                                        \
    X(conclave_member_messages_refused_total, false, s->ensemble.refused,                          \
      "Malformed messages from members")

/* As SERVER_GAUGES, of a leader of others. */
#define LEADER_GAUGES(X)                                                                           \
    X(learners, false, s->quorum.learners, "Other members with a link")                            \
    X(synced_followers, false, s->quorum.synced_followers, "Linked voters that follow the log")    \
    X(synced_observers, false, s->quorum.synced_observers, "Linked observers that follow the log") \
    X(pending_syncs, false, s->quorum.pending_syncs,                                               \
      "Connections whose reads wait for a proof by a quorum")                                      \
    X(leader_uptime, false, s->quorum.leader_uptime_ms,                                            \
      "Time since this server became leader, ms")                                                  \
    X(last_proposal_size, false, s->ensemble.proposal_last, "Bytes of the latest own batch")       \
    X(max_proposal_size, false, s->ensemble.proposal_max, "Bytes of the largest own batch")        \
    X(min_proposal_size, false, s->ensemble.proposal_min, "Bytes of the smallest own batch")

/* Numbers of the server that only grow and that no struct server_metrics holds. */
#define OTHER_COUNTERS(X)                                                                          \
    X(conclave_snapshot_failures_total, false, s->replication.snapshots_failed,                    \
      "Snapshots that failed")

#define SERVER_READ(gauge, fraction, expression, help)                                             \
    METRIC_GAUGE_READ(gauge, struct server_stats, s, expression)
SERVER_GAUGES(SERVER_READ)
MEMBER_GAUGES(SERVER_READ)
MEMBER_COUNTERS(SERVER_READ)
OTHER_COUNTERS(SERVER_READ)
LEADER_GAUGES(SERVER_READ)

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

#define HISTOGRAM_ROW(field, metric, label_text, text)                                             \
    {.name = (metric),                                                                             \
     .kind = METRIC_HISTOGRAM,                                                                     \
     .offset = offsetof(struct server_metrics, field),                                             \
     .scale = 1e-6,                                                                                \
     .label = (label_text),                                                                        \
     .help = (text)},

const struct metric_row server_metric_table[] = {
    SERVER_GAUGES(METRIC_GAUGE_ROW) SERVER_COUNTERS(COUNTER_ROW) SERVER_SUMMARIES(SUMMARY_ROW)
        SERVER_HISTOGRAMS(HISTOGRAM_ROW) OTHER_COUNTERS(METRIC_COUNTER_ROW)};

const size_t server_metric_count = sizeof server_metric_table / sizeof server_metric_table[0];

const struct metric_row member_metric_table[] = {MEMBER_GAUGES(METRIC_GAUGE_ROW)
                                                     MEMBER_COUNTERS(METRIC_COUNTER_ROW)};

const size_t member_metric_count = sizeof member_metric_table / sizeof member_metric_table[0];

const struct metric_row leader_metric_table[] = {LEADER_GAUGES(METRIC_GAUGE_ROW)};

const size_t leader_metric_count = sizeof leader_metric_table / sizeof leader_metric_table[0];
