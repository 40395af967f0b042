#include "client/core/request_span.h"

#include "base/clock.h"
#include "wire/ops.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TRACEPARENT_LEN = 55 }; /* version, trace id, span id and flags, with a dash between them */

/* Of the calling thread; all 0: none. */
static _Thread_local struct {
    uint8_t trace_id[WIRE_TRACE_ID_LEN];
    uint8_t span_id[WIRE_SPAN_ID_LEN];
} parent;

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads lower-case hex digits. False: there are others, or all are 0. */
static bool parent_read(const char *text, uint8_t *id, size_t len)
{
    uint8_t all = 0;
    for (size_t i = 0; i < len; i++) {
        int high = digit(text[2 * i]);
        int low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        id[i] = (uint8_t)(high << 4 | low);
        all |= id[i];
    }
    return all != 0;
}

/* A later version than 00 may have more fields behind a dash; ff is none. */
static bool has_form(const char *text)
{
    bool zero = strncmp(text, "00-", 3) == 0;
    return strnlen(text, TRACEPARENT_LEN + 1) >= TRACEPARENT_LEN && digit(text[0]) >= 0 &&
           digit(text[1]) >= 0 && strncmp(text, "ff", 2) != 0 && text[2] == '-' &&
           text[35] == '-' && text[52] == '-' && digit(text[53]) >= 0 && digit(text[54]) >= 0 &&
           (text[TRACEPARENT_LEN] == '\0' || (!zero && text[TRACEPARENT_LEN] == '-'));
}

int conclave_span_parent(const char *traceparent)
{
    memset(&parent, 0, sizeof parent);
    if (traceparent == NULL) {
        return 0;
    }
    if (has_form(traceparent) &&
        parent_read(traceparent + 3, parent.trace_id, sizeof parent.trace_id) &&
        parent_read(traceparent + 36, parent.span_id, sizeof parent.span_id)) {
        return 0;
    }
    memset(&parent, 0, sizeof parent);
    return CONCLAVE_EINVAL;
}

struct request_span *request_span_create(const struct conclave_op *op, int64_t now_ns)
{
    const char *path = op->path != NULL                                       ? op->path
                       : op->type == CONCLAVE_OP_MULTI && op->parts_count > 0 ? op->parts->path
                                                                              : NULL;
    size_t len = path != NULL ? strlen(path) : 0;
    struct request_span *s = calloc(1, sizeof *s + len + 1);
    if (s == NULL) {
        return NULL;
    }
    memcpy(s->path, path != NULL ? path : "", len + 1);
    s->span.path = s->path;
    s->begun_ns = now_ns;
    memcpy(s->span.parent_trace_id, parent.trace_id, sizeof parent.trace_id);
    memcpy(s->span.parent_span_id, parent.span_id, sizeof parent.span_id);
    return s;
}

void request_span_sent(struct request_span *s, int64_t session_id, uint64_t link, int32_t xid)
{
    assert(xid > 0);
    if (session_id == 0) {
        return; /* read-only: this server's number of the session is no id of it */
    }
    struct wire_trace trace = wire_trace_of(session_id, link, xid);
    memcpy(s->span.trace_id, trace.id, sizeof trace.id);
    wire_span_id(&trace, TRACE_SPAN_CLIENT, s->span.span_id);
    s->span.session_id = session_id;
    s->span.xid = xid;
}

/* The wall clock is read once, so that a step of it cannot make a span negative. */
void request_span_end(struct request_span *s, int32_t opcode, int error, int64_t now_ns)
{
    const char *name = wire_op_name(opcode);
    s->span.name = opcode != 0 && name != NULL ? name : "other"; /* 0: it got no number */
    s->span.error = error;
    s->span.end_ns = clock_wall_ns();
    s->span.start_ns = s->span.end_ns - (now_ns > s->begun_ns ? now_ns - s->begun_ns : 0);
}
