#include "front/traces/otlp.h"

#include "base/hex.h"
#include "base/json.h"
#include "state/entry/command.h"
#include "wire/ops.h"

/* The text is written piece by piece, not with the JSON writer: at one request in a hundred, a traced request may cost as
 * much as a read and a half before it takes two percent of the reads. */

enum {
    KIND_INTERNAL = 1, /* SpanKind */
    KIND_SERVER = 2,
    NUMBER_MAX = 24,
};

#define PUT(out, literal) buf_append(out, literal, sizeof literal - 1)

/* What all spans of one trace share, as text. */
struct trace_text {
    struct wire_trace trace;
    char id[2 * WIRE_TRACE_ID_LEN + 1];
    char root[2 * WIRE_SPAN_ID_LEN + 1]; /* id of the server's span */
};

static void put_number(struct buf *out, int64_t value)
{
    static const char PAIRS[] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    char text[NUMBER_MAX];
    size_t at = sizeof text;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    for (; rest >= 10; rest /= 100) {
        const char *pair = PAIRS + 2 * (rest % 100);
        text[--at] = pair[1];
        text[--at] = pair[0];
    }
    if (rest > 0 || at == sizeof text) {
        text[--at] = (char)('0' + rest);
    }
    if (value < 0) {
        text[--at] = '-';
    }
    buf_append(out, text + at, sizeof text - at);
}

static void span_id_text(const struct wire_trace *trace, unsigned span,
                         char ret[2 * WIRE_SPAN_ID_LEN + 1])
{
    uint8_t id[WIRE_SPAN_ID_LEN];
    wire_span_id(trace, span, id);
    hex_encode(id, sizeof id, ret);
}

/* Begins a span, up to the value of its parent's id or its times. */
static void span_begin(struct buf *out, const struct trace_text *t, const char *id,
                       const char *name, int kind)
{
    PUT(out, "{\"traceId\":\"");
    buf_append(out, t->id, sizeof t->id - 1);
    PUT(out, "\",\"spanId\":\"");
    buf_append(out, id, 2 * WIRE_SPAN_ID_LEN);
    PUT(out, "\",\"name\":\"");
    buf_append_str(out, name);
    PUT(out, "\",\"kind\":");
    buf_append_u8(out, (uint8_t)('0' + kind));
}

static void span_parent(struct buf *out, const char *id)
{
    PUT(out, ",\"parentSpanId\":\"");
    buf_append(out, id, 2 * WIRE_SPAN_ID_LEN);
    PUT(out, "\"");
}

/* Numbers of 64 bits are strings in the JSON form of protocol buffers. */
static void span_times(struct buf *out, int64_t begun_ns, int64_t ns)
{
    PUT(out, ",\"startTimeUnixNano\":\"");
    put_number(out, begun_ns);
    PUT(out, "\",\"endTimeUnixNano\":\"");
    put_number(out, begun_ns + ns);
    PUT(out, "\"");
}

static void put_attributes(struct buf *out, const struct request_trace *r)
{
    uint8_t session[8];
    char hex[2 * sizeof session + 1];
    put_be64(session, (uint64_t)r->what.session_id);
    hex_encode(session, sizeof session, hex);
    const char *digits = hex;
    while (digits[0] == '0' && digits[1] != '\0') {
        digits++;
    }
    PUT(out, ",\"attributes\":[{\"key\":\"conclave.session\",\"value\":{\"stringValue\":\"0x");
    buf_append_str(out, digits);
    PUT(out, "\"}},{\"key\":\"conclave.xid\",\"value\":{\"intValue\":\"");
    put_number(out, r->what.xid);
    PUT(out, "\"}}");
    if (r->what.path[0] != '\0') {
        PUT(out, ",{\"key\":\"conclave.path\",\"value\":{\"stringValue\":");
        json_append_string(out, slice_str(r->what.path));
        PUT(out, "}}");
    }
    if (r->what.client[0] != '\0') {
        PUT(out, ",{\"key\":\"conclave.client\",\"value\":{\"stringValue\":");
        json_append_string(out, slice_str(r->what.client));
        PUT(out, "}}");
    }
    if (r->err != 0) {
        PUT(out, ",{\"key\":\"error.type\",\"value\":{\"stringValue\":\"");
        buf_append_str(out, conclave_errname(r->err));
        PUT(out, "\"}}");
    }
    if (r->slow) {
        PUT(out, ",{\"key\":\"conclave.slow\",\"value\":{\"boolValue\":true}}");
    }
    if (r->unsent) {
        PUT(out, ",{\"key\":\"conclave.unsent\",\"value\":{\"boolValue\":true}}");
    }
    if (r->what.count > 1) {
        PUT(out, ",{\"key\":\"conclave.count\",\"value\":{\"intValue\":\"");
        put_number(out, r->what.count);
        PUT(out, "\"}}");
    }
    PUT(out, "]");
}

static const char *trace_name(const struct request_trace *r)
{
    const char *name = wire_op_name(r->what.type);
    return name != NULL ? name : "other";
}

/* The request's span, and those of its parts. */
static void put_trace(struct buf *out, const struct request_trace *r)
{
    struct trace_text t = {.trace = wire_trace_of(r->what.session_id, r->link, r->what.xid)};
    hex_encode(t.trace.id, sizeof t.trace.id, t.id);
    span_id_text(&t.trace, TRACE_SPAN_SERVER, t.root);
    int64_t sum_ns = 0;
    for (enum request_part p = PART_QUEUE; p < PART_COUNT; p++) {
        sum_ns += r->part_ns[p];
    }
    char id[2 * WIRE_SPAN_ID_LEN + 1];
    span_begin(out, &t, t.root, trace_name(r), KIND_SERVER);
    if (r->client_spans) {
        span_id_text(&t.trace, TRACE_SPAN_CLIENT, id);
        span_parent(out, id);
    }
    span_times(out, r->begun_ns, sum_ns);
    put_attributes(out, r);
    PUT(out, "}");
    int64_t begun_ns = r->begun_ns;
    for (enum request_part p = PART_QUEUE; p < PART_COUNT; p++) {
        if (r->part_ns[p] > 0) {
            PUT(out, ",");
            span_id_text(&t.trace, TRACE_SPAN_PARTS + p, id);
            span_begin(out, &t, id, request_part_name(p), KIND_INTERNAL);
            span_parent(out, t.root);
            span_times(out, begun_ns, r->part_ns[p]);
            PUT(out, "}");
            begun_ns += r->part_ns[p];
        }
    }
}

void otlp_encode(const struct request_traces *t, size_t count, int64_t server, struct buf *out)
{
    PUT(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
             "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"conclave\"}},"
             "{\"key\":\"service.version\",\"value\":{\"stringValue\":");
    json_append_string(out, slice_str(CONCLAVE_VERSION_TEXT));
    PUT(out, "}},{\"key\":\"service.instance.id\",\"value\":{\"stringValue\":\"");
    put_number(out, server);
    PUT(out, "\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"conclave.requests\"},\"spans\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            PUT(out, ",");
        }
        put_trace(out, request_traces_peek(t, i));
    }
    PUT(out, "]}]}]}");
}
