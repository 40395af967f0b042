/*
 * Sends the traces that are done to a collector: OTLP over plain HTTP, in batches, on the server's loop. One request is on
 * its way at a time. Nothing waits for it: without an answer the traces stay where they are, until they are too many.
 *
 *   IDLE ──traces wait, pause over──> CONNECTING ──connected──> ASKING ──answer, failure, deadline──> CLOSING ──> IDLE
 *
 * An answer 2xx drops the batch. So does a refusal (another 4xx), which a repetition would not change; these traces count as
 * dropped. After any other failure the batch is sent again, after a pause that grows up to PAUSE_MAX_MS. A failure is a
 * warning once a minute (log_cause).
 */
#ifndef FRONT_TRACES_TRACE_EXPORT_H
#define FRONT_TRACES_TRACE_EXPORT_H

#include "front/traces/request_traces.h"

struct uv_loop_s;
struct trace_export;

/* Begins. `traces` and `options` are borrowed; they are on. 0 or CONCLAVE_ENOMEM. */
int trace_export_open(struct uv_loop_s *loop, const struct trace_options *options, int64_t server,
                      struct request_traces *traces, struct trace_export **ret) CONCLAVE_MUST_USE;

/* Stops, drops what was not sent, and calls cb; then e is freed. NULL does nothing. */
void trace_export_close(struct trace_export *e, void (*cb)(void *ctx), void *ctx);

#endif
