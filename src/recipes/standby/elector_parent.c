/*
 * The directory of an elector: whether it exists, making it, and making it anew.
 *
 * A reset without force first makes the lock itself: that is the question whether a member has it, and nobody gets it
 * before the reset has ended. A member in a line needs no lock. So breadcrumb and line go in one transaction, which
 * fails if a member is in line; a line or breadcrumb that is there afterwards is of a member that has come since, and
 * stays. The lock goes in one transaction with the directory, which is made again in it.
 */
#include "recipes/standby/operator_node.h"

#include "client/core/acl.h"
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/recipe_runtime.h"

#include <stdlib.h>
#include <string.h>

#define LOCK "/ActiveStandbyElectorLock"
#define LINE "/line"
#define CRUMB "/ActiveBreadCrumb"
#define LOCK_TEXT "reset\n"

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

/* What is to be taken away before the rest. */
struct reset_facts {
    bool line;
    bool crumb;
    int32_t crumb_version;
};

/* Whether a member is in line, or a hand-over in progress. */
static int check_nobody_waits(struct elector_question *q, bool *ret_line)
{
    struct conclave_reply *reply;
    struct conclave_op list = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, "", 0);
    list.linearizable = true;
    int error = request_below(q, list, LINE, &reply);
    *ret_line = error == 0;
    if (error == 0 && reply->children_count > 0) {
        error = CONCLAVE_EBUSY;
    }
    conclave_reply_free(reply);
    if (error == 0 || error == CONCLAVE_NO_NODE) {
        error = request_below(q, conclave_op_path(CONCLAVE_OP_EXISTS, "", 0), "/HandOver", &reply);
        error = error == 0 ? CONCLAVE_EBUSY : error;
        conclave_reply_free(reply);
    }
    return error == CONCLAVE_NO_NODE ? 0 : error;
}

/* Whether anybody is active, or may be. The lock is ours. */
static int check_nobody_active(struct elector_question *q, struct reset_facts *ret)
{
    struct conclave_breadcrumb crumb;
    char *text = NULL;
    int error = check_nobody_waits(q, &ret->line);
    if (error != 0) {
        return error;
    }
    error = elector_question_crumb(q, &text, &crumb, &ret->crumb_version);
    ret->crumb = error == 0;
    if (error == 0 && !crumb.clean) {
        bool dead;
        error = elector_question_override(q, crumb.token.czxid, &dead);
        error = error == 0 && !dead ? CONCLAVE_ECONFLICT : error;
    }
    free(text);
    return error == CONCLAVE_NO_NODE ? 0 : error;
}

/* Takes them away if nothing has changed. CONCLAVE_BAD_VERSION or CONCLAVE_NO_NODE: something has. */
static int reset_take_away(struct elector_question *q, const struct reset_facts *facts,
                           const char *lock)
{
    struct conclave_op parts[3] = {conclave_op_path(CONCLAVE_OP_CHECK, lock, -1)};
    struct conclave_reply *reply = NULL;
    size_t count = 1;
    char *crumb = text_concat(q->dir, CRUMB);
    char *line = text_concat(q->dir, LINE);
    int error = CONCLAVE_ENOMEM;
    if (facts->crumb) {
        parts[count++] = conclave_op_path(CONCLAVE_OP_DELETE, crumb, facts->crumb_version);
    }
    if (facts->line) {
        parts[count++] = conclave_op_path(CONCLAVE_OP_DELETE, line, -1);
    }
    if (crumb != NULL && line != NULL) {
        error = blocking_request(&q->blocking, conclave_op_multi(parts, count), &reply);
        bool taken = error == CONCLAVE_NO_NODE && reply->results_count > 0 &&
                     reply->results[0]->error == CONCLAVE_NO_NODE; /* another operator's doing */
        error = error == CONCLAVE_NOT_EMPTY || taken ? CONCLAVE_EBUSY : error;
    }
    conclave_reply_free(reply);
    free(crumb);
    free(line);
    return error;
}

/* From here on nobody that was active before, or may be, is. */
static int reset_begin(struct elector_question *q, const char *lock)
{
    for (;;) {
        struct reset_facts facts;
        int error = check_nobody_active(q, &facts);
        error = error == 0 ? reset_take_away(q, &facts, lock) : error;
        if (error != CONCLAVE_BAD_VERSION && error != CONCLAVE_NO_NODE) {
            return error;
        }
        if (blocking_is_late(&q->blocking)) {
            return CONCLAVE_ETIMEDOUT;
        }
    }
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
    int error =
        blocking_request(&q->blocking, conclave_op_path(CONCLAVE_OP_DELETE, path, -1), NULL);
    return error == CONCLAVE_NOT_EMPTY || error == CONCLAVE_NO_NODE ? 0 : error;
}

/* Whether a path below dir is the lock, or of a member that is active since the reset has begun. */
static bool reset_spares(const struct elector_question *q, const char *path)
{
    const char *name = path + strlen(q->dir);
    return strcmp(name, LOCK) == 0 || strcmp(name, CRUMB) == 0 || strcmp(name, LINE) == 0 ||
           strncmp(name, LINE "/", sizeof LINE) == 0;
}

/* All that is below dir. */
static int reset_delete(struct elector_question *q, bool all)
{
    struct reset_branch b = {0};
    int error = reset_branch_read(q, &b);
    for (size_t i = b.count; error == 0 && i-- > 1;) {
        if (all || !reset_spares(q, b.paths[i])) {
            error = node_delete(q, b.paths[i]);
        }
    }
    reset_branch_free(&b);
    return error;
}

/* The directory anew, without the lock. A second time, after a lost answer, it fails. */
static int reset_end(struct elector_question *q, const struct conclave_elector_parent_options *o,
                     struct operator_node *lock)
{
    struct conclave_op parts[] = {conclave_op_path(CONCLAVE_OP_DELETE, lock->path, -1),
                                  conclave_op_path(CONCLAVE_OP_DELETE, q->dir, -1),
                                  conclave_op_create(q->dir, "", 0, CONCLAVE_PERSISTENT)};
    parts[2].acl = o->acl;
    parts[2].acl_count = o->acl_count;
    int error = blocking_request(&q->blocking, conclave_op_multi(parts, 3), NULL);
    if (error == 0) {
        operator_node_gone(lock);
    }
    return error == CONCLAVE_NOT_EMPTY || error == CONCLAVE_NO_NODE ? 0 : error;
}

static int reset_locked(struct elector_question *q, const struct conclave_elector_parent_options *o)
{
    struct operator_node lock;
    int error = operator_node_make(&lock, q, LOCK, slice_str(LOCK_TEXT), o->acl, o->acl_count);
    if (error != 0) {
        return error == CONCLAVE_NO_NODE ? 0 : error; /* there is nothing to delete */
    }
    error = reset_begin(q, lock.path);
    error = error == 0 ? reset_delete(q, false) : error;
    error = error == 0 ? reset_end(q, o, &lock) : error;
    int ended = operator_node_end(&lock);
    return error == 0 ? ended : error;
}

int conclave_elector_reset(struct conclave_recipes *rt, const char *dir,
                           const struct conclave_elector_parent_options *options,
                           int64_t timeout_ms)
{
    struct elector_question q;
    struct conclave_elector_parent_options own = CONCLAVE_ELECTOR_PARENT_OPTIONS_INIT;
    int error = parent_begin(rt, dir, options, timeout_ms, &q, &own);
    if (error == 0 && own.force) {
        error = reset_delete(&q, true);
        error = error == 0 ? node_delete(&q, dir) : error;
    } else if (error == 0) {
        error = reset_locked(&q, &own);
    }
    return error == 0 ? parent_make(&q, &own) : error;
}
