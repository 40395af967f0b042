#include "state/fence_index.h"

#include "state/state_internal.h"
#include "tree/path.h"
#include "tree/walk.h"

#include <assert.h>

void fence_index_init(struct fence_index *f)
{
    *f = (struct fence_index){0};
    buf_init(&f->path, 0);
}

static void forget_before(struct fence_index *f)
{
    for (size_t i = 0; i < f->before_count; i++) {
        assert(f->before[i].binding->noted == i + 1);
        buf_finish(&f->before[i].memo.path);
        f->before[i].binding->noted = 0;
    }
    f->before_count = 0;
}

void fence_index_forget(struct fence_index *f)
{
    forget_before(f);
    for (size_t i = 0; i < f->count; i++) {
        buf_finish(&f->bindings[i].text);
        buf_finish(&f->bindings[i].memo.path);
    }
    free(f->bindings);
    free(f->by_lock);
    free(f->by_node);
    f->bindings = NULL;
    f->by_lock = NULL;
    f->by_node = NULL;
    f->count = 0;
    f->known = false;
}

void fence_index_finish(struct fence_index *f)
{
    fence_index_forget(f);
    free(f->before);
    buf_finish(&f->path);
}

void fence_note(struct state *s, struct fence_binding *b)
{
    struct fence_index *f = &s->fence;
    if (b->noted != 0) {
        return;
    }
    state_need(array_room(&f->before, f->before_count, &f->before_cap, sizeof *f->before));
    struct fence_before *before = &f->before[f->before_count++];
    *before = (struct fence_before){.binding = b, .until_ms = b->terms.until_ms, .memo = b->memo};
    buf_init(&before->memo.path, 0);
    b->noted = f->before_count;
}

void fence_commit(struct state *s)
{
    if (s->fence.before_count > 0) {
        forget_before(&s->fence);
    }
    s->fence.changed = false;
}

void fence_rollback(struct state *s)
{
    struct fence_index *f = &s->fence;
    if (f->changed) {
        fence_index_forget(f);
        f->changed = false;
        return;
    }
    for (size_t i = 0; i < f->before_count; i++) {
        struct fence_before *before = &f->before[i];
        struct fence_binding *b = before->binding;
        struct buf path = b->memo.path;
        assert(b->noted == i + 1);
        b->terms.until_ms = before->until_ms;
        b->memo = before->memo;
        if (!before->has_path) {
            b->memo.path = path;
        } else {
            buf_finish(&path);
        }
        b->noted = 0;
    }
    f->before_count = 0;
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

/* By address: the order is not visible outside. */
static int by_node(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)(*(struct fence_binding *const *)a)->node;
    uintptr_t y = (uintptr_t)(*(struct fence_binding *const *)b)->node;
    return (x > y) - (x < y);
}

/* Copies, because the node's data are replaced when a delay begins. False: not a binding. */
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

/* Nodes that clients created before /zookeeper/fence was opened bind nothing. */
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
        assert(node != NULL); /* the root counts what is below it */
        f->count += binding_read(node, &f->bindings[f->count]);
    }
    f->by_lock = calloc(f->count + 1, sizeof(struct fence_binding *));
    f->by_node = calloc(f->count + 1, sizeof(struct fence_binding *));
    state_need(f->by_lock != NULL && f->by_node != NULL);
    qsort(f->bindings, f->count, sizeof *f->bindings, by_prefix);
    for (size_t i = 0; i < f->count; i++) {
        f->by_lock[i] = &f->bindings[i];
        f->by_node[i] = &f->bindings[i];
    }
    qsort(f->by_node, f->count, sizeof(struct fence_binding *), by_node);
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

static struct fence_binding *binding_of(const struct fence_index *f, struct znode *node)
{
    struct fence_binding key = {.node = node};
    struct fence_binding *keys[] = {&key};
    struct fence_binding **found = bsearch(keys, f->by_node, f->count, sizeof keys[0], by_node);
    return found != NULL ? *found : NULL;
}

struct fence_binding *fence_find(struct state *s, struct slice path)
{
    struct tree_walk walk;
    struct fence_binding *deepest = NULL;
    struct slice name;
    index_need(s);
    if (s->fence.count == 0) {
        return NULL;
    }
    tree_walk_begin(&walk, &s->tree);
    if (!tree_walk_down(&walk, slice_str("zookeeper")) ||
        !tree_walk_down(&walk, slice_str("fence"))) {
        return NULL;
    }
    while (tree_path_next(&path, &name) && tree_walk_down(&walk, name)) {
        struct znode *leaf = tree_walk_child(&walk, slice_str(FENCE_LEAF));
        struct fence_binding *found = leaf != NULL ? binding_of(&s->fence, leaf) : NULL;
        deepest = found != NULL ? found : deepest;
    }
    return deepest;
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

/* Two contenders of one transaction are ordered by their names, which are the same on all servers. */
static bool is_before(const struct znode *a, const struct znode *b)
{
    return a->czxid != b->czxid ? a->czxid < b->czxid
                                : slice_compare(znode_name(a), znode_name(b)) < 0;
}

static void memo_set_first(struct state *s, struct fence_binding *keeper, const struct znode *first)
{
    struct fence_memo *memo = &keeper->memo;
    struct fence_before *before = keeper->noted != 0 ? &s->fence.before[keeper->noted - 1] : NULL;
    assert(keeper->keeper == keeper && (before == NULL || before->binding == keeper));
    if (before != NULL && !before->has_path) {
        before->memo.path = memo->path;
        before->has_path = true;
        buf_init(&memo->path, 0);
    }
    memo->czxid = first != NULL ? first->czxid : 0;
    buf_reset(&memo->path);
    if (first != NULL) {
        znode_append_path(first, &memo->path);
        state_need(buf_ok(&memo->path));
    }
}

static bool contends(const struct znode *node)
{
    int64_t number;
    return znode_is_ephemeral(node) && fence_name_contends(znode_name(node), &number);
}

const struct znode *fence_scan(const struct znode *lock)
{
    const struct znode *first = NULL;
    if (znode_is_ephemeral(lock)) {
        return lock; /* a lock with a fixed node name */
    }
    for (const struct znode *node = znode_first_child(lock); node != NULL; node = node->next) {
        if (contends(node) && (first == NULL || is_before(node, first))) {
            first = node;
        }
    }
    return first;
}

/* True and *ret if the memo answers without a search of the children. */
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
    /* In the command that creates the first one, others of the same age may follow. */
    return same || (there && memo->czxid < memo->at);
}

const struct znode *fence_first(struct state *s, struct fence_binding *b, int64_t zxid)
{
    const struct znode *lock = tree_find(&s->tree, b->terms.lock);
    const struct znode *first;
    struct fence_memo *memo = &b->keeper->memo;
    assert(memo->at <= zxid);
    if (lock == NULL || znode_is_ephemeral(lock)) {
        return lock;
    }
    if (memo_recall(s, memo, lock, &first)) {
        return first;
    }
    first = fence_scan(lock);
    if (znode_pzxid(lock) == zxid || lock->czxid == zxid) {
        fence_note(s, b->keeper); /* a rollback may undo the change */
    }
    memo->at = zxid;
    memo->lock_czxid = lock->czxid;
    memo->lock_pzxid = znode_pzxid(lock);
    memo->lock_cversion = znode_cversion(lock);
    memo->lock_children = znode_children(lock);
    memo_set_first(s, b->keeper, first);
    return first;
}

/* The binding that keeps the memo of the lock at this node; NULL: no binding names it. */
static struct fence_binding *keeper_of(struct state *s, const struct znode *lock)
{
    size_t count;
    struct buf *path = &s->fence.path;
    if (state_fence_bindings(s) == 0) {
        return NULL;
    }
    buf_reset(path);
    znode_append_path(lock, path);
    state_need(buf_ok(path));
    struct fence_binding **bound = fence_of_lock(s, buf_slice(path), &count);
    return bound != NULL ? bound[0]->keeper : NULL;
}

/* Whether the memo was valid before a change: the lock then had `children` and `creates` more than now, modulo 2^32. */
static bool memo_was_good(const struct fence_memo *memo, const struct znode *lock,
                          uint32_t children, uint32_t creates)
{
    return memo->at != 0 && memo->lock_czxid == lock->czxid &&
           memo->lock_children == znode_children(lock) + children &&
           (uint32_t)memo->lock_cversion == (uint32_t)znode_cversion(lock) + creates;
}

static void memo_go_on(struct fence_memo *memo, const struct znode *parent, int64_t zxid)
{
    memo->lock_pzxid = zxid;
    memo->lock_cversion = znode_cversion(parent);
    memo->lock_children = znode_children(parent);
}

void fence_child_came(struct state *s, const struct znode *child, int64_t zxid)
{
    struct fence_binding *keeper = s->fence.known ? keeper_of(s, child->parent) : NULL;
    if (keeper == NULL || !memo_was_good(&keeper->memo, child->parent, UINT32_MAX, UINT32_MAX)) {
        return;
    }
    struct fence_memo *memo = &keeper->memo;
    fence_note(s, keeper);
    const struct znode *first =
        memo->czxid != 0 ? tree_find(&s->tree, buf_slice(&memo->path)) : NULL;
    if (contends(child) && (first == NULL || is_before(child, first))) {
        memo_set_first(s, keeper, child);
    }
    memo_go_on(memo, child->parent, zxid);
}

bool fence_child_went(struct state *s, const struct znode *child, int64_t zxid)
{
    bool contended = contends(child);
    struct fence_binding *keeper = contended || s->fence.known ? keeper_of(s, child->parent) : NULL;
    struct fence_memo *memo = keeper != NULL ? &keeper->memo : NULL;
    contended = contended && keeper != NULL;
    if (memo != NULL && memo_was_good(memo, child->parent, 1, 0)) {
        fence_note(s, keeper);
        memo_go_on(memo, child->parent, zxid);
        memo->at = contended && memo->czxid == child->czxid
                       ? 0
                       : memo->at; /* the deleted one may have been the first */
    }
    return contended;
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
