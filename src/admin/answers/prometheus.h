/*
 * All metrics in Prometheus's text format 0.0.4: the server's under ZooKeeper's names (without zk_, like ZooKeeper's
 * own provider) or with the prefix conclave_, the process's under Prometheus's names.
 */
#ifndef ADMIN_ANSWERS_PROMETHEUS_H
#define ADMIN_ANSWERS_PROMETHEUS_H

#include "admin/answers/server_view.h"

#define PROMETHEUS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

void prometheus_write(const struct view *v, struct buf *out);

#endif
