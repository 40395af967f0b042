/*
 * The table of the server's figures: the counters, summaries and histograms of front/limits/server_metrics.h, and gauges that are read
 * when somebody asks.
 */
#ifndef DAEMON_METRIC_TABLE_H
#define DAEMON_METRIC_TABLE_H

#include "base/metrics.h"

/* All but gauges lie in struct server_metrics; gauges read a struct server_stats. */
extern const struct metric_row server_metric_table[];
extern const size_t server_metric_count;

/* Gauges that only a member of an ensemble has, and only one that leads. */
extern const struct metric_row member_metric_table[];
extern const size_t member_metric_count;
extern const struct metric_row leader_metric_table[];
extern const size_t leader_metric_count;

#endif
