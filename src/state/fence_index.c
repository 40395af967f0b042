#include "state/fence_index.h"

#include "state/machine.h"
#include "tree/path.h"

void fence_index_init(struct fence_index *f)
{
    *f = (struct fence_index){0};
    buf_init(&f->path, 0);
}

void fence_index_forget(struct fence_index *f)
{
    for (size_t i = 0; i < f->count; i++) {
        buf_finish(&f->bindings[i].text);
        buf_finish(&f->bindings[i].memo.path);
    }
    free(f->bindings);
    free(f->by_lock);
    f->bindings = NULL;
    f->by_lock = NULL;
    f->count = 0;
    f->known = false;
}

void fence_index_finish(struct fence_index *f)
{
    fence_index_forget(f);
    buf_finish(&f->path);
}

bool fence_is_within(struct slice path, struct slice top)
{
    return slice_starts_with(path, top) && (path.len == top.len || path.data[top.len] == '/');
}

/* --- the bindings ----------------------------------------------------------------------------- */

static int by_prefix(const void *a, const void *b)
{
    return slice_compare(((const struct fence_binding *)a)->prefix,
                         ((const struct fence_binding *)b)->prefix);
}

static int by_lock(const void *a, const void *b)
{
    return slice_compare((*(struct fence_binding *const *)a)->terms.lock,
                         (*(struct fence_binding *const *)b)->terms.lock);
}

/* Copies: the node's data is replaced when a delay begins. False when it is none. */
static bool binding_read(struct znode *node, struct fence_binding *ret)
{
    static const size_t root = sizeof FENCE_ROOT - 1;
    static const size_t leaf = sizeof "/" FENCE_LEAF - 1;
    struct fence_terms terms;
    struct fence_binding b = {.node = node};
    buf_init(&b.text, 0);
    buf_init(&b.memo.path, 0);
    if (!slice_equal_str(znode_name(node), FENCE_LEAF) ||
        !fence_terms_parse(znode_data(node), &terms)) {
        return false;
    }
    znode_append_path(node, &b.text);
    size_t path_len = b.text.len;
    if (path_len <= root + leaf) {
        buf_finish(&b.text);
        return false;
    }
    buf_append_slice(&b.text, terms.lock);
    state_need(buf_ok(&b.text));
    b.terms = terms;
    b.terms.lock = slice_make(b.text.data + path_len, terms.lock.len);
    b.prefix = slice_make(b.text.data + root, path_len - root - leaf);
    *ret = b;
    return true;
}

/* What clients made before /zookeeper/fence was opened binds nothing. */
static const struct znode *open_root(const struct state *s)
{
    const struct znode *root = tree_find(&s->tree, slice_str(FENCE_ROOT));
    return root != NULL && root->version == -1 ? root : NULL;
}

enum state_fence state_fence(const struct state *s)
{
    return open_root(s) != NULL                                 ? STATE_FENCE_OPEN
           : tree_find(&s->tree, slice_str(FENCE_ROOT)) != NULL ? STATE_FENCE_FOREIGN
                                                                : STATE_FENCE_ABSENT;
}

static void index_need(struct state *s)
{
    struct fence_index *f = &s->fence;
    if (f->known) {
        return;
    }
    fence_index_forget(f);
    f->known = true;
    const struct znode *root = open_root(s);
    size_t below = root != NULL ? znode_below(root) : 0;
    if (below == 0) {
        return;
    }
    f->bindings = calloc(below, sizeof *f->bindings);
    state_need(f->bindings != NULL);
    struct znode *node = tree_next(root);
    for (size_t i = 0; i < below; i++, node = tree_next(node)) {
        f->count += binding_read(node, &f->bindings[f->count]);
    }
    f->by_lock = calloc(f->count + 1, sizeof(struct fence_binding *));
    state_need(f->by_lock != NULL);
    qsort(f->bindings, f->count, sizeof *f->bindings, by_prefix);
    for (size_t i = 0; i < f->count; i++) {
        f->by_lock[i] = &f->bindings[i];
    }
    qsort(f->by_lock, f->count, sizeof(struct fence_binding *), by_lock);
    for (size_t i = 0; i < f->count; i++) {
        bool same = i > 0 && by_lock(&f->by_lock[i - 1], &f->by_lock[i]) == 0;
        f->by_lock[i]->keeper = same ? f->by_lock[i - 1]->keeper : f->by_lock[i];
    }
}

size_t state_fence_bindings(struct state *s)
{
    index_need(s);
    return s->fence.count;
}

struct fence_binding *fence_find(struct state *s, struct slice path)
{
    index_need(s);
    if (s->fence.count == 0) {
        return NULL;
    }
    for (size_t len = path.len; len > 1;) {
        struct fence_binding key = {.prefix = slice_make(path.data, len)};
        struct fence_binding *found =
            bsearch(&key, s->fence.bindings, s->fence.count, sizeof key, by_prefix);
        if (found != NULL) {
            return found;
        }
        len = path_last_slash(slice_make(path.data, len));
    }
    return NULL;
}

struct fence_binding **fence_of_lock(struct state *s, struct slice lock, size_t *ret_count)
{
    index_need(s);
    struct fence_binding key = {.terms = {.lock = lock}};
    struct fence_binding *keys[] = {&key};
    struct fence_binding **all = s->fence.by_lock;
    struct fence_binding **found =
        s->fence.count > 0 ? bsearch(keys, all, s->fence.count, sizeof keys[0], by_lock) : NULL;
    *ret_count = 0;
    if (found == NULL) {
        return NULL;
    }
    struct fence_binding **end = found + 1;
    while (found > all && slice_equal(found[-1]->terms.lock, lock)) {
        found--;
    }
    while (end < all + s->fence.count && slice_equal((*end)->terms.lock, lock)) {
        end++;
    }
    *ret_count = (size_t)(end - found);
    return found;
}

/* --- who is first ----------------------------------------------------------------------------- */

bool fence_is_reader(const struct znode *contender)
{
    return fence_name_reads(znode_name(contender));
}

/* Two of one transaction are told apart by their names, which are the same on all servers. */
static bool is_before(const struct znode *a, const struct znode *b)
{
    return a->czxid != b->czxid ? a->czxid < b->czxid
                                : slice_compare(znode_name(a), znode_name(b)) < 0;
}

const struct znode *fence_scan(const struct znode *lock)
{
    const struct znode *first = NULL;
    if (znode_is_ephemeral(lock)) {
        return lock; /* a lock that is one node of a fixed name */
    }
    for (const struct znode *node = znode_first_child(lock); node != NULL; node = node->next) {
        int64_t number;
        if (znode_is_ephemeral(node) && fence_name_contends(znode_name(node), &number) &&
            (first == NULL || is_before(node, first))) {
            first = node;
        }
    }
    return first;
}

/* True and *ret when it needs no look at the children. */
static bool memo_recall(const struct state *s, const struct fence_memo *memo,
                        const struct znode *lock, const struct znode **ret)
{
    if (memo->at == 0 || memo->lock_czxid != lock->czxid) {
        return false;
    }
    const struct znode *first =
        memo->czxid != 0 ? tree_find(&s->tree, buf_slice(&memo->path)) : NULL;
    bool there = first != NULL && first->czxid == memo->czxid;
    bool same = memo->lock_pzxid == znode_pzxid(lock) &&
                memo->lock_cversion == znode_cversion(lock) &&
                memo->lock_children == znode_children(lock);
    *ret = there ? first : NULL;
    /* In the command that makes the first one, others may come that are as old. */
    return same || (there && memo->czxid < memo->at);
}

const struct znode *fence_first(struct state *s, struct fence_binding *b, int64_t zxid)
{
    const struct znode *lock = tree_find(&s->tree, b->terms.lock);
    const struct znode *first;
    struct fence_memo *memo = &b->keeper->memo;
    if (lock == NULL || znode_is_ephemeral(lock)) {
        return lock;
    }
    if (memo_recall(s, memo, lock, &first)) {
        return first;
    }
    first = fence_scan(lock);
    memo->at = zxid;
    memo->lock_czxid = lock->czxid;
    memo->lock_pzxid = znode_pzxid(lock);
    memo->lock_cversion = znode_cversion(lock);
    memo->lock_children = znode_children(lock);
    memo->czxid = first != NULL ? first->czxid : 0;
    buf_reset(&memo->path);
    if (first != NULL) {
        znode_append_path(first, &memo->path);
        state_need(buf_ok(&memo->path));
    }
    s->fence.touched |= memo->lock_pzxid == zxid; /* of a set that a rollback may undo */
    return first;
}

bool state_holder(struct state *s, struct slice path, struct state_holder *ret)
{
    size_t count;
    struct fence_binding **bound = fence_of_lock(s, path, &count);
    const struct znode *lock = tree_find(&s->tree, path);
    if (lock == NULL) {
        return false;
    }
    const struct znode *first =
        bound != NULL ? fence_first(s, bound[0], s->zxid + 1) : fence_scan(lock);
    if (first == NULL) {
        return false;
    }
    *ret = (struct state_holder){.czxid = first->czxid,
                                 .session_id = znode_owner(first),
                                 .name = first == lock ? SLICE_NULL : znode_name(first),
                                 .shared = first != lock && fence_is_reader(first)};
    return true;
}
