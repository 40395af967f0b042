/* Asking a holder to release, in Curator's way: the data of its node becomes "__REVOKE__". */
#include "recipes/engine/blocking_requests.h"
#include "recipes/hold/lock.h"

#include <stdlib.h>
#include <string.h>

static const char REVOKE[] = "__REVOKE__";

enum { REVOKE_LEN = sizeof REVOKE - 1 };

void lock_revoke_look(struct conclave_lock *l, const struct conclave_reply *reply)
{
    if (reply->data_len == REVOKE_LEN && memcmp(reply->data, REVOKE, REVOKE_LEN) == 0 &&
        reply->stat.mzxid > l->revoke_zxid) {
        l->revoke_zxid = reply->stat.mzxid;
        l->revokes_due++;
        handle_post(&l->c.handle);
    }
}

/* --- asking ---------------------------------------------------------------------- */

struct revoke {
    struct conclave_lock *lock;
    struct blocking blocking;
    char own[NAME_MAX_LEN]; /* our node's name */
};

/* op is about a child of this name; its path is filled in. */
static int revoke_ask(struct revoke *r, struct conclave_op op, const char *name,
                      struct conclave_reply **ret)
{
    char *path = path_join(r->lock->c.path, name);
    if (path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    op.path = path;
    int error = blocking_once(&r->blocking, op, ret);
    free(path);
    return error;
}

/* The order of creation, where the numbers do not tell. */
static int revoke_order(struct revoke *r, struct line_entry *list, size_t count)
{
    if (!contenders_need_czxid(list, count)) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        struct conclave_reply *reply = NULL;
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, NULL, 0);
        int error = revoke_ask(r, op, list[i].name, &reply);
        list[i].gone = error == CONCLAVE_NO_NODE;
        if (error == 0) {
            list[i].czxid = reply->stat.czxid;
        }
        conclave_reply_free(reply);
        if (error != 0 && error != CONCLAVE_NO_NODE) {
            return error;
        }
    }
    contenders_sort(list, count, true);
    return 0;
}

/* Tells one. 0 or CONCLAVE_NO_NODE (it has left), or the error. */
static int revoke_tell(struct revoke *r, const char *name)
{
    struct conclave_reply *reply = NULL;
    struct conclave_op op = conclave_op_set(NULL, REVOKE, REVOKE_LEN, -1);
    int error = revoke_ask(r, op, name, &reply);
    conclave_reply_free(reply);
    return error;
}

/* The holders: the first, and while all are readers those behind it. */
static int revoke_tell_holders(struct revoke *r, const struct line_entry *list, size_t count)
{
    int result = CONCLAVE_EEMPTY;
    for (size_t i = 0; i < count && !list[i].gone; i++) {
        if (i > 0 && list[i].kind != NAME_READ) {
            break;
        }
        if (strcmp(list[i].name, r->own) != 0) {
            int error = revoke_tell(r, list[i].name);
            if (error != 0 && error != CONCLAVE_NO_NODE) {
                return error;
            }
            result = error == 0 ? 0 : result;
        }
        if (list[i].kind != NAME_READ) {
            break;
        }
    }
    return result;
}

int conclave_lock_request_revoke(struct conclave_lock *l, int64_t timeout_ms)
{
    struct revoke r = {.lock = l};
    struct conclave_reply *reply = NULL;
    struct line_entry *list = NULL;
    size_t count = 0;
    int error = recipes_may_block(lock_rt(l));
    if (error == 0 && l->options.naming == CONCLAVE_NAMING_PLAIN) {
        error = CONCLAVE_EINVAL; /* the data find a node whose reply was lost */
    }
    if (error != 0) {
        return error;
    }
    r.blocking = blocking_begin(lock_rt(l)->client, timeout_ms);
    conclave_lock_node(l, r.own, sizeof r.own);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, l->c.path, 0);
    error = blocking_once(&r.blocking, op, &reply);
    if (error == 0) {
        error = place_contenders(&l->c.place, reply, &list, &count);
    }
    if (error == 0) {
        error = revoke_order(&r, list, count);
    }
    if (error == 0) {
        error = revoke_tell_holders(&r, list, count);
    }
    free(list);
    conclave_reply_free(reply);
    return error == CONCLAVE_NO_NODE ? CONCLAVE_EEMPTY : error;
}
