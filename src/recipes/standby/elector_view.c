/* The queries of operators about an elector's nodes: the holder, the last active member, and the word
 * that the one before is dead. Blocking, and without a handle. */
#include "recipes/standby/elector_view.h"

#include "recipes/engine/contender_names.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/recipe_runtime.h"

#include <stdlib.h>
#include <string.h>

struct elector_view {
    struct conclave_elector_view public; /* first */
    struct conclave_breadcrumb lock;
    struct conclave_breadcrumb active;
    char *lock_text;
    char *active_text;
};

/* A node's text, with room for a NUL, and its stat. */
static int view_get(struct elector_question *q, const char *name, char **ret_text, size_t *ret_len,
                    struct conclave_stat *ret_stat)
{
    struct conclave_reply *reply;
    char *path = text_concat(q->dir, name);
    if (path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, path, 0);
    op.linearizable = true;
    int error = blocking_request(&q->blocking, op, &reply);
    if (error == 0) {
        *ret_text = bytes_copy(reply->data, reply->data_len);
        *ret_len = reply->data_len;
        *ret_stat = reply->stat;
        error = *ret_text == NULL ? CONCLAVE_ENOMEM : 0;
    }
    conclave_reply_free(reply);
    free(path);
    return error;
}

/* Name of the first in line, below dir, on the heap; NO_NODE without a line, or with an empty one. */
static int view_first_in_line(struct elector_question *q, char **ret_name)
{
    struct conclave_reply *reply;
    struct line_entry *list = NULL;
    size_t count = 0;
    char *path = text_concat(q->dir, "/line");
    if (path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int error = blocking_ask(&q->blocking, CONCLAVE_OP_GET_CHILDREN, path, &reply);
    if (error == 0) {
        error = contenders_filter(CONCLAVE_NAMING_NATIVE, false, reply, &list, &count);
    }
    if (error == 0 && count == 0) {
        error = CONCLAVE_NO_NODE;
    } else if (error == 0) {
        contenders_sort(list, count, false);
        char *name = path_join("/line", list[0].name);
        error = name == NULL ? CONCLAVE_ENOMEM : 0;
        *ret_name = name;
    }
    free(list);
    conclave_reply_free(reply);
    free(path);
    return error;
}

static int view_read_lock(struct elector_question *q, struct elector_view *v)
{
    struct conclave_stat stat;
    size_t len;
    char *name = NULL;
    int error = view_get(q, "/ActiveStandbyElectorLock", &v->lock_text, &len, &stat);
    if (error == CONCLAVE_NO_NODE) {
        error = view_first_in_line(q, &name);
        if (error == 0) {
            error = view_get(q, name, &v->lock_text, &len, &stat);
        }
    }
    free(name);
    if (error == 0) {
        breadcrumb_read(v->lock_text, len, &v->lock);
        v->lock.token.czxid = stat.czxid;
        v->public.lock_session = stat.ephemeral_owner;
        v->public.lock = &v->lock;
    }
    return error == CONCLAVE_NO_NODE ? 0 : error; /* no member has it */
}

int elector_question_crumb(struct elector_question *q, char **ret_text,
                           struct conclave_breadcrumb *ret, int32_t *ret_version)
{
    struct conclave_stat stat;
    size_t len;
    int error = view_get(q, "/ActiveBreadCrumb", ret_text, &len, &stat);
    if (error == 0) {
        breadcrumb_read(*ret_text, len, ret);
        if (ret->token.czxid == 0) {
            ret->token.czxid = stat.mzxid;
        }
        *ret_version = stat.version;
    }
    return error;
}

static int view_read_active(struct elector_question *q, struct elector_view *v)
{
    int32_t version;
    int error = elector_question_crumb(q, &v->active_text, &v->active, &version);
    v->public.active = error == 0 ? &v->active : NULL;
    return error == CONCLAVE_NO_NODE ? 0 : error; /* no member was active */
}

int elector_question_begin(struct conclave_recipes *rt, const char *dir, int64_t timeout_ms,
                           struct elector_question *ret)
{
    int error = recipes_may_block(rt);
    if (error == 0 && !option_path_valid(dir)) {
        error = CONCLAVE_EINVAL;
    }
    ret->dir = dir;
    ret->rt = rt;
    ret->blocking = blocking_begin(rt->client, timeout_ms);
    return error;
}

int elector_question_override(struct elector_question *q, int64_t token, bool *ret)
{
    struct conclave_stat stat;
    size_t len;
    char *text = NULL;
    int error = view_get(q, "/FenceOverride", &text, &len, &stat);
    *ret = error == 0 && override_confirms(text, len, token);
    free(text);
    return error == CONCLAVE_NO_NODE ? 0 : error;
}

int conclave_elector_view(struct conclave_recipes *rt, const char *dir, int64_t timeout_ms,
                          struct conclave_elector_view **ret)
{
    struct elector_question q;
    int error = elector_question_begin(rt, dir, timeout_ms, &q);
    if (error != 0) {
        return error;
    }
    struct elector_view *v = calloc(1, sizeof *v);
    if (v == NULL) {
        return CONCLAVE_ENOMEM;
    }
    error = view_read_lock(&q, v);
    if (error == 0) {
        error = view_read_active(&q, v);
    }
    if (error != 0) {
        conclave_elector_view_free(&v->public);
        return error;
    }
    *ret = &v->public;
    return 0;
}

void conclave_elector_view_free(struct conclave_elector_view *view)
{
    if (view != NULL) {
        struct elector_view *v = (struct elector_view *)view;
        free(v->lock_text);
        free(v->active_text);
        free(v);
    }
}

/* The same transaction checks that the breadcrumb is as it was read. */
static int view_write_override(struct elector_question *q, int32_t crumb_version, int64_t token,
                               const struct conclave_acl *acl, size_t acl_count, bool replace)
{
    char text[OVERRIDE_MAX];
    struct conclave_reply *reply;
    struct conclave_op parts[2];
    int error = CONCLAVE_ENOMEM;
    char *crumb = text_concat(q->dir, "/ActiveBreadCrumb");
    char *path = text_concat(q->dir, "/FenceOverride");
    if (crumb != NULL && path != NULL) {
        size_t len = override_write(text, token);
        parts[0] = conclave_op_path(CONCLAVE_OP_CHECK, crumb, crumb_version);
        parts[1] = replace ? conclave_op_set(path, text, len, -1)
                           : conclave_op_create(path, text, len, CONCLAVE_PERSISTENT);
        parts[1].acl = replace ? NULL : acl;
        parts[1].acl_count = replace || acl == NULL ? 0 : acl_count;
        struct conclave_op op = conclave_op_multi(parts, 2);
        error = blocking_once(&q->blocking, op, &reply);
        conclave_reply_free(reply);
    }
    free(crumb);
    free(path);
    return error == CONCLAVE_BAD_VERSION ? CONCLAVE_ECONFLICT : error;
}

int conclave_elector_override(struct conclave_recipes *rt, const char *dir,
                              struct conclave_token token, const struct conclave_acl *acl,
                              size_t acl_count, int64_t timeout_ms)
{
    struct elector_question q;
    struct conclave_breadcrumb crumb;
    int32_t version;
    char *text = NULL;
    int error = elector_question_begin(rt, dir, timeout_ms, &q);
    if (error == 0) {
        error = elector_question_crumb(&q, &text, &crumb, &version);
    }
    if (error != 0) {
        return error;
    }
    if (crumb.clean || crumb.token.czxid != token.czxid) {
        error = CONCLAVE_ECONFLICT;
    } else {
        error = view_write_override(&q, version, token.czxid, acl, acl_count, false);
        if (error == CONCLAVE_NODE_EXISTS) {
            error = view_write_override(&q, version, token.czxid, acl, acl_count, true);
        }
    }
    free(text);
    return error;
}
