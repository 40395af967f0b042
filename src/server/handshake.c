#include "server/handshake.h"

#include "base/endian.h"
#include "base/log.h"
#include "base/random.h"
#include "server/service.h"

#include <string.h>

static const uint8_t no_passwd[WIRE_PASSWD_LEN];

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
    if (c->wants_read_only) {
        wire_write_boolean(&c->out, false);
    }
    wire_frame_end(&c->out, frame);
    connection_count_sent(c);
    connection_output_added(c);
}

/* As Apache ZooKeeper tells an expired session, an unknown one and a wrong password: in the same
 * way. */
static void handshake_refuse(struct connection *c, int64_t id, const char *reason)
{
    if (service_may_log(c->service)) {
        log_info("server", "session-refused", "peer=%s session=0x%llx reason=\"%s\"", c->peer,
                 (unsigned long long)id, reason);
    }
    handshake_reply(c, 0, 0, no_passwd);
    connection_close_after_output(c);
}

static void handshake_attach(struct connection *c, const struct state_session *session)
{
    c->stage = CONNECTION_SERVING;
    c->session_id = session->id;
    if (service_attach(c->service, c) != 0) {
        connection_drop(c, "out of memory");
        return;
    }
    handshake_reply(c, c->timeout_ms, session->id, session->passwd);
}

static void handshake_reopen(struct connection *c, const struct wire_connect_request *request)
{
    struct state_session session;
    c->service->metrics->connection_revalidate_count++;
    if (!state_session_find(c->service->state, request->session_id, &session)) {
        handshake_refuse(c, request->session_id, "unknown or expired");
    } else if (!state_session_passwd_is(&session, request->passwd)) {
        handshake_refuse(c, request->session_id, "wrong password");
    } else {
        handshake_attach(c, &session);
    }
}

static void handshake_create(struct connection *c)
{
    struct service *s = c->service;
    uint8_t passwd[WIRE_PASSWD_LEN];
    if (session_tracker_count(s->sessions) >= s->limits.sessions_max) {
        s->metrics->conclave_sessions_refused++;
        connection_drop(c, "too many sessions: maxSessions");
        return;
    }
    if (c->address->sessions >= s->limits.address_sessions_max) {
        s->metrics->conclave_sessions_refused++;
        connection_drop(c, "too many sessions of this address: maxSessionsPerAddress");
        return;
    }
    random_bytes(passwd, sizeof passwd);
    int64_t id = service_next_session_id(s);
    struct wire_connect_response session = {
        .timeout_ms = c->timeout_ms,
        .session_id = id,
        .passwd = slice_make(passwd, sizeof passwd),
    };
    uint8_t room[64];
    struct buf body = {.data = room, .cap = sizeof room, .max = sizeof room};
    wire_encode_connect_response(&body, &session);
    struct command command = {
        .session_id = id,
        .type = WIRE_CREATE_SESSION,
        .ids = identity_ids(&c->identity),
        .body = buf_slice(&body),
    };
    c->stage = CONNECTION_CREATING;
    connection_write(c, &command, 0);
}

void handshake_request(struct connection *c, struct slice body)
{
    struct service *s = c->service;
    struct wire_reader r = wire_reader_make(body);
    struct wire_connect_request request;
    if (wire_decode_connect_request(&r, &request) != 0) {
        connection_drop(c, "the first frame is no session request");
        return;
    }
    list_remove(&c->handshaking);
    s->metrics->connection_request_count++;
    c->wants_read_only = wire_left(&r) > 0;
    if (request.last_zxid_seen > state_zxid(s->state)) {
        connection_drop(c, "the client has seen a zxid that this server has not");
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

void handshake_created(struct connection *c, const struct effects *effects)
{
    struct state_session session;
    if (effects->err != 0 ||
        !state_session_find(c->service->state, effects->session_id, &session)) {
        handshake_refuse(c, effects->session_id, "the session could not be created");
        return;
    }
    if (address_add_session(&c->service->addresses, c->address, session.id) != 0) {
        connection_drop(c, "out of memory");
        return;
    }
    handshake_attach(c, &session);
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
