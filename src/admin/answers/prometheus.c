#include "admin/answers/prometheus.h"

#include "admin/answers/labelled_metrics.h"
#include "admin/answers/process_info.h"
#include "cluster/ensemble_status.h"
#include "daemon/metric_table.h"
#include "daemon/server.h"
#include "daemon/server_stats.h"

#include <conclave/error.h>

#include <inttypes.h>

/* Prints whole numbers without a fraction, others with nine digits. */
static void write_number(struct buf *out, double value)
{
    if (value >= -1e15 && value <= 1e15 && value == (double)(int64_t)value) {
        buf_printf(out, "%" PRId64 "\n", (int64_t)value);
    } else {
        buf_printf(out, "%.9g\n", value);
    }
}

static void write_head(struct buf *out, const struct metric_row *row, const char *type)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, type);
}

static void write_summary(struct buf *out, const struct metric_row *row, const struct summary *s)
{
    static const struct {
        const char *label;
        double share;
    } QUANTILES[] = {{"0.5", 0.5}, {"0.9", 0.9}, {"0.95", 0.95}, {"0.99", 0.99}, {"0.999", 0.999}};
    write_head(out, row, "summary");
    for (size_t i = 0; i < sizeof QUANTILES / sizeof QUANTILES[0]; i++) {
        buf_printf(out, "%s{quantile=\"%s\"} ", row->name, QUANTILES[i].label);
        write_number(out, (double)summary_quantile(s, QUANTILES[i].share) * row->scale);
    }
    buf_printf(out, "%s_sum ", row->name);
    write_number(out, (double)s->sum * row->scale);
    buf_printf(out, "%s_count %" PRIu64 "\n", row->name, s->count);
}

static void write_histogram(struct buf *out, const struct metric_row *row,
                            const struct histogram *h)
{
    const char *label = row->label != NULL ? row->label : "";
    const char *comma = row->label != NULL ? "," : "";
    const char *open = row->label != NULL ? "{" : "";
    const char *close = row->label != NULL ? "}" : "";
    uint64_t seen = 0;
    if (row->help != NULL) {
        write_head(out, row, "histogram");
    }
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->buckets[i];
        buf_printf(out, "%s_bucket{%s%sle=\"", row->name, label, comma);
        if (histogram_end(i) == UINT64_MAX) {
            buf_append_str(out, "+Inf");
        } else {
            buf_printf(out, "%.9g", (double)histogram_end(i) * row->scale);
        }
        buf_printf(out, "\"} %" PRIu64 "\n", seen);
    }
    buf_printf(out, "%s_sum%s%s%s ", row->name, open, label, close);
    write_number(out, (double)h->sum * row->scale);
    buf_printf(out, "%s_count%s%s%s %" PRIu64 "\n", row->name, open, label, close, h->count);
}

static void write_row(struct buf *out, const struct metric_row *row, const void *gauges,
                      const void *holder)
{
    switch (row->kind) {
    case METRIC_COUNTER:
        write_head(out, row, "counter");
        buf_printf(out, "%s %" PRIu64 "\n", row->name,
                   row->read != NULL ? (uint64_t)row->read(gauges) : *metric_counter(row, holder));
        break;
    case METRIC_SUMMARY:
        write_summary(out, row, metric_summary(row, holder));
        break;
    case METRIC_GAUGE:
        write_head(out, row, "gauge");
        buf_printf(out, "%s ", row->name);
        write_number(out, row->read(gauges) * row->scale);
        break;
    case METRIC_HISTOGRAM:
        write_histogram(out, row, metric_histogram(row, holder));
        break;
    }
}

/* A member, for the metrics that have one sample per member. */
struct sample {
    struct replication_member_stats member;
    uint64_t last_index;
};

/* X(name, whether it has a fraction, expression over `m`, help) */
#define MEMBER_SAMPLES(X)                                                                          \
    X(conclave_member_linked, false, m->member.linked, "1 while the link to a member is up")

/* Only a leader knows these. */
#define FOLLOWER_SAMPLES(X)                                                                        \
    X(conclave_member_match_index, false, m->member.match_index,                                   \
      "Newest log entry that a member is known to have")                                           \
    X(conclave_member_lag, false, m->last_index - m->member.match_index,                           \
      "Log entries that a member is not known to have")                                            \
    X(conclave_member_snapshot_sent_bytes, false, m->member.snapshot_bytes_sent,                   \
      "Bytes of the snapshot being sent that a member has received")                               \
    X(conclave_member_snapshot_bytes, false, m->member.snapshot_bytes_total,                       \
      "Bytes of the snapshot being sent to a member; 0: none")

#define SAMPLE_READ(gauge, fraction, expression, help)                                             \
    METRIC_GAUGE_READ(gauge, struct sample, m, expression)
MEMBER_SAMPLES(SAMPLE_READ)
FOLLOWER_SAMPLES(SAMPLE_READ)

static void write_samples(const struct view *v, const struct metric_row *row, uint64_t last_index,
                          struct buf *out)
{
    struct sample sample = {.last_index = last_index};
    write_head(out, row, "gauge");
    for (size_t i = 0; quorum_member(server_node(v->server), i, &sample.member); i++) {
        buf_printf(out, "%s{member=\"%" PRIu64 "\"} ", row->name, sample.member.id);
        write_number(out, row->read(&sample));
    }
}

static void write_ensemble(const struct view *v, const struct server_stats *stats, struct buf *out)
{
    static const struct metric_row MEMBERS[] = {MEMBER_SAMPLES(METRIC_GAUGE_ROW)};
    static const struct metric_row FOLLOWERS[] = {FOLLOWER_SAMPLES(METRIC_GAUGE_ROW)};
    uint64_t last_index = stats->replication.last_index;
    for (size_t i = 0; i < member_metric_count; i++) {
        write_row(out, &member_metric_table[i], stats, NULL);
    }
    for (size_t i = 0; i < sizeof MEMBERS / sizeof MEMBERS[0]; i++) {
        write_samples(v, &MEMBERS[i], last_index, out);
    }
    for (size_t i = 0; stats->quorum.leads && i < leader_metric_count; i++) {
        write_row(out, &leader_metric_table[i], stats, NULL);
    }
    for (size_t i = 0; stats->quorum.leads && i < sizeof FOLLOWERS / sizeof FOLLOWERS[0]; i++) {
        write_samples(v, &FOLLOWERS[i], last_index, out);
    }
}

void prometheus_write(const struct view *v, struct buf *out)
{
    struct process_info process;
    process_info_process(&process);
    buf_printf(out,
               "# HELP conclave_build_info Always 1\n# TYPE conclave_build_info gauge\n"
               "conclave_build_info{version=\"%s\"} 1\n",
               CONCLAVE_VERSION_TEXT);
    buf_printf(out,
               "# HELP conclave_ready 1 while the server serves clients and answers writes\n"
               "# TYPE conclave_ready gauge\nconclave_ready %d\n",
               v->server != NULL && server_why_not_ready(v->server) == NULL);
    for (size_t i = 0; i < process_metric_count; i++) {
        write_row(out, &process_metric_table[i], &process, NULL);
    }
    if (v->server == NULL) {
        return;
    }
    struct server_stats stats;
    server_stats(v->server, &stats);
    for (size_t i = 0; i < server_metric_count; i++) {
        write_row(out, &server_metric_table[i], &stats, stats.metrics);
    }
    labelled_metrics_write(v, out);
    if (stats.quorum.grouped) {
        write_ensemble(v, &stats, out);
    }
}
