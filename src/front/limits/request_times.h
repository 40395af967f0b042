/*
 * Where the time of requests goes: histograms (limits/server_metrics.h) and the slow log (limits/slow_log.h). The clock
 * is read per batch, not per request: when a batch leaves, when the log has it, when it is synced, before and after it
 * is applied. A request adds only the time for which it waited for its batch.
 *
 *   read ─queue─> batch leaves ─forward─> in the log ─disk─> synced ─quorum─> committed ─apply─> answered ─send─> taken
 */
#ifndef FRONT_LIMITS_REQUEST_TIMES_H
#define FRONT_LIMITS_REQUEST_TIMES_H

#include "front/limits/slow_log.h"
#include "state/entry/command.h"

struct service;
struct connection;
struct pending;
struct request;

struct request_times {
    struct slow_log slow;
    int64_t appended_ns; /* when this server's log got the entry that is applied next; 0: unknown */
    int64_t synced_ns;   /* when it was synced; 0: not yet, or unknown */
    /* The own batch that is being applied. */
    int64_t left_ns;              /* when it left */
    int64_t begun_ns;             /* when apply began */
    int64_t part_ns[PART_COUNT];  /* forward, disk, quorum */
    unsigned answered;            /* requests of it */
    unsigned noted;               /* of them in the slow log */
    struct slow_request *last[8]; /* these rows */
};

/* The log's times of the entry that is applied next. */
void request_times_entry(struct service *s, int64_t appended_ns, int64_t synced_ns);

/* An own batch is about to be applied; one of its writes is about to be answered; all are. */
void request_times_begin(struct service *s, int64_t sequence);
void request_times_write(struct service *s, const struct command *command,
                         const struct pending *entry);
void request_times_end(struct service *s, const struct command *command);

/* A read of the sample (request_traces_sample) was answered, and its reply begins at `place` of the output. entry: its place
 * in the queue; NULL: it did not wait. */
void request_times_answered(struct connection *c, const struct request *r,
                            const struct pending *entry, size_t place);

/* `count` reads were answered, the last of them r; waited: for earlier writes, or for a quorum if `confirmed`. */
void request_times_read(struct connection *c, const struct request *r, int64_t ns, unsigned count,
                        enum request_part part);

/* The output of a connection was given to its socket, which keeps `unsent` bytes; taken: it has sent all that it was
 * given before. */
void request_times_sent(struct connection *c, size_t unsent, bool taken);

/* The connection is gone. */
void request_times_gone(struct connection *c);

#endif
