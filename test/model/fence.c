#include "model/parts.h"

#include <stdio.h>
#include <stdlib.h>

#define ROOT "/zookeeper/fence"
#define LEAF "/conclave_fence"

struct terms {
    char lock[MODEL_PATH];
    long long delay_ms, until_ms;
};

static bool is_at_or_below(const char *path, const char *top)
{
    return strcmp(path, top) == 0 || model_is_below(path, top);
}

static bool is_the_locks(const char *path, const char *lock)
{
    char beside[MODEL_PATH + 16];
    snprintf(beside, sizeof beside, "%s.leader", lock);
    return is_at_or_below(path, lock) || is_at_or_below(path, beside);
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text);
    size_t n = strlen(end);
    return len >= n && strcmp(text + len - n, end) == 0;
}

/* Knows the texts that the tests write and those that are written here. */
static bool read_terms(struct slice data, struct terms *ret)
{
    char text[MODEL_PATH + 128];
    char printed[MODEL_PATH + 192];
    *ret = (struct terms){0};
    snprintf(text, sizeof text, "%.*s", SLICE_FMT(data));
    int n = sscanf(text, "lock=%500[^\n]\nlock_delay_ms=%lld\nuntil_ms=%lld", ret->lock,
                   &ret->delay_ms, &ret->until_ms);
    snprintf(printed, sizeof printed, "lock=%s\nlock_delay_ms=%lld\nuntil_ms=%lld\n", ret->lock,
             ret->delay_ms, ret->until_ms);
    return n >= 1 && strncmp(printed, text, strlen(text)) == 0 && text[strlen(text) - 1] == '\n';
}

static struct slice data_of(const struct model_node *node)
{
    return slice_make(node->data, node->data_len);
}

static bool is_open(const struct model *m)
{
    const struct model_node *root = model_find(m, ROOT);
    return root != NULL && root->version == -1;
}

/* --- the nodes of bindings -------------------------------------------------------------------- */

static bool shuts_out(const char *prefix, const char *lock, const char *other_prefix,
                      const char *other_lock)
{
    bool own = strlen(prefix) > strlen(other_prefix) && is_at_or_below(lock, prefix);
    return is_at_or_below(lock, other_prefix) && !is_the_locks(lock, other_lock) && !own;
}

static bool goes_with_others(const struct model *m, const char *prefix, const char *lock)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct model_node *node = &m->nodes[i];
        char other[MODEL_PATH];
        struct terms t;
        if (!model_is_below(node->path, ROOT) || !ends_with(node->path, LEAF) ||
            !read_terms(data_of(node), &t)) {
            continue;
        }
        strcpy(other, node->path + strlen(ROOT));
        other[strlen(other) - strlen(LEAF)] = '\0';
        if (strcmp(other, prefix) != 0 &&
            (shuts_out(prefix, lock, other, t.lock) || shuts_out(other, t.lock, prefix, lock))) {
            return false;
        }
    }
    return true;
}

static int check_leaf(const struct model_call *c, char kind, const char *prefix, struct slice data,
                      bool lasting)
{
    struct terms t;
    if (kind == 'd' || kind == 'a') {
        return 0;
    }
    if ((c->options & MODEL_FENCING) == 0) {
        return CONCLAVE_UNIMPLEMENTED;
    }
    bool good = (kind != 'c' || lasting) && read_terms(data, &t) && t.until_ms == 0 &&
                t.lock[0] == '/' && t.lock[1] != '\0' && !is_at_or_below(t.lock, "/zookeeper") &&
                !is_the_locks(prefix, t.lock) && prefix[0] != '\0' &&
                !is_at_or_below(prefix, "/zookeeper") && goes_with_others(c->m, prefix, t.lock);
    return good ? 0 : CONCLAVE_BAD_ARGUMENTS;
}

static int check_below_root(const struct model_call *c, char kind, const char *path,
                            struct slice data, bool lasting)
{
    char prefix[MODEL_PATH];
    char above[MODEL_PATH];
    if (!is_open(c->m)) {
        return 0;
    }
    if (strcmp(path, ROOT) == 0) {
        bool permitted = model_permits(model_find(c->m, ""), c->ids, WIRE_PERM_ADMIN);
        return kind == 's' || kind == 'd'  ? CONCLAVE_BAD_ARGUMENTS
               : kind == 'a' && !permitted ? CONCLAVE_NO_AUTH
                                           : 0;
    }
    strcpy(prefix, path + strlen(ROOT));
    model_parent(path, above);
    bool leaf = ends_with(path, LEAF);
    if (leaf) {
        prefix[strlen(prefix) - strlen(LEAF)] = '\0';
    }
    if (kind == 'c' && ends_with(above, LEAF)) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    int rc = leaf ? check_leaf(c, kind, prefix, data, lasting) : 0;
    while (model_find(c->m, prefix) == NULL) {
        *strrchr(prefix, '/') = '\0';
    }
    if (rc == 0 && !model_permits(model_find(c->m, prefix), c->ids, WIRE_PERM_ADMIN)) {
        rc = CONCLAVE_NO_AUTH;
    }
    return rc;
}

/* --- who is first ----------------------------------------------------------------------------- */

/* Ten digits at its end, or nine behind a sign. */
static bool contends(const char *name)
{
    size_t len = strlen(name);
    const char *tail = name + len - 10;
    return len >= 10 && (strspn(tail, "0123456789") == 10 ||
                         (tail[0] == '-' && strspn(tail + 1, "0123456789") == 9));
}

static bool reads(const char *name)
{
    char marker[MODEL_PATH];
    snprintf(marker, sizeof marker, "%.*s", (int)(strlen(name) - 10), name);
    return ends_with(marker, "__READ__");
}

static const char *name_in(const struct model_node *node)
{
    return strrchr(node->path, '/') + 1;
}

static const struct model_node *first_of(const struct model *m, const char *lock)
{
    const struct model_node *first = NULL;
    const struct model_node *own = model_find(m, lock);
    if (own != NULL && model_is_ephemeral(own)) {
        return own;
    }
    for (size_t i = 0; i < m->count; i++) {
        const struct model_node *node = &m->nodes[i];
        char parent[MODEL_PATH];
        if (strcmp(node->path, "/") == 0 || !model_is_ephemeral(node) || !contends(name_in(node))) {
            continue;
        }
        model_parent(node->path, parent);
        if (strcmp(parent, lock) == 0 &&
            (first == NULL || node->czxid < first->czxid ||
             (node->czxid == first->czxid && strcmp(node->path, first->path) < 0))) {
            first = node;
        }
    }
    return first;
}

static bool multi_checks(struct slice multi, const char *path)
{
    struct wire_reader r = wire_reader_make(multi);
    struct wire_multi_header h;
    struct wire_create_ttl_request ttl;
    struct wire_create_request create;
    struct wire_delete_request del;
    struct wire_set_data_request set;
    struct wire_check_version_request check;
    while (multi.len > 0 && wire_decode_multi_header(&r, &h) == 0 && !h.done) {
        int rc = h.type == WIRE_CREATE_TTL ? wire_decode_create_ttl_request(&r, &ttl)
                 : h.type == WIRE_DELETE   ? wire_decode_delete_request(&r, &del)
                 : h.type == WIRE_SET_DATA ? wire_decode_set_data_request(&r, &set)
                 : h.type == WIRE_CHECK    ? wire_decode_check_version_request(&r, &check)
                                           : wire_decode_create_request(&r, &create);
        if (rc == 0 && h.type == WIRE_CHECK && slice_equal_str(check.path, path)) {
            return true;
        }
    }
    return false;
}

/* --- writes ----------------------------------------------------------------------------------- */

int model_fence(struct model_call *c, char kind, const char *path, struct slice data, bool lasting)
{
    char prefix[MODEL_PATH];
    char leaf[MODEL_PATH + 64];
    struct terms t;
    const struct model_node *binding = NULL;
    if (is_at_or_below(path, ROOT)) {
        return check_below_root(c, kind, path, data, lasting);
    }
    strcpy(prefix, path);
    while (is_open(c->m) && prefix[0] == '/' && prefix[1] != '\0') {
        snprintf(leaf, sizeof leaf, "%s%s%s", ROOT, prefix, LEAF);
        binding = model_find(c->m, leaf);
        if (binding != NULL) {
            break;
        }
        *strrchr(prefix, '/') = '\0';
    }
    if (binding == NULL || !read_terms(data_of(binding), &t) || is_the_locks(path, t.lock) ||
        (kind == 'c' && is_at_or_below(t.lock, path))) {
        return 0;
    }
    const struct model_node *first = first_of(c->m, t.lock);
    if (c->time_ms >= t.until_ms && first != NULL) {
        bool fixed = strcmp(first->path, t.lock) == 0;
        bool mine =
            first->owner == c->session_id || (!fixed && multi_checks(c->multi, first->path));
        if (mine && (fixed || !reads(name_in(first)))) {
            return 0;
        }
    }
    c->e->fenced = true;
    return CONCLAVE_NO_AUTH;
}

void model_fence_leaving(struct model_call *c, const struct model_node *node, bool expiry)
{
    char parent[MODEL_PATH];
    struct terms t;
    if (!is_open(c->m) || !model_is_ephemeral(node) || (node->owner == c->session_id && !expiry)) {
        return;
    }
    model_parent(node->path, parent);
    for (size_t i = 0; i < c->m->count; i++) {
        struct model_node *leaf = &c->m->nodes[i];
        if (!model_is_below(leaf->path, ROOT) || !ends_with(leaf->path, LEAF) ||
            !read_terms(data_of(leaf), &t) || t.delay_ms == 0 || first_of(c->m, t.lock) != node ||
            (strcmp(parent, t.lock) == 0 && reads(name_in(node)))) {
            continue;
        }
        char text[MODEL_PATH + 128];
        snprintf(text, sizeof text, "lock=%s\nlock_delay_ms=%lld\nuntil_ms=%lld\n", t.lock,
                 t.delay_ms, (long long)c->time_ms + t.delay_ms);
        model_set_data(leaf, slice_str(text));
    }
}

int model_fence_open(struct model_call *c)
{
    if (model_find(c->m, ROOT) != NULL) {
        return is_open(c->m) ? 0 : CONCLAVE_NODE_EXISTS;
    }
    return 1;
}
