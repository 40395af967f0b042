#include "apache/compare.h"

#include "apache/format.h"
#include "apache/snapshot.h"
#include "state/state_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

enum { TOLD_EACH = 1 << 14, PATH_SHOWN = 200 };

struct snapshot_comparing {
    const struct state *s;
    void (*told)(void *ctx, size_t nodes);
    void *ctx;
    struct apache_compared done;
    const struct znode *next; /* that must come now: files have the tree's order */
    char problem[512];
};

__attribute__((format(printf, 2, 3))) static int differs(struct snapshot_comparing *x,
                                                         const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(x->problem, sizeof x->problem, fmt, args);
    va_end(args);
    return CONCLAVE_ECORRUPT;
}

static const char *comparing_problem(void *ctx)
{
    return ((struct snapshot_comparing *)ctx)->problem;
}

static struct slice path_shown(struct slice path)
{
    return slice_make(path.data, path.len < PATH_SHOWN ? path.len : PATH_SHOWN);
}

static int compare_session(void *ctx, int64_t id, int32_t timeout_ms)
{
    struct snapshot_comparing *x = ctx;
    struct state_session session;
    x->done.sessions++;
    if (!state_session_find(x->s, id, &session) || session.timeout_ms != timeout_ms) {
        return differs(x, "session 0x%llx is another one, or has another timeout",
                       (unsigned long long)id);
    }
    return 0;
}

static int compare_acl(void *ctx, int64_t number, struct wire_vector entries)
{
    struct snapshot_comparing *x = ctx;
    const struct acl_list *list =
        number > 0 && number <= UINT32_MAX ? acl_get(&x->s->tree.acls, (uint32_t)number) : NULL;
    struct wire_vector want = list != NULL ? acl_vector(list) : (struct wire_vector){.count = -1};
    if (list == NULL || want.count != entries.count || !slice_equal(want.items, entries.items)) {
        return differs(x, "the list of permissions number %lld is another one", (long long)number);
    }
    return 0;
}

/* One field of a node. */
struct compared_field {
    const char *name;
    int64_t have; /* in the file */
    int64_t want;
};

static int compare_fields(struct snapshot_comparing *x, const struct adopted_node *read,
                          const struct znode *node)
{
    const struct wire_file_node *r = &read->record;
    const struct compared_field fields[] = {
        {"czxid", r->czxid, node->czxid},
        {"mzxid", r->mzxid, node->mzxid},
        {"pzxid", r->pzxid, znode_pzxid(node)},
        {"ctime", r->ctime, node->ctime},
        {"mtime", r->mtime, node->mtime},
        {"version", r->version, node->version},
        {"cversion", r->cversion, znode_cversion(node)},
        {"aversion", r->aversion, znode_aversion(node)},
        {"ephemeral owner", r->ephemeral_owner, znode_owner(node)},
        {"list of permissions", r->acl, apache_acl_number(node->acl)},
    };
    struct slice shown = path_shown(read->path);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].have != fields[i].want) {
            return differs(x, "%s of node %.*s is 0x%llx, and was meant to be 0x%llx",
                           fields[i].name, SLICE_FMT(shown), (unsigned long long)fields[i].have,
                           (unsigned long long)fields[i].want);
        }
    }
    struct slice data = znode_data(node);
    if (slice_is_null(data) != slice_is_null(r->data) || !slice_equal(data, r->data)) {
        return differs(x, "the data of node %.*s are others", SLICE_FMT(shown));
    }
    return 0;
}

static int compare_node(void *ctx, const struct adopted_node *read)
{
    struct snapshot_comparing *x = ctx;
    const struct znode *node = x->next;
    x->done.nodes++;
    if (x->told != NULL && x->done.nodes % TOLD_EACH == 0) {
        x->told(x->ctx, x->done.nodes);
    }
    if (node == NULL || tree_find(&x->s->tree, read->path) != node) {
        return differs(x, "node %.*s is not the one that follows in the tree",
                       SLICE_FMT(path_shown(read->path)));
    }
    x->next = tree_next(node);
    return compare_fields(x, read, node);
}

static int compare_end(void *ctx, int64_t zxid)
{
    struct snapshot_comparing *x = ctx;
    struct state_stats want;
    state_stats(x->s, &want);
    if (x->next != NULL || x->done.sessions != want.sessions) {
        return differs(x, "nodes or sessions are missing: it has %zu nodes and %zu sessions",
                       x->done.nodes, x->done.sessions);
    }
    return zxid == state_zxid(x->s) ? 0 : differs(x, "its name has another zxid");
}

int apache_compare(const struct state *s, uint64_t digest, const char *file,
                   void (*told)(void *ctx, size_t nodes), void *ctx, struct apache_compared *ret,
                   char **ret_error)
{
    struct snapshot_comparing x = {.s = s, .told = told, .ctx = ctx, .next = s->tree.root};
    const struct apache_snapshot_taker taker = {&x,           compare_session, compare_acl,
                                                compare_node, compare_end,     comparing_problem};
    struct apache_snapshot_end end;
    int rc = apache_snapshot_read(file, state_zxid(s), &taker, &end, ret_error);
    if (rc != 0) {
        return rc;
    }
    if (!end.has_digest && state_zxid(s) > 0) {
        return text_fail(ret_error, CONCLAVE_ECORRUPT, "%s has no digest of the tree", file);
    }
    if (end.has_digest && (uint64_t)end.digest.digest != digest) {
        return text_fail(ret_error, CONCLAVE_ECORRUPT, "%s has another digest than the tree", file);
    }
    assert(x.done.nodes > 0);
    *ret = x.done;
    return 0;
}
