/*
 * A value with a holder. DELETE: one node of the lease. RELEASE: the value in a persistent node, the holder's lease shown
 * by a node beside it. Each acquisition writes the value and creates the holder's node in one transaction, and a
 * holder's later write checks both, so an earlier holder's version is always too old.
 */
#include "recipes/value/session_lease.h"

#include "client/core/path.h"
#include "recipes/engine/blocking_requests.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/recipe_runtime.h"

#include <stdlib.h>
#include <string.h>

struct held_value {
    struct conclave_lease *lease;
    struct blocking b;
    const char *path;
    char *holder; /* RELEASE: the holder's node; DELETE: the value's path */
    bool stays;
    const void *data;
    size_t len;
};

static int held_value_begin(struct held_value *v, struct conclave_lease *lease, const char *path,
                            enum conclave_lease_behaviour behaviour, int64_t timeout_ms)
{
    if (!option_path_valid(path) ||
        (behaviour != CONCLAVE_LEASE_DELETE && behaviour != CONCLAVE_LEASE_RELEASE)) {
        return CONCLAVE_EINVAL;
    }
    *v = (struct held_value){.lease = lease, .path = path};
    v->stays = behaviour == CONCLAVE_LEASE_RELEASE;
    v->b = blocking_begin(conclave_lease_client(lease), timeout_ms);
    v->holder = text_concat(path, v->stays ? ".holder" : "");
    return v->holder == NULL ? CONCLAVE_ENOMEM : 0;
}

/* The stat of a node; 0 and *ret, CONCLAVE_NO_NODE, or another error. */
static int stat_of(struct held_value *v, const char *path, struct conclave_stat *ret)
{
    struct conclave_reply *reply = NULL;
    int error = blocking_ask(&v->b, CONCLAVE_OP_GET, path, &reply);
    if (error == 0) {
        *ret = reply->stat;
    }
    conclave_reply_free(reply);
    return error;
}

/* Whether the lease holds it. 0 and *ret (czxid 0: nobody holds it), CONCLAVE_EBUSY, CONCLAVE_ECONFLICT. */
static int holder_look(struct held_value *v, struct conclave_stat *ret)
{
    int error = stat_of(v, v->holder, ret);
    if (error == CONCLAVE_NO_NODE) {
        *ret = (struct conclave_stat){0};
        return 0;
    }
    if (error == 0 && ret->ephemeral_owner == 0) {
        return CONCLAVE_ECONFLICT; /* a lasting node: a value of the other behaviour */
    }
    return error == 0 && ret->ephemeral_owner != lease_session(v->lease) ? CONCLAVE_EBUSY : error;
}

/* One attempt, from what was read: CONCLAVE_BAD_VERSION when it was no longer so. */
static int write_value(struct held_value *v, bool held, bool there,
                       const struct conclave_stat *value)
{
    struct conclave_op parts[2];
    size_t count = 0;
    if (v->stays && there && value->ephemeral_owner != 0) {
        return CONCLAVE_ECONFLICT;
    }
    if (v->stays) {
        parts[count++] = held ? conclave_op_path(CONCLAVE_OP_CHECK, v->holder, -1)
                              : conclave_op_create(v->holder, "", 0, CONCLAVE_EPHEMERAL);
    } else if (there && value->ephemeral_owner != lease_session(v->lease)) {
        return CONCLAVE_BAD_VERSION; /* another one came: it is looked at again */
    }
    parts[count++] = there
                         ? conclave_op_set(v->path, v->data, v->len, value->version)
                         : conclave_op_create(v->path, v->data, v->len,
                                              v->stays ? CONCLAVE_PERSISTENT : CONCLAVE_EPHEMERAL);
    int error = blocking_request(&v->b, conclave_op_multi(parts, count), NULL);
    bool stale = error == CONCLAVE_NODE_EXISTS || (error == CONCLAVE_NO_NODE && (there || held));
    if (error == CONCLAVE_NO_NODE && !stale) {
        error = blocking_ensure_parent(&v->b, v->path, NULL, 0);
        stale = error == 0;
    }
    return stale ? CONCLAVE_BAD_VERSION : error;
}

int conclave_lease_acquire(struct conclave_lease *lease, const char *path, const void *data,
                           size_t len, enum conclave_lease_behaviour behaviour, int64_t timeout_ms,
                           struct conclave_token *ret)
{
    struct held_value v;
    struct conclave_stat value;
    struct conclave_stat holder;
    bool written = false;
    int error = data == NULL && len > 0 ? CONCLAVE_EINVAL
                                        : held_value_begin(&v, lease, path, behaviour, timeout_ms);
    if (error != 0) {
        return error;
    }
    v.data = data;
    v.len = len;
    for (;;) { /* the last look says whose it is, and its token */
        error = stat_of(&v, path,
                        &value); /* first: who acquires after the next look makes it too old */
        bool there = error == 0;
        error = error == 0 || error == CONCLAVE_NO_NODE ? holder_look(&v, &holder) : error;
        if (error != 0 || (written && holder.czxid != 0)) {
            break;
        }
        error = write_value(&v, holder.czxid != 0, there, &value);
        written = error == 0;
        if (error != 0 && error != CONCLAVE_BAD_VERSION) {
            break;
        }
        if (blocking_is_late(&v.b)) {
            error = CONCLAVE_ETIMEDOUT;
            break;
        }
    }
    if (error == 0 && ret != NULL) {
        ret->czxid = holder.czxid;
    }
    free(v.holder);
    return error;
}

int conclave_lease_release(struct conclave_lease *lease, const char *path,
                           enum conclave_lease_behaviour behaviour, int64_t timeout_ms)
{
    struct held_value v;
    struct conclave_stat holder;
    bool deleted = false;
    int error = held_value_begin(&v, lease, path, behaviour, timeout_ms);
    if (error != 0) {
        return error;
    }
    do { /* its version: another holder's node with the same one needs an operator that deleted ours */
        error = holder_look(&v, &holder);
        if (error == CONCLAVE_EBUSY || (error == 0 && holder.czxid == 0)) {
            error = deleted ? 0 : CONCLAVE_ENOTOWNER;
            break;
        }
        if (error == 0) {
            error = blocking_request(
                &v.b, conclave_op_path(CONCLAVE_OP_DELETE, v.holder, holder.version), NULL);
            deleted = v.b.repeated;
        }
    } while (error == CONCLAVE_BAD_VERSION || error == CONCLAVE_NO_NODE);
    free(v.holder);
    return error;
}
