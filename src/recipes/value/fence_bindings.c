/*
 * Bindings of prefixes and questions for tokens, over the public calls alone. Every request here may be carried out twice
 * and mean the same, so what a lost link leaves open is asked again.
 */
#include <conclave/fencing.h>

#include "recipes/engine/blocking_requests.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/recipe_runtime.h"
#include "wire/fence_records.h"

#include <assert.h>
#include <stdlib.h>

/* --- bindings --------------------------------------------------------------------------------- */

/* Whether the servers know fencing: a node of that name that a client made is no sign of it. */
static int check_supported(struct blocking *b)
{
    struct conclave_reply *reply = NULL;
    int rc = blocking_ask(b, CONCLAVE_OP_EXISTS, FENCE_ROOT, &reply);
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
static int make_ancestors(struct blocking *b, const char *leaf)
{
    return blocking_ensure_parent(b, leaf, NULL, 0);
}

/* A parent may go between its making and ours, and the leaf as well. */
static int write_leaf(struct blocking *b, const char *leaf, struct slice text)
{
    for (;;) {
        int rc = blocking_request(
            b, conclave_op_create(leaf, text.data, text.len, CONCLAVE_PERSISTENT), NULL);
        if (rc == CONCLAVE_NODE_EXISTS) {
            rc = blocking_request(b, conclave_op_set(leaf, text.data, text.len, -1), NULL);
            if (rc == CONCLAVE_NO_NODE) {
                continue;
            }
        } else if (rc == CONCLAVE_NO_NODE) {
            rc = make_ancestors(b, leaf);
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
    struct blocking calls = blocking_begin(client, timeout_ms);
    if (prefix == NULL || lock == NULL || lock_delay_ms < 0) {
        return CONCLAVE_EINVAL;
    }
    if (prefix[0] != '/' || prefix[1] == '\0' || lock[0] == '\0' ||
        lock_delay_ms > FENCE_DELAY_MAX_MS) {
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
    struct blocking calls = blocking_begin(client, timeout_ms);
    if (prefix == NULL) {
        return CONCLAVE_EINVAL;
    }
    char *leaf = leaf_path(prefix);
    int rc = leaf != NULL ? check_supported(&calls) : CONCLAVE_ENOMEM;
    if (rc == 0) {
        rc = blocking_request(&calls, conclave_op_path(CONCLAVE_OP_DELETE, leaf, -1), NULL);
        rc = rc == CONCLAVE_NO_NODE && calls.repeated ? 0 : rc;
    }
    free(leaf);
    return rc;
}

/* --- the list --------------------------------------------------------------------------------- */

/* The tree below FENCE_ROOT, walked without recursion. */
struct walk {
    struct blocking calls;
    char **paths; /* found, those before `next` looked at */
    size_t count;
    size_t next;
    struct conclave_fence_binding *list;
    size_t list_count;
};

/* Room for one more in a list of `count` elements; NULL without memory, then the list is as it was. */
static void *list_room(void *list, size_t count, size_t size)
{
    bool full = count == 0 || (count >= 16 && (count & (count - 1)) == 0);
    return full ? realloc(list, (count < 16 ? 16 : 2 * count) * size) : list;
}

/* Takes path. */
static int walk_add(struct walk *w, char *path)
{
    char **paths = path == NULL ? NULL : list_room(w->paths, w->count, sizeof *paths);
    if (paths == NULL) {
        free(path);
        return CONCLAVE_ENOMEM;
    }
    w->paths = paths;
    w->paths[w->count++] = path;
    return 0;
}

/* Both texts in one block, which begins with the prefix. */
static int fence_bindings_list_add(struct walk *w, const char *own, const struct fence_terms *terms)
{
    const char *prefix = own + strlen(FENCE_ROOT);
    size_t len = strlen(prefix) + 1;
    struct conclave_fence_binding *list = list_room(w->list, w->list_count, sizeof *list);
    char *block = list == NULL ? NULL : malloc(len + terms->lock.len + 1);
    w->list = list != NULL ? list : w->list;
    if (block == NULL) {
        return CONCLAVE_ENOMEM;
    }
    assert(strncmp(own, FENCE_ROOT, strlen(FENCE_ROOT)) == 0);
    const char *first = block_add(&block, prefix, len - 1);
    const char *lock = block_add(&block, terms->lock.data, terms->lock.len);
    w->list[w->list_count++] =
        (struct conclave_fence_binding){first, lock, terms->delay_ms, terms->until_ms};
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
    int rc = blocking_ask(&w->calls, CONCLAVE_OP_GET, leaf, &reply);
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
    assert(w->next <= w->count);
    op.linearizable = w->next == 1; /* later reads of this session are no older */
    int rc = blocking_request(&w->calls, op, &reply);
    for (size_t i = 0; rc == 0 && i < reply->children_count; i++) {
        const char *name = reply->children[i];
        rc = strcmp(name, FENCE_LEAF) == 0 ? walk_read_leaf(w, own)
                                           : walk_add(w, path_join(own, name));
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
                        struct conclave_fence_binding ***ret, size_t *ret_count)
{
    struct walk w = {.calls = blocking_begin(client, timeout_ms)};
    int rc = check_supported(&w.calls);
    if (rc == 0) {
        rc = walk_add(&w, strdup(FENCE_ROOT));
    }
    while (rc == 0 && w.next < w.count) {
        rc = walk_step(&w);
    }
    for (size_t i = 0; i < w.count; i++) {
        free(w.paths[i]);
    }
    free(w.paths);
    if (w.list_count > 1) {
        qsort(w.list, w.list_count, sizeof *w.list, by_prefix);
    }
    struct conclave_fence_binding **list =
        rc == 0 ? struct_list_copy(w.list, w.list_count, sizeof **list) : NULL;
    rc = rc == 0 && list == NULL ? CONCLAVE_ENOMEM : rc;
    for (size_t i = 0; rc != 0 && i < w.list_count; i++) {
        free((void *)(uintptr_t)w.list[i].prefix);
    }
    free(w.list);
    if (rc == 0) {
        *ret = list;
        *ret_count = w.list_count;
    }
    return rc;
}

void conclave_fence_list_free(struct conclave_fence_binding **list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)list[i]->prefix);
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

static int fence_bindings_look_at(struct blocking *b, const char *path, const char *name,
                                  struct binding_look *ret)
{
    char *node = path_join(path, name);
    struct conclave_reply *reply = NULL;
    if (node == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int rc = blocking_ask(b, CONCLAVE_OP_EXISTS, node, &reply);
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
static int look_at_all(struct blocking *b, const char *path, const struct conclave_reply *children,
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
        int rc = fence_bindings_look_at(b, path, name, &look);
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
static int fence_bindings_judge(struct blocking *b, const char *path,
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
    int rc = fence_bindings_look_at(b, path, name, &look);
    if (rc == 0 && look.is != LOOK_GONE && (!plain || look.is == LOOK_FOREIGN)) {
        rc = look_at_all(b, path, children, &look);
    }
    *ret_again = rc == 0 && look.is == LOOK_GONE;
    *ret = rc == 0 && look.is == LOOK_CONTENDS && look.czxid == token.czxid &&
           !fence_name_reads(slice_str(look.name));
    return rc;
}

int conclave_token_is_current(struct conclave_client *client, const char *path,
                              struct conclave_token token, int64_t timeout_ms, bool *ret)
{
    struct blocking calls = blocking_begin(client, timeout_ms);
    bool current = false;
    bool again;
    int rc;
    if (path == NULL || token.czxid <= 0) {
        return CONCLAVE_EINVAL;
    }
    do {
        struct conclave_reply *reply = NULL;
        again = false;
        rc = blocking_ask(&calls, CONCLAVE_OP_GET_CHILDREN, path, &reply);
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
