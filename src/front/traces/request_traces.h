/*
 * The traces of requests: which requests get one, and what is known of them until their answers are sent and the collector
 * has them. A trace is begun when its request is answered, from times that are known by then. It stays open until the
 * client has taken the answer; then it is done and waits for the exporter (trace_export.h).
 *
 *   begin ──parts──> open ──sent──> done ──peek, pop──> gone
 *
 * Limits: TRACES_OPEN_MAX open traces and TRACES_DONE_MAX that are done, of about half a kilobyte each. Further ones are
 * dropped and counted. Without an endpoint there is no memory, and a request costs one look at `on`.
 */
#ifndef FRONT_TRACES_REQUEST_TRACES_H
#define FRONT_TRACES_REQUEST_TRACES_H

#include "front/limits/slow_log.h"
#include "front/traces/trace_options.h"
#include "wire/trace_ids.h"

struct server_metrics;

enum {
    TRACES_OPEN_MAX = 256,
    TRACES_DONE_MAX = 1024,
};

struct request_trace {
    struct slow_request what; /* all but its parts and at_ms */
    const void *owner;        /* the connection that the answer waits for; NULL when it is done */
    uint64_t link;            /* wire_trace_link of that connection */
    int32_t err;              /* of the answer */
    bool client_spans;        /* the client exports the span above this one */
    bool slow;                /* it is in the slow log, too */
    bool applying;            /* its batch is not applied to the end */
    bool given;               /* its answer was given to the socket */
    bool unsent;              /* the client went away before it took the answer */
    int64_t begun_ns;         /* when it was read: monotonic, of the wall clock when it is done */
    int64_t until_ns;         /* the end of its last part, monotonic */
    int64_t part_ns[PART_COUNT];
};

struct request_traces {
    bool on;
    uint64_t lots; /* requests whose wire_trace_lot is at most this are sampled; 0: none */
    struct request_trace *open; /* in no order */
    size_t open_count;
    struct request_trace *done; /* a ring */
    size_t first;               /* the oldest */
    size_t done_count;
    struct server_metrics *metrics; /* borrowed */
};

/* options NULL: off. 0 or CONCLAVE_ENOMEM; finish it in either case. */
int request_traces_init(struct request_traces *t, const struct trace_options *options,
                        struct server_metrics *metrics) CONCLAVE_MUST_USE;
void request_traces_finish(struct request_traces *t);

/* Whether this request is one of the sample; seed: wire_trace_seed. Requests of the protocol itself, with an xid below 1,
 * are not. */
static inline bool request_traces_sample(const struct request_traces *t, uint64_t seed, int32_t xid)
{
    return wire_trace_lot(seed, xid) <= t->lots && xid > 0;
}

/* The open trace of this request, or NULL. */
struct request_trace *request_traces_find(const struct request_traces *t, const void *owner,
                                          int32_t xid);

/* A new open trace of a request that was read at begun_ns; the caller fills in the rest. NULL: there is no room, and it is
 * counted as dropped. Valid until the next call that changes t. */
struct request_trace *request_traces_begin(struct request_traces *t, const void *owner,
                                           int64_t begun_ns);

/* The request was in this part until then. */
void request_trace_part(struct request_trace *r, enum request_part part, int64_t until_ns);

/* A batch was applied to its end: gives that part to the traces that wait for it. */
void request_traces_applied(struct request_traces *t, int64_t now_ns);

/* The output of a connection was given to its socket; taken: the client has all that was given before; all: it has
 * everything. */
void request_traces_sent(struct request_traces *t, const void *owner, bool taken, bool all,
                         int64_t now_ns);

/* The connection is gone. */
void request_traces_gone(struct request_traces *t, const void *owner, int64_t now_ns);

/* Number i of the traces that are done, 0 is the oldest. NULL: there are no more. */
const struct request_trace *request_traces_peek(const struct request_traces *t, size_t i);

/* Drops the oldest `count`. */
void request_traces_pop(struct request_traces *t, size_t count);

#endif
