#include "front/handshake.h"

#include "base/endian.h"
#include "base/log.h"
#include "base/random.h"
#include "front/service.h"
#include "state/mirror.h"

#include <string.h>

static const uint8_t no_passwd[WIRE_PASSWD_LEN];

/* After the readOnly byte: which of the requested features the client gets. */
static void handshake_grant(struct connection *c)
{
    struct wire_connect_grant grant = {.magic = WIRE_EXTENSION_MAGIC};
    struct state_results results;
    if (c->numbered && state_results(c->service->state, c->session_id, &results)) {
        grant.features = WIRE_FEATURE_EXACTLY_ONCE;
        grant.results_max = results.count_max;
        grant.bytes_max = results.bytes_max;
        grant.last = results.last;
        grant.born = results.born;
    }
    wire_encode_connect_grant(&c->out, &grant);
}

static void handshake_reply(struct connection *c, int32_t timeout_ms, int64_t id,
                            const uint8_t *passwd)
{
    struct wire_connect_response response = {
        .timeout_ms = timeout_ms,
        .session_id = id,
        .passwd = slice_make(passwd, WIRE_PASSWD_LEN),
    };
    size_t frame = wire_frame_begin(&c->out);
    wire_encode_connect_response(&c->out, &response);
    if (c->has_read_only) {
        wire_write_boolean(&c->out, c->read_only);
    }
    if (c->asked && id != 0) {
        handshake_grant(c);
    }
    wire_frame_end(&c->out, frame);
    c->answered = true;
    connection_count_sent(c);
    connection_output_added(c);
}

/* As in Apache ZooKeeper, the reply is the same for an expired session, an unknown one and a wrong password. */
static void handshake_refuse(struct connection *c, int64_t id, const char *reason)
{
    log_cause(LOG_INFO, "server", "session-refused", c->host, reason, NULL,
              "peer=%s session=0x%llx reason=\"%s\"", c->peer, (unsigned long long)id, reason);
    service_detach(c->service, c);
    handshake_reply(c, 0, 0, no_passwd);
    connection_close_after_output(c);
}

/* The range of numbers that may be repetitions. It counts numbers, not remembered writes, because some writes between
 * them may have been refused. A client repeats writes as far back as the limits allow, which may have become lower. */
static void handshake_expect_repetitions(struct connection *c, const struct state_results *results)
{
    c->repeated_above = c->repeated_to = 0;
    if (results != NULL && results->count > 0) {
        uint32_t reach = (uint32_t)results->count + (uint32_t)results->count_max;
        c->repeated_to = results->last;
        c->repeated_above = (int32_t)((uint32_t)results->last - reach);
    }
}

/* asked_ns: when the client asked for the session. This server may be late with the log, so the leader counts from an
 * earlier moment than now, but not from before the client asked. */
static void handshake_attach(struct connection *c, const struct state_session *session,
                             int64_t asked_ns)
{
    struct state_results results;
    connection_enter(c, CONNECTION_SERVING);
    session_notes_resumed(c->service, session->id);
    c->numbered = state_results(c->service->state, session->id, &results);
    handshake_expect_repetitions(c, c->numbered ? &results : NULL);
    if (service_attach(c->service, c, session->id) != 0) {
        connection_drop(c, "out of memory");
        return;
    }
    if (!c->service->standing.leads) {
        session_tracker_doubt(c->service->sessions, session->id, asked_ns / 1000000);
    }
    handshake_reply(c, c->timeout_ms, session->id, session->passwd);
}

/* Serves the client of a local session. */
static void handshake_attach_local(struct connection *c, const struct state_session *session)
{
    connection_enter(c, CONNECTION_SERVING);
    session_notes_resumed(c->service, session->id);
    c->local = true;
    if (service_claim(c->service, c, session->id) != 0) {
        connection_drop(c, "out of memory");
        return;
    }
    handshake_reply(c, c->timeout_ms, session->id, session->passwd);
}

enum { SESSION_COMMAND_BYTES = 64 };

static void handshake_encode(struct buf *body, int32_t timeout_ms, int64_t id, struct slice passwd)
{
    struct wire_connect_response session = {
        .timeout_ms = timeout_ms,
        .session_id = id,
        .passwd = passwd,
    };
    wire_encode_connect_response(body, &session);
}

void handshake_upgrade(struct connection *c)
{
    struct service *s = c->service;
    struct local_session *local = local_session_find(&s->locals, c->session_id);
    uint8_t room[SESSION_COMMAND_BYTES];
    struct buf body = {.data = room, .cap = sizeof room, .max = sizeof room};
    if (local == NULL) {
        connection_drop(c, "its session has expired");
        return;
    }
    const struct state_session *session = &local->session;
    handshake_encode(&body, session->timeout_ms, session->id,
                     slice_make(session->passwd, WIRE_PASSWD_LEN));
    struct command command = {
        .session_id = session->id,
        .type = WIRE_CREATE_SESSION,
        .ids = client_ids_list(&c->identity),
        .body = buf_slice(&body),
    };
    struct pending *entry = pipeline_pending(&s->pipeline, &s->account, body.len, s->now_ns);
    if (entry == NULL) {
        connection_drop(c, "out of memory");
        return;
    }
    entry->type = command.type;
    if (pipeline_write(&s->pipeline, &command, clock_wall_ms(s->clock), entry) != 0) {
        pipeline_release(&s->pipeline, entry);
        connection_drop(c, "out of memory, or the log accepts no writes");
        return;
    }
    local_session_upgrade(&s->locals, local);
    c->local = false;
}

/* Gives the command for a session to the log. */
static void handshake_write(struct connection *c, int32_t type, int64_t id, struct slice passwd)
{
    const struct client_limits *limits = &c->service->limits;
    uint8_t room[SESSION_COMMAND_BYTES];
    struct buf body = {.data = room, .cap = sizeof room, .max = sizeof room};
    handshake_encode(&body, c->timeout_ms, id, passwd);
    if (c->asked && limits->session_results_max > 0) {
        wire_write_i32(&body, (int32_t)limits->session_results_max);
        wire_write_i32(&body, (int32_t)limits->session_result_bytes_max);
    }
    struct command command = {
        .session_id = id,
        .type = type,
        .ids = client_ids_list(&c->identity),
        .body = buf_slice(&body),
    };
    connection_enter(c, CONNECTION_CREATING);
    connection_write(c, &command, 0);
}

/* Whether the command that ends the session is on its way into the log. */
static bool handshake_is_over(const struct service *s, int64_t id)
{
    return session_tracker_is_over(s->sessions, id, s->now_ns / 1000000);
}

/* Refuses a client of another ensemble, or of one that lost its data. */
static bool handshake_is_behind(struct connection *c)
{
    bool behind = c->seen_zxid > state_zxid(c->service->state);
    if (behind) {
        connection_drop(c, "the client has seen a newer zxid than this server has");
    }
    return behind;
}

/* Whether a standalone server may resume the session at once, without the log: no write of the session is unanswered,
 * and it does not change whether results are remembered. */
static bool handshake_is_settled(const struct connection *c, const struct state_session *session)
{
    const struct service *s = c->service;
    struct state_results results;
    bool here = session->owner == 0 || session->owner == s->server_id;
    bool plain = !c->asked && !state_results(s->state, session->id, &results);
    return s->standing.sole && here && plain && list_empty(&s->pipeline.flight) &&
           !handshake_is_over(s, session->id);
}

/* A session that only this server knows. */
static void handshake_reopen_local(struct connection *c, struct local_session *local,
                                   struct slice passwd)
{
    struct service *s = c->service;
    if (!state_session_passwd_is(&local->session, passwd)) {
        handshake_refuse(c, local->session.id, "wrong password");
    } else if (handshake_is_behind(c)) {
        return; /* after a fault this server reads its log again and is behind */
    } else if (local_session_renew(&s->locals, local, c->timeout_ms, s->now_ns / 1000000) != 0) {
        connection_drop(c, "out of memory");
    } else {
        handshake_attach_local(c, &local->session);
    }
}

/* Resumes a session; the log decides, except in simple cases. In an ensemble this server may not know yet what the
 * others decided, and they must learn where the client is. Besides, a client that lost its link asks for the outcome of
 * its last writes. When the command is applied here, those writes are applied, too, and everything that the client has
 * seen. The old connection ends now, even if it was about to resume the session: its later requests would come too
 * late. */
static void handshake_reopen(struct connection *c, const struct wire_connect_request *request)
{
    struct service *s = c->service;
    struct state_session session;
    s->metrics->connection_revalidate_count++;
    bool known = state_session_find(s->state, request->session_id, &session);
    struct local_session *local = local_session_find(&s->locals, request->session_id);
    if (local != NULL && !local->upgrading) {
        handshake_reopen_local(c, local, request->passwd);
    } else if (c->read_only && (known || local != NULL)) {
        /* Only a quorum can keep it alive: a reply here would mislead the client. */
        connection_drop(c, "a global session cannot continue without a quorum");
    } else if (s->mirrored) {
        /* It is of the source, which this server may be behind of: an answer would end it. */
        connection_drop(c, "this server is a mirror, and the session is not of this server");
    } else if (c->read_only) {
        handshake_refuse(c, request->session_id, "unknown or expired");
    } else if (known && !state_session_passwd_is(&session, request->passwd)) {
        handshake_refuse(c, request->session_id, "wrong password");
    } else if (s->standing.sole && !known && local == NULL) {
        handshake_refuse(c, request->session_id, "unknown or expired");
    } else if (known && handshake_is_settled(c, &session)) {
        handshake_attach(c, &session, s->now_ns);
    } else if (request->passwd.len != WIRE_PASSWD_LEN) {
        handshake_refuse(c, request->session_id, "wrong password");
    } else {
        if (known && service_claim(s, c, request->session_id) != 0) {
            connection_drop(c, "out of memory");
            return;
        }
        if (s->standing.leads && !handshake_is_over(s, request->session_id)) {
            session_tracker_touch(s->sessions, request->session_id, s->now_ns / 1000000);
        }
        handshake_write(c, COMMAND_ATTACH_SESSION, request->session_id, request->passwd);
    }
}

/* Whether a new session is known only to this server. Remembered results belong to all servers, so a client that asks
 * for them gets a global session, if that is allowed. */
static bool handshake_is_local(const struct connection *c)
{
    const struct service *s = c->service;
    bool remembered = c->asked && s->limits.session_results_max > 0 && s->local_upgrading;
    return c->read_only || (s->local_sessions && !s->standing.sole && !remembered);
}

static void handshake_create_local(struct connection *c, const uint8_t *passwd)
{
    struct service *s = c->service;
    struct state_session session = {
        .id = service_next_session_id(s), .timeout_ms = c->timeout_ms, .owner = s->server_id};
    memcpy(session.passwd, passwd, WIRE_PASSWD_LEN);
    if (local_session_add(&s->locals, &session, c->read_only, service_time_ms(s)) == NULL ||
        client_address_add_session(&s->addresses, c->address, session.id) != 0) {
        connection_drop(c, "out of memory");
        return;
    }
    handshake_attach_local(c, &session);
}

static void handshake_create(struct connection *c)
{
    struct service *s = c->service;
    uint8_t passwd[WIRE_PASSWD_LEN];
    size_t sessions = session_tracker_count(s->sessions) + local_sessions_count(&s->locals);
    if (sessions >= s->limits.sessions_max) {
        s->metrics->conclave_sessions_refused_total++;
        connection_drop(c, "too many sessions: maxSessions");
        return;
    }
    if (c->address->sessions >= s->limits.address_sessions_max) {
        s->metrics->conclave_sessions_refused_total++;
        connection_drop(c, "too many sessions from this address: maxSessionsPerAddress");
        return;
    }
    random_bytes(passwd, sizeof passwd);
    if (handshake_is_local(c)) {
        if (!handshake_is_behind(c)) {
            handshake_create_local(c, passwd);
        }
        return;
    }
    handshake_write(c, WIRE_CREATE_SESSION, service_next_session_id(s),
                    slice_make(passwd, sizeof passwd));
}

/* Reads the bytes after the record: the readOnly byte of newer clients, and the request of our own clients for
 * features. Ignores anything else, as Apache's server does. Returns whether the client accepts a read-only server. */
static bool handshake_read_tail(struct connection *c, struct wire_reader *r)
{
    struct wire_connect_wish wish;
    c->has_read_only = wire_left(r) > 0;
    bool read_only = c->has_read_only && wire_read_boolean(r);
    bool wishes = wire_decode_connect_wish(r, &wish) == 0 && wish.magic == WIRE_EXTENSION_MAGIC;
    c->asked = wishes && (wish.features & WIRE_FEATURE_EXACTLY_ONCE) != 0;
    c->client_spans = wishes && (wish.features & WIRE_FEATURE_SPANS) != 0;
    return read_only;
}

/* Whether this server can serve the client. Otherwise drops the connection. */
static bool handshake_is_served(struct connection *c, bool may_be_read_only)
{
    const struct leadership *st = &c->service->standing;
    bool in_contact = leadership_in_contact(c->service);
    struct state_mirror m;
    bool mirrored = state_mirror(c->service->state, &m);
    c->read_only = mirrored || (st->read_only && !in_contact);
    if (mirrored && !may_be_read_only && !m.any_reader) {
        connection_drop(
            c, "this server is a mirror, and the client does not ask for a read-only server");
    } else if (!mirrored && c->read_only && !may_be_read_only) {
        connection_drop(c,
                        "there is no quorum, and the client does not ask for a read-only server");
    } else if (!c->read_only && !in_contact) {
        connection_drop(c, "this server has no leader with a quorum");
    } else if ((c->read_only || st->sole) && handshake_is_behind(c)) {
        return false;
    } else if (st->leaving) {
        connection_drop(c, "a reconfig removed this server: clients must use another");
    } else if (st->drained) {
        connection_drop(c, "this server is being emptied for a restart: clients must use another");
    } else {
        return true;
    }
    return false;
}

void handshake_request(struct connection *c, struct slice body)
{
    struct service *s = c->service;
    struct wire_reader r = wire_reader_make(body);
    struct wire_connect_request request;
    if (wire_decode_connect_request(&r, &request) != 0) {
        connection_drop(c, "the first frame is not a session request");
        return;
    }
    list_remove(&c->handshaking);
    s->metrics->connection_request_count++;
    c->seen_zxid = request.last_zxid_seen;
    c->trace_link = wire_trace_link(c->seen_zxid, request.session_id != 0);
    if (!handshake_is_served(c, handshake_read_tail(c, &r))) {
        return;
    }
    c->timeout_ms = request.timeout_ms;
    if (c->timeout_ms < s->limits.session_min_ms) {
        c->timeout_ms = s->limits.session_min_ms;
    }
    if (c->timeout_ms > s->limits.session_max_ms) {
        c->timeout_ms = s->limits.session_max_ms;
    }
    if (request.session_id == 0) {
        handshake_create(c);
    } else {
        handshake_reopen(c, &request);
    }
}

void handshake_applied(struct connection *c, int32_t type, const struct effects *effects,
                       int64_t asked_ns)
{
    struct state_session session;
    bool created = type == WIRE_CREATE_SESSION;
    if (effects->err == CONCLAVE_NOT_READ_ONLY) {
        connection_drop(
            c, "this server became a mirror meanwhile"); /* an answer would end the session */
        return;
    }
    if (effects->err != 0 ||
        !state_session_find(c->service->state, effects->session_id, &session)) {
        handshake_refuse(c, effects->session_id,
                         created ? "the session could not be created"
                                 : "unknown or expired, or the wrong password");
        return;
    }
    if (handshake_is_behind(c)) {
        return;
    }
    if (created &&
        client_address_add_session(&c->service->addresses, c->address, session.id) != 0) {
        connection_drop(c, "out of memory");
        return;
    }
    handshake_attach(c, &session, asked_ns);
}

const char *handshake_name_stranger(int32_t len)
{
    static const char *const http[] = {"GET ", "HEAD", "POST", "PUT ",
                                       "DELE", "OPTI", "PATC", "CONN"};
    uint8_t text[4];
    put_be32(text, (uint32_t)len);
    for (size_t i = 0; i < sizeof http / sizeof http[0]; i++) {
        if (memcmp(text, http[i], sizeof text) == 0) {
            return "HTTP on the client port";
        }
    }
    if (text[0] == 0x16 && text[1] == 0x03) {
        return "TLS on the client port, which is plain";
    }
    for (size_t i = 0; i < sizeof text; i++) {
        if (text[i] < 'a' || text[i] > 'z') {
            return NULL;
        }
    }
    return "an unknown four-letter word";
}
