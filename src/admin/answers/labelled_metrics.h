/*
 * Metrics with labels that differ from server to server: certificates by port, ended sessions by cause; and the file
 * system of the data folder, which is asked on each scrape.
 */
#ifndef ADMIN_ANSWERS_LABELLED_METRICS_H
#define ADMIN_ANSWERS_LABELLED_METRICS_H

#include "admin/answers/server_view.h"
#include "base/buf.h"

/* Appends them in the text format of Prometheus. The view has a server. */
void labelled_metrics_write(const struct view *v, struct buf *out);

#endif
