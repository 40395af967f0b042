/*
 * The directory of an elector: whether it exists, making it, and making it anew.
 *
 * A reset without force first makes the lock itself, as a node of its own session: that is the question whether a member
 * has it, and nobody gets it before the reset has ended. The lock goes together with the directory.
 */
#include "recipes/standby/elector_view.h"

#include "client/core/acl.h"
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/recipe_runtime.h"

#include <stdlib.h>
#include <string.h>

#define LOCK "/ActiveStandbyElectorLock"
#define LINE "/line"
#define LOCK_TEXT "reset"

int conclave_elector_parent_exists(struct conclave_recipes *rt, const char *dir, int64_t timeout_ms,
                                   bool *ret)
{
    struct elector_question q;
    struct conclave_reply *reply;
    int error = elector_question_begin(rt, dir, timeout_ms, &q);
    if (error == 0) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, dir, 0);
        op.linearizable = true;
        error = blocking_request(&q.blocking, op, &reply);
        conclave_reply_free(reply);
    }
    if (error == 0 || error == CONCLAVE_NO_NODE) {
        *ret = error == 0;
        error = 0;
    }
    return error;
}

/* --- making ------------------------------------------------------------------------ */

/* Sets the ACL of every node on the way to dir. */
static int parents_set_acl(struct elector_question *q,
                           const struct conclave_elector_parent_options *o)
{
    char *part = strdup(q->dir);
    int error = part == NULL ? CONCLAVE_ENOMEM : 0;
    for (size_t len = 0; error == 0 && q->dir[len] != '\0';) {
        len += 1 + strcspn(q->dir + len + 1, "/");
        memcpy(part, q->dir, len);
        part[len] = '\0';
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_SET_ACL, part, -1);
        op.acl = o->acl;
        op.acl_count = o->acl_count;
        error = blocking_request(&q->blocking, op, NULL);
    }
    free(part);
    return error;
}

/* The parents are containers: they go when the last service below them goes. */
static int parent_make(struct elector_question *q, const struct conclave_elector_parent_options *o)
{
    struct conclave_op op = conclave_op_create(q->dir, "", 0, CONCLAVE_PERSISTENT);
    op.acl = o->acl;
    op.acl_count = o->acl_count;
    int error = blocking_request(&q->blocking, op, NULL);
    if (error == CONCLAVE_NO_NODE) {
        error = blocking_ensure_parent(&q->blocking, q->dir, o->acl, o->acl_count);
        error = error == 0 ? blocking_request(&q->blocking, op, NULL) : error;
    }
    error = error == CONCLAVE_NODE_EXISTS ? 0 : error;
    return error == 0 && o->set_acl ? parents_set_acl(q, o) : error;
}

static int parent_begin(struct conclave_recipes *rt, const char *dir,
                        const struct conclave_elector_parent_options *options, int64_t timeout_ms,
                        struct elector_question *ret, struct conclave_elector_parent_options *own)
{
    int error = elector_question_begin(rt, dir, timeout_ms, ret);
    if (error == 0 && options != NULL) {
        error = sized_read(own, options);
    }
    bool valid = acl_is_valid(own->acl, own->acl_count) && (!own->set_acl || own->acl_count > 0);
    return error == 0 && !valid ? CONCLAVE_EINVAL : error;
}

int conclave_elector_parent_make(struct conclave_recipes *rt, const char *dir,
                                 const struct conclave_elector_parent_options *options,
                                 int64_t timeout_ms)
{
    struct elector_question q;
    struct conclave_elector_parent_options own = CONCLAVE_ELECTOR_PARENT_OPTIONS_INIT;
    int error = parent_begin(rt, dir, options, timeout_ms, &q, &own);
    return error == 0 ? parent_make(&q, &own) : error;
}

/* --- anew --------------------------------------------------------------------------- */

/* A request about the node `name` below dir, repeated until there is an answer. */
static int request_below(struct elector_question *q, struct conclave_op op, const char *name,
                         struct conclave_reply **ret_reply)
{
    char *path = text_concat(q->dir, name);
    *ret_reply = NULL;
    op.path = path;
    int error = path == NULL ? CONCLAVE_ENOMEM : blocking_request(&q->blocking, op, ret_reply);
    free(path);
    return error;
}

/* Whether anybody is active, or may be. The lock is ours. */
static int check_nobody_active(struct elector_question *q)
{
    struct conclave_reply *reply;
    struct conclave_breadcrumb crumb;
    int32_t version;
    char *text = NULL;
    struct conclave_op list = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, "", 0);
    list.linearizable = true;
    int error = request_below(q, list, LINE, &reply);
    if (error == 0 && reply->children_count > 0) {
        error = CONCLAVE_EBUSY;
    }
    conclave_reply_free(reply);
    if (error != 0 && error != CONCLAVE_NO_NODE) {
        return error;
    }
    error = elector_question_crumb(q, &text, &crumb, &version);
    if (error == 0 && !crumb.clean) {
        error = CONCLAVE_ECONFLICT;
    }
    free(text);
    return error == CONCLAVE_NO_NODE ? 0 : error;
}

struct reset_branch {
    char **paths; /* parents before their children */
    size_t count;
    size_t room;
};

static int reset_branch_add(struct reset_branch *b, char *path_take)
{
    if (b->count == b->room) {
        size_t room = b->room == 0 ? 16 : 2 * b->room;
        char **paths = realloc(b->paths, room * sizeof *paths);
        if (paths == NULL) {
            free(path_take);
            return CONCLAVE_ENOMEM;
        }
        b->paths = paths;
        b->room = room;
    }
    if (path_take == NULL) {
        return CONCLAVE_ENOMEM;
    }
    b->paths[b->count++] = path_take;
    return 0;
}

static int reset_branch_read(struct elector_question *q, struct reset_branch *b)
{
    int error = reset_branch_add(b, strdup(q->dir));
    for (size_t i = 0; error == 0 && i < b->count; i++) {
        struct conclave_reply *reply;
        error = blocking_ask(&q->blocking, CONCLAVE_OP_GET_CHILDREN, b->paths[i], &reply);
        for (size_t j = 0; error == 0 && j < reply->children_count; j++) {
            error = reset_branch_add(b, path_join(b->paths[i], reply->children[j]));
        }
        error = error == CONCLAVE_NO_NODE ? 0 : error;
        conclave_reply_free(reply);
    }
    return error;
}

static void reset_branch_free(struct reset_branch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        free(b->paths[i]);
    }
    free(b->paths);
}

/* A node with children was written below meanwhile, by members that take part: it stays. */
static int node_delete(struct elector_question *q, const char *path)
{
    int error = elector_question_delete(q, path);
    return error == CONCLAVE_NOT_EMPTY ? 0 : error;
}

/* All that was there; the lock, if it is ours, in one transaction with the directory. lock: NULL: it is not. */
static int reset_delete(struct elector_question *q, const char *lock)
{
    struct reset_branch b = {0};
    int error = reset_branch_read(q, &b);
    for (size_t i = b.count; error == 0 && i-- > 1;) {
        if (lock == NULL || strcmp(b.paths[i], lock) != 0) {
            error = node_delete(q, b.paths[i]);
        }
    }
    if (error == 0 && lock != NULL) {
        struct conclave_op parts[] = {conclave_op_path(CONCLAVE_OP_DELETE, lock, -1),
                                      conclave_op_path(CONCLAVE_OP_DELETE, q->dir, -1)};
        error = blocking_request(&q->blocking, conclave_op_multi(parts, 2), NULL);
        error = error == CONCLAVE_NOT_EMPTY ? node_delete(q, lock) : error;
        error = error == CONCLAVE_NO_NODE ? 0 : error;
    } else if (error == 0) {
        error = node_delete(q, q->dir);
    }
    reset_branch_free(&b);
    return error;
}

/* When the lock cannot be given back after an error, it goes with the session. */
static int reset_locked(struct elector_question *q)
{
    char *lock = text_concat(q->dir, LOCK);
    int error = lock == NULL ? CONCLAVE_ENOMEM
                             : elector_question_make(q, lock, LOCK_TEXT, sizeof LOCK_TEXT - 1);
    if (error == 0) {
        error = check_nobody_active(q);
        error = error == 0 ? reset_delete(q, lock) : error;
        int left = error != 0 ? node_delete(q, lock) : 0;
        (void)left; /* the first error counts */
    }
    free(lock);
    return error == CONCLAVE_NO_NODE ? 0 : error; /* there is nothing to delete */
}

int conclave_elector_reset(struct conclave_recipes *rt, const char *dir,
                           const struct conclave_elector_parent_options *options,
                           int64_t timeout_ms)
{
    struct elector_question q;
    struct conclave_elector_parent_options own = CONCLAVE_ELECTOR_PARENT_OPTIONS_INIT;
    int error = parent_begin(rt, dir, options, timeout_ms, &q, &own);
    if (error == 0) {
        error = own.force ? reset_delete(&q, NULL) : reset_locked(&q);
    }
    return error == 0 ? parent_make(&q, &own) : error;
}
