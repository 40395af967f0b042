/* Gathers the times; what they mean is in the header. */
#include "front/limits/request_times.h"

#include "base/endian.h"
#include "front/request.h"
#include "front/service.h"

#include <assert.h>

enum {
    NOTED_MAX = 8
}; /* rows of one batch: a stall must not push all others out of the slow log */

static int64_t not_negative(int64_t ns)
{
    return ns > 0 ? ns : 0;
}

static void times_add(struct histogram *h, int64_t ns, unsigned count)
{
    histogram_add_many(h, (uint64_t)not_negative(ns) / 1000, count);
}

/* A new row, or NULL. */
static struct slow_request *times_note(struct service *s, const struct connection *c, int32_t type,
                                       int32_t xid)
{
    s->metrics->conclave_slow_requests_total++;
    struct slow_request *r = slow_log_add(&s->times.slow);
    if (r == NULL) {
        return NULL;
    }
    r->at_ms = clock_wall_ms(s->clock);
    r->type = type;
    r->xid = xid;
    if (c != NULL) {
        r->session_id = c->session_id;
        slow_request_set_client(r, c->peer);
    }
    return r;
}

/* Traces */

/* The trace of a request: the one that is open, or a new one. NULL: it gets none. */
static struct request_trace *times_trace(const struct connection *c, int32_t type, int32_t xid,
                                         struct slice body, int64_t begun_ns)
{
    struct service *s = c->service;
    if (!s->traces.on || xid <= 0) {
        return NULL;
    }
    struct request_trace *r = request_traces_find(&s->traces, c, xid);
    r = r != NULL ? r : request_traces_begin(&s->traces, c, begun_ns);
    if (r != NULL && r->what.xid == 0) {
        r->what.session_id = c->session_id;
        r->what.xid = xid;
        r->what.type = type;
        r->link = c->trace_link;
        r->client_spans = c->client_spans;
        slow_request_set_client(&r->what, c->peer);
        slow_request_set_path(&r->what, type, body);
    }
    return r;
}

/* The error in the reply at `place`. */
static int32_t times_reply_error(const struct connection *c, size_t place)
{
    enum { ERROR_AT = 4 + 4 + 8 }; /* length, xid, zxid */
    return buf_ok(&c->out) && c->out.len >= place + ERROR_AT + 4
               ? (int32_t)get_be32(c->out.data + place + ERROR_AT)
               : 0;
}

void request_times_answered(struct connection *c, const struct request *r,
                            const struct pending *entry, size_t place)
{
    struct service *s = c->service;
    int64_t begun_ns = entry != NULL ? entry->taken_ns : s->now_ns;
    struct request_trace *trace = times_trace(c, r->type, r->xid, r->body, begun_ns);
    if (trace == NULL) {
        return;
    }
    trace->err = times_reply_error(c, place);
    if (entry != NULL) {
        request_trace_part(trace, entry->group != 0 ? PART_QUORUM : PART_QUEUE, s->now_ns);
    }
    request_trace_part(trace, PART_APPLY, clock_monotonic_ns(s->clock));
}

static void times_trace_write(struct service *s, const struct command *command,
                              const struct pending *entry, bool slow)
{
    const struct request_times *t = &s->times;
    struct request_trace *trace = times_trace(entry->connection, command->type, command->cxid,
                                              command->body, entry->taken_ns);
    if (trace == NULL) {
        return;
    }
    int64_t at_ns = t->left_ns;
    request_trace_part(trace, PART_QUEUE, at_ns);
    request_trace_part(trace, PART_FORWARD, at_ns += t->part_ns[PART_FORWARD]);
    request_trace_part(trace, PART_DISK, at_ns += t->part_ns[PART_DISK]);
    request_trace_part(trace, PART_QUORUM, at_ns + t->part_ns[PART_QUORUM]);
    trace->err = s->effects.err;
    trace->slow = slow;
    trace->applying = true;
}

/* A request that was found slow after it was answered, and its last part so far. */
static void times_trace_slow(const struct connection *c, const struct slow_request *row,
                             struct slice body, enum request_part part, int64_t ns)
{
    int64_t now_ns = clock_monotonic_ns(c->service->clock);
    struct request_trace *trace = times_trace(c, row->type, row->xid, body, now_ns - ns);
    if (trace != NULL) {
        request_trace_part(trace, part, now_ns);
        trace->what.count = row->count;
        trace->slow = true;
    }
}

/* Writes */

void request_times_entry(struct service *s, int64_t appended_ns, int64_t synced_ns)
{
    s->times.appended_ns = appended_ns;
    s->times.synced_ns = synced_ns;
}

void request_times_begin(struct service *s, int64_t sequence)
{
    struct request_times *t = &s->times;
    int64_t now_ns = s->now_ns;
    int64_t left_ns = pipeline_left_ns(&s->pipeline, sequence);
    /* Another server may have the entry and commit it before this one; then nothing is left for the later parts. */
    int64_t appended_ns = t->appended_ns > left_ns ? t->appended_ns : left_ns;
    int64_t synced_ns = t->synced_ns >= appended_ns ? t->synced_ns : now_ns;
    t->left_ns = left_ns != 0 ? left_ns : now_ns;
    t->begun_ns = now_ns;
    t->answered = 0;
    t->noted = 0;
    bool known = left_ns != 0;
    t->part_ns[PART_FORWARD] = known ? appended_ns - left_ns : 0;
    t->part_ns[PART_DISK] = known ? not_negative(synced_ns - appended_ns) : 0;
    t->part_ns[PART_QUORUM] = known ? not_negative(now_ns - synced_ns) : 0;
    t->appended_ns = t->synced_ns = 0;
}

static struct slow_request *times_note_write(struct service *s, const struct command *command,
                                             const struct connection *c, int64_t queue_ns)
{
    struct request_times *t = &s->times;
    if (t->noted == NOTED_MAX) {
        s->metrics->conclave_slow_requests_total++;
        return NULL;
    }
    struct slow_request *r = times_note(s, c, command->type, command->cxid);
    if (r != NULL) {
        r->session_id = command->session_id;
        slow_request_set_path(r, command->type, command->body);
        r->part_us[PART_QUEUE] = not_negative(queue_ns) / 1000;
        r->part_us[PART_FORWARD] = t->part_ns[PART_FORWARD] / 1000;
        r->part_us[PART_DISK] = t->part_ns[PART_DISK] / 1000;
        r->part_us[PART_QUORUM] = t->part_ns[PART_QUORUM] / 1000;
        t->last[t->noted++] = r;
    }
    return r;
}

void request_times_write(struct service *s, const struct command *command,
                         const struct pending *entry)
{
    struct request_times *t = &s->times;
    int64_t queue_ns = t->left_ns - entry->taken_ns;
    t->answered++;
    times_add(&s->metrics->part_queue, queue_ns, 1);
    const struct connection *c = entry->connection;
    bool slow = slow_log_wants(&t->slow, t->begun_ns - entry->taken_ns);
    bool noted = slow && times_note_write(s, command, c, queue_ns) != NULL;
    if (c != NULL && s->traces.on &&
        (noted || request_traces_sample(&s->traces, c->trace_seed, command->cxid))) {
        times_trace_write(s, command, entry, slow);
    }
}

void request_times_end(struct service *s, const struct command *command)
{
    struct request_times *t = &s->times;
    struct server_metrics *m = s->metrics;
    if (t->answered == 0) {
        return;
    }
    int64_t applied_ns = clock_monotonic_ns(s->clock);
    int64_t apply_ns = applied_ns - t->begun_ns;
    request_traces_applied(&s->traces, applied_ns);
    times_add(&m->part_forward, t->part_ns[PART_FORWARD], t->answered);
    times_add(&m->part_disk, t->part_ns[PART_DISK], t->answered);
    times_add(&m->part_quorum, t->part_ns[PART_QUORUM], t->answered);
    times_add(&m->part_apply, apply_ns, t->answered);
    if (t->noted == 0 && slow_log_wants(&t->slow, apply_ns)) {
        const struct connection *c = service_connection(s, command->session_id);
        struct slow_request *r = times_note_write(s, command, c, 0);
        if (r != NULL) {
            r->count = t->answered;
        }
        if (r != NULL && c != NULL) {
            times_trace_slow(c, r, command->body, PART_APPLY, apply_ns);
        }
    }
    for (unsigned i = 0; i < t->noted; i++) {
        t->last[i]->part_us[PART_APPLY] = not_negative(apply_ns) / 1000;
    }
    t->noted = 0;
}

/* Reads */

void request_times_read(struct connection *c, const struct request *r, int64_t ns, unsigned count,
                        enum request_part part)
{
    struct service *s = c->service;
    assert(part == PART_QUEUE || part == PART_QUORUM || part == PART_APPLY);
    if (!slow_log_wants(&s->times.slow, ns) || count == 0) {
        return;
    }
    struct slow_request *row = times_note(s, c, r->type, r->xid);
    if (row != NULL) {
        row->count = count;
        row->part_us[part] = ns / 1000;
        slow_request_set_path(row, r->type, r->body);
        times_trace_slow(c, row, r->body, part, ns);
    }
}

/* Sending */

void request_times_sent(struct connection *c, size_t unsent, bool taken)
{
    struct service *s = c->service;
    if (taken && c->sending_since_ns != 0) {
        int64_t ns = clock_monotonic_ns(s->clock) - c->sending_since_ns;
        c->sending_since_ns = 0;
        times_add(&s->metrics->part_send, ns, 1);
        if (slow_log_wants(&s->times.slow, ns)) {
            struct slow_request *row =
                times_note(s, c, c->stats.last_type, (int32_t)c->stats.last_cxid);
            if (row != NULL) {
                row->part_us[PART_SEND] = not_negative(ns) / 1000;
            }
            if (row != NULL && s->traces.open_count == 0) {
                times_trace_slow(c, row, SLICE_NULL, PART_SEND, ns);
            }
        }
    }
    if (s->traces.open_count > 0) {
        request_traces_sent(&s->traces, c, taken, unsent == 0, clock_monotonic_ns(s->clock));
    }
    if (unsent > 0 && c->sending_since_ns == 0) {
        c->sending_since_ns = clock_monotonic_ns(s->clock);
    } else if (unsent == 0) {
        times_add(&s->metrics->part_send, 0, 1); /* it took all at once */
    }
}

void request_times_gone(struct connection *c)
{
    struct service *s = c->service;
    if (s->traces.open_count > 0) {
        request_traces_gone(&s->traces, c, clock_monotonic_ns(s->clock));
    }
}
