#include "recipes/engine/blocking_requests.h"

#include "recipes/engine/recipe_runtime.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PAUSE_MS = 250 };

struct blocking blocking_begin(struct conclave_client *client, int64_t timeout_ms)
{
    return (struct blocking){.client = client,
                             .deadline_ns = client_deadline_ns(client, timeout_ms)};
}

bool blocking_is_late(const struct blocking *b)
{
    return b->deadline_ns != CONCLAVE_FOREVER && client_now_ns(b->client) >= b->deadline_ns;
}

static int blocking_may(void *ctx)
{
    const struct blocking *b = ctx;
    return b->session_id == 0 || client_session_id(b->client) == b->session_id
               ? 0
               : CONCLAVE_SESSION_EXPIRED;
}

int blocking_session(const struct blocking *b)
{
    client_lock(b->client);
    int error = blocking_may((void *)b);
    client_unlock(b->client);
    return error;
}

int blocking_try(struct blocking *b, struct conclave_op op, struct conclave_reply **ret_reply)
{
    static const struct conclave_retry_options never = {.size = sizeof never};
    op.retry = &never; /* a recipe repeats by its own rules */
    if (b->deadline_ns != CONCLAVE_FOREVER) {
        int64_t left_ms = (b->deadline_ns - client_now_ns(b->client)) / 1000000;
        op.timeout_ms = left_ms > 0 ? left_ms : 1;
    }
    return client_call(b->client, &op, blocking_may, b, ret_reply);
}

int blocking_once(struct blocking *b, struct conclave_op op, struct conclave_reply **ret_reply)
{
    *ret_reply = NULL;
    int error = blocking_is_late(b) ? CONCLAVE_ETIMEDOUT : blocking_try(b, op, ret_reply);
    return error == CONCLAVE_OPERATION_TIMEOUT ? CONCLAVE_ETIMEDOUT : error;
}

/* Refused for now; of the first two nobody knows whether it was carried out. */
static bool is_refused(int error)
{
    return error == CONCLAVE_SESSION_MOVED || error == CONCLAVE_REQUEST_TIMEOUT ||
           error == CONCLAVE_THROTTLED;
}

static bool client_has_ended(void *ctx)
{
    return state_is_final(client_state(ctx));
}

/* Until the next try; the end of the client or of the time comes first. */
static void blocking_pause(const struct blocking *b)
{
    client_lock(b->client);
    int64_t until_ns = client_deadline_ns(b->client, PAUSE_MS);
    bool late = b->deadline_ns != CONCLAVE_FOREVER && b->deadline_ns < until_ns;
    int error =
        client_wait(b->client, client_has_ended, b->client, late ? b->deadline_ns : until_ns);
    (void)error; /* in a thread that may not wait, the request says so */
    client_unlock(b->client);
}

int blocking_request(struct blocking *b, struct conclave_op op, struct conclave_reply **ret_reply)
{
    b->repeated = false;
    if (ret_reply != NULL) {
        *ret_reply = NULL; /* of a call that ends without an answer */
    }
    for (;;) {
        struct conclave_reply *reply = NULL;
        int error = blocking_try(b, op, &reply);
        bool refused = is_refused(error);
        bool again =
            refused || error == CONCLAVE_CONNECTION_LOSS || error == CONCLAVE_OPERATION_TIMEOUT;
        if (!again && ret_reply != NULL) {
            *ret_reply = reply;
            return error;
        }
        conclave_reply_free(reply);
        if (!again || blocking_is_late(b)) {
            return again ? CONCLAVE_ETIMEDOUT : error;
        }
        b->repeated = b->repeated || error != CONCLAVE_THROTTLED;
        if (refused) {
            blocking_pause(b);
        }
    }
}

int blocking_ask(struct blocking *b, enum conclave_op_type type, const char *path,
                 struct conclave_reply **ret_reply)
{
    struct conclave_op op = conclave_op_path(type, path, 0);
    op.linearizable = type == CONCLAVE_OP_GET_CHILDREN;
    return blocking_request(b, op, ret_reply);
}

/* As ensure_path: from the node up to the first parent that exists, then down again. */
int blocking_ensure(struct blocking *b, const char *path, const struct conclave_acl *acl,
                    size_t acl_count)
{
    char *part = strdup(path);
    size_t full = strlen(path);
    size_t len = full;
    int error = part == NULL ? CONCLAVE_ENOMEM : 0;
    bool done = false;
    while (error == 0 && !done) {
        assert(len > 0 && len <= full);
        memcpy(part, path, full + 1);
        part[len] = '\0';
        struct conclave_op op =
            conclave_op_create(part, "", 0, b->plain ? CONCLAVE_PERSISTENT : CONCLAVE_CONTAINER);
        op.acl = acl;
        op.acl_count = acl_count;
        error = blocking_request(b, op, NULL);
        if (error == 0 || error == CONCLAVE_NODE_EXISTS) {
            error = 0;
            done = len == full;
            len += done ? 0 : 1 + strcspn(path + len + 1, "/");
        } else if (error == CONCLAVE_UNIMPLEMENTED && !b->plain) {
            error = 0;
            b->plain = true;
        } else if (error == CONCLAVE_NO_NODE) {
            while (path[--len] != '/') {}
            error = len == 0 ? CONCLAVE_NO_NODE : 0;
        }
    }
    free(part);
    return error;
}

int blocking_ensure_parent(struct blocking *b, const char *path, const struct conclave_acl *acl,
                           size_t acl_count)
{
    char *parent = strndup(path, (size_t)(path_name(path) - path) - 1);
    int error = parent == NULL      ? CONCLAVE_ENOMEM
                : parent[0] == '\0' ? CONCLAVE_NO_NODE /* the chroot itself is missing */
                                    : blocking_ensure(b, parent, acl, acl_count);
    free(parent);
    return error;
}
