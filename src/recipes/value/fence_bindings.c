/*
 * Bindings of prefixes and questions for tokens, over the public calls alone. Every request here may be carried out twice
 * and mean the same, so what a lost link leaves open is asked again.
 */
#include <conclave/fencing.h>

#include "client/client.h"
#include "recipes/engine/option_copies.h"
#include "wire/fence_records.h"

#include <stdlib.h>

/* One call of the program: several requests under one deadline. */
struct calls {
    struct conclave_client *client;
    int64_t deadline_ns; /* or CONCLAVE_FOREVER */
    bool repeated;       /* the last request may have been carried out before */
};

static struct calls calls_begin(struct conclave_client *client, int64_t timeout_ms)
{
    return (struct calls){client, client_deadline_ns(client, timeout_ms), false};
}

/* ret_reply as in conclave_call. */
static int calls_do(struct calls *c, struct conclave_op op, struct conclave_reply **ret_reply)
{
    c->repeated = false;
    for (;;) {
        struct conclave_reply *reply = NULL;
        if (c->deadline_ns != CONCLAVE_FOREVER) {
            op.timeout_ms = (c->deadline_ns - client_now_ns(c->client)) / 1000000;
            if (op.timeout_ms <= 0) {
                return CONCLAVE_ETIMEDOUT;
            }
        }
        int rc = conclave_call(c->client, &op, &reply);
        if (rc != CONCLAVE_CONNECTION_LOSS && rc != CONCLAVE_OPERATION_TIMEOUT) {
            if (ret_reply != NULL) {
                *ret_reply = reply;
            } else {
                conclave_reply_free(reply);
            }
            return rc;
        }
        conclave_reply_free(reply);
        c->repeated = true;
    }
}

/* --- bindings --------------------------------------------------------------------------------- */

/* Whether the servers know fencing: a node of that name that a client made is no sign of it. */
static int check_supported(struct calls *c)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, FENCE_ROOT, 0);
    struct conclave_reply *reply = NULL;
    int rc = calls_do(c, op, &reply);
    if (rc == CONCLAVE_NO_NODE || (rc == 0 && reply->stat.version != -1)) {
        rc = CONCLAVE_EUNSUPPORTED;
    }
    conclave_reply_free(reply);
    return rc;
}

/* FENCE_ROOT prefix /FENCE_LEAF on the heap. */
static char *leaf_path(const char *prefix)
{
    char *own = text_concat(FENCE_ROOT, prefix);
    char *leaf = own != NULL ? text_concat(own, "/" FENCE_LEAF) : NULL;
    free(own);
    return leaf;
}

/* The nodes above a leaf. They are containers: the server removes them when nothing is bound below any more. */
static int make_ancestors(struct calls *c, const char *leaf)
{
    char *path = text_concat(leaf, "");
    int rc = path == NULL ? CONCLAVE_ENOMEM : 0;
    if (rc != 0) {
        return rc;
    }
    char *last = strrchr(path, '/');
    for (char *p = strchr(path + strlen(FENCE_ROOT) + 1, '/'); rc == 0 && p != NULL;) {
        *p = '\0';
        rc = calls_do(c, conclave_op_create(path, NULL, 0, CONCLAVE_CONTAINER), NULL);
        rc = rc == CONCLAVE_NODE_EXISTS ? 0 : rc;
        *p = '/';
        p = p == last ? NULL : strchr(p + 1, '/');
    }
    free(path);
    return rc;
}

/* A parent may go between its making and ours, and the leaf as well. */
static int write_leaf(struct calls *c, const char *leaf, struct slice text)
{
    for (;;) {
        int rc =
            calls_do(c, conclave_op_create(leaf, text.data, text.len, CONCLAVE_PERSISTENT), NULL);
        if (rc == CONCLAVE_NODE_EXISTS) {
            rc = calls_do(c, conclave_op_set(leaf, text.data, text.len, -1), NULL);
            if (rc == CONCLAVE_NO_NODE) {
                continue;
            }
        } else if (rc == CONCLAVE_NO_NODE) {
            rc = make_ancestors(c, leaf);
            if (rc == 0 || rc == CONCLAVE_NO_NODE) {
                continue;
            }
        }
        return rc == CONCLAVE_UNIMPLEMENTED ? CONCLAVE_EUNSUPPORTED : rc;
    }
}

int conclave_fence_bind(struct conclave_client *client, const char *prefix, const char *lock,
                        int64_t lock_delay_ms, int64_t timeout_ms)
{
    struct calls calls = calls_begin(client, timeout_ms);
    if (prefix == NULL || lock == NULL || lock_delay_ms < 0) {
        return CONCLAVE_EINVAL;
    }
    if (prefix[0] != '/' || prefix[1] == '\0') {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    struct fence_terms terms = {.lock = slice_str(lock), .delay_ms = lock_delay_ms};
    struct buf text;
    buf_init(&text, 0);
    fence_terms_print(&terms, &text);
    char *leaf = leaf_path(prefix);
    int rc = leaf != NULL && buf_ok(&text) ? check_supported(&calls) : CONCLAVE_ENOMEM;
    if (rc == 0) {
        rc = write_leaf(&calls, leaf, buf_slice(&text));
    }
    buf_finish(&text);
    free(leaf);
    return rc;
}

int conclave_fence_unbind(struct conclave_client *client, const char *prefix, int64_t timeout_ms)
{
    struct calls calls = calls_begin(client, timeout_ms);
    if (prefix == NULL) {
        return CONCLAVE_EINVAL;
    }
    char *leaf = leaf_path(prefix);
    int rc = leaf != NULL ? check_supported(&calls) : CONCLAVE_ENOMEM;
    if (rc == 0) {
        rc = calls_do(&calls, conclave_op_path(CONCLAVE_OP_DELETE, leaf, -1), NULL);
        rc = rc == CONCLAVE_NO_NODE && calls.repeated ? 0 : rc;
    }
    free(leaf);
    return rc;
}

/* --- the list --------------------------------------------------------------------------------- */

/* The tree below FENCE_ROOT, walked without recursion. */
struct walk {
    struct calls calls;
    char **paths; /* found, those before `next` looked at */
    size_t count;
    size_t cap;
    size_t next;
    struct conclave_fence_binding *list;
    size_t list_count;
    size_t list_cap;
};

static int walk_add(struct walk *w, const char *parent, const char *name)
{
    if (w->count == w->cap) {
        size_t cap = w->cap == 0 ? 16 : w->cap * 2;
        char **paths = realloc(w->paths, cap * sizeof *paths);
        if (paths == NULL) {
            return CONCLAVE_ENOMEM;
        }
        w->paths = paths;
        w->cap = cap;
    }
    char *slash = text_concat(parent, name[0] != '\0' ? "/" : "");
    char *path = slash != NULL ? text_concat(slash, name) : NULL;
    free(slash);
    if (path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    w->paths[w->count++] = path;
    return 0;
}

/* Both texts in one block, which begins with the prefix. */
static int fence_bindings_list_add(struct walk *w, const char *own, const struct fence_terms *terms)
{
    const char *prefix = own + strlen(FENCE_ROOT);
    size_t len = strlen(prefix) + 1;
    if (w->list_count == w->list_cap) {
        size_t cap = w->list_cap == 0 ? 16 : w->list_cap * 2;
        struct conclave_fence_binding *list = realloc(w->list, cap * sizeof *list);
        if (list == NULL) {
            return CONCLAVE_ENOMEM;
        }
        w->list = list;
        w->list_cap = cap;
    }
    char *block = malloc(len + terms->lock.len + 1);
    if (block == NULL) {
        return CONCLAVE_ENOMEM;
    }
    memcpy(block, prefix, len);
    memcpy(block + len, terms->lock.data, terms->lock.len);
    block[len + terms->lock.len] = '\0';
    w->list[w->list_count++] =
        (struct conclave_fence_binding){block, block + len, terms->delay_ms, terms->until_ms};
    return 0;
}

static int walk_read_leaf(struct walk *w, const char *own)
{
    char *leaf = text_concat(own, "/" FENCE_LEAF);
    struct conclave_reply *reply = NULL;
    struct fence_terms terms;
    if (leaf == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int rc = calls_do(&w->calls, conclave_op_path(CONCLAVE_OP_GET, leaf, 0), &reply);
    if (rc == 0 && fence_terms_parse(slice_make(reply->data, reply->data_len), &terms)) {
        rc = fence_bindings_list_add(w, own, &terms);
    }
    conclave_reply_free(reply);
    free(leaf);
    return rc == CONCLAVE_NO_NODE ? 0 : rc;
}

static int walk_step(struct walk *w)
{
    const char *own = w->paths[w->next++];
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, own, 0);
    struct conclave_reply *reply = NULL;
    op.linearizable = w->next == 1; /* what follows on this session is no older */
    int rc = calls_do(&w->calls, op, &reply);
    for (size_t i = 0; rc == 0 && i < reply->children_count; i++) {
        const char *name = reply->children[i];
        rc = strcmp(name, FENCE_LEAF) == 0 ? walk_read_leaf(w, own) : walk_add(w, own, name);
    }
    conclave_reply_free(reply);
    return rc == CONCLAVE_NO_NODE ? 0 : rc;
}

static int by_prefix(const void *a, const void *b)
{
    return strcmp(((const struct conclave_fence_binding *)a)->prefix,
                  ((const struct conclave_fence_binding *)b)->prefix);
}

int conclave_fence_list(struct conclave_client *client, int64_t timeout_ms,
                        struct conclave_fence_binding **ret, size_t *ret_count)
{
    struct walk w = {.calls = calls_begin(client, timeout_ms)};
    int rc = check_supported(&w.calls);
    if (rc == 0) {
        rc = walk_add(&w, FENCE_ROOT, "");
    }
    while (rc == 0 && w.next < w.count) {
        rc = walk_step(&w);
    }
    for (size_t i = 0; i < w.count; i++) {
        free(w.paths[i]);
    }
    free(w.paths);
    if (rc != 0) {
        conclave_fence_list_free(w.list, w.list_count);
        return rc;
    }
    if (w.list_count > 1) {
        qsort(w.list, w.list_count, sizeof *w.list, by_prefix);
    }
    *ret = w.list;
    *ret_count = w.list_count;
    return 0;
}

void conclave_fence_list_free(struct conclave_fence_binding *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)list[i].prefix);
    }
    free(list);
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* Whether numbers of this size order the nodes: not near where they wrap. */
static bool is_plain(int64_t number)
{
    return number >= 0 && number < 1000000000;
}

/* The first contender's name by its number, NULL when there is none. *ret_plain: the numbers decide. */
static const char *first_by_number(const struct conclave_reply *children, bool *ret_plain)
{
    const char *first = NULL;
    int64_t least = 0;
    *ret_plain = true;
    for (size_t i = 0; i < children->children_count; i++) {
        int64_t number;
        if (!fence_name_contends(slice_str(children->children[i]), &number)) {
            continue;
        }
        *ret_plain &= is_plain(number) && (first == NULL || number != least);
        if (first == NULL || number < least) {
            first = children->children[i];
            least = number;
        }
    }
    return first;
}

/* A node with a number that was looked at. */
struct binding_look {
    enum { LOOK_CONTENDS, LOOK_GONE, LOOK_FOREIGN } is;
    int64_t czxid;
    const char *name;
};

static int fence_bindings_look_at(struct calls *c, const char *path, const char *name,
                                  struct binding_look *ret)
{
    char *parent = text_concat(path, strcmp(path, "/") == 0 ? "" : "/");
    char *node = parent != NULL ? text_concat(parent, name) : NULL;
    struct conclave_reply *reply = NULL;
    free(parent);
    if (node == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int rc = calls_do(c, conclave_op_path(CONCLAVE_OP_EXISTS, node, 0), &reply);
    *ret = (struct binding_look){LOOK_GONE, 0, name};
    if (rc == 0) {
        ret->is = reply->stat.ephemeral_owner != 0 ? LOOK_CONTENDS : LOOK_FOREIGN;
        ret->czxid = reply->stat.czxid;
    }
    free(node);
    conclave_reply_free(reply);
    return rc == CONCLAVE_NO_NODE ? 0 : rc;
}

/* The oldest of all, each looked at: the numbers have wrapped, or a foreign node has the first. One that has gone may have
 * been the oldest: then nothing is known. */
static int look_at_all(struct calls *c, const char *path, const struct conclave_reply *children,
                       struct binding_look *ret)
{
    *ret = (struct binding_look){LOOK_FOREIGN, 0, NULL};
    for (size_t i = 0; i < children->children_count; i++) {
        const char *name = children->children[i];
        int64_t number;
        struct binding_look look;
        if (!fence_name_contends(slice_str(name), &number)) {
            continue;
        }
        int rc = fence_bindings_look_at(c, path, name, &look);
        if (rc != 0) {
            return rc;
        }
        if (look.is == LOOK_GONE) {
            *ret = look;
            return 0;
        }
        bool older = ret->name == NULL || look.czxid < ret->czxid ||
                     (look.czxid == ret->czxid && strcmp(look.name, ret->name) < 0);
        if (look.is == LOOK_CONTENDS && older) {
            *ret = look;
        }
    }
    return 0;
}

/* Of a list that was proved: whether the token is that of the first in it. *ret_again: the first has gone since. */
static int fence_bindings_judge(struct calls *c, const char *path,
                                const struct conclave_reply *children, struct conclave_token token,
                                bool *ret, bool *ret_again)
{
    bool plain;
    struct binding_look look;
    const char *name = first_by_number(children, &plain);
    *ret = false;
    *ret_again = false;
    if (children->has_stat && children->stat.ephemeral_owner != 0) {
        *ret = children->stat.czxid == token.czxid; /* a lock of one fixed node */
        return 0;
    }
    if (name == NULL) {
        return 0;
    }
    int rc = fence_bindings_look_at(c, path, name, &look);
    if (rc == 0 && look.is != LOOK_GONE && (!plain || look.is == LOOK_FOREIGN)) {
        rc = look_at_all(c, path, children, &look);
    }
    *ret_again = rc == 0 && look.is == LOOK_GONE;
    *ret = rc == 0 && look.is == LOOK_CONTENDS && look.czxid == token.czxid &&
           !fence_name_reads(slice_str(look.name));
    return rc;
}

int conclave_token_is_current(struct conclave_client *client, const char *path,
                              struct conclave_token token, int64_t timeout_ms, bool *ret)
{
    struct calls calls = calls_begin(client, timeout_ms);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, path, 0);
    bool current = false;
    bool again;
    int rc;
    if (path == NULL || token.czxid <= 0) {
        return CONCLAVE_EINVAL;
    }
    op.linearizable = true;
    do {
        struct conclave_reply *reply = NULL;
        again = false;
        rc = calls_do(&calls, op, &reply);
        if (rc == 0) {
            rc = fence_bindings_judge(&calls, path, reply, token, &current, &again);
        } else if (rc == CONCLAVE_NO_NODE) {
            rc = 0; /* no lock, no holder */
        }
        conclave_reply_free(reply);
    } while (again);
    if (rc == 0) {
        *ret = current;
    }
    return rc;
}
