#include "front/traces/otlp.h"

#include "base/endian.h"
#include "base/json.h"
#include "state/entry/command.h"
#include "wire/ops.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* The bytes of protocol buffers are written front to back, without a tree of messages: at one request in a hundred, a traced
 * request may cost as much as a read and a half before it takes two percent of the reads. The length of a message inside
 * another one has a fixed number of bytes and is filled in at the message's end; readers accept a length with leading zeros. */

enum {
    KIND_INTERNAL = 1, /* SpanKind */
    KIND_SERVER = 2,
    TRACE_BYTES_MAX = 2048, /* one trace: texts have bounds, see slow_log.h */
    PLACE_MAX = 4,
    SPAN_PLACE = 2, /* bytes of lengths within a span, up to 16383 */
};

/* Lengths of names are known when it is compiled, so copies of them are a few instructions. */
#define INLINED static inline __attribute__((always_inline))

/* Types on the wire. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2 };

#define TAG(field, type) ((uint8_t)((field) << 3 | (type)))

/* Field numbers, of trace.proto, resource.proto and common.proto. */
enum {
    REQUEST_RESOURCE_SPANS = 1,
    RESOURCE_SPANS_RESOURCE = 1,
    RESOURCE_SPANS_SCOPE_SPANS = 2,
    RESOURCE_ATTRIBUTES = 1,
    SCOPE_SPANS_SCOPE = 1,
    SCOPE_SPANS_SPANS = 2,
    SCOPE_NAME = 1,
    SPAN_TRACE_ID = 1,
    SPAN_ID = 2,
    SPAN_PARENT_ID = 4,
    SPAN_NAME = 5,
    SPAN_KIND = 6,
    SPAN_BEGIN = 7,
    SPAN_END = 8,
    SPAN_ATTRIBUTES = 9,
    ATTRIBUTE_KEY = 1,
    ATTRIBUTE_VALUE = 2,
    VALUE_STRING = 1,
    VALUE_BOOL = 2,
    VALUE_INT = 3,
};

INLINED uint8_t *put_varint(uint8_t *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        *to++ = (uint8_t)(value | 0x80);
    }
    *to++ = (uint8_t)value;
    return to;
}

INLINED uint8_t *put_bytes(uint8_t *to, unsigned field, const void *bytes, size_t len)
{
    *to++ = TAG(field, BYTES);
    to = put_varint(to, len);
    memcpy(to, bytes, len);
    return to + len;
}

static uint8_t *put_fixed64(uint8_t *to, unsigned field, uint64_t value)
{
    *to = TAG(field, FIXED64);
    put_le64(to + 1, value);
    return to + 9;
}

/* A message inside another one: its length goes to the `place` bytes in front of what is returned. */
INLINED uint8_t *put_begin(uint8_t *to, unsigned field, unsigned place)
{
    *to = TAG(field, BYTES);
    return to + 1 + place;
}

INLINED void put_length(uint8_t *begin, size_t len, unsigned place)
{
    uint8_t *to = begin - place;
    for (unsigned i = 0; i + 1 < place; i++, len >>= 7) {
        *to++ = (uint8_t)(len | 0x80);
    }
    assert(len < 0x80);
    *to = (uint8_t)len;
}

/* An attribute up to its value, which begins at the returned place: put_attribute_end. */
INLINED uint8_t *put_attribute(uint8_t *to, unsigned field, const char *key, size_t key_len)
{
    to = put_begin(to, field, SPAN_PLACE);
    to = put_bytes(to, ATTRIBUTE_KEY, key, key_len);
    return put_begin(to, ATTRIBUTE_VALUE, SPAN_PLACE);
}

/* key_len: that of the key, which is the only thing between the attribute's begin and the value's. */
INLINED uint8_t *put_attribute_end(uint8_t *value, size_t key_len, uint8_t *end)
{
    uint8_t *begin = value - (1 + SPAN_PLACE) - key_len - 2;
    put_length(value, (size_t)(end - value), SPAN_PLACE);
    put_length(begin, (size_t)(end - begin), SPAN_PLACE);
    return end;
}

INLINED uint8_t *put_text(uint8_t *to, unsigned field, const char *key, const char *text,
                          size_t len)
{
    size_t key_len = strlen(key);
    uint8_t *value = put_attribute(to, field, key, key_len);
    return put_attribute_end(value, key_len, put_bytes(value, VALUE_STRING, text, len));
}

INLINED uint8_t *put_number(uint8_t *to, unsigned type, const char *key, int64_t number)
{
    size_t key_len = strlen(key);
    uint8_t *value = put_attribute(to, SPAN_ATTRIBUTES, key, key_len);
    *value = TAG(type, VARINT);
    return put_attribute_end(value, key_len, put_varint(value + 1, (uint64_t)number));
}

/* "0x...", without leading zeros. */
static uint8_t *put_session(uint8_t *to, int64_t session_id)
{
    char text[2 + 16];
    size_t at = sizeof text;
    uint64_t rest = (uint64_t)session_id;
    do {
        text[--at] = "0123456789abcdef"[rest & 15];
    } while ((rest >>= 4) != 0);
    text[--at] = 'x';
    text[--at] = '0';
    return put_text(to, SPAN_ATTRIBUTES, "conclave.session", text + at, sizeof text - at);
}

/* Strings of protocol buffers are UTF-8; a path need not be, or was cut. */
static uint8_t *put_path(uint8_t *to, const char *path)
{
    char text[3 * SLOW_PATH_MAX];
    struct slice rest = slice_str(path);
    size_t len = 0;
    if (utf8_valid(rest)) {
        return put_text(to, SPAN_ATTRIBUTES, "conclave.path", path, rest.len);
    }
    while (rest.len > 0) {
        size_t n = utf8_length(rest);
        memcpy(text + len, n > 0 ? (const void *)rest.data : "\xef\xbf\xbd", n > 0 ? n : 3);
        len += n > 0 ? n : 3;
        rest = slice_make(rest.data + (n > 0 ? n : 1), rest.len - (n > 0 ? n : 1));
    }
    return put_text(to, SPAN_ATTRIBUTES, "conclave.path", text, len);
}

static uint8_t *put_attributes(uint8_t *to, const struct request_trace *r)
{
    to = put_session(to, r->what.session_id);
    to = put_number(to, VALUE_INT, "conclave.xid", r->what.xid);
    if (r->what.path[0] != '\0') {
        to = put_path(to, r->what.path);
    }
    if (r->what.client[0] != '\0') {
        to = put_text(to, SPAN_ATTRIBUTES, "conclave.client", r->what.client,
                      strlen(r->what.client));
    }
    if (r->err != 0) {
        const char *name = conclave_errname(r->err);
        to = put_text(to, SPAN_ATTRIBUTES, "error.type", name, strlen(name));
    }
    if (r->slow) {
        to = put_number(to, VALUE_BOOL, "conclave.slow", 1);
    }
    if (r->unsent) {
        to = put_number(to, VALUE_BOOL, "conclave.unsent", 1);
    }
    if (r->what.count > 1) {
        to = put_number(to, VALUE_INT, "conclave.count", r->what.count);
    }
    return to;
}

static uint8_t *put_span_id(uint8_t *to, unsigned field, const struct wire_trace *trace,
                            unsigned span)
{
    *to++ = TAG(field, BYTES);
    *to++ = WIRE_SPAN_ID_LEN;
    wire_span_id(trace, span, to);
    return to + WIRE_SPAN_ID_LEN;
}

/* Begins a span, up to its parent. */
static uint8_t *span_begin(uint8_t *to, const struct wire_trace *trace, unsigned span,
                           const char *name, int kind)
{
    to = put_bytes(to, SPAN_TRACE_ID, trace->id, sizeof trace->id);
    to = put_span_id(to, SPAN_ID, trace, span);
    to = put_bytes(to, SPAN_NAME, name, strlen(name));
    *to++ = TAG(SPAN_KIND, VARINT);
    *to++ = (uint8_t)kind;
    return to;
}

static uint8_t *span_times(uint8_t *to, int64_t begun_ns, int64_t ns)
{
    to = put_fixed64(to, SPAN_BEGIN, (uint64_t)begun_ns);
    return put_fixed64(to, SPAN_END, (uint64_t)(begun_ns + ns));
}

static const char *trace_name(const struct request_trace *r)
{
    const char *name = wire_op_name(r->what.type);
    return name != NULL ? name : "other";
}

/* The request's span, and those of its parts. */
static uint8_t *put_trace(uint8_t *to, const struct request_trace *r)
{
    struct wire_trace trace = wire_trace_of(r->what.session_id, r->link, r->what.xid);
    int64_t sum_ns = 0;
    for (enum request_part p = PART_QUEUE; p < PART_COUNT; p++) {
        sum_ns += r->part_ns[p];
    }
    uint8_t *begin = put_begin(to, SCOPE_SPANS_SPANS, SPAN_PLACE);
    to = span_begin(begin, &trace, TRACE_SPAN_SERVER, trace_name(r), KIND_SERVER);
    if (r->client_spans) {
        to = put_span_id(to, SPAN_PARENT_ID, &trace, TRACE_SPAN_CLIENT);
    }
    to = span_times(to, r->begun_ns, sum_ns);
    to = put_attributes(to, r);
    put_length(begin, (size_t)(to - begin), SPAN_PLACE);
    int64_t begun_ns = r->begun_ns;
    for (enum request_part p = PART_QUEUE; p < PART_COUNT; p++) {
        if (r->part_ns[p] > 0) {
            begin = put_begin(to, SCOPE_SPANS_SPANS, SPAN_PLACE);
            to = span_begin(begin, &trace, TRACE_SPAN_PARTS + p, request_part_name(p),
                            KIND_INTERNAL);
            to = put_span_id(to, SPAN_PARENT_ID, &trace, TRACE_SPAN_SERVER);
            to = span_times(to, begun_ns, r->part_ns[p]);
            put_length(begin, (size_t)(to - begin), SPAN_PLACE);
            begun_ns += r->part_ns[p];
        }
    }
    return to;
}

/* The resource, and the scope's name. */
static uint8_t *put_resource(uint8_t *to, int64_t server)
{
    char id[24];
    int len = snprintf(id, sizeof id, "%lld", (long long)server);
    uint8_t *begin = put_begin(to, RESOURCE_SPANS_RESOURCE, SPAN_PLACE);
    to = put_text(begin, RESOURCE_ATTRIBUTES, "service.name", "conclave", 8);
    to = put_text(to, RESOURCE_ATTRIBUTES, "service.version", CONCLAVE_VERSION_TEXT,
                  strlen(CONCLAVE_VERSION_TEXT));
    to = put_text(to, RESOURCE_ATTRIBUTES, "service.instance.id", id, (size_t)len);
    put_length(begin, (size_t)(to - begin), SPAN_PLACE);
    return to;
}

void otlp_encode(const struct request_traces *t, size_t count, int64_t server, struct buf *out)
{
    static const char SCOPE[] = "conclave.requests";
    if (buf_reserve(out, (count + 1) * TRACE_BYTES_MAX) != 0) {
        return;
    }
    uint8_t *first = out->data + out->len;
    uint8_t *resource_spans = put_begin(first, REQUEST_RESOURCE_SPANS, PLACE_MAX);
    uint8_t *to = put_resource(resource_spans, server);
    uint8_t *scope_spans = put_begin(to, RESOURCE_SPANS_SCOPE_SPANS, PLACE_MAX);
    uint8_t *scope = put_begin(scope_spans, SCOPE_SPANS_SCOPE, SPAN_PLACE);
    to = put_bytes(scope, SCOPE_NAME, SCOPE, sizeof SCOPE - 1);
    put_length(scope, (size_t)(to - scope), SPAN_PLACE);
    assert(to <= first + TRACE_BYTES_MAX);
    for (size_t i = 0; i < count; i++) {
        uint8_t *begin = to;
        to = put_trace(begin, request_traces_peek(t, i));
        assert(to <= begin + TRACE_BYTES_MAX);
    }
    put_length(scope_spans, (size_t)(to - scope_spans), PLACE_MAX);
    put_length(resource_spans, (size_t)(to - resource_spans), PLACE_MAX);
    out->len += (size_t)(to - first);
}
