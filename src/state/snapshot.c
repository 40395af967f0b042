/*
 * A snapshot is a header and blocks; a block has records and a checksum over everything before it, so a flipped, lost
 * or cut byte is always found. The walk visits the tree in preorder. A change that comes before the walk writes the
 * node's old image itself. Each node's mark says whether the snapshot has it; nodes created later carry the mark from
 * the beginning.
 */
#include "state/snapshot_format.h"
#include "state/state_internal.h"

#include "base/endian.h"

#include <assert.h>

uint64_t snapshot_chain(uint64_t chain, struct slice records)
{
    uint8_t both[16];
    put_be64(both, chain);
    put_be64(both + 8, hash_bytes(records.data, records.len));
    return hash_bytes(both, sizeof both);
}

static void put_node(struct state *s, struct znode *node, struct buf *out)
{
    buf_append_u8(out, SNAPSHOT_NODE);
    buf_append_i32(out, (int32_t)znode_path_len(node));
    znode_append_path(node, out);
    wire_write_buffer(out, znode_data(node));
    buf_append_i32(out, (int32_t)node->acl);
    buf_append_i64(out, znode_owner(node));
    buf_append_i64(out, node->czxid);
    buf_append_i64(out, node->mzxid);
    buf_append_i64(out, node->ctime);
    buf_append_i64(out, node->mtime);
    buf_append_i32(out, node->version);
    buf_append_i32(out, znode_aversion(node));
    buf_append_i32(out, znode_cversion(node));
    buf_append_i64(out, znode_pzxid(node));
    s->snapshot.nodes++;
    node->flags ^= ZNODE_MARK;
}

/* Session id i64, count_max, bytes_max, last, forgotten i32, born i64, count i32, and for each result: number, err i32,
 * zxid i64, deferred boolean, reply buffer. */
static void put_results(struct state *s, const struct session *session, struct buf *out)
{
    const struct once_results *r = session->results;
    buf_append_u8(out, SNAPSHOT_RESULTS);
    buf_append_i64(out, session->id);
    buf_append_i32(out, r->count_max);
    buf_append_i32(out, r->bytes_max);
    buf_append_i32(out, r->last);
    buf_append_i32(out, r->forgotten);
    buf_append_i64(out, r->born);
    buf_append_i32(out, (int32_t)once_results_count(r));
    LIST_FOREACH (link, &r->list) {
        const struct once_result *result = CONTAINER_OF(link, struct once_result, link);
        buf_append_i32(out, result->number);
        buf_append_i32(out, result->err);
        buf_append_i64(out, result->zxid);
        wire_write_boolean(out, result->deferred);
        wire_write_buffer(out, slice_make(result->reply, result->len));
    }
    s->snapshot.others++;
}

static void put_sessions(struct state *s, struct buf *out)
{
    for (struct map_node *n = map_next(&s->sessions, NULL); n != NULL;
         n = map_next(&s->sessions, n)) {
        const struct session *session = CONTAINER_OF(n, struct session, map);
        buf_append_u8(out, SNAPSHOT_SESSION);
        buf_append_i64(out, session->id);
        buf_append_i32(out, session->timeout_ms);
        buf_append(out, session->passwd, WIRE_PASSWD_LEN);
        buf_append_i64(out, session->owner);
        s->snapshot.sessions++;
        if (session->results != NULL) {
            put_results(s, session, out);
        }
    }
}

static void put_origins(struct state *s, struct buf *out)
{
    for (size_t i = 0; i < s->origins_count; i++) {
        buf_append_u8(out, SNAPSHOT_ORIGIN);
        buf_append_i64(out, s->origins[i].id);
        buf_append_i64(out, s->origins[i].sequence);
        s->snapshot.others++;
    }
}

static void put_members(struct state *s, const struct membership *m, bool target, struct buf *out)
{
    for (size_t i = 0; i < m->count; i++) {
        buf_append_u8(out, SNAPSHOT_MEMBER);
        wire_write_boolean(out, target);
        buf_append_i64(out, m->list[i].id);
        buf_append_i32(out, m->list[i].role);
        wire_write_string(out, slice_str(m->list[i].address));
        s->snapshot.others++;
    }
}

static void put_configuration(struct state *s, struct buf *out)
{
    const struct configuration *e = &s->configuration;
    if (e->members.count == 0) {
        return;
    }
    put_members(s, &e->members, false, out);
    put_members(s, &e->target, true, out);
    buf_append_u8(out, SNAPSHOT_CONFIG);
    buf_append_i64(out, e->version);
    wire_write_boolean(out, e->unpublished);
    buf_append_i64(out, e->reconfig.zxid);
    buf_append_i64(out, e->reconfig.origin);
    buf_append_i64(out, e->reconfig.session_id);
    buf_append_i32(out, e->reconfig.cxid);
    s->snapshot.others++;
    if (e->leaving) {
        buf_append_u8(out, SNAPSHOT_LEAVING);
        s->snapshot.others++;
    }
}

static void put_mirror(struct state *s, struct buf *out)
{
    if (s->mirror.id != 0) {
        buf_append_u8(out, SNAPSHOT_MIRROR);
        buf_append_i64(out, s->mirror.id);
        wire_write_boolean(out, s->mirror.any_reader);
        wire_write_boolean(out, s->mirror.synced);
        wire_write_string(out, s->mirror.source);
        s->snapshot.others++;
    }
}

static void put_acls(struct state *s, struct buf *out)
{
    const struct map *map = &s->tree.acls.by_id;
    for (struct map_node *n = map_next(map, NULL); n != NULL; n = map_next(map, n)) {
        const struct acl_list *list = CONTAINER_OF(n, struct acl_list, by_id);
        struct wire_vector entries = acl_vector(list);
        buf_append_u8(out, SNAPSHOT_ACL);
        buf_append_i32(out, (int32_t)list->id);
        wire_write_vector(out, &entries);
        s->snapshot.acls++;
    }
}

int state_snapshot_begin(struct state *s)
{
    struct snapshot *snap = &s->snapshot;
    if (snap->active) {
        return CONCLAVE_EBUSY;
    }
    struct buf pending = snap->pending;
    assert(snap->cursor == NULL);
    buf_reset(&pending);
    *snap = (struct snapshot){.pending = pending};
    buf_append_u8(&snap->pending, SNAPSHOT_COUNTERS);
    buf_append_i64(&snap->pending, s->zxid);
    buf_append_i32(&snap->pending, (int32_t)s->tree.acls.next_id);
    buf_append_i64(&snap->pending, s->time_ms);
    put_sessions(s, &snap->pending);
    put_origins(s, &snap->pending);
    put_configuration(s, &snap->pending);
    put_mirror(s, &snap->pending);
    put_acls(s, &snap->pending);
    if (!buf_ok(&snap->pending)) {
        buf_finish(&snap->pending);
        return CONCLAVE_ENOMEM;
    }
    snap->active = true;
    snap->cursor = s->tree.root;
    s->tree.mark ^= ZNODE_MARK;
    return 0;
}

void snapshot_touch_slow(struct state *s, struct znode *node)
{
    put_node(s, node, &s->snapshot.pending);
}

void snapshot_leave(struct state *s, const struct znode *node)
{
    assert(!s->snapshot.active ||
           (node->flags & ZNODE_MARK) == s->tree.mark); /* it has its image */
    if (s->snapshot.active && s->snapshot.cursor == node) {
        s->snapshot.cursor = tree_next(node);
    }
}

/* Nodes that need not be written take time, too: each visit counts as some bytes. */
static void walk(struct state *s, size_t max_bytes, struct buf *out)
{
    enum { VISIT_BYTES = 32 };
    struct snapshot *snap = &s->snapshot;
    size_t spent = 0;
    size_t start = out->len;
    do {
        struct znode *node = snap->cursor;
        if (node == NULL) {
            return;
        }
        if ((node->flags & ZNODE_MARK) != s->tree.mark) {
            put_node(s, node, out);
        }
        snap->cursor = tree_next(node);
        spent += VISIT_BYTES;
    } while (buf_ok(out) && spent + (out->len - start) < max_bytes);
}

static void put_header(struct snapshot *snap, struct buf *out)
{
    size_t start = out->len;
    buf_append_str(out, SNAPSHOT_MAGIC);
    buf_append_i32(out, SNAPSHOT_VERSION);
    if (buf_ok(out)) {
        snap->chain = hash_bytes(out->data + start, SNAPSHOT_HEADER_LEN);
        snap->header_done = true;
    }
}

/* Completes the block of the records from offset `start` on, which begin with room for their length. */
static void finish_block(struct snapshot *snap, size_t start, struct buf *out)
{
    if (buf_ok(out)) {
        assert(out->len >= start + SNAPSHOT_BLOCK_HEAD);
        size_t len = out->len - start - SNAPSHOT_BLOCK_HEAD;
        const uint8_t *records = out->data + start + SNAPSHOT_BLOCK_HEAD;
        put_be64(out->data + start, len);
        snap->chain = snapshot_chain(snap->chain, slice_make(records, len));
        buf_append_i64(out, (int64_t)snap->chain);
    }
}

int state_snapshot_step(struct state *s, size_t max_bytes, struct buf *out)
{
    struct snapshot *snap = &s->snapshot;
    if (!snap->active) {
        return CONCLAVE_EINVAL;
    }
    size_t start = out->len;
    if (!snap->header_done) {
        put_header(snap, out);
    }
    size_t block = out->len;
    buf_append_i64(out, 0);
    buf_append_slice(out, buf_slice(&snap->pending));
    if (!buf_ok(&snap->pending) || !buf_ok(out)) {
        out->len = start;
        return CONCLAVE_ENOMEM;
    }
    buf_finish(&snap->pending);
    walk(s, out->len - start < max_bytes ? max_bytes - (out->len - start) : 0, out);
    if (snap->cursor == NULL) {
        buf_append_u8(out, SNAPSHOT_END);
        buf_append_i64(out, snap->sessions);
        buf_append_i64(out, snap->acls);
        buf_append_i64(out, snap->nodes);
        buf_append_i64(out, snap->others);
    }
    finish_block(snap, block, out);
    if (!buf_ok(out)) {
        out->len = start;
        return CONCLAVE_ENOMEM;
    }
    snap->active = snap->cursor != NULL;
    return snap->active ? 1 : 0;
}

/* Marks the nodes that the walk did not reach, so that all nodes are alike for the next snapshot. */
void state_snapshot_abort(struct state *s)
{
    struct snapshot *snap = &s->snapshot;
    if (!snap->active) {
        return;
    }
    for (struct znode *node = snap->cursor; node != NULL; node = tree_next(node)) {
        node->flags = (uint8_t)((node->flags & ~ZNODE_MARK) | s->tree.mark);
    }
    snap->active = false;
    snap->cursor = NULL;
    buf_finish(&snap->pending);
}
