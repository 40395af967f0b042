#include "apache/snapshot_records.h"

#include "wire/codec.h"

#include <assert.h>

static int take_session(void *ctx, int64_t id, int32_t timeout_ms)
{
    return adoption_session(ctx, id, timeout_ms);
}

static int take_acl(void *ctx, int64_t number, struct wire_vector entries)
{
    return adoption_acl(ctx, number, entries);
}

static int take_node(void *ctx, const struct adopted_node *node)
{
    return adoption_node(ctx, node);
}

static int take_nodes_end(void *ctx, int64_t zxid)
{
    return adoption_nodes_end(ctx, zxid);
}

static const char *take_problem(void *ctx)
{
    return adoption_error(ctx);
}

struct apache_snapshot_taker apache_adoption_taker(struct adoption *a)
{
    return (struct apache_snapshot_taker){a,         take_session,   take_acl,
                                          take_node, take_nodes_end, take_problem};
}

void snapshot_records_init(struct snapshot_records *x, const struct apache_snapshot_taker *to,
                           int64_t zxid)
{
    *x = (struct snapshot_records){.to = *to, .zxid = zxid};
}

const char *snapshot_records_next(const struct snapshot_records *x)
{
    static const char *const names[] = {
        [SNAPSHOT_SESSION_COUNT] = "number of sessions",
        [SNAPSHOT_SESSIONS] = "session",
        [SNAPSHOT_ACL_COUNT] = "number of lists of permissions",
        [SNAPSHOT_ACLS] = "list of permissions",
        [SNAPSHOT_NODES] = "node",
        [SNAPSHOT_COMPLETE] = "end",
    };
    return names[x->phase];
}

static void refuse_record(struct snapshot_records *x, const char *why)
{
    x->error = CONCLAVE_ECORRUPT;
    x->why = why;
}

/* A phase whose records are counted begins, or the next one if there are none. */
static int decode_count(struct wire_reader *r, struct snapshot_records *x)
{
    x->left = wire_read_i32(r);
    if (r->failed) {
        return CONCLAVE_ECORRUPT;
    }
    if (x->left < 0) {
        refuse_record(x, "a negative number of records");
    }
    x->phase = (enum snapshot_phase)(x->phase + (x->left > 0 ? 1 : 2));
    return 0;
}

static void count_record(struct snapshot_records *x)
{
    assert(x->left > 0);
    x->left--;
    x->phase = (enum snapshot_phase)(x->phase + (x->left == 0));
}

static int decode_session(struct wire_reader *r, struct snapshot_records *x)
{
    int64_t id = wire_read_i64(r);
    int32_t timeout_ms = wire_read_i32(r);
    if (r->failed) {
        return CONCLAVE_ECORRUPT;
    }
    x->error = x->to.session(x->to.ctx, id, timeout_ms);
    count_record(x);
    return 0;
}

static int decode_acl(struct wire_reader *r, struct snapshot_records *x)
{
    int64_t number = wire_read_i64(r);
    struct wire_vector entries = wire_read_acls(r);
    if (r->failed) {
        return CONCLAVE_ECORRUPT;
    }
    x->error = x->to.acl(x->to.ctx, number, entries);
    count_record(x);
    return 0;
}

/* A path, and unless it is "/", which ends the nodes, its node. */
static int decode_node(struct wire_reader *r, struct snapshot_records *x)
{
    struct adopted_node node = {.path = wire_read_string(r)};
    if (!r->failed && slice_equal_str(node.path, "/")) {
        x->error = x->to.nodes_end(x->to.ctx, x->zxid);
        x->phase = SNAPSHOT_COMPLETE;
        return 0;
    }
    if (r->failed || wire_decode_file_node(r, &node.record) != 0) {
        return CONCLAVE_ECORRUPT;
    }
    x->error = x->to.node(x->to.ctx, &node);
    return 0;
}

int snapshot_records_decode(struct wire_reader *r, void *records)
{
    struct snapshot_records *x = records;
    switch (x->phase) {
    case SNAPSHOT_SESSION_COUNT:
    case SNAPSHOT_ACL_COUNT:
        return decode_count(r, x);
    case SNAPSHOT_SESSIONS:
        return decode_session(r, x);
    case SNAPSHOT_ACLS:
        return decode_acl(r, x);
    case SNAPSHOT_NODES:
        return decode_node(r, x);
    case SNAPSHOT_COMPLETE:
        break;
    }
    return CONCLAVE_ECORRUPT;
}

/* Version 1 of the digest was a text. */
int snapshot_digest_decode(struct wire_reader *r, void *ret)
{
    struct wire_file_digest *digest = ret;
    digest->zxid = wire_read_i64(r);
    digest->version = wire_read_i32(r);
    if (digest->version < OUTCOME_DIGEST_VERSION) {
        (void)wire_read_string(r);
    } else {
        digest->digest = wire_read_i64(r);
    }
    return r->failed ? CONCLAVE_ECORRUPT : 0;
}
