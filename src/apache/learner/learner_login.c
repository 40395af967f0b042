#include "apache/learner/learner_login.h"

#include "cyrus/library.h"
#include "wire/codec.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define LOGIN_MAGIC INT64_C(-0xa0dbcafecafe1234)

enum login_status { LOGIN_ERROR = -1, LOGIN_IN_PROGRESS = 0, LOGIN_SUCCESS = 1 };
enum { PROBLEM_MAX = CYRUS_REASON_MAX + 160 };

struct learner_login {
    uv_work_t work;
    struct cyrus_exchange *exchange; /* while `stepping`, with the fields below, the thread's */
    struct buf challenge;
    int rc; /* of the newest step */
    enum cyrus_step step;
    struct slice token;
    struct buf out;
    bool stepping;
    bool success; /* the server said so; the step that checks its proof is the last one */
    bool done;
    learner_login_fn cb;
    void *ctx;
    bool closing;
    void (*closed)(void *ctx);
    void *closed_ctx;
    char problem[PROBLEM_MAX]; /* "": none */
};

static void login_free(struct learner_login *l)
{
    void (*closed)(void *ctx) = l->closed;
    void *ctx = l->closed_ctx;
    assert(!l->stepping);
    cyrus_exchange_destroy(l->exchange);
    buf_finish(&l->challenge);
    buf_finish(&l->out);
    free(l);
    if (closed != NULL) {
        closed(ctx);
    }
}

static void login_fail(struct learner_login *l, const char *what, const char *why)
{
    (void)snprintf(l->problem, sizeof l->problem, "SASL: %s%s", what, why);
}

/* On the thread. */
static void login_work(uv_work_t *work)
{
    struct learner_login *l = work->data;
    struct slice challenge = l->challenge.len > 0 ? buf_slice(&l->challenge) : SLICE_NULL;
    l->rc = cyrus_exchange_step(l->exchange, challenge, &l->step, &l->token);
}

static void take_step(struct learner_login *l)
{
    if (l->rc == CONCLAVE_ESASL && l->success) {
        login_fail(l, "the server does not prove that it knows the password: ",
                   cyrus_exchange_problem(l->exchange));
    } else if (l->rc != 0) {
        login_fail(l, "",
                   l->rc == CONCLAVE_ESASL ? cyrus_exchange_problem(l->exchange)
                                           : conclave_strerror(l->rc));
    } else if (l->success && l->step != CYRUS_DONE) {
        login_fail(l, "the server ends the login before it has proved that it knows the password",
                   "");
    } else if (l->success) {
        l->done = true;
    } else {
        buf_append_i64(&l->out, LOGIN_MAGIC);
        buf_append_i32(&l->out, LOGIN_IN_PROGRESS);
        wire_write_buffer(&l->out, slice_is_null(l->token) ? slice_make("", 0) : l->token);
        if (!buf_ok(&l->out)) {
            login_fail(l, "", "out of memory");
        }
    }
}

static void login_worked(uv_work_t *work, int status)
{
    struct learner_login *l = work->data;
    assert(l->stepping && status == 0);
    l->stepping = false;
    if (l->closing) {
        login_free(l);
        return;
    }
    take_step(l);
    l->cb(l->ctx);
}

static void login_step(struct learner_login *l, uv_loop_t *loop)
{
    assert(!l->stepping && !l->done);
    l->stepping = true;
    if (uv_queue_work(loop, &l->work, login_work, login_worked) != 0) {
        abort(); /* fails only without a function */
    }
}

struct learner_login *learner_login_create(uv_loop_t *loop, struct cyrus_settings *settings,
                                           const char *host, learner_login_fn cb, void *ctx)
{
    struct learner_login *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return NULL;
    }
    l->work.data = l;
    l->cb = cb;
    l->ctx = ctx;
    buf_init(&l->challenge, 0);
    buf_init(&l->out, 0);
    l->exchange = cyrus_exchange_create(settings, host);
    if (l->exchange == NULL) {
        login_free(l);
        return NULL;
    }
    login_step(l, loop);
    return l;
}

void learner_login_close(struct learner_login *l, void (*closed)(void *ctx), void *ctx)
{
    if (l == NULL) {
        return;
    }
    assert(!l->closing);
    l->closing = true;
    l->closed = closed;
    l->closed_ctx = ctx;
    if (!l->stepping) {
        login_free(l);
    }
}

size_t learner_login_input(struct learner_login *l, struct slice bytes)
{
    struct wire_reader r = wire_reader_make(bytes);
    int64_t magic = wire_read_i64(&r);
    int32_t status = wire_read_i32(&r);
    struct wire_reader ahead = r;
    int32_t len = wire_read_i32(&ahead);
    struct slice token = wire_read_buffer(&r);
    if (l->stepping || l->problem[0] != '\0' ||
        (bytes.len >= sizeof magic && magic != LOGIN_MAGIC) ||
        (!ahead.failed && (len < -1 || len > LEARNER_TOKEN_MAX))) {
        login_fail(l, "the server does not answer as one with quorum.auth.enableSasl", "");
        return bytes.len;
    }
    if (r.failed) {
        return 0;
    }
    if (status != LOGIN_IN_PROGRESS && status != LOGIN_SUCCESS) {
        login_fail(l,
                   "the server refuses the login: the line of mirror.sasl.file must be user and "
                   "password of the section QuorumServer of its JAAS file",
                   "");
        return bytes.len;
    }
    l->success = status == LOGIN_SUCCESS;
    buf_reset(&l->challenge);
    buf_append_slice(&l->challenge, token);
    if (!buf_ok(&l->challenge) || token.len == 0) {
        login_fail(l, "", token.len == 0 ? "the server sends an empty token" : "out of memory");
        return bytes.len;
    }
    login_step(l, l->work.loop);
    return (size_t)(r.pos - bytes.data);
}

struct buf *learner_login_out(struct learner_login *l)
{
    return &l->out;
}

bool learner_login_done(const struct learner_login *l)
{
    return l->done;
}

const char *learner_login_problem(const struct learner_login *l)
{
    return l->problem[0] != '\0' ? l->problem : NULL;
}
