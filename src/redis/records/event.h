/*
 * What happened, for operators: a line on the manager's output and, when the leading manager did it, a node below
 * ROOT/events, of which the last REDIS_EVENTS_KEPT are kept. No secret stands in an event.
 */
#ifndef REDIS_RECORDS_EVENT_H
#define REDIS_RECORDS_EVENT_H

#include "base/buf.h"
#include "redis/records/cluster_config.h"

enum { REDIS_EVENTS_KEPT = 100 };

struct redis_event {
    const char *name;    /* "published", "node-down", ... */
    const char *text;    /* what, to whom, why, what next: one line */
    const char *node;    /* address of the server that it is about; "" */
    const char *manager; /* id of the manager that tells it */
    int64_t epoch;       /* of current; 0 there is none */
    int64_t bytes;       /* of divergence or loss; -1 none */
    int64_t at_ms;       /* wall clock */
};

/* As a JSON object, for a znode and for --json. */
void redis_event_write(struct buf *out, const struct redis_event *event);

/* An event as it was read; strings inside. */
struct redis_event_read {
    char name[64];
    char text[2 * REDIS_TEXT_SIZE];
    char node[REDIS_ADDRESS_SIZE];
    char manager[REDIS_NAME_SIZE];
    int64_t epoch;
    int64_t bytes;
    int64_t at_ms;
};

/* 0 or CONCLAVE_ECORRUPT. */
int redis_event_read(const void *json, size_t len, struct redis_event_read *ret) CONCLAVE_MUST_USE;

#endif
