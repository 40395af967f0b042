/* Requests: sends or queues them, matches replies in order, times out. */
#include "client/core/core_internal.h"

#include "base/clock.h"
#include "base/endian.h"
#include "client/core/path.h"

#include <assert.h>
#include <stdlib.h>

enum {
    FRAME_XID = 4, /* offsets in an encoded frame */
    FRAME_OPCODE = 8,
};

int32_t core_next_xid(struct core *c)
{
    int32_t xid = c->next_xid;
    c->next_xid = xid == INT32_MAX ? 1 : xid + 1;
    return xid;
}

static struct client_request *first_of(const struct list *requests)
{
    return list_empty(requests) ? NULL : CONTAINER_OF(requests->next, struct client_request, link);
}

void core_answer(struct core *c, struct client_request *r, int error)
{
    if (!r->answered && core_retry_wants(c, r, error)) {
        core_retry_pause(c, r, error);
        return;
    }
    timers_remove(&c->timeouts, &r->timer);
    timers_remove(&c->pauses, &r->again);
    if (r->answered) {
        request_unref(r);
        return;
    }
    bool known = error == 0 || error == CONCLAVE_OPERATION_TIMEOUT || error == CONCLAVE_ECLOSED;
    r->answered = true;
    r->reply.error = r->unsure && !known ? CONCLAVE_CONNECTION_LOSS : error;
    c->events->reply(c->ctx, r);
}

/* How much r counts against max_pending. */
static size_t request_weight(const struct client_request *r)
{
    return r->counted ? 1 + (size_t)r->syncing : 0;
}

/* r was added to one of the core's lists, or removed from all. */
void core_request_enter(struct core *c, const struct client_request *r)
{
    c->pending += request_weight(r);
}

void core_request_leave(struct core *c, const struct client_request *r)
{
    assert(c->pending >= request_weight(r));
    c->pending -= request_weight(r);
}

void core_answer_all(struct core *c, struct list *requests, int error)
{
    if (list_empty(requests)) {
        return;
    }
    struct list *last = requests->prev;
    struct list *link;
    do {
        link = list_pop_front(requests);
        struct client_request *r = CONTAINER_OF(link, struct client_request, link);
        core_request_leave(c, r);
        core_answer(c, r, error != 0 ? error : r->reply.error);
    } while (link != last);
}

void core_requeue(struct core *c, struct client_request *r)
{
    assert(r->xid != 0 && r->frame != NULL && !r->answered);
    list_remove(&r->link);
    core_request_leave(c, r);
    r->syncing = r->sync_xid != 0; /* its sync must be sent again, too */
    r->xid = 0;
    list_push_front(&c->queued, &r->link);
    core_request_enter(c, r);
}

void core_refuse_queued(struct core *c, struct client_request *r, int error)
{
    assert(r->xid == 0 && !r->answered);
    list_remove(&r->link);
    core_request_leave(c, r);
    core_answer(c, r, error);
}

/* r was put on the link. */
static void request_enter_link(struct core *c, struct client_request *r, int64_t now_ns)
{
    assert(c->link == LINK_UP && r->xid != 0);
    r->sent_ns = c->sent_ns = now_ns;
    list_push_back(&c->inflight, &r->link);
    if (r->span != NULL) {
        request_span_sent(r->span, c->session_id, c->trace_link, r->xid);
    }
}

/* Puts a request with its own frame on the link. */
static int request_send(struct core *c, struct client_request *r, int64_t now_ns)
{
    assert(c->link == LINK_UP && r->xid == 0 && r->frame_len >= FRAME_OPCODE + 4);
    if (r->opcode == WIRE_CREATE2 && c->create2_missing) {
        r->opcode = WIRE_CREATE;
        put_be32(r->frame + FRAME_OPCODE, WIRE_CREATE);
    }
    int rc = buf_reserve(&c->out, r->frame_len + CORE_ONCE_ROOM);
    if (rc != 0) {
        c->out.failed = false;
        return CONCLAVE_ENOMEM;
    }
    uint8_t *frame = r->frame;
    if (r->syncing) {
        r->sync_xid = core_next_xid(c);
        put_be32(frame + FRAME_XID, (uint32_t)r->sync_xid);
        frame += 4 + get_be32(frame);
    }
    r->xid = core_next_xid(c);
    put_be32(frame + FRAME_XID, (uint32_t)r->xid);
    size_t start = c->out.len;
    buf_append(&c->out, r->frame, r->frame_len);
    core_once_sent(c, r, start);
    request_enter_link(c, r, now_ns);
    bool final = r->opcode != WIRE_CREATE2 || c->create2_known;
    if (!c->once.granted && final && r->retry.max_repeats == 0) {
        free(r->frame);
        r->frame = NULL;
    }
    return 0;
}

/* The oldest queued request that may be sent, or NULL. */
static struct client_request *next_to_send(const struct core *c)
{
    LIST_FOREACH (link, &c->queued) {
        struct client_request *r = CONTAINER_OF(link, struct client_request, link);
        if (core_may_send(c, r)) {
            return r;
        }
    }
    return NULL;
}

int core_flush_queue(struct core *c, int64_t now_ns)
{
    struct client_request *r;
    while ((r = next_to_send(c)) != NULL && core_once_fits(c, r)) {
        list_remove(&r->link);
        int rc = request_send(c, r, now_ns);
        if (rc != 0) {
            list_push_front(&c->queued, &r->link);
            return rc;
        }
    }
    return 0;
}

/* Appends op's frame, after that of its sync if it needs one: nothing comes between the two. On failure b is
 * unchanged. */
static int core_request_encode(const struct core *c, struct buf *b, const struct conclave_op *op,
                               int32_t sync_xid, int32_t xid)
{
    size_t start = b->len;
    size_t room = c->options.exactly_once ? CORE_ONCE_ROOM : 0;
    struct request_form form = {
        .chroot = c->options.chroot,
        .acl = c->options.acl,
        .acl_count = c->options.acl_count,
        .create2 = !c->create2_missing,
        .max = c->options.max_request > room ? c->options.max_request - room : 0,
    };
    int rc = 0;
    if (op->linearizable) {
        /* If there is no complete path, the root: a sync covers the whole tree. */
        bool own = op->type != CONCLAVE_OP_MULTI_READ && op->type != CONCLAVE_OP_GET_EPHEMERALS;
        struct conclave_op sync = conclave_op_path(CONCLAVE_OP_SYNC, own ? op->path : "/", 0);
        rc = request_encode(b, &sync, sync_xid, &form);
    }
    if (rc == 0) {
        rc = request_encode(b, op, xid, &form);
    }
    if (rc != 0) {
        b->len = start;
    }
    return rc;
}

/* Encodes directly into the link's output: the usual case. */
static int submit_direct(struct core *c, const struct conclave_op *op, struct client_request *r,
                         int64_t now_ns)
{
    int32_t first_xid = c->next_xid;
    int32_t sync_xid = r->syncing ? core_next_xid(c) : 0;
    int32_t xid = core_next_xid(c);
    int rc = core_request_encode(c, &c->out, op, sync_xid, xid);
    if (rc != 0) {
        c->next_xid = first_xid;
    } else {
        assert(r->frame == NULL && list_empty(&c->queued));
        r->sync_xid = sync_xid;
        r->xid = xid;
        request_enter_link(c, r, now_ns);
    }
    return rc;
}

/* Encodes into separate memory: for later, or to be able to send it again. */
static int submit_framed(struct core *c, const struct conclave_op *op, struct client_request *r,
                         int64_t now_ns)
{
    struct buf b;
    buf_init(&b, 0);
    int rc = core_request_encode(c, &b, op, 0, 0);
    if (rc != 0) {
        buf_finish(&b);
        return rc;
    }
    r->frame = buf_take(&b, &r->frame_len);
    bool next = (list_empty(&c->queued) || c->read_only) && core_may_send(c, r);
    if (c->link == LINK_UP && next && core_once_fits(c, r)) {
        return request_send(c, r, now_ns);
    }
    list_push_back(&c->queued, &r->link);
    return 0;
}

int core_submit(struct core *c, const struct conclave_op *op, struct client_request *r,
                int64_t now_ns)
{
    if (c->closing || c->final_error == CONCLAVE_ECLOSED) {
        return CONCLAVE_ECLOSED;
    }
    if (r->counted && c->options.max_pending > 0 &&
        c->pending + request_weight(r) > c->options.max_pending) {
        return CONCLAVE_ETOOMANY;
    }
    if (r->counted && op->retry == NULL) {
        r->retry = c->options.retry;
    }
    c->now_ns = now_ns;
    if (c->final_error != 0) {
        r->reply.error = c->final_error;
        list_push_back(&c->refused, &r->link);
        core_request_enter(c, r);
        return 0;
    }
    r->opcode = request_opcode(op, !c->create2_missing);
    r->answer_max = c->options.exactly_once ? core_once_answer_max(c, op) : 0;
    bool framed = c->link != LINK_UP || !list_empty(&c->queued) || !core_may_send(c, r) ||
                  c->once.granted || r->retry.max_repeats > 0 ||
                  (r->opcode == WIRE_CREATE2 && !c->create2_known);
    int rc = framed ? submit_framed(c, op, r, now_ns) : submit_direct(c, op, r, now_ns);
    if (rc != 0) {
        return rc;
    }
    core_request_enter(c, r);
    int64_t ms = r->timeout_ms != 0 ? r->timeout_ms : c->options.request_timeout_ms;
    if (ms >= 0) {
        timers_add(&c->timeouts, &r->timer, clock_add_ms(now_ns, ms));
    }
    return 0;
}

void core_expire_requests(struct core *c, int64_t now_ns)
{
    struct timer *t;
    while ((t = timers_expire(&c->timeouts, now_ns)) != NULL) {
        struct client_request *r = CONTAINER_OF(t, struct client_request, timer);
        if (r->xid == 0) {
            core_refuse_queued(c, r, CONCLAVE_OPERATION_TIMEOUT);
        } else {
            /* On the link it keeps its place in the order of replies. */
            atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
            core_answer(c, r, CONCLAVE_OPERATION_TIMEOUT);
        }
    }
}

int core_send_bare(struct core *c, struct client_request *r, const char *path, int32_t type)
{
    assert(c->link == LINK_UP || c->link == LINK_FAREWELL);
    size_t start = wire_frame_begin(&c->out);
    struct wire_request_header header = {c->next_xid, r->opcode};
    wire_encode_request_header(&c->out, &header);
    if (path != NULL) {
        path_write(&c->out, c->options.chroot, path);
        wire_write_i32(&c->out, type);
    }
    int rc = core_frame_end(c, start);
    if (rc != 0) {
        return rc;
    }
    r->xid = core_next_xid(c);
    r->sent_ns = c->sent_ns; /* not later than now */
    list_push_back(&c->inflight, &r->link);
    return 0;
}

int core_send_close(struct core *c, int64_t now_ns)
{
    struct client_request *r = request_create_bare(WIRE_CLOSE_SESSION);
    if (r == NULL) {
        return CONCLAVE_ENOMEM;
    }
    r->answered = true; /* it has no caller */
    c->sent_ns = now_ns;
    int rc = core_send_bare(c, r, NULL, 0);
    if (rc != 0) {
        request_unref(r);
    }
    return rc;
}

/* Sets the request's watch if the answer allows it: after every success, and for exists also if the node does not
 * exist. */
static void set_watch(struct core *c, struct client_request *r, int error)
{
    bool absent = r->opcode == WIRE_EXISTS && error == CONCLAVE_NO_NODE;
    if (r->watch == NULL || (error != 0 && !absent)) {
        return;
    }
    enum client_watch_kind kind = absent                            ? WATCH_EXIST
                                  : r->opcode == WIRE_ADD_WATCH     ? r->watch->kind
                                  : r->opcode == WIRE_GET_CHILDREN2 ? WATCH_CHILD
                                                                    : WATCH_DATA;
    if (!r->answered) {
        watches_add_take(&c->watches, r->watch, kind);
        r->watch = NULL;
    } else if (watch_kind_is_persistent(kind)) {
        /* The caller was already told of a timeout. */
        core_release_watch(c, r->watch->path, kind);
    }
}

/* The server does not know create2: the link ends (Apache's server closes it anyway), and a plain create is sent first
 * on the next one. */
static int fall_back_to_create(struct core *c, struct client_request *r)
{
    c->create2_missing = true;
    if (r->answered) {
        request_unref(r);
    } else {
        r->xid = 0;
        list_push_front(&c->queued, &r->link);
        core_request_enter(c, r);
    }
    return CONCLAVE_EUNSUPPORTED;
}

/* The answer to the sync before r, the first request on the link, which stays there. If the sync failed, r is answered
 * with its error. */
static void take_sync(struct core *c, struct client_request *r,
                      const struct wire_reply_header *header)
{
    core_request_leave(c, r);
    r->syncing = false;
    core_request_enter(c, r);
    if (header->err != 0 && !r->answered && core_retry_wants(c, r, header->err)) {
        r->sync_error = header->err; /* repeated when the read's own answer has come */
    } else if (header->err != 0 && !r->answered) {
        r->reply.zxid = header->zxid;
        atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
        core_answer(c, r, header->err);
    }
}

int core_take_reply(struct core *c, const struct wire_reply_header *header, struct slice body,
                    bool oversized)
{
    struct client_request *r = first_of(&c->inflight);
    if (r == NULL || (r->syncing ? r->sync_xid : r->xid) != header->xid) {
        return CONCLAVE_EPROTO;
    }
    c->acked_ns = r->sent_ns > c->acked_ns ? r->sent_ns : c->acked_ns;
    if (r->syncing) {
        take_sync(c, r, header);
        return 0;
    }
    if (core_once_is_unknown(c, r, header->err)) {
        return CONCLAVE_SESSION_MOVED;
    }
    list_remove(&r->link);
    core_request_leave(c, r);
    core_once_answered(c, r);
    if (r->opcode == WIRE_CLOSE_SESSION) {
        request_unref(r);
        return CONCLAVE_ECLOSED;
    }
    if (r->opcode == WIRE_REMOVE_WATCHES) {
        core_take_released(c, r, header->err);
        request_unref(r);
        return 0;
    }
    if (r->opcode == WIRE_CREATE2) {
        /* A server that grants exactly-once knows create2, so it refuses this one: the program gets the error. */
        if (header->err == CONCLAVE_UNIMPLEMENTED && !c->create2_known && !c->once.granted) {
            return fall_back_to_create(c, r);
        }
        c->create2_known = true;
    }
    if (!r->answered) {
        r->reply.zxid = header->zxid; /* otherwise the program owns it by now */
    }
    int error = r->sync_error != 0 ? r->sync_error : header->err;
    int rc = 0;
    if (!r->answered && error == 0) {
        rc = oversized ? CONCLAVE_ETOOBIG : request_decode(r, body, c->options.chroot);
        error = rc != 0 ? rc : r->reply.error;
    }
    if (rc == 0) {
        set_watch(c, r, error);
    }
    core_answer(c, r, error);
    return rc == CONCLAVE_EPROTO ? rc : 0;
}
