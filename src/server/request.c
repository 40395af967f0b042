#include "server/request.h"

#include "base/log.h"
#include "server/request_login.h"
#include "server/request_watch.h"
#include "server/service.h"
#include "tree/acl_rules.h"

/* xid of a ping's reply is fixed, whatever the request said: FinalRequestProcessor. */
static void answer_ping(struct connection *c, const struct request *r)
{
    (void)r;
    size_t place = connection_reply_begin(c, WIRE_XID_PING, state_zxid(c->service->state));
    connection_reply_end(c, place);
}

static void answer_auth(struct connection *c, const struct request *r)
{
    size_t place = connection_reply_begin(c, r->xid, 0);
    if (r->err != 0) {
        connection_reply_fail(c, place, r->err);
    }
    connection_reply_end(c, place);
    if (r->err != 0) {
        connection_close_after_output(c);
    }
}

void answer_refused(struct connection *c, const struct request *r)
{
    bool last = r->err == CONCLAVE_SESSION_CLOSED_REQUIRE_AUTH;
    size_t place = connection_reply_begin(c, r->xid, last ? 0 : state_zxid(c->service->state));
    connection_reply_fail(c, place, r->err);
    connection_reply_end(c, place);
    if (last) {
        connection_close_after_output(c);
    }
}

/* Of a local session: others end by the log. */
static void answer_close_session(struct connection *c, const struct request *r)
{
    struct service *s = c->service;
    int64_t id = c->session_id;
    size_t place = connection_reply_begin(c, r->xid, state_zxid(s->state));
    connection_reply_end(c, place);
    connection_close_after_output(c);
    service_end_local(s, id);
}

static void answer_unknown(struct connection *c, const struct request *r)
{
    if (service_may_log(c->service)) {
        log_warn("server", "unknown-operation", "peer=%s session=0x%llx type=%d", c->peer,
                 (unsigned long long)c->session_id, (int)r->type);
    }
    size_t place = connection_reply_begin(c, r->xid, -1); /* as ZooKeeper's, which never looks */
    connection_reply_fail(c, place, CONCLAVE_UNIMPLEMENTED);
    connection_reply_end(c, place);
    connection_close_after_output(c);
}

static void answer_query(struct connection *c, const struct request *r)
{
    const struct state *state = c->service->state;
    struct state_watch watch = {.kind = STATE_WATCH_NONE};
    size_t place = connection_reply_begin(c, r->xid, state_zxid(state));
    int err = state_query(state, r->type, identity_ids(&c->identity), r->body, &c->out, &watch);
    if (watch.kind != STATE_WATCH_NONE) {
        bool data = watch.kind == STATE_WATCH_DATA;
        int refused = request_watch(c, data ? WATCH_DATA : WATCH_CHILD, watch.path);
        err = refused != 0 ? refused : err;
    }
    if (err != 0) {
        connection_reply_fail(c, place, err);
    }
    connection_reply_end(c, place);
}

static void answer_get_ephemerals(struct connection *c, const struct request *r)
{
    const struct state *state = c->service->state;
    size_t place = connection_reply_begin(c, r->xid, state_zxid(state));
    int err = state_ephemerals(state, c->session_id, r->body, &c->out);
    if (err != 0) {
        connection_reply_fail(c, place, err);
    }
    connection_reply_end(c, place);
}

static void append_client(struct buf *out, const struct wire_id *id)
{
    struct wire_client_info info = {.auth_scheme = id->scheme, .user = id->id};
    if (slice_equal_str(id->scheme, "digest")) {
        const uint8_t *colon = memchr(id->id.data, ':', id->id.len);
        if (colon != NULL) {
            info.user.len = (size_t)(colon - id->id.data);
        }
    }
    wire_encode_client_info(out, &info);
}

static void answer_who_am_i(struct connection *c, const struct request *r)
{
    size_t place = connection_reply_begin(c, r->xid, state_zxid(c->service->state));
    struct wire_vector ids = identity_ids(&c->identity);
    struct wire_id id;
    size_t count_at = c->out.len;
    int32_t count = 0;
    wire_write_i32(&c->out, 0);
    while (wire_next_id(&ids, &id)) {
        /* skipACL makes everybody superuser, but only in here; a grant is nobody's name. */
        if ((!c->service->skip_acl || !slice_equal_str(id.scheme, "super")) &&
            !slice_equal_str(id.scheme, ACL_SCHEME_SASL_GRANT)) {
            append_client(&c->out, &id);
            count++;
        }
    }
    if (buf_ok(&c->out)) {
        buf_put_i32(&c->out, count_at, count);
    }
    connection_reply_end(c, place);
}

int32_t request_authenticate(struct connection *c, struct slice body)
{
    struct wire_reader reader = wire_reader_make(body);
    struct wire_auth_packet packet;
    int rc = CONCLAVE_AUTH_FAILED;
    if (wire_decode_auth_packet(&reader, &packet) == 0) {
        rc = identity_authenticate(&c->identity, c->host, c->service->super_digest, packet.scheme,
                                   packet.auth);
    }
    if (rc != 0) {
        c->service->stats.auth_failed++;
        if (service_may_log(c->service)) {
            log_warn("server", "auth-failed", "peer=%s session=0x%llx error=%s", c->peer,
                     (unsigned long long)c->session_id, conclave_errname(rc));
        }
    }
    if (c->service->audit != NULL) {
        audit_login(c->service->audit, "auth", c->session_id, identity_ids(&c->identity), c->host,
                    rc == 0);
    }
    return rc == 0 ? 0 : CONCLAVE_AUTH_FAILED;
}

/* In the order of the operations' numbers. deleteContainer has no row: it is the collector's own. */
static const struct request_row rows[] = {
    {WIRE_CLOSE_SESSION, REQUEST_WRITE, true, answer_close_session, REQUEST_OWN},
    {WIRE_CREATE, REQUEST_WRITE, false, NULL, REQUEST_OWN},
    {WIRE_DELETE, REQUEST_WRITE, false, NULL, REQUEST_OWN},
    {WIRE_EXISTS, REQUEST_ANSWER, false, answer_query, REQUEST_READ},
    {WIRE_GET_DATA, REQUEST_ANSWER, false, answer_query, REQUEST_READ},
    {WIRE_SET_DATA, REQUEST_WRITE, false, NULL, REQUEST_OWN},
    {WIRE_GET_ACL, REQUEST_ANSWER, false, answer_query, REQUEST_READ},
    {WIRE_SET_ACL, REQUEST_WRITE, false, NULL, REQUEST_OWN},
    {WIRE_GET_CHILDREN, REQUEST_ANSWER, false, answer_query, REQUEST_READ},
    {WIRE_SYNC, REQUEST_ANSWER, false, answer_query, REQUEST_PROVE},
    {WIRE_PING, REQUEST_ANSWER, false, answer_ping, REQUEST_OWN},
    {WIRE_GET_CHILDREN2, REQUEST_ANSWER, false, answer_query, REQUEST_READ},
    {WIRE_MULTI, REQUEST_WRITE, false, NULL, REQUEST_OWN},
    {WIRE_CREATE2, REQUEST_WRITE, false, NULL, REQUEST_OWN},
    {WIRE_RECONFIG, REQUEST_WRITE, false, NULL, REQUEST_OWN},
    {WIRE_CHECK_WATCHES, REQUEST_ANSWER, false, answer_check_watches, REQUEST_OWN},
    {WIRE_REMOVE_WATCHES, REQUEST_ANSWER, false, answer_remove_watches, REQUEST_OWN},
    {WIRE_CREATE_CONTAINER, REQUEST_WRITE, false, NULL, REQUEST_OWN},
    {WIRE_CREATE_TTL, REQUEST_WRITE, false, NULL, REQUEST_OWN},
    {WIRE_MULTI_READ, REQUEST_ANSWER, false, answer_query, REQUEST_READ},
    {WIRE_AUTH, REQUEST_AUTH, false, answer_auth, REQUEST_OWN},
    {WIRE_SET_WATCHES, REQUEST_ANSWER, false, answer_set_watches, REQUEST_OWN},
    {WIRE_SASL, REQUEST_AUTH, false, answer_login, REQUEST_OWN},
    {WIRE_GET_EPHEMERALS, REQUEST_ANSWER, false, answer_get_ephemerals, REQUEST_READ},
    {WIRE_GET_ALL_CHILDREN_NUMBER, REQUEST_ANSWER, false, answer_query, REQUEST_READ},
    {WIRE_SET_WATCHES2, REQUEST_ANSWER, false, answer_set_watches2, REQUEST_OWN},
    {WIRE_ADD_WATCH, REQUEST_ANSWER, false, answer_add_watch, REQUEST_OWN},
    {WIRE_WHO_AM_I, REQUEST_ANSWER, false, answer_who_am_i, REQUEST_OWN},
};

static const struct request_row unknown_row = {WIRE_ERROR, REQUEST_ANSWER, true, answer_unknown,
                                               REQUEST_OWN};

const struct request_row *request_row(int32_t type)
{
    size_t low = 0;
    size_t high = sizeof rows / sizeof rows[0];
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (rows[mid].type == type) {
            return &rows[mid];
        }
        if (rows[mid].type < type) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return &unknown_row;
}
