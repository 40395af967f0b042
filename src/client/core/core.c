#include "client/core/core.h"

#include "base/clock.h"
#include "base/transition.h"
#include "client/core/core_internal.h"

#include <assert.h>
#include <stdlib.h>

/* The time on a server without a quorum before the client tries another one. */
#define LOOK_MIN_NS INT64_C(1000000000)
#define LOOK_MAX_NS INT64_C(60000000000) /* the longest such time after repeated failures */
#define LEAVE_NS INT64_C(1000000000)     /* for answers, before a link is given up */

enum {
    FAREWELL_MS = 1000,    /* for an abandoned session's closeSession */
    REFUSALS_MAX = 6,      /* after so many, a new session ignores the zxids that it has seen */
    KEEP_IN = 1024 * 1024, /* a larger empty input buffer is freed */
};

/* --- session
 * ---------------------------------------------------------------------------------------- */

/* What holds when a state is told. */
static void state_check(const struct core *c, enum conclave_state state)
{
    if (state_is_attached(state)) {
        assert(c->link == LINK_UP && c->session_id != 0 && !c->read_only && !c->closing);
    } else if (state == CONCLAVE_STATE_SUSPENDED) {
        assert(c->link == LINK_NONE && c->session_id != 0);
    } else if (state == CONCLAVE_STATE_LOST) {
        assert(c->link != LINK_UP && c->session_id == 0 && c->had_session);
    } else if (state == CONCLAVE_STATE_READ_ONLY) {
        assert(c->link == LINK_UP && c->session_id == 0 && c->read_only);
    } else if (state != CONCLAVE_STATE_CONNECTING) {
        assert(c->link == LINK_NONE && c->session_id == 0 && c->final_error != 0);
    }
}

#define TO(state) TRANSITION_TO(CONCLAVE_STATE_##state)
#define TO_END (TO(AUTH_FAILED) | TO(CLOSED))

void core_set_state(struct core *c, enum conclave_state state)
{
    static const uint16_t NEXT[] = {
        [CONCLAVE_STATE_CONNECTING] =
            TO(CONNECTED) | TO(NEW_SESSION) | TO(READ_ONLY) | TO(LOST) | TO_END,
        [CONCLAVE_STATE_CONNECTED] = TO(SUSPENDED) | TO_END,
        [CONCLAVE_STATE_RECONNECTED] = TO(SUSPENDED) | TO_END,
        [CONCLAVE_STATE_NEW_SESSION] = TO(SUSPENDED) | TO_END,
        [CONCLAVE_STATE_SUSPENDED] = TO(RECONNECTED) | TO(LOST) | TO_END,
        [CONCLAVE_STATE_LOST] = TO(NEW_SESSION) | TO(READ_ONLY) | TO_END,
        [CONCLAVE_STATE_READ_ONLY] = TO(CONNECTING) | TO_END,
        [CONCLAVE_STATE_AUTH_FAILED] = TO(CLOSED),
        [CONCLAVE_STATE_CLOSED] = 0,
    };
    if (c->state != state) {
        transition_check(NEXT, c->state, state);
        state_check(c, state);
        c->state = state;
        c->events->state(c->ctx, state);
    }
}

void core_enter_link(struct core *c, enum core_link link)
{
    static const uint16_t NEXT[] = {
        [LINK_NONE] = TRANSITION_TO(LINK_NONE) | TRANSITION_TO(LINK_HANDSHAKE),
        [LINK_HANDSHAKE] = TRANSITION_TO(LINK_NONE) | TRANSITION_TO(LINK_ABANDONED) |
                           TRANSITION_TO(LINK_LOGIN) | TRANSITION_TO(LINK_UP),
        [LINK_ABANDONED] = TRANSITION_TO(LINK_NONE) | TRANSITION_TO(LINK_FAREWELL),
        [LINK_LOGIN] =
            TRANSITION_TO(LINK_NONE) | TRANSITION_TO(LINK_UP) | TRANSITION_TO(LINK_FAREWELL),
        [LINK_UP] = TRANSITION_TO(LINK_NONE),
        [LINK_FAREWELL] = TRANSITION_TO(LINK_NONE),
    };
    transition_check(NEXT, c->link, link);
    c->link = link;
}

static void link_reset(struct core *c)
{
    core_enter_link(c, LINK_NONE);
    buf_finish(&c->in);
    buf_finish(&c->out);
    c->out_sent = 0;
    c->skip = 0;
    c->pings = 0;
    c->rearming = 0;
    c->resuming = false;
    c->login_xid = 0;
    c->leave_by_ns = 0;
    c->read_only = false;
}

int core_frame_end(struct core *c, size_t start)
{
    if (!buf_ok(&c->out)) {
        c->out.len = start;
        c->out.failed = false;
        return CONCLAVE_ENOMEM;
    }
    wire_frame_end(&c->out, start);
    return 0;
}

void core_end(struct core *c, enum conclave_state state, int error)
{
    if (c->closing) { /* the end was wanted */
        state = CONCLAVE_STATE_CLOSED;
        error = CONCLAVE_ECLOSED;
    }
    link_reset(c);
    c->session_id = 0;
    c->final_error = error;
    core_set_state(c, state);
    core_answer_all(c, &c->refused, 0);
    core_answer_all(c, &c->inflight, error);
    core_answer_all(c, &c->queued, error);
    core_answer_all(c, &c->pausing, error);
    core_lose_watches(c);
}

void core_lose_session(struct core *c)
{
    if (c->closing) {
        core_end(c, CONCLAVE_STATE_CLOSED, CONCLAVE_ECLOSED);
        return;
    }
    c->session_id = 0;
    if (c->link == LINK_HANDSHAKE) {
        core_enter_link(c, LINK_ABANDONED);
    }
    memset(c->passwd, 0, sizeof c->passwd);
    if (c->state == CONCLAVE_STATE_CONNECTING && c->options.session_id == 0) {
        return; /* it ended during the login, before the program learned of it */
    }
    if (!c->options.new_session) {
        c->final_error = CONCLAVE_SESSION_EXPIRED;
    }
    c->had_session = true;
    core_set_state(c, CONCLAVE_STATE_LOST);
    core_retry_lose_session(c);
    core_answer_all(c, &c->queued, CONCLAVE_SESSION_EXPIRED);
    core_lose_watches(c);
}

/* When the server may have expired the session, as far as the client knows; INT64_MAX: not relevant now. */
static int64_t lost_deadline_ns(const struct core *c)
{
    bool counts = c->session_id != 0 && c->timeout_ns > 0 && c->link != LINK_UP;
    return counts ? c->acked_ns + c->timeout_ns : INT64_MAX;
}

/* --- link
 * -------------------------------------------------------------------------------------------- */

bool core_wants_link(const struct core *c)
{
    return c->link == LINK_NONE && c->final_error == 0;
}

void core_link_up(struct core *c, int64_t now_ns, int64_t timeout_ms)
{
    assert(core_wants_link(c) && c->in.len == 0 && c->out.len == 0 && list_empty(&c->inflight));
    struct wire_connect_request request = {
        .last_zxid_seen = c->last_zxid,
        .timeout_ms = (int32_t)c->options.session_timeout_ms,
        .session_id = c->session_id,
        .passwd = slice_make(c->passwd, sizeof c->passwd),
    };
    core_enter_link(c, LINK_HANDSHAKE);
    c->now_ns = now_ns;
    c->trace_link = wire_trace_link(request.last_zxid_seen, request.session_id != 0);
    c->link_error = 0;
    c->link_problem = NULL;
    c->link_deadline_ns = clock_add_ms(now_ns, timeout_ms);
    c->session_refused = false;
    c->handshake_ns = c->recv_ns = c->sent_ns = now_ns;
    size_t start = wire_frame_begin(&c->out);
    wire_encode_connect_request(&c->out, &request);
    wire_write_boolean(&c->out, c->options.read_only && c->session_id == 0);
    core_once_ask(c);
    int rc = core_frame_end(c, start);
    if (rc != 0) {
        core_link_down(c, now_ns, rc);
    }
}

void core_link_down(struct core *c, int64_t now_ns, int error)
{
    bool refused =
        c->link == LINK_HANDSHAKE && c->session_id == 0 && error == CONCLAVE_EDISCONNECTED;
    if (c->link == LINK_LOGIN) {
        c->link_problem = error == CONCLAVE_EDISCONNECTED ? "closed by the server during the login"
                          : error == CONCLAVE_ETIMEDOUT   ? "the login by SASL timed out"
                                                          : NULL;
    }
    c->now_ns = now_ns;
    link_reset(c);
    c->link_error = error;
    c->refusals = refused ? c->refusals + 1 : c->refusals;
    if (refused && c->refusals >= REFUSALS_MAX) {
        /* A server drops clients that have seen a newer zxid. If all servers do so again and again, the ensemble has
         * lost its data. */
        c->refusals = 0;
        c->last_zxid = c->watch_zxid = 0;
    }
    if (c->final_error != 0) {
        return;
    }
    if (c->closing && c->session_id == 0) {
        core_end(c, CONCLAVE_STATE_CLOSED, CONCLAVE_ECLOSED);
        return;
    }
    if (state_is_attached(c->state)) {
        core_set_state(c, CONCLAVE_STATE_SUSPENDED);
    } else if (c->state == CONCLAVE_STATE_READ_ONLY) {
        core_set_state(c, CONCLAVE_STATE_CONNECTING);
    }
    core_once_keep(c);
    core_answer_all(c, &c->inflight, c->closing ? CONCLAVE_ECLOSED : CONCLAVE_CONNECTION_LOSS);
    if (now_ns >= lost_deadline_ns(c)) {
        core_lose_session(c);
    }
}

/* Sets how soon a link to a server without a quorum is given up. */
static void plan_look(struct core *c, int64_t now_ns)
{
    int64_t wait_ns = 2 * c->look_wait_ns;
    c->look_wait_ns = wait_ns < LOOK_MIN_NS ? LOOK_MIN_NS : wait_ns;
    c->look_wait_ns = c->look_wait_ns > LOOK_MAX_NS ? LOOK_MAX_NS : c->look_wait_ns;
    c->look_ns = now_ns + c->look_wait_ns;
}

static enum conclave_state attached_state(const struct core *c)
{
    return c->read_only                           ? CONCLAVE_STATE_READ_ONLY
           : c->state == CONCLAVE_STATE_SUSPENDED ? CONCLAVE_STATE_RECONNECTED
           : c->had_session                       ? CONCLAVE_STATE_NEW_SESSION
                                                  : CONCLAVE_STATE_CONNECTED;
}

int core_attach(struct core *c, int64_t now_ns)
{
    core_enter_link(c, LINK_UP);
    assert(list_empty(&c->inflight) && c->pings == 0 && c->rearming == 0);
    c->refusals = 0;
    if (c->closing) {
        return core_send_close(c, now_ns);
    }
    int rc = core_send_auths(c);
    if (rc == 0) {
        rc = core_send_watches(c);
    }
    if (rc == 0) {
        rc = core_flush_queue(c, now_ns);
    }
    if (rc != 0) {
        return rc;
    }
    core_set_state(c, attached_state(c));
    if (c->read_only) {
        plan_look(c, now_ns);
    } else {
        c->had_session = true;
        c->look_wait_ns = 0;
    }
    return 0;
}

/* The abandoned session is still alive: ends it, so that its ephemeral nodes do not stay. */
static int link_farewell(struct core *c, int64_t now_ns)
{
    core_enter_link(c, LINK_FAREWELL);
    assert(c->session_id == 0 && list_empty(&c->inflight));
    c->link_deadline_ns = now_ns + (int64_t)FAREWELL_MS * 1000000;
    return core_send_close(c, now_ns);
}

/* Handles the server's answer to the connect request. 0, or why the link must end. */
static int take_handshake(struct core *c, struct slice body, int64_t now_ns)
{
    struct wire_reader rd = wire_reader_make(body);
    struct wire_connect_response response;
    if (wire_decode_connect_response(&rd, &response) != 0) {
        return CONCLAVE_EPROTO;
    }
    bool accepted = response.timeout_ms > 0 && response.session_id != 0;
    if (c->link == LINK_ABANDONED) {
        return accepted ? link_farewell(c, now_ns) : CONCLAVE_SESSION_EXPIRED;
    }
    if (!accepted) {
        if (c->session_id != 0) {
            c->session_refused = true;
            link_reset(c);
            core_lose_session(c);
        }
        return CONCLAVE_SESSION_EXPIRED;
    }
    bool same = c->session_id == 0 || c->session_id == response.session_id;
    if (!same || response.passwd.len != sizeof c->passwd) {
        return CONCLAVE_EPROTO;
    }
    struct wire_reader tail = rd;
    c->read_only = wire_left(&tail) > 0 && wire_read_boolean(&tail);
    if (c->read_only && (!c->options.read_only || c->session_id != 0)) {
        c->link_problem = "the server only permits reads: it mirrors a ZooKeeper, or has no quorum";
        return CONCLAVE_EDISCONNECTED; /* it cannot keep a session alive */
    }
    if (!c->read_only) {
        c->session_id = response.session_id;
        memcpy(c->passwd, response.passwd.data, sizeof c->passwd);
    }
    c->timeout_ns = (int64_t)response.timeout_ms * 1000000;
    c->acked_ns = c->handshake_ns;
    core_once_accepted(c, wire_rest(&rd));
    return c->options.login ? core_login_begin(c) : core_attach(c, now_ns);
}

static bool link_is_shaking(const struct core *c)
{
    return c->link == LINK_HANDSHAKE || c->link == LINK_ABANDONED;
}

/* --- input
 * ------------------------------------------------------------------------------------------- */

int core_input(struct core *c, size_t want, uint8_t **ret, size_t *ret_len)
{
    int rc = buf_reserve(&c->in, want);
    if (rc != 0) {
        c->in.failed = false;
        return CONCLAVE_ENOMEM;
    }
    *ret = c->in.data + c->in.len;
    *ret_len = c->in.cap - c->in.len;
    return 0;
}

static void see_zxid(struct core *c, int64_t zxid)
{
    if (zxid > c->last_zxid) {
        c->last_zxid = zxid;
    }
    /* Until the last setWatches is answered, watches that were sent later may miss changes that the first ones saw. */
    if (c->rearming == 0) {
        c->watch_zxid = c->last_zxid;
    }
}

static void take_pong(struct core *c)
{
    if (c->pings > 0) {
        c->pings--;
        c->acked_ns = c->ping_ns > c->acked_ns ? c->ping_ns : c->acked_ns;
    }
}

/* Handles one frame on an attached link. 0, or why the link must end. */
static int take_frame(struct core *c, struct slice body, bool oversized)
{
    struct wire_reader rd = wire_reader_make(body);
    struct wire_reply_header header;
    if (wire_decode_reply_header(&rd, &header) != 0) {
        return CONCLAVE_EPROTO;
    }
    bool farewell = c->link == LINK_FAREWELL;
    if (header.xid == WIRE_XID_NOTIFICATION) {
        /* Its zxid does not count as seen, because other events of the same transaction may follow. */
        return oversized ? CONCLAVE_ETOOBIG : farewell ? 0 : core_take_event(c, wire_rest(&rd));
    }
    if (farewell && (header.xid < 0 || header.xid == c->login_xid)) {
        return 0; /* no longer of interest */
    }
    switch (header.xid) {
    case WIRE_XID_PING:
        take_pong(c);
        break;
    case WIRE_XID_AUTH:
        if (header.err != 0) {
            core_end(c, CONCLAVE_STATE_AUTH_FAILED, CONCLAVE_AUTH_FAILED);
            return CONCLAVE_AUTH_FAILED;
        }
        return 0;
    case WIRE_XID_SET_WATCHES:
        if (header.err != 0 || c->rearming == 0) {
            return header.err != 0 ? header.err : CONCLAVE_EPROTO;
        }
        c->rearming--;
        if (c->rearming == 0 && c->resuming && core_tell_resumed(c) != 0) {
            return CONCLAVE_ENOMEM;
        }
        break;
    default:
        if (header.zxid > 0) {
            see_zxid(c, header.zxid);
        }
        return core_take_reply(c, &header, wire_rest(&rd), oversized);
    }
    if (header.zxid > 0) {
        see_zxid(c, header.zxid);
    }
    return 0;
}

enum { REPLY_HEADER_BYTES = 16 };

/* A frame longer than allowed: reads its header, and drops the rest as it comes. *ret_more: more bytes are needed
 * first. */
static int take_oversized(struct core *c, struct slice *in, int32_t len, bool *ret_more)
{
    bool attaching = link_is_shaking(c) || c->link == LINK_LOGIN;
    if (attaching && memcmp(in->data, "HTTP", 4) == 0) {
        c->link_problem = "this is an HTTP port: use the server's client port";
    }
    if (len < REPLY_HEADER_BYTES || attaching) {
        return len < 0 || attaching ? CONCLAVE_EPROTO : CONCLAVE_ETOOBIG;
    }
    *ret_more = in->len < 4 + REPLY_HEADER_BYTES;
    if (*ret_more) {
        return 0;
    }
    struct slice head = slice_make(in->data + 4, REPLY_HEADER_BYTES);
    *in = slice_make(head.data + head.len, in->len - 4 - head.len);
    c->skip = (uint32_t)len - REPLY_HEADER_BYTES;
    return take_frame(c, head, true);
}

static void skip_input(struct core *c, struct slice *in)
{
    size_t n = in->len < c->skip ? in->len : c->skip;
    c->skip -= (uint32_t)n;
    *in = slice_make(in->data + n, in->len - n);
}

/* Handles the frames in `in`, which keeps the rest. 0, or why the link must end. */
static int take_input(struct core *c, struct slice *in, int64_t now_ns)
{
    for (;;) {
        skip_input(c, in);
        struct slice body;
        int32_t len = 0;
        int rc = wire_frame_cut(*in, c->options.max_reply, &body, &len);
        if (rc == 0) {
            return 0;
        }
        if (rc < 0) {
            bool more = false;
            rc = take_oversized(c, in, len, &more);
            if (rc != 0 || more) {
                return rc;
            }
            continue;
        }
        *in = slice_make(body.data + body.len, in->len - 4 - body.len);
        rc = link_is_shaking(c)      ? take_handshake(c, body, now_ns)
             : c->link == LINK_LOGIN ? core_take_login(c, body, now_ns)
                                     : take_frame(c, body, false);
        if (rc != 0) {
            return rc;
        }
    }
}

void core_received(struct core *c, size_t len, int64_t now_ns)
{
    if (c->link == LINK_NONE) {
        return;
    }
    assert(len <= c->in.cap - c->in.len);
    c->in.len += len;
    c->recv_ns = c->now_ns = now_ns;
    struct slice in = buf_slice(&c->in);
    int rc = take_input(c, &in, now_ns);
    if (rc == 0 && c->link == LINK_UP) {
        rc = core_flush_queue(c, now_ns); /* answers may have made room */
    }
    if (rc != 0) {
        bool closed = c->closing && rc == CONCLAVE_ECLOSED && c->link == LINK_UP;
        if (closed) {
            core_end(c, CONCLAVE_STATE_CLOSED, CONCLAVE_ECLOSED);
            return;
        }
        core_link_down(c, now_ns, rc);
        return;
    }
    assert(c->link != LINK_NONE && in.len <= c->in.len);
    buf_consume(&c->in, c->in.len - in.len);
    if (c->in.len == 0 && c->in.cap > KEEP_IN) {
        buf_finish(&c->in);
    }
}

/* --- output
 * ------------------------------------------------------------------------------------------ */

struct slice core_output(const struct core *c)
{
    struct slice all = buf_slice(&c->out);
    return slice_make(all.data + c->out_sent, all.len - c->out_sent);
}

void core_sent(struct core *c, size_t len)
{
    assert(len <= c->out.len - c->out_sent);
    c->out_sent += len;
    if (c->out_sent == c->out.len) {
        c->out_sent = 0;
        buf_reset(&c->out);
        if (c->out.cap > KEEP_IN) {
            buf_finish(&c->out);
        }
    } else if (c->out_sent > c->out.len / 2) {
        buf_consume(&c->out, c->out_sent);
        c->out_sent = 0;
    }
}

/* --- time
 * -------------------------------------------------------------------------------------------- */

/* A link without bytes for two thirds of the session timeout is dead, so that there is time to find another server;
 * pings are sent three times as often. */
static int64_t read_timeout_ns(const struct core *c)
{
    return c->timeout_ns * 2 / 3;
}

static int64_t ping_interval_ns(const struct core *c)
{
    return read_timeout_ns(c) / 3;
}

static void send_ping(struct core *c, int64_t now_ns)
{
    size_t start = wire_frame_begin(&c->out);
    struct wire_request_header header = {WIRE_XID_PING, WIRE_PING};
    wire_encode_request_header(&c->out, &header);
    int rc = core_frame_end(c, start);
    if (rc != 0) {
        core_link_down(c, now_ns, rc);
        return;
    }
    c->ping_ns = c->pings == 0 ? now_ns : c->ping_ns;
    c->pings++;
    c->sent_ns = now_ns;
}

/* Whether the link is in a state that must end by link_deadline_ns. */
static bool link_has_deadline(const struct core *c)
{
    return c->link != LINK_NONE && c->link != LINK_UP;
}

/* When a link that is to be given up may go. */
static int64_t leave_ns(const struct core *c)
{
    return c->link == LINK_UP && list_empty(&c->inflight) ? 0 : c->leave_by_ns;
}

void core_leave(struct core *c, int64_t now_ns)
{
    if (c->link != LINK_NONE && !c->closing) {
        c->leave_by_ns = now_ns + LEAVE_NS;
    }
}

static void tick_link(struct core *c, int64_t now_ns)
{
    if (c->leave_by_ns != 0 && now_ns >= leave_ns(c)) {
        core_link_down(c, now_ns, 0);
    } else if (link_has_deadline(c)) {
        if (now_ns >= c->link_deadline_ns) {
            core_link_down(c, now_ns, CONCLAVE_ETIMEDOUT);
        }
    } else if (c->link == LINK_UP) {
        if (now_ns - c->recv_ns >= read_timeout_ns(c)) {
            core_link_down(c, now_ns, CONCLAVE_ETIMEDOUT);
        } else if (c->read_only && now_ns >= c->look_ns && list_empty(&c->inflight)) {
            core_link_down(c, now_ns, CONCLAVE_EDISCONNECTED);
        } else if (now_ns - c->sent_ns >= ping_interval_ns(c)) {
            send_ping(c, now_ns);
        }
    }
}

void core_tick(struct core *c, int64_t now_ns)
{
    c->now_ns = now_ns;
    core_answer_all(c, &c->refused, 0);
    core_expire_requests(c, now_ns);
    int queued = core_retry_queue(c, now_ns);
    if (queued != 0) {
        core_link_down(c, now_ns, queued);
    }
    if (c->state == CONCLAVE_STATE_CLOSED) {
        return;
    }
    if (c->closing && now_ns >= c->close_deadline_ns) {
        core_end(c, CONCLAVE_STATE_CLOSED, CONCLAVE_ECLOSED);
        return;
    }
    tick_link(c, now_ns);
    if (now_ns >= lost_deadline_ns(c)) {
        core_lose_session(c);
        int rc = c->link == LINK_LOGIN ? link_farewell(c, now_ns) : 0;
        if (rc != 0) {
            core_link_down(c, now_ns, rc);
        }
    }
}

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t core_deadline_ns(const struct core *c)
{
    if (!list_empty(&c->refused)) {
        return 0;
    }
    int64_t at = lost_deadline_ns(c);
    if (c->leave_by_ns != 0) {
        at = min_i64(at, leave_ns(c));
    }
    struct timer *t = timers_first(&c->timeouts);
    if (t != NULL) {
        at = min_i64(at, t->at_ns);
    }
    t = timers_first(&c->pauses);
    if (t != NULL) {
        at = min_i64(at, t->at_ns);
    }
    if (c->closing && c->state != CONCLAVE_STATE_CLOSED) {
        at = min_i64(at, c->close_deadline_ns);
    }
    if (link_has_deadline(c)) {
        at = min_i64(at, c->link_deadline_ns);
    } else if (c->link == LINK_UP) {
        at = min_i64(at, c->recv_ns + read_timeout_ns(c));
        at = min_i64(at, c->sent_ns + ping_interval_ns(c));
        if (c->read_only && list_empty(&c->inflight)) {
            at = min_i64(at, c->look_ns);
        }
    }
    return at;
}

/* --- begin and end
 * ----------------------------------------------------------------------------------- */

int core_init(struct core *c, const struct core_options *options, const struct core_events *events,
              void *ctx)
{
    *c = (struct core){
        .options = *options,
        .events = events,
        .ctx = ctx,
        .state = CONCLAVE_STATE_CONNECTING,
        .session_id = options->session_id,
        .next_xid = 1,
        .prng = {options->seed},
    };
    memcpy(c->passwd, options->passwd, sizeof c->passwd);
    buf_init(&c->in, 0);
    buf_init(&c->out, 0);
    list_init(&c->queued);
    list_init(&c->inflight);
    list_init(&c->refused);
    list_init(&c->pausing);
    list_init(&c->auths);
    list_init(&c->firing);
    list_init(&c->telling);
    return watches_init(&c->watches);
}

void core_finish(struct core *c)
{
    assert(list_empty(&c->queued) && list_empty(&c->inflight) && list_empty(&c->refused));
    assert(list_empty(&c->pausing) && timers_first(&c->pauses) == NULL);
    assert(c->pending == 0 && timers_first(&c->timeouts) == NULL);
    assert(list_empty(&c->firing) && list_empty(&c->telling));
    buf_finish(&c->in);
    buf_finish(&c->out);
    core_drop_auths(c);
    watches_finish(&c->watches);
}

void core_close(struct core *c, int64_t now_ns, int64_t timeout_ms)
{
    if (c->closing || c->state == CONCLAVE_STATE_CLOSED) {
        return;
    }
    c->closing = true;
    c->leave_by_ns = 0; /* the session ends on this link */
    bool nothing_to_tell = c->session_id == 0 && !c->read_only && c->link != LINK_HANDSHAKE;
    if (timeout_ms == 0 || c->final_error != 0 || nothing_to_tell) {
        core_end(c, CONCLAVE_STATE_CLOSED, CONCLAVE_ECLOSED);
        return;
    }
    c->close_deadline_ns = timeout_ms < 0 ? INT64_MAX : clock_add_ms(now_ns, timeout_ms);
    core_answer_all(c, &c->refused, 0);
    core_answer_all(c, &c->queued, CONCLAVE_ECLOSED);
    core_answer_all(c, &c->pausing, CONCLAVE_ECLOSED);
    if (c->link == LINK_UP && core_send_close(c, now_ns) != 0) {
        core_end(c, CONCLAVE_STATE_CLOSED, CONCLAVE_ECLOSED);
    }
}
