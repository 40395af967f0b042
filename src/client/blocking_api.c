/* The public calls that do not block. */
#include "client/handle.h"

#include "client/core/sized.h"

#include <limits.h>
#include <stdio.h>

const char *conclave_state_name(enum conclave_state state)
{
    static const char *const names[] = {
        [CONCLAVE_STATE_CONNECTING] = "CONNECTING",   [CONCLAVE_STATE_CONNECTED] = "CONNECTED",
        [CONCLAVE_STATE_SUSPENDED] = "SUSPENDED",     [CONCLAVE_STATE_RECONNECTED] = "RECONNECTED",
        [CONCLAVE_STATE_NEW_SESSION] = "NEW_SESSION", [CONCLAVE_STATE_LOST] = "LOST",
        [CONCLAVE_STATE_AUTH_FAILED] = "AUTH_FAILED", [CONCLAVE_STATE_CLOSED] = "CLOSED",
        [CONCLAVE_STATE_READ_ONLY] = "READ_ONLY",
    };
    size_t i = (size_t)state;
    return i < sizeof names / sizeof *names ? names[i] : "UNKNOWN";
}

const char *conclave_event_name(enum conclave_event_type type)
{
    switch (type) {
    case CONCLAVE_EVENT_RESUMED:
        return "RESUMED";
    case CONCLAVE_EVENT_LOST:
        return "LOST";
    case CONCLAVE_EVENT_CREATED:
        return "CREATED";
    case CONCLAVE_EVENT_DELETED:
        return "DELETED";
    case CONCLAVE_EVENT_DATA_CHANGED:
        return "DATA_CHANGED";
    case CONCLAVE_EVENT_CHILDREN_CHANGED:
        return "CHILDREN_CHANGED";
    }
    return "UNKNOWN";
}

int conclave_client_fd(const struct conclave_client *client)
{
    return client->epoll_fd;
}

/* Removes const for the lock: a reader does not change the visible state of the client. */
static struct conclave_client *unconst(const struct conclave_client *client)
{
    return (struct conclave_client *)(uintptr_t)client;
}

int64_t conclave_client_timeout_ms(const struct conclave_client *client)
{
    struct conclave_client *c = unconst(client);
    client_lock(c);
    int64_t at_ns = client->wake_pending ? 0 : loop_deadline_ns(client);
    client_unlock(c);
    if (at_ns == INT64_MAX) {
        return -1;
    }
    int64_t left_ns = at_ns - client_now_ns(client);
    return left_ns <= 0 ? 0 : (left_ns + 999999) / 1000000;
}

void conclave_client_session(const struct conclave_client *client, struct conclave_session *ret)
{
    struct conclave_client *c = unconst(client);
    client_lock(c);
    const struct core *core = &client->core;
    struct conclave_session session = {
        .size = sizeof session,
        .state = core->state,
        .id = core->session_id,
        .timeout_ms = client_timeout_ms(client),
        .last_zxid = core->last_zxid,
    };
    memcpy(session.passwd, core->passwd, sizeof session.passwd);
    snprintf(session.server, sizeof session.server, "%s", client->connecting ? "" : client->server);
    client_unlock(c);
    sized_write(ret, &session);
}

bool conclave_client_exactly_once(const struct conclave_client *client)
{
    struct conclave_client *c = unconst(client);
    client_lock(c);
    bool granted = client->core.once.granted;
    client_unlock(c);
    return granted;
}

void handle_problems(const struct conclave_client *client, char *buf, size_t len)
{
    size_t used = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < HOSTS_MAX && used < len; i++) {
        /* The newest comes first, because it is the one to read if buf is short. */
        const char *problem = client->problems[(client->last_problem + i) % HOSTS_MAX];
        if (problem != NULL) {
            used += (size_t)snprintf(buf + used, len - used, "%s%s", used > 0 ? "; " : "", problem);
        }
    }
}

void conclave_client_last_error(const struct conclave_client *client, char *buf, size_t len)
{
    if (len == 0) {
        return;
    }
    struct conclave_client *c = unconst(client);
    client_lock(c);
    handle_problems(client, buf, len);
    client_unlock(c);
}

void conclave_client_why(const struct conclave_client *client, struct conclave_loss *ret)
{
    struct conclave_client *c = unconst(client);
    client_lock(c);
    struct conclave_loss loss = c->loss.seen;
    loss.size = sizeof loss;
    if (loss.cause != CONCLAVE_LOSS_NONE) {
        loss.age_ms = (client_now_ns(client) - c->loss.lost_ns) / 1000000;
        loss_text(&loss, loss.text, sizeof loss.text);
    }
    client_unlock(c);
    sized_write(ret, &loss);
}

int conclave_submit(struct conclave_client *client, const struct conclave_op *op,
                    conclave_reply_fn fn, void *ctx)
{
    int rc = client_check(client);
    if (rc != 0) {
        return rc;
    }
    client_lock(client);
    rc = handle_submit(client, op, fn, ctx, SUBMIT_PUBLIC);
    client_unlock(client);
    return rc;
}

int conclave_client_add_auth(struct conclave_client *client, const char *scheme, const void *auth,
                             size_t len)
{
    int rc = client_check(client);
    if (rc != 0) {
        return rc;
    }
    if (scheme == NULL || scheme[0] == '\0' || (auth == NULL && len > 0) || len > INT_MAX) {
        return CONCLAVE_EINVAL;
    }
    client_lock(client);
    rc = core_add_auth(&client->core, scheme, slice_make(auth != NULL ? auth : "", len));
    if (rc == 0) {
        loop_wake(client);
    }
    client_unlock(client);
    return rc;
}

int conclave_watch_remove(struct conclave_client *client, const char *path, conclave_watch_fn watch,
                          void *ctx)
{
    int rc = client_check(client);
    if (rc != 0) {
        return rc;
    }
    if (path == NULL || watch == NULL) {
        return CONCLAVE_EINVAL;
    }
    client_lock(client);
    struct client_watch *w = core_forget_watch(&client->core, path, watch, ctx, false);
    if (w != NULL) {
        w->type = CONCLAVE_EVENT_LOST;
        handle_events.watch(client, w);
        handle_wake_pump(client);
        loop_wake(client);
    }
    client_unlock(client);
    return w != NULL ? 0 : CONCLAVE_NO_WATCHER;
}
