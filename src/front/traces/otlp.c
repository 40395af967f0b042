#include "front/traces/otlp.h"

#include "base/json.h"
#include "state/command.h"
#include "wire/ops.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

enum {
    KIND_INTERNAL = 1, /* SpanKind */
    KIND_SERVER = 2,
    NUMBER_MAX = 24,
};

static void put_bytes(struct json *j, const char *name, const uint8_t *bytes, size_t len)
{
    static const char DIGITS[] = "0123456789abcdef";
    char text[2 * WIRE_TRACE_ID_LEN + 1];
    assert(len <= WIRE_TRACE_ID_LEN);
    for (size_t i = 0; i < len; i++) {
        text[2 * i] = DIGITS[bytes[i] >> 4];
        text[2 * i + 1] = DIGITS[bytes[i] & 15];
    }
    text[2 * len] = '\0';
    json_member_string(j, name, text);
}

static void put_span_id(struct json *j, const char *name, const struct wire_trace *trace,
                        unsigned span)
{
    uint8_t id[WIRE_SPAN_ID_LEN];
    wire_span_id(trace, span, id);
    put_bytes(j, name, id, sizeof id);
}

/* Numbers of 64 bits are strings in the JSON form of protocol buffers. */
static void put_number(struct json *j, const char *name, int64_t value)
{
    char text[NUMBER_MAX];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    json_member_string(j, name, text);
}

static void attribute_begin(struct json *j, const char *key)
{
    json_object_begin(j);
    json_member_string(j, "key", key);
    json_key(j, "value");
    json_object_begin(j);
}

static void attribute_end(struct json *j)
{
    json_object_end(j);
    json_object_end(j);
}

static void put_text(struct json *j, const char *key, const char *value)
{
    attribute_begin(j, key);
    json_member_string(j, "stringValue", value);
    attribute_end(j);
}

static void put_integer(struct json *j, const char *key, int64_t value)
{
    attribute_begin(j, key);
    put_number(j, "intValue", value);
    attribute_end(j);
}

static void put_flag(struct json *j, const char *key, bool value)
{
    attribute_begin(j, key);
    json_member_bool(j, "boolValue", value);
    attribute_end(j);
}

static void span_begin(struct json *j, const struct wire_trace *trace, unsigned span,
                       const char *name, int kind)
{
    json_object_begin(j);
    put_bytes(j, "traceId", trace->id, sizeof trace->id);
    put_span_id(j, "spanId", trace, span);
    json_member_string(j, "name", name);
    json_member_int(j, "kind", kind);
}

static void span_times(struct json *j, int64_t begun_ns, int64_t ns)
{
    put_number(j, "startTimeUnixNano", begun_ns);
    put_number(j, "endTimeUnixNano", begun_ns + ns);
}

static void put_attributes(struct json *j, const struct request_trace *r)
{
    char session[NUMBER_MAX];
    (void)snprintf(session, sizeof session, "0x%" PRIx64, (uint64_t)r->what.session_id);
    json_key(j, "attributes");
    json_array_begin(j);
    put_text(j, "conclave.session", session);
    put_integer(j, "conclave.xid", r->what.xid);
    if (r->what.path[0] != '\0') {
        put_text(j, "conclave.path", r->what.path);
    }
    if (r->what.client[0] != '\0') {
        put_text(j, "conclave.client", r->what.client);
    }
    if (r->err != 0) {
        put_text(j, "error.type", conclave_errname(r->err));
    }
    if (r->slow) {
        put_flag(j, "conclave.slow", true);
    }
    if (r->unsent) {
        put_flag(j, "conclave.unsent", true);
    }
    if (r->what.count > 1) {
        put_integer(j, "conclave.count", r->what.count);
    }
    json_array_end(j);
}

static const char *trace_name(const struct request_trace *r)
{
    const char *name = wire_op_name(r->what.type);
    return name != NULL ? name : "other";
}

static void put_trace(struct json *j, const struct request_trace *r)
{
    struct wire_trace trace = wire_trace_of(r->what.session_id, r->link, r->what.xid);
    int64_t sum_ns = 0;
    for (enum request_part p = PART_QUEUE; p < PART_COUNT; p++) {
        sum_ns += r->part_ns[p];
    }
    span_begin(j, &trace, TRACE_SPAN_SERVER, trace_name(r), KIND_SERVER);
    if (r->client_spans) {
        put_span_id(j, "parentSpanId", &trace, TRACE_SPAN_CLIENT);
    }
    span_times(j, r->begun_ns, sum_ns);
    put_attributes(j, r);
    json_object_end(j);
    int64_t begun_ns = r->begun_ns;
    for (enum request_part p = PART_QUEUE; p < PART_COUNT; p++) {
        if (r->part_ns[p] > 0) {
            span_begin(j, &trace, TRACE_SPAN_PARTS + p, request_part_name(p), KIND_INTERNAL);
            put_span_id(j, "parentSpanId", &trace, TRACE_SPAN_SERVER);
            span_times(j, begun_ns, r->part_ns[p]);
            json_object_end(j);
            begun_ns += r->part_ns[p];
        }
    }
}

static void put_resource(struct json *j, int64_t server)
{
    char id[NUMBER_MAX];
    (void)snprintf(id, sizeof id, "%" PRId64, server);
    json_key(j, "resource");
    json_object_begin(j);
    json_key(j, "attributes");
    json_array_begin(j);
    put_text(j, "service.name", "conclave");
    put_text(j, "service.version", CONCLAVE_VERSION_TEXT);
    put_text(j, "service.instance.id", id);
    json_array_end(j);
    json_object_end(j);
}

void otlp_encode(const struct request_traces *t, size_t count, int64_t server, struct buf *out)
{
    struct json j;
    json_init(&j);
    json_object_begin(&j);
    json_key(&j, "resourceSpans");
    json_array_begin(&j);
    json_object_begin(&j);
    put_resource(&j, server);
    json_key(&j, "scopeSpans");
    json_array_begin(&j);
    json_object_begin(&j);
    json_key(&j, "scope");
    json_object_begin(&j);
    json_member_string(&j, "name", "conclave.requests");
    json_object_end(&j);
    json_key(&j, "spans");
    json_array_begin(&j);
    for (size_t i = 0; i < count; i++) {
        put_trace(&j, request_traces_peek(t, i));
    }
    json_array_end(&j);
    json_object_end(&j);
    json_array_end(&j);
    json_object_end(&j);
    json_array_end(&j);
    json_object_end(&j);
    assert(j.depth == 0);
    out->failed = out->failed || !buf_ok(&j.out);
    buf_append_slice(out, buf_slice(&j.out));
    json_finish(&j);
}
