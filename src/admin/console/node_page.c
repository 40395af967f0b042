#include "admin/console/node_page.h"

#include "admin/console/last_writers.h"
#include "base/json.h"
#include "state/query.h"
#include "tree/acl_rules.h"
#include "tree/path.h"
#include "watch/watch.h"

#include <assert.h>
#include <stdlib.h>

enum { REPLACE_WORK = 2 };

#define QUOTA_BRANCH "/zookeeper/quota"

/* The stat, kind and data */

static const char *node_kind(const struct znode *node)
{
    switch (tree_owner_kind(znode_owner(node))) {
    case TREE_OWNER_SESSION:
        return "ephemeral";
    case TREE_OWNER_IS_CONTAINER:
        return "container";
    case TREE_OWNER_IS_TTL:
        return "ttl";
    default:
        return "persistent";
    }
}

static void write_stat(const struct znode *node, struct json *j)
{
    int64_t owner = znode_owner(node);
    json_key(j, "stat");
    json_object_begin(j);
    json_member_string(j, "kind", node_kind(node));
    json_member_hex(j, "czxid", node->czxid);
    json_member_hex(j, "mzxid", node->mzxid);
    json_member_hex(j, "pzxid", znode_pzxid(node));
    json_member_int(j, "ctime", node->ctime);
    json_member_int(j, "mtime", node->mtime);
    json_member_int(j, "version", node->version);
    json_member_int(j, "cversion",
                    (int32_t)(2 * (uint32_t)znode_cversion(node) - znode_children(node)));
    json_member_int(j, "aversion", znode_aversion(node));
    json_member_uint(j, "children", znode_children(node));
    json_member_uint(j, "below", znode_below(node));
    if (tree_owner_kind(owner) == TREE_OWNER_SESSION) {
        json_member_hex(j, "session", owner);
    } else if (tree_owner_kind(owner) == TREE_OWNER_IS_TTL) {
        json_member_int(j, "ttl_ms", tree_owner_ttl_ms(owner));
    }
    json_object_end(j);
}

/* Cuts a long text at the beginning of a character, so that its beginning is still a text. */
static struct slice text_cut(struct slice text, size_t max)
{
    if (text.len <= max) {
        return text;
    }
    struct slice cut = slice_make(text.data, max);
    for (size_t back = 0; back < 4 && back < cut.len; back++) {
        struct slice shorter = slice_make(cut.data, cut.len - back);
        if (utf8_valid(shorter)) {
            return shorter;
        }
    }
    return cut;
}

static void write_data(const struct znode *node, struct json *j)
{
    struct slice data = znode_data(node);
    bool cut = data.len > NODE_DATA_MAX;
    json_member_uint(j, "bytes", data.len);
    json_member_bool(j, "cut", cut);
    if (slice_is_null(data)) {
        json_member_null(j, "data");
        return;
    }
    data = text_cut(data, NODE_DATA_MAX);
    json_data(j, data.data, data.len);
}

/* Permissions */

static void write_perms(int32_t perms, struct json *j)
{
    static const struct {
        int32_t perm;
        char letter;
    } LETTERS[] = {{WIRE_PERM_READ, 'r'},
                   {WIRE_PERM_WRITE, 'w'},
                   {WIRE_PERM_CREATE, 'c'},
                   {WIRE_PERM_DELETE, 'd'},
                   {WIRE_PERM_ADMIN, 'a'}};
    char text[8] = "";
    size_t len = 0;
    for (size_t i = 0; i < sizeof LETTERS / sizeof LETTERS[0]; i++) {
        if ((perms & LETTERS[i].perm) != 0) {
            text[len++] = LETTERS[i].letter;
        }
    }
    text[len] = '\0';
    json_member_string(j, "perms", text);
}

/* As getACL for a caller without ids: digests are hidden even from a superuser: nobody needs them in a page. */
static int write_acl(const struct state *s, const struct znode *node, struct json *j)
{
    struct buf hidden;
    struct wire_acl entry;
    struct wire_vector acl = state_node_acl(s, node);
    buf_init(&hidden, 0);
    acl_redact(acl, &hidden);
    if (!buf_ok(&hidden)) {
        buf_finish(&hidden);
        return CONCLAVE_ENOMEM;
    }
    struct slice all = buf_slice(&hidden);
    struct wire_vector shown = {slice_make(all.data + 4, all.len - 4), acl.count};
    json_key(j, "acl");
    json_array_begin(j);
    for (int i = 0; i < NODE_ACL_MAX && wire_next_acl(&shown, &entry); i++) {
        json_object_begin(j);
        json_member_text(j, "scheme", text_cut(entry.id.scheme, NODE_TEXT_MAX));
        json_member_text(j, "id", text_cut(entry.id.id, NODE_TEXT_MAX));
        write_perms(entry.perms, j);
        json_object_end(j);
    }
    json_array_end(j);
    buf_finish(&hidden);
    return 0;
}

/* Quota */

bool node_readable(const struct state *s, const struct node_reader *reader,
                   const struct znode *node)
{
    return reader->all_readable || state_node_is_public(s, node, WIRE_PERM_READ) ||
           (reader->ids.count > 0 &&
            acl_permits(state_node_acl(s, node), reader->ids, WIRE_PERM_READ));
}

/* The node at QUOTA_BRANCH, path and name, if it may be read. */
static const struct znode *quota_node(const struct state *s, const struct node_request *request,
                                      struct slice path, const char *name, struct buf *scratch)
{
    buf_reset(scratch);
    buf_append_str(scratch, QUOTA_BRANCH);
    buf_append_slice(scratch, path);
    buf_append_str(scratch, name);
    const struct znode *node = buf_ok(scratch) ? state_node(s, buf_slice(scratch)) : NULL;
    return node != NULL && node_readable(s, &request->reader, node) ? node : NULL;
}

/* The end of the next name of the path, from `at` on. */
static size_t path_step(struct slice path, size_t at)
{
    const uint8_t *end =
        at + 1 < path.len ? memchr(path.data + at + 1, '/', path.len - at - 1) : NULL;
    return end != NULL ? (size_t)(end - path.data) : path.len;
}

static struct slice quota_text(const struct znode *node)
{
    return node != NULL ? text_cut(znode_data(node), NODE_TEXT_MAX) : slice_str("");
}

/* The deepest quota above the path counts. Ends where the branch of quotas ends, so a long path costs no more. */
static int write_quota(const struct state *s, const struct node_request *request, struct json *j)
{
    struct buf scratch;
    struct slice found = SLICE_NULL;
    struct slice path = request->path;
    buf_init(&scratch, 0);
    for (size_t at = 0; path.len > 1 && at < path.len;) {
        at = path_step(path, at);
        struct slice branch = slice_make(path.data, at);
        if (quota_node(s, request, branch, "", &scratch) == NULL) {
            break;
        }
        if (quota_node(s, request, branch, "/zookeeper_limits", &scratch) != NULL) {
            found = branch;
        }
    }
    json_key(j, "quota");
    if (slice_is_null(found)) {
        json_null(j);
    } else {
        const struct znode *limits = quota_node(s, request, found, "/zookeeper_limits", &scratch);
        const struct znode *counts = quota_node(s, request, found, "/zookeeper_stats", &scratch);
        json_object_begin(j);
        json_member_text(j, "path", found);
        json_member_text(j, "limits", quota_text(limits));
        json_member_text(j, "counts", quota_text(counts));
        json_object_end(j);
    }
    bool ok = buf_ok(&scratch);
    buf_finish(&scratch);
    return ok ? 0 : CONCLAVE_ENOMEM;
}

/* Children */

/* The first names behind `after`: a heap whose root is the last of them. */
struct name_heap {
    const struct znode *nodes[NODE_PAGE_MAX + 1];
    size_t count;
    size_t most;
    size_t left_out; /* children whose names are too long */
    size_t work;     /* children looked at; one that replaces another counts REPLACE_WORK more */
};

static bool name_before(const struct znode *a, const struct znode *b)
{
    return slice_compare(znode_name(a), znode_name(b)) < 0;
}

static void heap_swap(struct name_heap *h, size_t a, size_t b)
{
    const struct znode *node = h->nodes[a];
    h->nodes[a] = h->nodes[b];
    h->nodes[b] = node;
}

static void heap_sink(struct name_heap *h, size_t at)
{
    assert(at < h->count);
    for (;;) {
        size_t last = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < h->count; child++) {
            last = name_before(h->nodes[last], h->nodes[child]) ? child : last;
        }
        if (last == at) {
            return;
        }
        heap_swap(h, at, last);
        at = last;
    }
}

static void heap_offer(struct name_heap *h, const struct znode *node)
{
    assert(h->count <= h->most && h->most <= NODE_PAGE_MAX + 1);
    if (h->count == h->most) {
        if (name_before(node, h->nodes[0])) {
            h->nodes[0] = node;
            heap_sink(h, 0);
            h->work += REPLACE_WORK;
        }
        return;
    }
    size_t at = h->count++;
    h->nodes[at] = node;
    while (at > 0 && name_before(h->nodes[(at - 1) / 2], h->nodes[at])) {
        heap_swap(h, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

static int heap_compare(const void *a, const void *b)
{
    const struct znode *const *x = a;
    const struct znode *const *y = b;
    return slice_compare(znode_name(*x), znode_name(*y));
}

/* One more than the page, if there are more. */
static void children_by_name(const struct znode *parent, const struct node_request *request,
                             struct name_heap *h)
{
    for (const struct znode *c = znode_first_child(parent); c != NULL; c = c->next) {
        struct slice name = znode_name(c);
        h->work++;
        if (name.len > NODE_TEXT_MAX) {
            h->left_out++;
        } else if (slice_is_null(request->after)
                       ? slice_is_null(request->from) || slice_compare(request->from, name) <= 0
                       : slice_compare(request->after, name) < 0) {
            heap_offer(h, c);
        }
    }
    qsort(h->nodes, h->count, sizeof h->nodes[0], heap_compare);
}

/* Begins with the oldest again if `after` was deleted meanwhile. */
static void children_by_creation(const struct state *s, const struct znode *parent,
                                 const struct node_request *request, struct name_heap *h)
{
    struct buf path;
    const struct znode *c = NULL;
    buf_init(&path, 0);
    if (!slice_is_null(request->after)) {
        znode_append_path(parent, &path);
        buf_append_str(&path, parent->parent == NULL ? "" : "/");
        buf_append_slice(&path, request->after);
        c = buf_ok(&path) ? state_node(s, buf_slice(&path)) : NULL;
    }
    for (c = c != NULL ? c->next : znode_first_child(parent); c != NULL && h->count < h->most;
         c = c->next) {
        h->work++;
        if (znode_name(c).len > NODE_TEXT_MAX) {
            h->left_out++;
        } else {
            h->nodes[h->count++] = c;
        }
    }
    buf_finish(&path);
}

void node_facts_write(const struct znode *node, bool readable, struct json *j)
{
    if (readable) {
        json_uint(j, znode_children(node));
        json_uint(j, znode_data(node).len);
        json_string(j, node_kind(node));
    } else {
        json_null(j);
        json_null(j);
        json_null(j);
    }
}

static void write_children(const struct state *s, const struct znode *parent,
                           const struct node_request *request, size_t *work, struct json *j)
{
    bool sorted = znode_children(parent) <= NODE_SORT_MAX;
    struct name_heap h = {.most = request->count + 1};
    assert(request->count > 0 && request->count <= NODE_PAGE_MAX);
    if (sorted) {
        children_by_name(parent, request, &h);
    } else {
        children_by_creation(s, parent, request, &h);
    }
    assert(h.count <= h.most && h.count <= znode_children(parent));
    json_key(j, "children");
    json_object_begin(j);
    json_member_uint(j, "count", znode_children(parent));
    json_member_string(j, "order", sorted ? "name" : "creation");
    json_key(j, "names");
    json_array_begin(j);
    size_t shown = 0; /* the first one always, so that the pages go on */
    while (shown < h.count && shown < request->count &&
           (shown == 0 || j->out.len < request->answer_bytes)) {
        const struct znode *child = h.nodes[shown++];
        json_array_begin(j);
        json_text(j, znode_name(child));
        node_facts_write(child, node_readable(s, &request->reader, child), j);
        json_array_end(j);
    }
    json_array_end(j);
    json_member_bool(j, "more", shown < h.count);
    json_member_uint(j, "left_out", h.left_out);
    *work += h.work;
    json_object_end(j);
}

static void write_watches(const struct node_request *request, struct json *j)
{
    static const char *const KINDS[WATCH_KINDS] = {[WATCH_DATA] = "data",
                                                   [WATCH_CHILD] = "child",
                                                   [WATCH_PERSISTENT] = "persistent",
                                                   [WATCH_RECURSIVE] = "recursive"};
    size_t counts[WATCH_KINDS];
    if (request->watches == NULL) {
        return;
    }
    watch_count(request->watches, request->path, NODE_WATCHES_MAX, counts);
    json_key(j, "watches");
    json_object_begin(j);
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        json_member_uint(j, KINDS[kind], counts[kind]);
    }
    json_object_end(j);
}

int node_page_write(const struct state *s, const struct node_request *request, size_t *work,
                    struct buf *out)
{
    struct json j;
    int rc = 0;
    if (!path_valid(request->path)) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    const struct znode *node = state_node(s, request->path);
    if (node == NULL) {
        return CONCLAVE_NO_NODE;
    }
    json_init(&j);
    json_object_begin(&j);
    json_member_text(&j, "path", request->path);
    bool readable = node_readable(s, &request->reader, node);
    if (readable) {
        write_stat(node, &j);
        json_member_bool(&j, "readable", true);
        rc = write_acl(s, node, &j);
        write_data(node, &j);
        write_children(s, node, request, work, &j);
        rc = rc == 0 ? write_quota(s, request, &j) : rc;
        write_watches(request, &j);
        if (request->writers != NULL) {
            json_key(&j, "writer");
            last_writers_write(request->writers, node, request->path, &j);
        }
    } else {
        json_member_bool(&j, "readable", false);
    }
    json_object_end(&j);
    if (rc == 0 && !buf_ok(&j.out)) {
        rc = CONCLAVE_ENOMEM;
    }
    if (rc == 0) {
        buf_append_slice(out, buf_slice(&j.out));
    }
    json_finish(&j);
    return rc;
}
