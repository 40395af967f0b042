/*
 * SASL on a new link: the owner's tokens go to the server as requests, one at a time, and the server's answers to the
 * owner, until the exchange is complete. Nothing else is sent meanwhile.
 *
 * Sources: ZooKeeperSaslClient of Apache ZooKeeper 3.9 and zk_sasl.c of its C client. The first token is empty if the
 * server speaks first (DIGEST-MD5), and the last one of GSSAPI is answered by an empty token.
 */
#include "client/core/core_internal.h"

#include <assert.h>

int core_login_begin(struct core *c)
{
    core_enter_link(c, LINK_LOGIN);
    assert(c->login_xid == 0);
    c->login_first = true;
    c->login_last = false;
    return c->events->login(c->ctx, SLICE_NULL);
}

/* Ends for good, because another try would get the same answer. problem: static, or NULL. */
static int login_refused(struct core *c, const char *problem)
{
    c->link_problem = problem;
    core_end(c, CONCLAVE_STATE_AUTH_FAILED, CONCLAVE_AUTH_FAILED);
    return CONCLAVE_AUTH_FAILED;
}

void core_login_failed(struct core *c, int64_t now_ns)
{
    if (c->link == LINK_LOGIN) {
        bool again = c->logged_in && !c->closing;
        core_link_down(c, now_ns, again ? CONCLAVE_ESASL : login_refused(c, NULL));
    }
}

static int login_complete(struct core *c, int64_t now_ns)
{
    c->logged_in = true;
    return core_attach(c, now_ns);
}

static int login_send(struct core *c, struct slice token, int64_t now_ns)
{
    size_t start = wire_frame_begin(&c->out);
    struct wire_request_header header = {c->next_xid, WIRE_SASL};
    /* Not null, which a server treats as malformed. */
    struct wire_sasl_request request = {.token = token.len > 0 ? token : slice_str("")};
    wire_encode_request_header(&c->out, &header);
    wire_encode_sasl_request(&c->out, &request);
    int rc = core_frame_end(c, start);
    if (rc == 0) {
        c->login_xid = core_next_xid(c);
        c->sent_ns = now_ns;
    }
    return rc;
}

void core_login(struct core *c, enum core_login_step step, struct slice token, int64_t now_ns)
{
    if (c->link != LINK_LOGIN || c->login_xid != 0) {
        return;
    }
    c->login_last = step == CORE_LOGIN_LAST;
    int rc = step == CORE_LOGIN_DONE ? login_complete(c, now_ns) : login_send(c, token, now_ns);
    if (rc != 0) {
        core_link_down(c, now_ns, rc);
    }
}

/* Other errors, such as an overloaded server, are temporary. */
static bool is_refusal(int error)
{
    return error == CONCLAVE_AUTH_FAILED || error == CONCLAVE_SESSION_CLOSED_REQUIRE_AUTH ||
           error == CONCLAVE_NO_AUTH || error == CONCLAVE_UNIMPLEMENTED;
}

int core_take_login(struct core *c, struct slice body, int64_t now_ns)
{
    struct wire_reader rd = wire_reader_make(body);
    struct wire_reply_header header;
    struct wire_sasl_response response;
    if (wire_decode_reply_header(&rd, &header) != 0 || header.xid != c->login_xid ||
        header.xid == 0) {
        return CONCLAVE_EPROTO;
    }
    if (header.err != 0) {
        return is_refusal(header.err) ? login_refused(c, "the server refused the login by SASL")
                                      : header.err;
    }
    if (wire_decode_sasl_response(&rd, &response) != 0) {
        return CONCLAVE_EPROTO;
    }
    c->acked_ns = c->sent_ns;
    c->login_xid = 0;
    if (c->login_last) {
        return login_complete(c, now_ns);
    }
    if (slice_is_null(response.token)) {
        return login_refused(c, c->login_first ? "the server does not offer SASL"
                                               : "the server did not accept the login by SASL");
    }
    c->login_first = false;
    return c->events->login(c->ctx, response.token);
}
