#define _GNU_SOURCE /* memmem */
#include "admin/console/node_search.h"

#include "base/json.h"
#include "state/query.h"
#include "tree/path.h"

#include <assert.h>

enum {
    BYTES_PER_LOOK = 64, /* of names; compared in the time of one look */
    IDS_PER_LOOK = 8,    /* entries of an ACL */
};

struct node_search {
    const struct state *state;
    const struct node_search_request *request;
    const struct znode *root;
    struct slice text; /* in small letters */
    struct buf path;   /* of the current node; "" of "/" */
    size_t looked;
    size_t work;
    size_t found;
    size_t hidden;
    size_t left_out;
    struct json j;
};

static uint8_t small_letter(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c - 'A' + 'a') : c;
}

static void small_letters(struct slice from, uint8_t *to)
{
    for (size_t i = 0; i < from.len; i++) {
        to[i] = small_letter(from.data[i]);
    }
}

/* Whether the text is in the path and ends in its last `own` bytes. */
static bool search_matches(const struct node_search *s, size_t own)
{
    uint8_t window[NODE_TEXT_MAX + NODE_SEARCH_TEXT_MAX];
    size_t len = own + s->text.len - 1;
    assert(s->path.len <= NODE_TEXT_MAX && s->text.len <= NODE_SEARCH_TEXT_MAX);
    len = len < s->path.len ? len : s->path.len;
    small_letters(slice_make(s->path.data + s->path.len - len, len), window);
    return len > 0 && memmem(window, len, s->text.data, s->text.len) != NULL;
}

/* The path as clients write it. */
static struct slice search_path(const struct node_search *s)
{
    return s->path.len > 0 ? buf_slice(&s->path) : slice_str("/");
}

static bool search_may_read(struct node_search *s, const struct znode *node)
{
    if (s->request->reader.ids.count > 0) {
        s->work += (size_t)state_node_acl(s->state, node).count / IDS_PER_LOOK;
    }
    return node_readable(s->state, &s->request->reader, node);
}

/* Goes to a child of the current node; false: its path is too long. */
static bool search_enter(struct node_search *s, const struct znode *child)
{
    struct slice name = znode_name(child);
    if (s->path.len + 1 + name.len > NODE_TEXT_MAX) {
        s->left_out++;
        return false;
    }
    buf_append_u8(&s->path, '/');
    buf_append_slice(&s->path, name);
    return true;
}

static void search_leave(struct node_search *s, const struct znode *node)
{
    size_t own = znode_name(node).len + (node->parent != NULL);
    assert(own <= s->path.len);
    s->path.len -= own;
}

/* The first of these siblings whose path is short enough becomes the current node; NULL: none, or too many are not. */
static const struct znode *search_enter_any(struct node_search *s, const struct znode *sibling)
{
    while (sibling != NULL && !search_enter(s, sibling)) {
        s->work++;
        sibling = s->work < 2 * NODE_SEARCH_LOOKS ? sibling->next : NULL;
    }
    return sibling;
}

/* The node behind this one becomes the current one; NULL: that was all. */
static const struct znode *search_next(struct node_search *s, const struct znode *node)
{
    const struct znode *child = znode_first_child(node);
    if (child != NULL && !search_may_read(s, node)) {
        s->hidden++;
        child = NULL;
    }
    const struct znode *next = search_enter_any(s, child);
    while (next == NULL && node != s->root) {
        search_leave(s, node);
        next = search_enter_any(s, node->next);
        node = node->parent;
    }
    return next;
}

static void search_look(struct node_search *s, const struct znode *node)
{
    size_t own = znode_name(node).len;
    s->looked++;
    s->work += 1 + (own + s->text.len) / BYTES_PER_LOOK;
    if (!search_matches(s, own)) {
        return;
    }
    s->found++;
    json_array_begin(&s->j);
    json_text(&s->j, search_path(s));
    node_facts_write(node, search_may_read(s, node), &s->j);
    json_array_end(&s->j);
}

/* Makes a node the current one. */
static void search_go(struct node_search *s, const struct znode *node)
{
    buf_reset(&s->path);
    if (node->parent != NULL) {
        znode_append_path(node, &s->path);
    }
}

/* Whether a path is the root's or below it. */
static bool search_has(const struct node_search *s, struct slice path)
{
    struct slice root = s->request->root;
    return root.len == 1 ||
           (slice_starts_with(path, root) && (path.len == root.len || path.data[root.len] == '/'));
}

/* The node above a path that is not "/". */
static struct slice search_above(struct slice path)
{
    while (path.data[path.len - 1] != '/') {
        path.len--;
    }
    return slice_make(path.data, path.len > 1 ? path.len - 1 : 1);
}

/* Where the part begins: the current node; NULL: there is nothing left. */
static const struct znode *search_begin(struct node_search *s)
{
    struct slice after = s->request->after;
    if (slice_is_null(after)) {
        search_go(s, s->root);
        return s->root;
    }
    const struct znode *node = state_node(s->state, after);
    while (node == NULL) {
        after = search_above(after);
        node = state_node(s->state, after);
    }
    node = search_has(s, after) ? node : s->root;
    search_go(s, node);
    node = search_next(s, node);
    s->hidden = 0; /* the part before has counted them */
    s->left_out = 0;
    return node;
}

static const struct znode *search_run(struct node_search *s)
{
    const struct node_search_request *r = s->request;
    const struct znode *last = NULL;
    const struct znode *node = search_begin(s);
    while (node != NULL && (last == NULL || (s->work < NODE_SEARCH_LOOKS && s->found < r->count &&
                                             (s->found == 0 || s->j.out.len < r->answer_bytes)))) {
        search_look(s, node);
        last = node;
        node = search_next(s, node);
    }
    if (node != NULL) {
        search_go(s, last);
    }
    return node;
}

static int search_write(struct node_search *s, struct buf *out)
{
    struct json *j = &s->j;
    json_object_begin(j);
    json_key(j, "found");
    json_array_begin(j);
    bool more = search_run(s) != NULL;
    json_array_end(j);
    if (more) {
        json_member_text(j, "after", search_path(s));
    } else {
        json_member_null(j, "after");
    }
    json_member_uint(j, "looked", s->looked);
    json_member_uint(j, "hidden", s->hidden);
    json_member_uint(j, "left_out", s->left_out);
    json_object_end(j);
    if (!buf_ok(&j->out) || !buf_ok(&s->path)) {
        return CONCLAVE_ENOMEM;
    }
    buf_append_slice(out, buf_slice(&j->out));
    return 0;
}

int node_search_write(const struct state *state, const struct node_search_request *request,
                      size_t *work, struct buf *out)
{
    uint8_t text[NODE_SEARCH_TEXT_MAX];
    struct slice wanted = request->text;
    while (wanted.len > 0 && wanted.data[wanted.len - 1] == '/') {
        wanted.len--;
    }
    if (wanted.len == 0 || wanted.len > sizeof text || !path_valid(request->root) ||
        request->root.len > NODE_TEXT_MAX || request->after.len > NODE_TEXT_MAX ||
        (!slice_is_null(request->after) && !path_valid(request->after))) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    small_letters(wanted, text);
    struct node_search s = {.state = state,
                            .request = request,
                            .root = state_node(state, request->root),
                            .text = slice_make(text, wanted.len)};
    if (s.root == NULL) {
        return CONCLAVE_NO_NODE;
    }
    assert(request->count > 0 && request->count <= NODE_SEARCH_FOUND_MAX);
    buf_init(&s.path, NODE_TEXT_MAX);
    json_init(&s.j);
    int rc = buf_reserve(&s.path, NODE_TEXT_MAX) != 0 ? CONCLAVE_ENOMEM : search_write(&s, out);
    *work += s.work;
    json_finish(&s.j);
    buf_finish(&s.path);
    return rc;
}
