#include "front/request.h"

#include "base/log.h"
#include "front/request_sasl.h"
#include "front/request_watch.h"
#include "front/server_line.h"
#include "front/service.h"
#include "net/address.h"
#include "tree/acl_rules.h"

/* As in FinalRequestProcessor, the reply to a ping has a fixed xid, whatever the request had. */
static void answer_ping(struct connection *c, const struct request *r)
{
    connection_reply(c, WIRE_XID_PING, state_zxid(c->service->state), 0);
}

static void answer_auth(struct connection *c, const struct request *r)
{
    connection_reply(c, r->xid, 0, r->err);
    if (r->err != 0) {
        connection_close_after_output(c);
    }
}

void answer_refused(struct connection *c, const struct request *r)
{
    bool last = r->err == CONCLAVE_SESSION_CLOSED_REQUIRE_AUTH;
    connection_reply(c, r->xid, last ? 0 : state_zxid(c->service->state), r->err);
    if (last) {
        connection_close_after_output(c);
    }
}

/* Only for local sessions: the log ends all others. */
static void answer_close_session(struct connection *c, const struct request *r)
{
    struct service *s = c->service;
    int64_t id = c->session_id;
    connection_reply(c, r->xid, state_zxid(s->state), 0);
    connection_close_after_output(c);
    service_end_local(s, id, SESSION_END_CLOSED, SLICE_NULL);
}

static void answer_unknown(struct connection *c, const struct request *r)
{
    log_cause(LOG_WARN, "server", "unknown-operation", c->host, NULL,
              "see whether the client needs a newer server", "peer=%s session=0x%llx type=%d",
              c->peer, (unsigned long long)c->session_id, (int)r->type);
    connection_reply(c, r->xid, -1, CONCLAVE_UNIMPLEMENTED); /* -1, as in ZooKeeper */
    connection_close_after_output(c);
}

/* Limits the answer to one read: an answer that does not fit is refused while it is encoded. Returns the limit of the
 * output before. */
static size_t reply_room_begin(struct connection *c)
{
    size_t max = c->out.max;
    size_t bytes = client_limits_reply(&c->service->limits);
    if (c->out.max - c->out.len > bytes) {
        c->out.max = c->out.len + bytes;
    }
    return max;
}

/* Returns the query's error, or the error of an answer that is too large. */
static int reply_room_end(struct connection *c, size_t max, int err)
{
    bool too_large = c->out.failed || c->out.len > c->out.max;
    if (too_large && c->out.max != max) {
        c->out.failed =
            false; /* the record is discarded; if memory is out, the next append fails */
        c->service->metrics->conclave_replies_oversized_total++;
        err = CONCLAVE_SYSTEM_ERROR;
    }
    c->out.max = max;
    return err;
}

/* Refuses a large answer while its address, or all clients, have too many unread ones. */
static int refuse_large(struct connection *c, size_t place, int err)
{
    size_t len = c->out.len - place;
    if (err != 0 || len <= CONNECTION_BUFFERS_FREE || connection_has_room(c, len)) {
        return err;
    }
    c->service->metrics->conclave_answers_refused_total++;
    return CONCLAVE_THROTTLED;
}

static void answer_query(struct connection *c, const struct request *r)
{
    const struct state *state = c->service->state;
    struct state_watch watch = {.kind = STATE_WATCH_NONE};
    size_t place = connection_reply_begin(c, r->xid, state_zxid(state));
    size_t max = reply_room_begin(c);
    int err = state_query(state, r->type, client_ids_list(&c->identity), r->body, &c->out, &watch);
    err = refuse_large(c, place, reply_room_end(c, max, err));
    if (err != 0 && err != CONCLAVE_NO_NODE) {
        watch.kind = STATE_WATCH_NONE;
    }
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
    size_t max = reply_room_begin(c);
    int err = state_ephemerals(state, c->session_id, r->body, &c->out);
    err = refuse_large(c, place, reply_room_end(c, max, err));
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
    struct wire_vector ids = client_ids_list(&c->identity);
    struct wire_id id;
    size_t count_at = c->out.len;
    int32_t count = 0;
    wire_write_i32(&c->out, 0);
    while (wire_next_id(&ids, &id)) {
        /* With skipACL every client is superuser, but only inside the server; a grant is not a name of the client. */
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

/* Whether a list of servers, as in a reconfig, names a server on another machine. A line that cannot be parsed is
 * ignored here: apply refuses it. */
static bool names_other_machine(struct slice list)
{
    bool other = false;
    while (list.len > 0 && !other) {
        char text[SERVER_TEXT_MAX];
        struct server_line line = {0};
        const char *why;
        size_t len = 0;
        while (len < list.len && list.data[len] != ',' && list.data[len] != '\n') {
            len++;
        }
        const uint8_t *equals = memchr(list.data, '=', len);
        size_t skip = equals != NULL ? (size_t)(equals - list.data) + 1 : len;
        if (skip < len && len - skip < sizeof text) {
            memcpy(text, list.data + skip, len - skip);
            text[len - skip] = '\0';
            if (server_line_parse(text, &line, &why) == 0) {
                for (size_t i = 0; i < line.n_hosts; i++) {
                    other = other || !server_host_is_loopback(line.hosts[i].host);
                }
                server_line_finish(&line);
            }
        }
        len += len < list.len;
        list = slice_make(list.data + len, list.len - len);
    }
    return other;
}

bool request_may_reconfig(const struct connection *c, struct slice body)
{
    struct wire_reader reader = wire_reader_make(body);
    struct wire_reconfig_request request;
    if (!c->service->local_only || wire_decode_reconfig_request(&reader, &request) != 0 ||
        !(names_other_machine(request.joining_servers) ||
          names_other_machine(request.new_members))) {
        return true;
    }
    log_cause(LOG_WARN, "server", "reconfig-refused", c->host, NULL,
              "start all servers with clusterSecretFile or sslQuorum",
              "peer=%s session=0x%llx reason=\"a server on another machine would join, but these "
              "servers do not authenticate each other: start all of them with clusterSecretFile or "
              "sslQuorum\"",
              c->peer, (unsigned long long)c->session_id);
    return false;
}

/* Digest: checks the password. A wrong password of the superuser still gives an ordinary id, as in Apache ZooKeeper,
 * where the superuser's name has no special meaning. */

enum {
    FAILURES_PER_SECOND = 1, /* of an address */
    FAILURES_BURST = 10,
};

/* Counts a failure and logs it, each reason once a minute per address. */
static void request_tell_failure(struct connection *c, const char *scheme, int error,
                                 const char *reason)
{
    struct service *s = c->service;
    s->stats.auth_failed++;
    log_cause(
        LOG_WARN, "server", "auth-failed", c->host, reason,
        "correct the user or password of that client; when it is unknown, keep it away by a firewall",
        "peer=%s session=0x%llx scheme=%s error=%s reason=\"%s\"", c->peer,
        (unsigned long long)c->session_id, scheme, conclave_errname(error), reason);
}

/* Whether the address may fail once more; `count`: it did. */
static bool request_may_fail(const struct connection *c, bool count)
{
    char address[NET_NETWORK_MAX];
    net_network_name(c->host, address);
    struct rates *failures = &c->service->auth_failures;
    int64_t now_ns = c->service->now_ns;
    return count ? rates_take(failures, address, FAILURES_PER_SECOND, FAILURES_BURST, now_ns)
                 : rates_allow(failures, address, FAILURES_PER_SECOND, FAILURES_BURST, now_ns);
}

/* Ends the connection without an answer: a client takes a refusal as final, but tries again after a lost connection. */
static int request_put_off(struct connection *c, const char *reason)
{
    c->service->metrics->conclave_auth_put_off_total++;
    request_tell_failure(c, "digest", CONCLAVE_THROTTLED, reason);
    connection_end(c);
    return REQUEST_LATER;
}

/* Returns the error for the answer, or REQUEST_LATER. */
static int32_t request_conclude(struct connection *c, const char *scheme, int rc,
                                const char *reason);

static void request_on_verified(void *ctx, int error)
{
    struct connection *c = ctx;
    int rc = error;
    (void)service_time_ms(c->service);
    c->verification = NULL;
    if (rc == 0) {
        rc = client_ids_add(&c->identity, slice_str("digest"), buf_slice(&c->verified_id));
    } else if (rc == CONCLAVE_AUTH_FAILED) {
        (void)request_may_fail(c, true);
    }
    buf_finish(&c->verified_id);
    int32_t err = request_conclude(c, "digest", rc, "wrong user or password");
    if (err != REQUEST_LATER) {
        connection_verified(c, err);
    }
}

/* Checks against the file of users. */
static int request_verify(struct connection *c, struct slice user_password)
{
    struct service *s = c->service;
    struct buf id;
    buf_init(&id, c->identity.ids.max);
    int rc = digest_id(&id, s->digest.algorithm, user_password);
    if (rc != 0 || client_ids_has(&c->identity, slice_str("digest"), buf_slice(&id))) {
        buf_finish(&id);
        return rc;
    }
    if (!request_may_fail(c, false)) {
        rc = request_put_off(c, "too many failures from this address, or too many at once");
    } else {
        switch (password_checker_begin(s->verifier, user_password, request_on_verified, c,
                                       &c->verification)) {
        case VERIFIED:
            rc = client_ids_add(&c->identity, slice_str("digest"), buf_slice(&id));
            break;
        case VERIFYING:
            c->verified_id = id;
            return REQUEST_LATER;
        case VERIFIER_BUSY:
            rc = request_put_off(c, "too many passwords are being checked");
            break;
        }
    }
    buf_finish(&id);
    return rc;
}

static int request_digest(struct connection *c, struct slice user_password, const char **ret_reason)
{
    const struct digest_rules *rules = &c->service->digest;
    if (rules->off) {
        *ret_reason = "digest is off: DigestAuthenticationProvider.enabled";
        return CONCLAVE_AUTH_FAILED;
    }
    if (rules->tls_only && !c->secured) {
        *ret_reason = "digest needs TLS: digest.tlsOnly";
        return CONCLAVE_AUTH_FAILED;
    }
    switch (digest_super_is(rules, user_password)) {
    case DIGEST_WRONG:
        if (!request_may_fail(c, false)) {
            return request_put_off(c, "too many wrong passwords of the superuser");
        }
        (void)request_may_fail(c, true);
        request_tell_failure(c, "digest", CONCLAVE_AUTH_FAILED,
                             "wrong password of the superuser: the client gets an ordinary id");
        break;
    case DIGEST_SUPER:
        return client_ids_add_digest(&c->identity, rules, user_password);
    case DIGEST_NO_MEMORY:
        return CONCLAVE_ENOMEM;
    case DIGEST_OTHER:
        break;
    }
    return c->service->verifier != NULL ? request_verify(c, user_password)
                                        : client_ids_add_digest(&c->identity, rules, user_password);
}

static int32_t request_conclude(struct connection *c, const char *scheme, int rc,
                                const char *reason)
{
    if (rc == CONCLAVE_ENOMEM) {
        return request_put_off(c, "out of memory");
    }
    if (rc != 0) {
        request_tell_failure(c, scheme, rc, reason);
    }
    if (c->service->audit != NULL) {
        audit_log_login(c->service->audit, "auth", c->session_id, client_ids_list(&c->identity),
                        c->host, rc == 0);
    }
    return rc == 0 ? 0 : CONCLAVE_AUTH_FAILED;
}

int32_t request_authenticate(struct connection *c, struct slice body)
{
    struct wire_reader reader = wire_reader_make(body);
    struct wire_auth_packet packet;
    const char *reason = "the scheme is unknown or off, or its credentials are invalid";
    bool digest = false;
    int rc = CONCLAVE_AUTH_FAILED;
    if (wire_decode_auth_packet(&reader, &packet) == 0) {
        digest = slice_equal_str(packet.scheme, "digest") && !slice_is_null(packet.auth);
        rc = digest ? request_digest(c, packet.auth, &reason)
                    : client_ids_authenticate(&c->identity, c->host, &c->service->digest,
                                              packet.scheme, packet.auth);
    }
    return rc == REQUEST_LATER ? rc : request_conclude(c, digest ? "digest" : "?", rc, reason);
}

/* In the order of the operations' numbers. deleteContainer has no row: only the collector proposes it. */
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
