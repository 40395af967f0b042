#include "front/connection.h"

#include "base/endian.h"
#include "base/log.h"
#include "base/transition.h"
#include "front/handshake.h"
#include "front/request.h"
#include "front/request_sasl.h"
#include "front/service.h"
#include "state/operation.h"
#include "state/query.h"

#include <assert.h>

enum {
    REPLY_ERR_AT = 4 + 4 + 8, /* length, xid, zxid */
    REPLY_RECORD_AT = 4 + 4 + 8 + 4,
    WAITING_KEEP = 65536, /* answered bytes that may stay in front of the waiting ones */
    SESSION_REQUEST_MAX = 4096,
    ADDRESS_SHARES = 8, /* limit of an address, as a multiple of the requests left for others */
};

void connection_enter(struct connection *c, enum connection_stage stage)
{
    enum { TO_END = TRANSITION_TO(CONNECTION_CLOSING) | TRANSITION_TO(CONNECTION_CLOSED) };
    static const uint16_t NEXT[] = {
        [CONNECTION_SECURING] = TRANSITION_TO(CONNECTION_HANDSHAKE) | TO_END,
        [CONNECTION_HANDSHAKE] = TRANSITION_TO(CONNECTION_SECURING) |
                                 TRANSITION_TO(CONNECTION_CREATING) |
                                 TRANSITION_TO(CONNECTION_SERVING) | TO_END,
        [CONNECTION_CREATING] = TRANSITION_TO(CONNECTION_SERVING) | TO_END,
        [CONNECTION_SERVING] = TO_END,
        [CONNECTION_CLOSING] = TO_END,
        [CONNECTION_CLOSED] = TRANSITION_TO(CONNECTION_CLOSED),
    };
    transition_check(NEXT, c->stage, stage);
    assert(stage > CONNECTION_SERVING || c->pending_count == 0); /* no request before it serves */
    c->stage = stage;
}

/* After this deadline service_tick closes the connection, unless it has left the list. */
static void connection_set_deadline(struct connection *c)
{
    struct service *s = c->service;
    c->handshake_at = clock_monotonic_ms(s->clock) + s->limits.handshake_ms;
    list_push_back(&s->handshaking, &c->handshaking);
}

int connection_init(struct connection *c, struct service *s, const char *host, const char *peer)
{
    *c = (struct connection){
        .service = s, .stage = CONNECTION_HANDSHAKE, .host = host, .peer = peer};
    connection_reset_stats(c);
    c->established_ms = clock_wall_ms(s->clock);
    list_init(&c->dirty);
    list_init(&c->throttled);
    list_init(&c->handshaking);
    list_init(&c->confirming);
    list_init(&c->held);
    c->touched_ms = c->heard_ms = CONTACT_NEVER;
    c->link = SESSION_LINK_OPEN;
    list_init(&c->pending);
    watcher_init(&c->watcher);
    client_ids_init(&c->identity, s->limits.identity_max, s->limits.command.ids);
    buf_init(&c->waiting, 0);
    buf_init(&c->out, 0);
    buf_init(&c->verified_id, 0);
    connection_set_deadline(c);
    c->address = client_address_hold(&s->addresses, host);
    if (c->address == NULL) {
        return CONCLAVE_ENOMEM;
    }
    account_init(&c->account, &c->address->account);
    c->watcher.account = &c->account;
    c->identity.account = &c->account;
    int rc = client_ids_add(&c->identity, slice_str("ip"), slice_str(host));
    if (rc == 0 && s->skip_acl) {
        rc = client_ids_add(&c->identity, slice_str("super"), slice_str(""));
    }
    return rc;
}

int connection_add_certificate(struct connection *c, struct slice subject)
{
    return client_ids_add_x509(&c->identity, c->service->x509_super, subject);
}

static void connection_end_reading_on(struct connection *c)
{
    if (c->address != NULL && c->address->reads_on == c) {
        c->address->reads_on = NULL;
    }
}

void connection_finish(struct connection *c)
{
    struct service *s = c->service;
    if (c->mapped) {
        session_notes_unlinked(s, c);
    }
    list_remove(&c->dirty);
    list_remove(&c->throttled);
    list_remove(&c->handshaking);
    list_remove(&c->confirming);
    list_remove(&c->held);
    service_detach(s, c);
    request_times_gone(c);
    watcher_finish(s->watches, &c->watcher);
    struct list *node;
    while ((node = list_pop_front(&c->pending)) != NULL) {
        struct pending *entry = CONTAINER_OF(node, struct pending, order);
        assert(entry->connection == c && c->pending_count > 0);
        entry->connection = NULL;
        c->pending_count--;
        if (entry->write) {
            pipeline_recharge(entry, &s->account);
        } else {
            pipeline_release(&s->pipeline, entry);
        }
    }
    assert(c->pending_count == 0);
    password_check_drop(c->verification);
    c->verification = NULL;
    buf_finish(&c->verified_id);
    connection_enter(c, CONNECTION_CLOSED);
    client_ids_finish(&c->identity);
    sasl_login_destroy(c->login);
    c->login = NULL;
    buf_finish(&c->waiting);
    buf_finish(&c->out);
    c->sending = 0;
    connection_count_output(c);
    account_hold(&c->account, ACCOUNT_INPUT, 0);
    account_finish(&c->account);
    connection_end_reading_on(c);
    client_address_release(&s->addresses, c->address);
    c->address = NULL;
}

void connection_reset_stats(struct connection *c)
{
    c->stats = (struct connection_stats){
        .last_cxid = -1, .last_zxid = -1, .last_type = CONNECTION_NO_TYPE};
}

static void connection_set_dirty(struct connection *c)
{
    if (list_empty(&c->dirty)) {
        list_push_back(&c->service->dirty, &c->dirty);
    }
}

void connection_end(struct connection *c)
{
    connection_enter(c, CONNECTION_CLOSED);
    c->input_ended = true;
    connection_set_dirty(c);
}

void connection_drop(struct connection *c, const char *reason)
{
    if (c->stage != CONNECTION_CLOSED) {
        log_cause(
            LOG_WARN, "server", "connection-closed", c->host, reason,
            "read the reason; when it is a limit of the server, raise that limit or slow the client down",
            "peer=%s session=0x%llx reason=\"%s\"", c->peer, (unsigned long long)c->session_id,
            reason);
    }
    if (c->link == SESSION_LINK_OPEN) {
        c->link = SESSION_LINK_DROPPED;
        c->link_reason = reason;
    }
    connection_end(c);
}

void connection_lost(struct connection *c, bool lost, const char *reason)
{
    if (c->link == SESSION_LINK_OPEN) {
        c->link = lost ? SESSION_LINK_LOST : SESSION_LINK_LEFT;
        c->link_reason = reason;
    }
    connection_end(c);
}

void connection_close_after_output(struct connection *c)
{
    if (c->stage != CONNECTION_CLOSED) {
        connection_enter(c, CONNECTION_CLOSING);
    }
    if (list_empty(&c->handshaking)) { /* the client may never read the rest of the output */
        connection_set_deadline(c);
    }
    c->input_ended = true;
    connection_end_reading_on(c);
    connection_set_dirty(c);
}

static bool connection_is_open(const struct connection *c)
{
    return c->stage != CONNECTION_CLOSING && c->stage != CONNECTION_CLOSED;
}

/* Closes a connection that was sent away, once no answer is outstanding. */
static void connection_go_if_sent_away(struct connection *c)
{
    if (c->sent_away && c->pending_count == 0 && connection_is_open(c)) {
        connection_close_after_output(c);
    }
}

void connection_send_away(struct connection *c)
{
    c->sent_away = true;
    c->input_ended = true;
    connection_go_if_sent_away(c);
}

/* Counts in `reason`, too, unless it is NULL. */
static void connection_throttle(struct connection *c, uint64_t *reason)
{
    if (!list_empty(&c->throttled)) {
        return;
    }
    c->service->metrics->request_throttle_wait_count++;
    if (reason != NULL) {
        *reason += 1;
    }
    service_throttle(c->service, c);
}

bool connection_has_room(const struct connection *c, size_t more)
{
    const struct service *s = c->service;
    return account_buffers(&c->address->account) + more <= s->limits.address_buffers_max &&
           account_buffers(&s->account) + more <= s->limits.buffers_max;
}

/* Whether the server reads the rest of its unfinished request although there is no room. Each address has one such
 * connection: if all waited for each other's memory, no request would end. */
static bool connection_reads_on(struct connection *c)
{
    struct client_address *a = c->address;
    const size_t *bytes = c->account.bytes;
    if (a->reads_on == NULL && bytes[ACCOUNT_INPUT] > 0 && bytes[ACCOUNT_OUTPUT] == 0) {
        a->reads_on = c;
    }
    return a->reads_on == c;
}

/* A connection that keeps more than CONNECTION_BUFFERS_FREE waits while its address or all connections are near their
 * limits. The client decides when that ends, so the wait has a deadline. */
static bool connection_waits_for_memory(struct connection *c)
{
    bool over = account_buffers(&c->account) > CONNECTION_BUFFERS_FREE &&
                !connection_has_room(c, c->service->limits.address_buffers_max / 4);
    if (c->stage != CONNECTION_SERVING) {
        return over;
    }
    if (!over) {
        connection_end_reading_on(c);
        if (!list_empty(&c->handshaking)) {
            list_remove(&c->handshaking);
        }
        return false;
    }
    if (list_empty(&c->handshaking)) {
        connection_set_deadline(c);
        c->service->metrics->conclave_waits_buffers_total++;
    }
    if (connection_reads_on(c)) {
        return false;
    }
    connection_throttle(c, NULL);
    return true;
}

/* Whether the connection or its address has more than its share of requests in progress. The share leaves room for all
 * others: a lone connection gets half of the limit, a lone address 8 of 9 parts. */
static bool connection_over_share(const struct connection *c)
{
    const struct service *s = c->service;
    size_t all = s->pipeline.outstanding;
    size_t left = s->limits.outstanding_max > all ? s->limits.outstanding_max - all : 0;
    return c->pending_count > left ||
           c->address->account.charges[ACCOUNT_REQUESTS] / ADDRESS_SHARES > left;
}

bool connection_ready(struct connection *c)
{
    struct service *s = c->service;
    const struct client_limits *limits = &s->limits;
    if (c->input_ended || c->stage == CONNECTION_CREATING || c->reconfiguring ||
        c->verification != NULL || !connection_is_open(c) || connection_waits_for_memory(c) ||
        c->pending_count >= limits->pipelined_max ||
        c->account.bytes[ACCOUNT_REQUESTS] >= limits->pipelined_bytes_max ||
        c->out.len + c->sending + c->waiting_replies >= limits->output_pause) {
        return false;
    }
    bool served = leadership_in_contact(s) || c->read_only || connection_is_new(c);
    if (!served || !service_admits(s)) {
        connection_throttle(c, NULL);
    } else if (c->address->account.bytes[ACCOUNT_REQUESTS] >= limits->address_bytes_max) {
        connection_throttle(c, &s->metrics->conclave_waits_address_total);
    } else if (connection_over_share(c)) {
        connection_throttle(c, &s->metrics->conclave_waits_share_total);
    } else {
        return true;
    }
    return false;
}

void connection_count_output(struct connection *c)
{
    account_hold(&c->account, ACCOUNT_OUTPUT, c->out.len + c->sending);
}

void connection_output_added(struct connection *c)
{
    if (!buf_ok(&c->out)) {
        connection_drop(c, "out of memory");
        return;
    }
    if (c->out.len > CONNECTION_BUFFERS_FREE) {
        connection_count_output(c); /* small output is counted after sending, in the same turn */
    }
    connection_set_dirty(c);
}

size_t connection_reply_begin(struct connection *c, int32_t xid, int64_t zxid)
{
    size_t place = wire_frame_begin(&c->out);
    struct wire_reply_header header = {.xid = xid, .zxid = zxid};
    wire_encode_reply_header(&c->out, &header);
    return place;
}

void connection_reply_fail(struct connection *c, size_t place, int32_t err)
{
    if (buf_ok(&c->out)) {
        assert(c->out.len >= place + REPLY_RECORD_AT);
        c->out.len = place + REPLY_RECORD_AT;
        buf_put_i32(&c->out, place + REPLY_ERR_AT, err);
    }
}

void connection_count_sent(struct connection *c)
{
    c->service->stats.packets_sent++;
    c->stats.sent++;
}

void connection_reply_end(struct connection *c, size_t place)
{
    struct server_metrics *m = c->service->metrics;
    c->answered = true;
    wire_frame_end(&c->out, place);
    connection_count_sent(c);
    int64_t size = (int64_t)(c->out.len - place);
    m->response_bytes += (uint64_t)size;
    m->response_last = size;
    m->response_max = size > m->response_max ? size : m->response_max;
    m->response_min = m->response_min < 0 || size < m->response_min ? size : m->response_min;
    connection_output_added(c);
    if (c->faults.loses && buf_ok(&c->out)) {
        faults_on_reply(c, (int32_t)get_be32(buf_slice(&c->out).data + place + 4));
    }
}

void connection_reply(struct connection *c, int32_t xid, int64_t zxid, int32_t err)
{
    size_t place = connection_reply_begin(c, xid, zxid);
    if (err != 0) {
        connection_reply_fail(c, place, err);
    }
    connection_reply_end(c, place);
}

/* Counts answered requests as ZooKeeper's updateStatsForResponse does. */
static void connection_measure(struct connection *c, bool write, int64_t latency_ns, unsigned count)
{
    struct connection_stats *stats = &c->stats;
    struct server_metrics *m = c->service->metrics;
    if (count == 0) {
        return;
    }
    latency_ns = latency_ns < 0 ? 0 : latency_ns;
    uint64_t us = (uint64_t)latency_ns / 1000;
    summary_add_many(write ? &m->updatelatency : &m->readlatency, us, count);
    histogram_add_many(write ? &m->duration_write : &m->duration_read, us, count);
    int64_t ms = latency_ns / 1000000;
    if (stats->answered == 0 || ms < stats->latency_min_ms) {
        stats->latency_min_ms = ms;
    }
    stats->latency_max_ms = ms > stats->latency_max_ms ? ms : stats->latency_max_ms;
    stats->latency_last_ms = ms;
    stats->latency_sum_ms += (uint64_t)ms * count;
    stats->answered += count;
}

/* Records the last answered request. xids below 0 belong to the protocol. */
static void connection_note(struct connection *c, int32_t type, int32_t xid, int64_t zxid)
{
    c->stats.last_type = type;
    c->stats.last_zxid = zxid;
    if (xid >= 0) {
        c->stats.last_cxid = xid;
    }
}

void connection_event(struct connection *c, int32_t type, struct slice path, int64_t zxid)
{
    if (!connection_is_open(c)) {
        return;
    }
    size_t place = connection_reply_begin(c, WIRE_XID_NOTIFICATION, zxid);
    struct wire_watcher_event event = {
        .type = type, .state = WIRE_STATE_SYNC_CONNECTED, .path = path};
    wire_encode_watcher_event(&c->out, &event);
    wire_frame_end(&c->out, place);
    connection_count_sent(c);
    c->service->metrics->watch_bytes += c->out.len - place;
    connection_output_added(c);
    if (c->out.len + c->sending > c->service->limits.output_max) {
        c->service->metrics->conclave_slow_clients_cut_total++;
        connection_drop(c, "slow reader: its unsent events and replies passed the limit");
    }
}

/* The queue */

static void connection_push(struct connection *c, struct pending *entry)
{
    assert(entry->connection == NULL && list_empty(&entry->order));
    entry->connection = c;
    list_push_back(&c->pending, &entry->order);
    c->pending_count++;
    c->waiting_replies += entry->reply_bytes;
}

static void connection_pop(struct connection *c, struct pending *entry)
{
    assert(entry->connection == c && c->pending_count > 0);
    list_remove(&entry->order);
    c->pending_count--;
    assert(c->waiting_replies >= entry->reply_bytes);
    c->waiting_replies -= entry->reply_bytes;
    entry->connection = NULL;
    pipeline_release(&c->service->pipeline, entry);
}

void connection_forget(struct connection *c, struct pending *entry)
{
    connection_pop(c, entry);
    if (c->stage == CONNECTION_CREATING) {
        connection_drop(c, "the server reset its state");
    }
}

void connection_write(struct connection *c, const struct command *command, int32_t xid)
{
    struct service *s = c->service;
    size_t bytes = command->ids.items.len + command->body.len; /* both are part of the log entry */
    struct pending *entry = pipeline_pending(&s->pipeline, &c->account, bytes, s->now_ns);
    if (entry == NULL) {
        connection_drop(c, "out of memory");
        return;
    }
    entry->xid = xid;
    entry->type = command->type;
    int rc = pipeline_write(&s->pipeline, command, clock_wall_ms(s->clock), entry);
    if (rc != 0) {
        pipeline_release(&s->pipeline, entry);
        connection_drop(c, rc == CONCLAVE_ENOMEM ? "out of memory" : "the log accepts no writes");
        return;
    }
    c->reconfiguring = command->type == WIRE_RECONFIG;
    connection_push(c, entry);
}

/* The size of the answer now, or more. Waiting requests are answered at once, even if the client does not read, so
 * their answers count as output before they exist. After a request for a long list the server reads nothing until it is
 * answered. */
static size_t connection_reply_bytes(const struct connection *c, const struct request *r)
{
    size_t bound = state_reply_bound(c->service->state, c->session_id, r->type, r->body);
    size_t len = bound == STATE_REPLY_LONG ? c->service->limits.output_pause
                 : bound > r->body.len     ? bound
                                           : r->body.len; /* a refusal needs this, too */
    return REPLY_RECORD_AT + len;
}

/* Keeps a request that must not overtake earlier ones, or that waits until its group is confirmed. */
static void connection_wait(struct connection *c, const struct request *r, uint64_t group)
{
    struct service *s = c->service;
    struct pending *entry = pipeline_pending(&s->pipeline, &c->account, r->body.len, s->now_ns);
    size_t at = c->waiting.len;
    buf_append_slice(&c->waiting, r->body);
    if (entry == NULL || !buf_ok(&c->waiting)) {
        if (entry != NULL) {
            pipeline_release(&s->pipeline, entry);
        }
        connection_drop(c, "out of memory");
        return;
    }
    entry->xid = r->xid;
    entry->type = r->type;
    entry->err = r->err;
    entry->body_at = c->waiting_base + at;
    entry->body_len = r->body.len;
    entry->reply_bytes = connection_reply_bytes(c, r);
    entry->group = group;
    connection_push(c, entry);
}

/* Drops answered bodies: all if none waits, otherwise only if they are many. */
static void connection_trim_waiting(struct connection *c, uint64_t done)
{
    assert(done >= c->waiting_base && done - c->waiting_base <= c->waiting.len);
    size_t front = (size_t)(done - c->waiting_base);
    if (c->pending_count == 0) {
        front = c->waiting.len;
        if (c->waiting.cap > WAITING_KEEP) {
            c->waiting_base += front;
            buf_finish(&c->waiting);
            return;
        }
    } else if (front < WAITING_KEEP || front < c->waiting.len / 2) {
        return;
    }
    buf_consume(&c->waiting, front);
    c->waiting_base += front;
}

/* entry: where it waited; NULL: nowhere. */
static void connection_answer(struct connection *c, const struct request_row *row,
                              const struct request *r, const struct pending *entry)
{
    size_t place = c->out.len;
    if (r->err != 0 && row->kind != REQUEST_AUTH) {
        answer_refused(c, r);
    } else {
        row->answer(c, r);
    }
    if (row->kind != REQUEST_AUTH) {
        connection_note(c, r->type, r->xid, state_zxid(c->service->state));
        c->unmeasured++;
        if (request_traces_sample(&c->service->traces, c->trace_seed, r->xid)) {
            request_times_answered(c, r, entry, place);
        }
    }
}

/* Makes sure that the connection is resumed: a write is resumed by its entry, a group of reads by this list. */
static void connection_await(struct connection *c, const struct pending *head)
{
    if (!head->write && list_empty(&c->confirming)) {
        list_push_back(&c->service->standing.confirming, &c->confirming);
    }
}

/* Answers the requests at the head of the queue, up to the next write. With `proof`, a write of this queue that is
 * about to be applied, also reads in front of it that wait to be confirmed. */
static void connection_drain(struct connection *c, const struct pending *proof)
{
    uint64_t done = c->waiting_base;
    while (connection_is_open(c) && !list_empty(&c->pending)) {
        struct pending *entry = CONTAINER_OF(c->pending.next, struct pending, order);
        if (entry->write || (proof == NULL && entry->group > c->service->standing.confirmed)) {
            connection_await(c, entry);
            break;
        }
        if (c->out.len + c->sending > c->service->limits.output_max) {
            /* The requested data grew while the request waited. */
            connection_drop(c, "the answers to its pipelined reads passed the limit");
            break;
        }
        assert(entry->body_at >= done &&
               entry->body_at - c->waiting_base + entry->body_len <= c->waiting.len);
        struct request r = {
            .xid = entry->xid,
            .type = entry->type,
            .err = entry->err,
            .body = slice_make(buf_slice(&c->waiting).data + (entry->body_at - c->waiting_base),
                               entry->body_len),
        };
        done = entry->body_at + entry->body_len;
        connection_answer(c, request_row(r.type), &r, entry);
        int64_t waited_ns = c->service->now_ns - entry->taken_ns;
        connection_measure(c, false, waited_ns, c->unmeasured);
        request_times_read(c, &r, waited_ns, c->unmeasured,
                           entry->group != 0 ? PART_QUORUM : PART_QUEUE);
        c->unmeasured = 0;
        connection_pop(c, entry);
    }
    connection_trim_waiting(c, done);
    connection_go_if_sent_away(c);
}

void connection_resume(struct connection *c)
{
    connection_drain(c, NULL);
}

void connection_precede(struct connection *c, const struct pending *entry)
{
    connection_drain(c, entry);
}

void connection_complete(struct connection *c, struct pending *entry, const struct effects *effects)
{
    /* A connection that is about to close may leave earlier requests unanswered. */
    assert(c->pending.next == &entry->order || !connection_is_open(c));
    struct request r = {.xid = entry->xid, .type = entry->type};
    int64_t now_ns = c->service->now_ns;
    int64_t taken_ns = entry->taken_ns;
    connection_note(c, r.type, r.xid, effects->zxid);
    connection_measure(c, true, now_ns - taken_ns, 1);
    c->stats.response_at_ms = now_ns / 1000000;
    connection_pop(c, entry);
    c->reconfiguring = c->reconfiguring && r.type != WIRE_RECONFIG;
    if (!connection_is_open(c)) {
        return;
    }
    if (r.type == WIRE_CREATE_SESSION || r.type == COMMAND_ATTACH_SESSION) {
        handshake_applied(c, r.type, effects, taken_ns);
        connection_go_if_sent_away(c);
        return;
    }
    size_t place = connection_reply_begin(c, r.xid, effects->zxid);
    buf_append_slice(&c->out, buf_slice(&effects->reply));
    if (effects->err != 0) {
        connection_reply_fail(c, place, effects->err);
    }
    connection_reply_end(c, place);
    if (r.type == WIRE_CLOSE_SESSION) {
        connection_close_after_output(c);
        return;
    }
    connection_drain(c, NULL);
}

/* Input */

/* Answers now, or after the unanswered requests. */
static void connection_answer_in_order(struct connection *c, const struct request_row *row,
                                       const struct request *r)
{
    bool proved = row->fresh == REQUEST_PROVE ||
                  (row->fresh == REQUEST_READ && c->service->standing.linearizable);
    uint64_t group = proved && !c->read_only ? leadership_confirm_group(c->service, c) : 0;
    if (c->pending_count == 0 && group == 0) {
        connection_answer(c, row, r, NULL);
    } else {
        connection_wait(c, r, group);
    }
}

/* Authentication takes effect at once, because later requests may need it; the answer keeps its order. */
static void connection_take_auth(struct connection *c, const struct request_row *row,
                                 struct request *r)
{
    struct buf record;
    buf_init(&record, 0);
    r->err = r->type == WIRE_SASL ? request_login(c, r->body, &record)
                                  : request_authenticate(c, r->body);
    if (r->err == REQUEST_LATER) {
        c->verified_xid = r->xid;
        return; /* `record` is empty */
    }
    r->body = buf_slice(&record);
    c->input_ended = c->input_ended || r->err != 0;
    if (connection_is_open(c)) {
        connection_answer_in_order(c, row, r);
    }
    buf_finish(&record);
}

void connection_verified(struct connection *c, int32_t err)
{
    struct request r = {
        .xid = c->verified_xid, .type = WIRE_AUTH, .err = err, .body = slice_str("")};
    c->input_ended = c->input_ended || err != 0;
    if (connection_is_open(c)) {
        connection_answer_in_order(c, request_row(r.type), &r);
        connection_set_dirty(c);
    }
}

/* The number after a write's record; false: the number is missing. */
static bool connection_number(const struct request *r, struct wire_write_number *ret)
{
    if (r->body.len < WIRE_WRITE_NUMBER_LEN) {
        return false;
    }
    size_t len = r->body.len - WIRE_WRITE_NUMBER_LEN;
    struct wire_reader tail = wire_reader_make(slice_make(r->body.data + len, r->body.len - len));
    int rc = wire_decode_write_number(&tail, ret);
    assert(rc == 0);
    return true;
}

/* Whether an earlier connection may have carried out this write. Repeated writes come in the order of their numbers,
 * which may wrap, and each comes once. */
static bool connection_is_repeated(struct connection *c, const struct request *r)
{
    struct wire_write_number n;
    if (!c->numbered || !connection_number(r, &n)) {
        return false;
    }
    uint32_t left = (uint32_t)c->repeated_to - (uint32_t)c->repeated_above;
    if ((uint32_t)c->repeated_to - (uint32_t)n.number >= left) {
        return false;
    }
    c->repeated_above = n.number;
    return true;
}

static bool connection_over_rate(struct connection *c, int32_t type)
{
    bool counted = (wire_op_flags(type) & WIRE_OP_SESSION) == 0 && type != WIRE_SET_WATCHES &&
                   type != WIRE_SET_WATCHES2;
    return counted && !client_address_may_ask(c->address, c->service->limits.address_rate_max,
                                              c->service->now_ns);
}

/* Whether a read-only client must not send this operation, as in ZooKeeper's ReadOnlyRequestProcessor. */
static bool connection_may_only_read(const struct connection *c, const struct request_row *row,
                                     int32_t type)
{
    return c->read_only && type != WIRE_CLOSE_SESSION &&
           (row->kind == REQUEST_WRITE || row->fresh == REQUEST_PROVE);
}

/* A request's record without the write's number; the whole body if the number is missing. */
static struct slice connection_record(const struct connection *c, const struct request_row *row,
                                      const struct request *r)
{
    bool number = c->numbered && row->kind == REQUEST_WRITE && r->type != WIRE_CLOSE_SESSION;
    size_t len = number ? WIRE_WRITE_NUMBER_LEN : 0;
    return slice_make(r->body.data, r->body.len - (r->body.len >= len ? len : 0));
}

/* The error with which a request is refused at once; 0: none. Requests that keep a session alive or resume it are never
 * refused. A repeated write is not refused by limits either, because they may have been others when it was carried out:
 * apply answers it, with its own ceilings. A request that cannot be decoded does not get into the log. */
static int32_t connection_refusal(struct connection *c, const struct request_row *row,
                                  const struct request *r)
{
    struct service *s = c->service;
    bool write = row->kind == REQUEST_WRITE;
    bool repeated = write && connection_is_repeated(c, r);
    struct slice record = connection_record(c, row, r);
    if (!repeated && connection_over_rate(c, r->type)) {
        s->metrics->conclave_requests_throttled_total++;
        return CONCLAVE_THROTTLED;
    }
    if (connection_may_only_read(c, row, r->type)) {
        return CONCLAVE_NOT_READ_ONLY;
    }
    if (repeated) {
        return state_check_write(r->type, record);
    }
    if (!write && r->type != WIRE_MULTI_READ) {
        return 0;
    }
    int32_t err =
        command_bounds_check(&s->limits.command, r->type, record, client_ids_list(&c->identity));
    if (err == CONCLAVE_MARSHALLING_ERROR && c->numbered && record.len == r->body.len) {
        return 0; /* the number is missing: connection_take_write ends the connection */
    }
    s->metrics->conclave_requests_oversized_total += err != 0 && err != CONCLAVE_MARSHALLING_ERROR;
    return err == 0 && write && data_limit_refuses(s, r) ? (int32_t)CONCLAVE_QUOTA_EXCEEDED : err;
}

/* Whether a local session's request needs no log, or is refused. *ret_err: the reason. */
static bool connection_is_own_affair(struct connection *c, const struct request *r,
                                     int32_t *ret_err)
{
    if (!c->local || r->type == WIRE_CLOSE_SESSION) {
        return c->local;
    }
    if (!write_makes_ephemeral(r->type, r->body)) {
        return false;
    }
    if (!c->service->local_upgrading ||
        session_tracker_count(c->service->sessions) >= c->service->limits.sessions_max) {
        *ret_err = CONCLAVE_EPHEMERAL_ON_LOCAL_SESSION;
        return true;
    }
    handshake_upgrade(c);
    return !connection_is_open(c);
}

/* Puts a write into the log, with its number if it has one. */
static void connection_take_write(struct connection *c, const struct request *r)
{
    struct command command = {
        .session_id = c->session_id,
        .cxid = r->xid,
        .type = r->type,
        .ids = client_ids_list(&c->identity),
        .body = r->body,
        .options = c->service->command_options | COMMAND_BOUNDED | (c->local ? COMMAND_LOCAL : 0u),
    };
    if (r->type == WIRE_CLOSE_SESSION) {
        command.body = slice_str("");
    } else if (c->numbered) {
        struct wire_write_number n;
        if (!connection_number(r, &n)) {
            connection_drop(c, "a write lacks the number that client and server agreed on");
            return;
        }
        command.body.len -= WIRE_WRITE_NUMBER_LEN;
        command.options |= COMMAND_NUMBERED;
        command.number = n.number;
        command.unanswered = n.unanswered;
    }
    connection_write(c, &command, r->xid);
}

static void connection_take_request(struct connection *c, struct slice frame)
{
    struct wire_reader reader = wire_reader_make(frame);
    struct wire_request_header header;
    if (wire_decode_request_header(&reader, &header) != 0) {
        connection_drop(c, "a request is shorter than its header");
        return;
    }
    struct request r = {.xid = header.xid, .type = header.type, .body = wire_rest(&reader)};
    const struct request_row *row = request_row(r.type);
    if (c->service->faults != NULL && faults_on_request(c, r.type, r.xid)) {
        return;
    }
    if (row->kind != REQUEST_AUTH && !service_authenticated(c->service, &c->identity)) {
        c->service->metrics->conclave_auth_required_total++;
        r.err = CONCLAVE_SESSION_CLOSED_REQUIRE_AUTH;
    }
    if (row->last || r.err != 0) {
        c->input_ended = true;
    } else {
        r.err = connection_refusal(c, row, &r);
    }
    if (r.type == WIRE_RECONFIG && r.err == 0 && !request_may_reconfig(c, r.body)) {
        r.err = CONCLAVE_BAD_ARGUMENTS;
    }
    if (row->kind == REQUEST_WRITE && r.err == 0 && !connection_is_own_affair(c, &r, &r.err)) {
        connection_take_write(c, &r);
        return;
    }
    if (!connection_is_open(c)) {
        return;
    }
    if (row->kind == REQUEST_AUTH) {
        connection_take_auth(c, row, &r);
    } else {
        connection_answer_in_order(c, row, &r);
    }
}

static void connection_bad_frame(struct connection *c, int32_t len)
{
    const char *stranger = NULL;
    if (c->stage == CONNECTION_HANDSHAKE) {
        stranger = handshake_name_stranger(len);
    }
    if (stranger != NULL) {
        connection_drop(c, stranger);
    } else if (len < 0) {
        connection_drop(c, "a frame has a negative length");
    } else if (c->stage == CONNECTION_HANDSHAKE) {
        connection_drop(c, "the first frame is too long for a session request");
    } else {
        connection_drop(c, "a frame is longer than jute.maxbuffer allows");
    }
}

/* A four-letter word in the first bytes. False: there is none; otherwise *ret_taken is as for connection_input. */
static bool connection_word(struct connection *c, struct slice bytes, size_t *ret_taken)
{
    struct service *s = c->service;
    if (c->stage != CONNECTION_HANDSHAKE || s->words.answer == NULL || bytes.len < 4) {
        return false;
    }
    struct buf answer;
    buf_init(&answer, 0);
    /* Counted before the answer, which may be about this connection. */
    c->input_ended = true;
    c->stats.received++;
    s->stats.packets_received++;
    int len = s->words.answer(s->words.ctx, bytes, &answer);
    if (len > 0) {
        *ret_taken = bytes.len; /* the rest of the bytes is ignored */
        if (!buf_ok(&answer)) {
            connection_drop(c, "out of memory");
        } else {
            buf_append_slice(&c->out, buf_slice(&answer));
            connection_close_after_output(c);
            connection_output_added(c);
        }
    } else {
        c->input_ended = false;
        c->stats.received--;
        s->stats.packets_received--;
    }
    buf_finish(&answer);
    return len != 0;
}

/* Reads that were answered in this call, the last of them or a later write in `frame`. */
static void connection_note_slow(struct connection *c, struct slice frame, int64_t ns)
{
    if (!slow_log_wants(&c->service->times.slow, ns)) {
        return;
    }
    struct wire_reader reader = wire_reader_make(frame);
    struct wire_request_header header;
    struct request r = {.xid = (int32_t)c->stats.last_cxid, .type = c->stats.last_type};
    if (wire_decode_request_header(&reader, &header) == 0 && header.type == r.type) {
        r.xid = header.xid;
        r.body = wire_rest(&reader);
    }
    request_times_read(c, &r, ns, c->unmeasured, PART_APPLY);
}

size_t connection_input(struct connection *c, struct slice bytes)
{
    struct service *s = c->service;
    size_t taken = 0;
    bool frames = false;
    struct slice last = SLICE_NULL; /* the last request */
    if (connection_word(c, bytes, &taken)) {
        return taken;
    }
    (void)service_time_ms(s);
    if (!leadership_may_answer(s, c)) {
        return bytes.len;
    }
    while (connection_ready(c)) {
        struct slice body;
        int32_t len = 0;
        size_t max = s->limits.frame_max;
        if (c->stage == CONNECTION_HANDSHAKE && max > SESSION_REQUEST_MAX) {
            max = SESSION_REQUEST_MAX; /* an unknown client must not make the server keep more */
        }
        int rc =
            wire_frame_cut(slice_make(bytes.data + taken, bytes.len - taken), max, &body, &len);
        if (rc == 0) {
            break;
        }
        if (rc < 0) {
            connection_bad_frame(c, len);
            break;
        }
        taken += 4 + body.len;
        frames = true;
        s->stats.packets_received++;
        c->stats.received++;
        if (c->stage == CONNECTION_HANDSHAKE) {
            handshake_request(c, body);
        } else {
            connection_take_request(c, body);
            last = body;
        }
    }
    s->metrics->bytes_received_count += taken;
    if (c->unmeasured > 0) {
        int64_t now_ns = clock_monotonic_ns(s->clock);
        connection_measure(c, false, now_ns - s->now_ns, c->unmeasured);
        connection_note_slow(c, last, now_ns - s->now_ns);
        c->stats.response_at_ms = now_ns / 1000000;
        c->unmeasured = 0;
    }
    if (frames && c->mapped) {
        leadership_touch(s, c);
    }
    taken = c->input_ended ? bytes.len : taken;
    account_hold(&c->account, ACCOUNT_INPUT, bytes.len - taken);
    return taken;
}
