#include "front/request_sasl.h"

#include "base/log.h"
#include "front/service.h"

static void request_audit_login(struct connection *c, bool success)
{
    if (c->service->audit != NULL) {
        audit_log_login(c->service->audit, "sasl", c->session_id, client_ids_list(&c->identity),
                        c->host, success);
    }
}

/* A failure ends the connection, unless the server is configured to tolerate it. */
static int32_t request_login_failed(struct connection *c, int error)
{
    struct service *s = c->service;
    bool required = s->auth_schemes != NULL && auth_schemes_have(s->auth_schemes, "sasl");
    s->stats.auth_failed++;
    log_cause(
        LOG_WARN, "server", "auth-failed", c->host, sasl_service_reason(s->login),
        "correct the user or password of that client; when it is unknown, keep it away by a firewall",
        "peer=%s session=0x%llx scheme=sasl error=%s reason=\"%s\"", c->peer,
        (unsigned long long)c->session_id, conclave_errname(error), sasl_service_reason(s->login));
    request_audit_login(c, false);
    if (required) {
        return CONCLAVE_SESSION_CLOSED_REQUIRE_AUTH;
    }
    return sasl_service_options(s->login)->allow_failed ? 0 : CONCLAVE_AUTH_FAILED;
}

/* A server without SASL answers success and no token, as ZooKeeper's does: the client continues without an id. */
int32_t request_login(struct connection *c, struct slice body, struct buf *record)
{
    struct service *s = c->service;
    struct wire_reader reader = wire_reader_make(body);
    struct wire_sasl_request request;
    struct sasl_step step = {SLICE_NULL, SLICE_NULL};
    int32_t err = 0;
    if (wire_decode_sasl_request(&reader, &request) != 0 || slice_is_null(request.token)) {
        connection_drop(c, "a sasl request is malformed");
        return 0;
    }
    if (s->login != NULL) {
        int rc = sasl_login_take(s->login, &c->login, request.token, &step);
        if (rc == 0 && !slice_is_null(step.id)) {
            rc = sasl_login_add_ids(sasl_service_options(s->login), step.id, &c->identity);
            if (rc == 0) {
                request_audit_login(c, true);
            }
        }
        if (rc == CONCLAVE_ENOMEM) {
            connection_drop(c, "out of memory");
            return 0;
        }
        if (rc != 0) {
            step.token = SLICE_NULL;
            err = request_login_failed(c, rc);
        }
    }
    wire_encode_sasl_response(record, &(struct wire_sasl_response){.token = step.token});
    if (!buf_ok(record)) {
        connection_drop(c, "out of memory");
    }
    return err;
}

void answer_login(struct connection *c, const struct request *r)
{
    size_t place = connection_reply_begin(c, r->xid, 0);
    if (r->err != 0) {
        connection_reply_fail(c, place, r->err);
    }
    buf_append_slice(&c->out, r->body);
    connection_reply_end(c, place);
    if (r->err != 0) {
        connection_close_after_output(c);
    }
}
