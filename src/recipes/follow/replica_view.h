/*
 * The state of the replicas, from the reports that managers write below ROOT/managers. Pure.
 *
 * A report counts if it is at most three periods older than the newest one, by the clock of the ensemble: a manager that
 * hangs still has its node. The lag is the difference of two offsets in one report, which were read up to a period apart.
 */
#ifndef RECIPES_FOLLOW_REPLICA_VIEW_H
#define RECIPES_FOLLOW_REPLICA_VIEW_H

#include <conclave/redis.h>

struct json_t;

struct replica_report {
    struct json_t *json;
    int64_t mtime_ms; /* of its node */
};

/* Reads the data of a manager's node without their head. json: NULL when they are no report. CONCLAVE_ENOMEM. */
int replica_report_read(const void *data, size_t len, int64_t mtime_ms,
                        struct replica_report *ret) CONCLAVE_MUST_USE;
void replica_report_finish(struct replica_report *report);

/* The replicas that the view lists. 0 or CONCLAVE_ENOMEM. Free *ret with conclave_redis_replicas_free. */
int replica_view_make(const struct conclave_redis_view *view, const struct replica_report *reports,
                      size_t count, struct conclave_redis_replicas **ret) CONCLAVE_MUST_USE;

#endif
