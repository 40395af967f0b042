/*
 * Spans of a client's requests, for tracing (OpenTelemetry). The library exports nothing: it hands each span to a function
 * of the program, which gives it to the tracer that the program uses.
 *
 * The trace id is derived from the session and the number of the request, and Conclave's servers derive the same one, so
 * that their spans (the key trace.endpoint) are children of the client's: docs/traces.md. So it cannot be the id of a trace
 * that the program already has; parent_trace_id and parent_span_id name that one, for a link between the two.
 */
#ifndef CONCLAVE_SPAN_H
#define CONCLAVE_SPAN_H

#include <conclave/error.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_client;

/* One request, from the call until its answer. May grow at its end. */
struct conclave_span {
    uint8_t trace_id[16]; /* all 0: the request reached no server, or none with a quorum */
    uint8_t span_id[8];   /* all 0 with it */
    /* of conclave_span_parent, in the thread that made the request; all 0: none */
    uint8_t parent_trace_id[16];
    uint8_t parent_span_id[8];
    const char *name;   /* the operation: "create", "getData" */
    const char *path;   /* as given, without the chroot; "": none */
    int64_t start_ns;   /* since 1970 */
    int64_t end_ns;     /* not before start_ns */
    int error;          /* of the answer; 0: none */
    int64_t session_id; /* 0: no trace id */
    int32_t xid;        /* number of the request in the session; of its last try */
    uint64_t dropped;   /* spans that were lost before this one: the program was slow */
};

/* Called as the client's other callbacks, once for each request, of recipes, too. At most 1000 spans
 * wait for it. */
typedef void (*conclave_span_fn)(struct conclave_client *client, const struct conclave_span *span,
                                 void *ctx);

/* Names the parent of requests that this thread makes from now on, with any client: a traceparent of
 * W3C Trace Context, "00-<32 hex digits>-<16 hex digits>-<2 hex digits>"; NULL: none. Costs nothing
 * else, and is remembered for this thread only. 0, or CONCLAVE_EINVAL: it is none, and the thread has
 * no parent now. */
CONCLAVE_API int conclave_span_parent(const char *traceparent);

#ifdef __cplusplus
}
#endif
#endif
