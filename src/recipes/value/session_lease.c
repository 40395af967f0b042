/* Leases: each is a client of its own that keeps one session and begins no other; by id, for a moment, without threads. */
#include "recipes/value/session_lease.h"

#include "client/core/path.h"
#include "client/core/sized.h"
#include "recipes/engine/blocking_requests.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REVOKE_VISITS = 10, PASSWD_BYTES = 16, TTL_MAX_MS = INT32_MAX };

struct conclave_lease {
    struct conclave_client *client;
    struct conclave_lease_callbacks callbacks;
    void *ctx;
    conclave_log_fn on_log; /* of the program's options, with its own context */
    void *log_ctx;
    struct conclave_session granted;
    /* Guarded by the client's lock. */
    bool open; /* handed out: on_ended may be called */
    int ended; /* why, once it has; 0: not yet */
};

/* --- ids ----------------------------------------------------------------------------------- */

struct lease_name {
    int64_t session_id;
    int64_t ttl_ms;
    uint8_t passwd[PASSWD_BYTES];
};

static void name_print(const struct conclave_session *session, char buf[CONCLAVE_LEASE_ID_MAX])
{
    int at = snprintf(buf, CONCLAVE_LEASE_ID_MAX, "%" PRIx64 "-%" PRIx64 "-", (uint64_t)session->id,
                      (uint64_t)session->timeout_ms);
    for (size_t i = 0; i < PASSWD_BYTES; i++) {
        at += snprintf(buf + at, (size_t)(CONCLAVE_LEASE_ID_MAX - at), "%02x", session->passwd[i]);
    }
    assert(at < CONCLAVE_LEASE_ID_MAX);
}

static bool name_parse_id(const char *id, struct lease_name *ret)
{
    uint64_t session;
    uint64_t ttl;
    int at = 0;
    if (id == NULL || strlen(id) >= CONCLAVE_LEASE_ID_MAX ||
        sscanf(id, "%16" SCNx64 "-%8" SCNx64 "-%n", &session, &ttl, &at) != 2 || at == 0 ||
        session == 0 || ttl == 0 || ttl > TTL_MAX_MS ||
        strspn(id + at, "0123456789abcdef") != (size_t)2 * PASSWD_BYTES ||
        id[at + 2 * PASSWD_BYTES] != '\0') {
        return false;
    }
    ret->session_id = (int64_t)session;
    ret->ttl_ms = (int64_t)ttl;
    for (size_t i = 0; i < PASSWD_BYTES; i++) {
        unsigned byte = 0;
        (void)sscanf(id + at + 2 * i, "%2x", &byte);
        ret->passwd[i] = (uint8_t)byte;
    }
    return true;
}

/* --- a client for the session ---------------------------------------------------------------- */

static void session_lease_on_state(struct conclave_client *client, enum conclave_state state,
                                   void *ctx)
{
    struct conclave_lease *lease = ctx;
    if (state != CONCLAVE_STATE_LOST && state != CONCLAVE_STATE_AUTH_FAILED) {
        return;
    }
    client_lock(client);
    bool first = lease->ended == 0;
    if (first) {
        lease->ended =
            state == CONCLAVE_STATE_LOST ? CONCLAVE_SESSION_EXPIRED : CONCLAVE_AUTH_FAILED;
    }
    bool tells = first && lease->open && lease->callbacks.on_ended != NULL;
    client_unlock(client);
    if (tells) {
        lease->callbacks.on_ended(lease, lease->ended, lease->ctx);
    }
}

static void session_lease_on_log(struct conclave_client *client,
                                 const struct conclave_log_line *line, void *ctx)
{
    struct conclave_lease *lease = ctx;
    lease->on_log(client, line, lease->log_ctx);
}

/* lease: NULL for a visit by id. */
static int client_of(const struct conclave_client_options *options, const struct lease_name *name,
                     struct conclave_lease *lease, struct conclave_client **ret)
{
    struct conclave_client_options own = CONCLAVE_CLIENT_OPTIONS_INIT;
    if (options != NULL && sized_read(&own, options) != 0) {
        return CONCLAVE_EINVAL;
    }
    own.session_timeout_ms = name->ttl_ms;
    own.session_id = name->session_id;
    own.passwd = name->session_id != 0 ? name->passwd : NULL;
    own.new_session = false;
    own.read_only = false;
    own.on_state = NULL;
    if (lease != NULL) { /* the client has one context, which the log's function gets, too */
        lease->on_log = own.on_log;
        lease->log_ctx = own.ctx;
        own.on_state = session_lease_on_state;
        own.on_log = own.on_log == NULL ? NULL : session_lease_on_log;
        own.ctx = lease;
    }
    return conclave_client_open(&own, ret);
}

/* From now on its end is told; 0, or why it has ended before. */
static int lease_hand_out(struct conclave_lease *lease, struct conclave_lease **ret)
{
    client_lock(lease->client);
    int error = lease->ended;
    assert(!lease->open && lease->granted.id != 0);
    if (error == 0) {
        lease->open = true;
        *ret = lease; /* before a callback can run */
    }
    client_unlock(lease->client);
    return error;
}

static int lease_open(const struct conclave_client_options *options, const struct lease_name *name,
                      int64_t timeout_ms, const struct conclave_lease_callbacks *callbacks,
                      void *ctx, struct conclave_lease **ret)
{
    struct conclave_lease_callbacks calls = CONCLAVE_LEASE_CALLBACKS_INIT;
    if (callbacks != NULL && sized_read(&calls, callbacks) != 0) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_lease *lease = calloc(1, sizeof *lease);
    if (lease == NULL) {
        return CONCLAVE_ENOMEM;
    }
    lease->ctx = ctx;
    lease->callbacks = calls;
    lease->granted = (struct conclave_session)CONCLAVE_SESSION_INIT;
    int error = client_of(options, name, lease, &lease->client);
    error = error == 0 ? conclave_client_start(lease->client) : error;
    error = error == 0 ? conclave_client_wait_connected(lease->client, timeout_ms) : error;
    if (error == 0) {
        conclave_client_session(lease->client, &lease->granted);
        error = lease->granted.id == 0 ? CONCLAVE_SESSION_EXPIRED : lease_hand_out(lease, ret);
    }
    if (error != 0) { /* one that was granted at this moment ends now, one to be taken stays */
        conclave_client_close(lease->client, name->session_id != 0 ? 0 : 1000);
        free(lease);
    }
    return error;
}

int conclave_lease_grant(const struct conclave_client_options *client, int64_t ttl_ms,
                         int64_t timeout_ms, const struct conclave_lease_callbacks *callbacks,
                         void *ctx, struct conclave_lease **ret)
{
    struct lease_name name = {.ttl_ms = ttl_ms};
    if (ttl_ms <= 0 || ttl_ms > TTL_MAX_MS) {
        return CONCLAVE_EINVAL;
    }
    return lease_open(client, &name, timeout_ms, callbacks, ctx, ret);
}

int conclave_lease_take(const struct conclave_client_options *client, const char *id,
                        int64_t timeout_ms, const struct conclave_lease_callbacks *callbacks,
                        void *ctx, struct conclave_lease **ret)
{
    struct lease_name name;
    if (!name_parse_id(id, &name)) {
        return CONCLAVE_EINVAL;
    }
    return lease_open(client, &name, timeout_ms, callbacks, ctx, ret);
}

void conclave_lease_id(const struct conclave_lease *lease, char buf[CONCLAVE_LEASE_ID_MAX])
{
    name_print(&lease->granted, buf);
}

struct conclave_client *conclave_lease_client(struct conclave_lease *lease)
{
    return lease->client;
}

int conclave_lease_close(struct conclave_lease *lease, enum conclave_lease_end how,
                         int64_t timeout_ms)
{
    int error = lease == NULL ? 0 : client_check(lease->client);
    if (lease == NULL) {
        return 0;
    }
    if (error == 0) {
        error = client_may_wait(lease->client);
        if (error != 0) {
            return error;
        }
    }
    conclave_client_close(lease->client, how == CONCLAVE_LEASE_LEAVE ? 0 : timeout_ms);
    free(lease);
    return 0;
}

/* --- by id ------------------------------------------------------------------------------------ */

static void info_fill(struct conclave_lease_info *ret, int64_t granted_ms, int64_t passed_ns)
{
    struct conclave_lease_info info = CONCLAVE_LEASE_INFO_INIT;
    int64_t left_ms = granted_ms - passed_ns / 1000000;
    info.granted_ms = granted_ms;
    info.left_ms = left_ms > 0 ? left_ms : 0;
    if (ret != NULL) {
        sized_write(ret, &info);
    }
}

static int lease_visit(const struct conclave_client_options *options, const char *id,
                       int64_t timeout_ms, int64_t close_ms, struct conclave_lease_info *ret)
{
    struct lease_name name;
    struct conclave_client *client;
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    if (!name_parse_id(id, &name) || !sized_can_write(ret)) {
        return CONCLAVE_EINVAL;
    }
    int error = client_of(options, &name, NULL, &client);
    if (error != 0) {
        return error;
    }
    int64_t begin_ns = client_now_ns(client);
    error = conclave_client_wait_connected(client, timeout_ms);
    if (error == 0) {
        conclave_client_session(client, &session);
        info_fill(ret, session.timeout_ms, client_now_ns(client) - begin_ns);
    }
    conclave_client_close(client, error == 0 ? close_ms : 0);
    return error;
}

int conclave_lease_keep_alive(const struct conclave_client_options *client, const char *id,
                              int64_t timeout_ms, struct conclave_lease_info *ret)
{
    return lease_visit(client, id, timeout_ms, 0, ret);
}

int conclave_lease_revoke(const struct conclave_client_options *client, const char *id,
                          int64_t timeout_ms)
{
    int64_t close_ms = timeout_ms == 0 ? 1 : timeout_ms;
    int error = lease_visit(client, id, timeout_ms, close_ms, NULL);
    /* the answer, or the link to the holder, may have been lost: another visit shows that it ended */
    for (int i = 0; i < REVOKE_VISITS && error == 0; i++) {
        error = lease_visit(client, id, timeout_ms, close_ms, NULL);
        if (error == CONCLAVE_SESSION_EXPIRED) {
            return 0;
        }
    }
    return error == 0 ? CONCLAVE_EBUSY : error;
}

/* --- with the session ---------------------------------------------------------------------------- */

int conclave_lease_time_to_live(struct conclave_lease *lease, int64_t timeout_ms,
                                struct conclave_lease_info *ret)
{
    struct conclave_op check = conclave_op_path(CONCLAVE_OP_CHECK, "/", -1);
    struct blocking b = blocking_begin(lease->client, timeout_ms);
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    int64_t begin_ns = client_now_ns(lease->client);
    if (ret == NULL || !sized_can_write(ret)) {
        return CONCLAVE_EINVAL;
    }
    int error = blocking_request(&b, conclave_op_multi(&check, 1), NULL);
    if (error == CONCLAVE_NO_NODE || error == CONCLAVE_NO_AUTH) {
        error = 0; /* an answer of the quorum all the same */
    }
    if (error == 0) {
        conclave_client_session(lease->client, &session);
        info_fill(ret, session.timeout_ms, client_now_ns(lease->client) - begin_ns);
    }
    return error;
}

/* Whether the server hid a part of it, as it does from clients without the permission ADMIN: it could not be given to
 * the new node. */
static bool acl_is_hidden(const struct conclave_reply *acl)
{
    for (size_t i = 0; i < acl->acl_count; i++) {
        const char *secret = strchr(acl->acl[i].id, ':');
        if (strcmp(acl->acl[i].scheme, "digest") == 0 && secret != NULL &&
            strcmp(secret, ":x") == 0) {
            return true;
        }
    }
    return false;
}

/* Puts a node of the lease in the place of the one that was read. */
static int lease_replace(struct blocking *b, const char *path, const struct conclave_reply *node)
{
    struct conclave_reply *acl = NULL;
    int error = blocking_ask(b, CONCLAVE_OP_GET_ACL, path, &acl);
    if (error == 0) {
        struct conclave_op parts[3] = {
            conclave_op_path(CONCLAVE_OP_DELETE, path, node->stat.version),
            conclave_op_create(path, node->data, node->data_len, CONCLAVE_EPHEMERAL),
            /* never version 0 again: the transaction of another that read the old node would delete the new one */
            conclave_op_set(path, node->data, node->data_len, 0)};
        size_t count = node->stat.version == 0 ? 3 : 2;
        parts[1].acl = acl->acl;
        parts[1].acl_count = acl->acl_count;
        error = acl->stat.aversion != node->stat.aversion ? CONCLAVE_BAD_VERSION
                : acl_is_hidden(acl)                      ? CONCLAVE_NO_AUTH
                                     : blocking_request(b, conclave_op_multi(parts, count), NULL);
    }
    conclave_reply_free(acl);
    return error;
}

int conclave_lease_attach(struct conclave_lease *lease, const char *path, int64_t timeout_ms)
{
    struct blocking b = blocking_begin(lease->client, timeout_ms);
    if (path == NULL || !path_is_valid(path, false)) {
        return CONCLAVE_EINVAL;
    }
    for (;;) {
        struct conclave_reply *node = NULL;
        int error = blocking_ask(&b, CONCLAVE_OP_GET, path, &node);
        int64_t owner = error == 0 ? node->stat.ephemeral_owner : 0;
        bool done = error != 0 || owner != 0;
        if (owner != 0) {
            error = owner == lease_session(lease) ? 0 : CONCLAVE_ENOTOWNER;
        } else if (error == 0) {
            error =
                node->stat.num_children > 0 ? CONCLAVE_NOT_EMPTY : lease_replace(&b, path, node);
            done = error != CONCLAVE_BAD_VERSION && !(b.repeated && error != 0);
        }
        conclave_reply_free(node);
        if (done || blocking_is_late(&b)) {
            return done ? error : CONCLAVE_ETIMEDOUT;
        }
    }
}

int64_t lease_session(struct conclave_lease *lease)
{
    client_lock(lease->client);
    int64_t id = client_session_id(lease->client);
    client_unlock(lease->client);
    return id;
}
