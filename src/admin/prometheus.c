#include "admin/prometheus.h"

#include "admin/facts.h"

#include <inttypes.h>

/* The shortest form that does not lose what matters: whole numbers as such, others with nine digits. */
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

static void write_row(struct buf *out, const struct metric_row *row, const void *gauges,
                      const void *holder)
{
    switch (row->kind) {
    case METRIC_COUNTER:
        write_head(out, row, "counter");
        buf_printf(out, "%s %" PRIu64 "\n", row->name, *metric_counter(row, holder));
        break;
    case METRIC_SUMMARY:
        write_summary(out, row, metric_summary(row, holder));
        break;
    case METRIC_GAUGE:
        write_head(out, row, "gauge");
        buf_printf(out, "%s ", row->name);
        write_number(out, row->read(gauges) * row->scale);
        break;
    }
}

void prometheus_write(const struct view *v, struct buf *out)
{
    struct process_figures process;
    facts_process(&process);
    buf_printf(out,
               "# HELP conclave_build_info Always 1\n# TYPE conclave_build_info gauge\n"
               "conclave_build_info{version=\"%s\"} 1\n",
               CONCLAVE_VERSION);
    buf_printf(out,
               "# HELP conclave_ready 1 while clients are served and writes are answered\n"
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
}
