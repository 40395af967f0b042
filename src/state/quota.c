/*
 * Quotas of branches: a node /zookeeper/quota PATH /zookeeper_limits limits the branch at PATH, and zookeeper_stats
 * beside it holds the counts, which follow every change without a new version, zxid or event. Only the deepest quota
 * above a node counts and limits it. The command says whether a hard limit is enforced. Source: StatsTrack, Quotas,
 * checkQuota of ZooKeeper 3.9.
 *
 * Limits: both texts are read leniently (anything but a number counts as not given). The counts of a multi grow from
 * part to part, so that its parts cannot exceed a limit together.
 */
#include "state/state_internal.h"

#include "state/digest.h"
#include "tree/path.h"
#include "tree/walk.h"
#include "wire/java_number.h"

#include <assert.h>

#define QUOTA_ROOT "/zookeeper/quota"
#define QUOTA_LIMITS "zookeeper_limits"
#define QUOTA_STATS "zookeeper_stats"

/* The quota of a path. */
struct quota {
    const struct znode *limits;
    struct znode *stats; /* NULL: nothing is counted */
    struct slice path;   /* the branch that it limits: the beginning of the searched path */
};

/* Follows the quota tree along the path, as far as it exists. */
static bool quota_find(struct state *s, struct slice path, struct quota *ret)
{
    struct tree_walk walk;
    struct slice rest = path;
    struct slice name;
    bool found = false;
    const struct znode *root = tree_find(&s->tree, slice_str(QUOTA_ROOT));
    if (root == NULL || znode_children(root) == 0) {
        return false;
    }
    tree_walk_begin(&walk, &s->tree);
    if (!tree_walk_down(&walk, slice_str("zookeeper")) ||
        !tree_walk_down(&walk, slice_str("quota"))) {
        return false;
    }
    while (tree_path_next(&rest, &name) && tree_walk_down(&walk, name)) {
        const struct znode *limits = tree_walk_child(&walk, slice_str(QUOTA_LIMITS));
        if (limits != NULL) {
            size_t len = path.len - rest.len;
            *ret = (struct quota){limits, tree_walk_child(&walk, slice_str(QUOTA_STATS)),
                                  slice_make(path.data, len)};
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
    if (!java_number_parse(text, &value)) {
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

/* Of a text longer than is allowed today, a bounded command reads only the beginning, because each of its parts reads
 * it. */
static struct amounts parse_amounts(struct slice text, bool bounded)
{
    struct amounts a = {-1, -1, -1, -1};
    if (bounded && text.len > BOUNDS_QUOTA_TEXT) {
        text.len = BOUNDS_QUOTA_TEXT;
        while (text.len > 0 && text.data[text.len - 1] != ',' && text.data[text.len - 1] != ';') {
            text.len--;
        }
    }
    size_t start = 0;
    for (size_t i = 0; text.len > 0 && i <= text.len; i++) {
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

/* Clients may have written any numbers: they wrap instead of overflowing. */
static int64_t sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* --- checks of writes ------------------------------------------------------------------------- */

/* Checks one of the two limits. True: it forbids the command. */
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
    struct amounts limit = parse_amounts(znode_data(quota.limits), w->bounded);
    struct amounts have = parse_amounts(znode_data(quota.stats), w->bounded);
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
    struct amounts have = parse_amounts(znode_data(quota.stats), false); /* short from now on */
    write_amounts(s, quota.stats, sum(have.count, nodes), sum(have.bytes, bytes));
}

/* Whether the path is that of a quota's node. *ret_of_nothing: it belongs to no branch. */
static bool is_amounts(struct slice path, bool *ret_of_nothing)
{
    struct slice root = slice_str(QUOTA_ROOT);
    if (!slice_starts_with(path, root) || path.len <= root.len || path.data[root.len] != '/') {
        return false;
    }
    size_t slash = path_last_slash(path);
    struct slice name = slice_make(path.data + slash + 1, path.len - slash - 1);
    *ret_of_nothing = slash == root.len;
    return slice_equal_str(name, QUOTA_LIMITS) || slice_equal_str(name, QUOTA_STATS);
}

int quota_check_node(const struct write *w, struct slice path, struct slice data)
{
    bool of_nothing;
    if (!w->bounded || !is_amounts(path, &of_nothing)) {
        return 0;
    }
    return of_nothing || data.len > BOUNDS_QUOTA_TEXT ? CONCLAVE_BAD_ARGUMENTS : 0;
}

void quota_recount(struct state *s, struct znode *stats)
{
    struct slice root = slice_str(QUOTA_ROOT);
    if (!slice_equal_str(znode_name(stats), QUOTA_STATS)) {
        return;
    }
    buf_reset(&s->quota);
    znode_append_path(stats->parent, &s->quota);
    state_need(buf_ok(&s->quota));
    struct slice path = buf_slice(&s->quota);
    if (!slice_starts_with(path, root) || (path.len > root.len && path.data[root.len] != '/')) {
        return;
    }
    const struct znode *top =
        tree_find(&s->tree, slice_make(path.data + root.len, path.len - root.len));
    if (top == NULL) {
        write_amounts(s, stats, 0, 0);
    } else {
        write_amounts(s, stats, 1 + (int64_t)znode_below(top),
                      (int64_t)(znode_data(top).len + znode_below_bytes(top)));
    }
}

void quota_node_created(struct state *s, const struct znode *node)
{
    struct znode *last = znode_dir(node->parent)->last;
    assert(last == node); /* it is new */
    quota_recount(s, last);
}
