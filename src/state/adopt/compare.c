#include "state/adopt/compare.h"

#include "state/state_internal.h"

struct comparing {
    const struct state *first;
    const struct state *second;
    void (*fn)(void *ctx, const struct state_difference *d);
    void *ctx;
    struct state_comparison *ret;
    struct buf path; /* of the node that is compared */
};

static void differ(struct comparing *x, struct state_difference d)
{
    x->ret->differences++;
    x->fn(x->ctx, &d);
}

static void compare_number(struct comparing *x, const char *what, int64_t first, int64_t second)
{
    if (first != second) {
        differ(x, (struct state_difference){.what = what,
                                            .path = buf_slice(&x->path),
                                            .first = first,
                                            .second = second,
                                            .numbers = true});
    }
}

static void compare_bytes(struct comparing *x, const char *what, struct slice first,
                          struct slice second)
{
    bool null = slice_is_null(first) != slice_is_null(second);
    if (null || !slice_equal(first, second)) {
        differ(x, (struct state_difference){.what = what, .path = buf_slice(&x->path)});
    }
}

static void compare_nodes(struct comparing *x, const struct znode *a, const struct znode *b)
{
    struct wire_vector acl_a = state_acl(x->first, a);
    struct wire_vector acl_b = state_acl(x->second, b);
    compare_bytes(x, "data", znode_data(a), znode_data(b));
    compare_number(x, "entries of the ACL", acl_a.count, acl_b.count);
    compare_bytes(x, "ACL", acl_a.items, acl_b.items);
    compare_number(x, "czxid", a->czxid, b->czxid);
    compare_number(x, "mzxid", a->mzxid, b->mzxid);
    compare_number(x, "ctime", a->ctime, b->ctime);
    compare_number(x, "mtime", a->mtime, b->mtime);
    compare_number(x, "version", a->version, b->version);
    compare_number(x, "cversion", znode_cversion(a), znode_cversion(b));
    compare_number(x, "aversion", znode_aversion(a), znode_aversion(b));
    compare_number(x, "ephemeralOwner", znode_owner(a), znode_owner(b));
    compare_number(x, "pzxid", znode_pzxid(a), znode_pzxid(b));
}

/* Each node of `from`: compared with its twin, or reported as missing. */
static int walk_nodes(struct comparing *x, const struct state *from, const struct state *in,
                      bool compare, const char *missing)
{
    for (const struct znode *node = from->tree.root; node != NULL; node = tree_next(node)) {
        buf_reset(&x->path);
        znode_append_path(node, &x->path);
        if (!buf_ok(&x->path)) {
            return CONCLAVE_ENOMEM;
        }
        /* The root is found by an empty path. */
        struct slice path = node == from->tree.root ? slice_str("") : buf_slice(&x->path);
        const struct znode *twin = tree_find(&in->tree, path);
        if (twin == NULL) {
            differ(x, (struct state_difference){.what = missing, .path = buf_slice(&x->path)});
        } else if (compare) {
            compare_nodes(x, node, twin);
        }
        x->ret->nodes += compare;
    }
    return 0;
}

static void walk_sessions(struct comparing *x, const struct state *from, const struct state *in,
                          bool compare, const char *missing)
{
    for (struct map_node *n = map_next(&from->sessions, NULL); n != NULL;
         n = map_next(&from->sessions, n)) {
        const struct session *a = CONTAINER_OF(n, struct session, map);
        const struct session *b = session_find(in, a->id);
        struct state_difference d = {.path = SLICE_NULL, .session_id = a->id};
        x->ret->sessions += compare;
        if (b == NULL) {
            d.what = missing;
            differ(x, d);
        } else if (compare && a->timeout_ms != b->timeout_ms) {
            d.what = "timeout";
            d.first = a->timeout_ms;
            d.second = b->timeout_ms;
            d.numbers = true;
            differ(x, d);
        } else if (compare && memcmp(a->passwd, b->passwd, sizeof a->passwd) != 0) {
            d.what = "password";
            differ(x, d);
        }
    }
}

int state_compare(const struct state *first, const struct state *second,
                  void (*fn)(void *ctx, const struct state_difference *d), void *ctx,
                  struct state_comparison *ret)
{
    struct comparing x = {.first = first, .second = second, .fn = fn, .ctx = ctx, .ret = ret};
    *ret = (struct state_comparison){0};
    buf_init(&x.path, 0);
    int rc = walk_nodes(&x, first, second, true, "only in the first");
    rc = rc == 0 ? walk_nodes(&x, second, first, false, "only in the second") : rc;
    if (rc == 0) {
        walk_sessions(&x, first, second, true, "only in the first");
        walk_sessions(&x, second, first, false, "only in the second");
    }
    buf_finish(&x.path);
    return rc;
}
