/*
 * Quotas of subtrees: a node /zookeeper/quota PATH /zookeeper_limits limits what stands at PATH and
 * below, and zookeeper_stats beside it holds the counts, which follow every change without a new
 * version, zxid or event. The deepest quota above a node counts and limits it, no other. Whether a
 * hard limit is enforced is stamped on the command. Source: StatsTrack, Quotas, checkQuota of
 * ZooKeeper 3.9.
 *
 * Limits: both texts are read leniently (what is no number counts as not given); the counts of a
 * multi grow from part to part, so that its parts cannot exceed a limit together.
 */
#include "state/machine.h"

#include "state/digest.h"
#include "state/number.h"

#define QUOTA_ROOT "/zookeeper/quota"
#define QUOTA_LIMITS "/zookeeper_limits"
#define QUOTA_STATS "/zookeeper_stats"

/* The quota of a path. */
struct quota {
    const struct znode *limits;
    struct znode *stats; /* NULL: nobody counts */
    struct slice path;   /* whose subtree it limits; begins the path it was looked for with */
};

/* The node at a path of the quota tree that ends in `name`; s->quota holds what comes before. */
static struct znode *find_named(struct state *s, const char *name)
{
    size_t len = s->quota.len;
    buf_append_str(&s->quota, name);
    state_need(buf_ok(&s->quota));
    struct znode *node = tree_find(&s->tree, buf_slice(&s->quota));
    s->quota.len = len;
    return node;
}

/* Goes down the quota tree along the path, as far as it reaches. */
static bool quota_find(struct state *s, struct slice path, struct quota *ret)
{
    const struct znode *root = tree_find(&s->tree, slice_str(QUOTA_ROOT));
    if (root == NULL || znode_children(root) == 0) {
        return false;
    }
    bool found = false;
    buf_reset(&s->quota);
    buf_append_str(&s->quota, QUOTA_ROOT);
    for (size_t end = 0; end < path.len;) {
        size_t start = end++;
        while (end < path.len && path.data[end] != '/') {
            end++;
        }
        buf_append(&s->quota, path.data + start, end - start);
        state_need(buf_ok(&s->quota));
        if (tree_find(&s->tree, buf_slice(&s->quota)) == NULL) {
            break;
        }
        const struct znode *limits = find_named(s, QUOTA_LIMITS);
        if (limits != NULL) {
            *ret = (struct quota){limits, find_named(s, QUOTA_STATS), slice_make(path.data, end)};
            found = true;
        }
    }
    return found;
}

/* --- the texts: count=1,bytes=2=;byteHardLimit=3;countHardLimit=4 ----------------------------- */

struct amounts {
    int64_t count;
    int64_t bytes;
    int64_t count_hard;
    int64_t bytes_hard;
};

static void parse_pair(struct slice pair, struct amounts *ret)
{
    const uint8_t *equals = pair.len > 0 ? memchr(pair.data, '=', pair.len) : NULL;
    int64_t value;
    if (equals == NULL) {
        return;
    }
    struct slice key = slice_make(pair.data, (size_t)(equals - pair.data));
    struct slice text = slice_make(equals + 1, pair.len - key.len - 1);
    const uint8_t *more = text.len > 0 ? memchr(text.data, '=', text.len) : NULL;
    if (more != NULL) {
        text.len = (size_t)(more - text.data);
    }
    if (!number_parse(text, &value)) {
        value = -1;
    }
    int64_t *field = slice_equal_str(key, "count")            ? &ret->count
                     : slice_equal_str(key, "bytes")          ? &ret->bytes
                     : slice_equal_str(key, "countHardLimit") ? &ret->count_hard
                     : slice_equal_str(key, "byteHardLimit")  ? &ret->bytes_hard
                                                              : NULL;
    if (field != NULL) {
        *field = value;
    }
}

static struct amounts parse_amounts(struct slice text)
{
    struct amounts a = {-1, -1, -1, -1};
    size_t start = 0;
    for (size_t i = 0; i <= text.len; i++) {
        if (i == text.len || text.data[i] == ',' || text.data[i] == ';') {
            parse_pair(slice_make(text.data + start, i - start), &a);
            start = i + 1;
        }
    }
    return a;
}

static void write_amounts(struct state *s, struct znode *node, int64_t count, int64_t bytes)
{
    buf_reset(&s->quota);
    znode_append_path(node, &s->quota);
    state_need(buf_ok(&s->quota));
    uint64_t digest = digest_path(buf_slice(&s->quota));
    s->nodes_digest -= digest_node(s, node, digest);
    buf_reset(&s->quota);
    buf_printf(&s->quota, "count=%lld,bytes=%lld", (long long)count, (long long)bytes);
    state_need(buf_ok(&s->quota));
    write_replace_data(s, node, buf_slice(&s->quota));
    s->nodes_digest += digest_node(s, node, digest);
}

/* Numbers that anybody may have written: they wrap rather than overflow. */
static int64_t sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* --- what the writes ask ---------------------------------------------------------------------- */

/* One of the two limits. True when it forbids the command. */
static bool exceeds(struct write *w, const struct quota *quota, bool bytes, int64_t amount,
                    int64_t soft, int64_t hard)
{
    struct effects *e = w->effects;
    int64_t limit = hard > -1 ? hard : soft;
    if (limit < 0 || amount <= limit) {
        return false;
    }
    if (!e->quota.exceeded || hard > -1) {
        e->quota = (struct state_quota){true, hard > -1, bytes, amount, limit, SLICE_NULL};
        buf_reset(&e->quota_path);
        buf_append_slice(&e->quota_path, quota->path);
        state_need(buf_ok(&e->quota_path));
    }
    return hard > -1;
}

int quota_check(struct write *w, struct slice path, int64_t nodes, int64_t bytes)
{
    struct quota quota;
    if ((w->command->options & COMMAND_QUOTA) == 0 || (nodes == 0 && bytes == 0) ||
        !quota_find(w->s, path, &quota) || quota.stats == NULL) {
        return 0;
    }
    struct amounts limit = parse_amounts(znode_data(quota.limits));
    struct amounts have = parse_amounts(znode_data(quota.stats));
    if ((nodes != 0 &&
         exceeds(w, &quota, false, sum(have.count, nodes), limit.count, limit.count_hard)) ||
        (bytes != 0 &&
         exceeds(w, &quota, true, sum(have.bytes, bytes), limit.bytes, limit.bytes_hard))) {
        return CONCLAVE_QUOTA_EXCEEDED;
    }
    return 0;
}

void quota_count(struct state *s, struct slice path, int64_t nodes, int64_t bytes)
{
    struct quota quota;
    if ((nodes == 0 && bytes == 0) || !quota_find(s, path, &quota) || quota.stats == NULL) {
        return;
    }
    struct amounts have = parse_amounts(znode_data(quota.stats));
    write_amounts(s, quota.stats, sum(have.count, nodes), sum(have.bytes, bytes));
}

/* Bytes of data of a node and all below it. */
static int64_t subtree_bytes(const struct znode *top)
{
    const struct znode *last = top;
    while (last->parent != NULL && last->next == NULL) {
        last = last->parent;
    }
    const struct znode *end = last->parent != NULL ? last->next : NULL;
    int64_t bytes = 0;
    for (const struct znode *node = top; node != end; node = tree_next(node)) {
        bytes += (int64_t)znode_data(node).len;
    }
    return bytes;
}

void quota_node_created(struct state *s, const struct znode *node)
{
    static const char name[] = QUOTA_STATS;
    struct slice root = slice_str(QUOTA_ROOT);
    struct slice wanted = slice_make(name + 1, sizeof name - 2);
    if (!slice_equal(znode_name(node), wanted)) {
        return;
    }
    buf_reset(&s->quota);
    znode_append_path(node->parent, &s->quota);
    state_need(buf_ok(&s->quota));
    struct slice path = buf_slice(&s->quota);
    if (!slice_starts_with(path, root) || (path.len > root.len && path.data[root.len] != '/')) {
        return;
    }
    struct znode *stats = znode_dir(node->parent)->last; /* the new one */
    const struct znode *top =
        tree_find(&s->tree, slice_make(path.data + root.len, path.len - root.len));
    if (top == NULL) {
        write_amounts(s, stats, 0, 0);
    } else {
        write_amounts(s, stats, 1 + (int64_t)znode_below(top), subtree_bytes(top));
    }
}
