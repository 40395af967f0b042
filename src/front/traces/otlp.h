/*
 * Traces of requests as OpenTelemetry's collectors take them: OTLP over HTTP, in binary protocol buffers
 * (opentelemetry.io, "OTLP Specification 1.x", and its trace.proto). A request is a span of kind SERVER; each part of it that took time is a child.
 */
#ifndef FRONT_TRACES_OTLP_H
#define FRONT_TRACES_OTLP_H

#include "base/buf.h"
#include "front/traces/request_traces.h"

/* Appends a whole ExportTraceServiceRequest with the oldest `count` traces that are done. server: its id. Sets out->failed
 * when memory is out. */
void otlp_encode(const struct request_traces *t, size_t count, int64_t server, struct buf *out);

#endif
