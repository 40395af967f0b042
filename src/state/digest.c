/*
 * One number for a whole state: the sum of hashes of all its parts, so memory layout and the order of nodes, children
 * or sessions do not matter. Because it is a sum, it follows each change: the old hash is subtracted, the new one
 * added. A node has two hashes, so that a create or delete below it costs little: one of the node itself, one of the
 * counts that its children left in it.
 *
 * Limits: it finds accidental differences and damage, not deliberate forgery.
 */
#include "state/digest.h"

#include "state/state_internal.h"

/* Folds one more number into a hash, depending on the order: XXH64's round. */
static inline uint64_t fold(uint64_t h, uint64_t v)
{
    v *= 0xc2b2ae3d27d4eb4fu;
    h ^= (v << 31 | v >> 33) * 0x9e3779b185ebca87u;
    return (h << 27 | h >> 37) * 0x9e3779b185ebca87u + 0x85ebca77c2b2ae63u;
}

/* Mixes, so that every input bit affects every output bit. */
static inline uint64_t fold_end(uint64_t h)
{
    h ^= h >> 33;
    h *= 0xc2b2ae3d27d4eb4fu;
    h ^= h >> 29;
    h *= 0x165667b19e3779f9u;
    return h ^ h >> 32;
}

uint64_t digest_path(struct slice path)
{
    return path.len > 0 ? hash_bytes(path.data, path.len) : hash_bytes("/", 1);
}

/* Hashes a list by its content, unless it is the open one, because its number may differ between servers. */
static uint64_t acl_digest(const struct state *s, const struct znode *node)
{
    if (node->acl == ACL_OPEN) {
        return 0;
    }
    struct wire_vector acl = state_acl(s, node);
    return hash_bytes(acl.items.data, acl.items.len);
}

uint64_t digest_node(const struct state *s, const struct znode *node, uint64_t path)
{
    struct slice data = znode_data(node);
    uint64_t h = fold(path, slice_is_null(data) ? 0 : hash_bytes(data.data, data.len));
    h = fold(h, acl_digest(s, node));
    h = fold(h, (uint64_t)znode_owner(node));
    h = fold(h, (uint64_t)node->czxid);
    h = fold(h, (uint64_t)node->mzxid);
    h = fold(h, (uint64_t)node->ctime);
    h = fold(h, (uint64_t)node->mtime);
    h = fold(h, (uint64_t)node->version << 32 | (uint32_t)znode_aversion(node));
    return fold_end(h);
}

uint64_t digest_children(const struct znode *node, uint64_t path)
{
    if (znode_cversion(node) == 0 && znode_pzxid(node) == node->czxid) {
        return 0; /* it never had any */
    }
    uint64_t h = fold(path, (uint64_t)znode_cversion(node));
    h = fold(h, (uint64_t)znode_pzxid(node));
    return fold_end(h);
}

bool digest_nodes(const struct state *s, uint64_t *ret)
{
    uint64_t sum = 0;
    struct buf path;
    buf_init(&path, 0);
    for (const struct znode *node = s->tree.root; node != NULL && buf_ok(&path);
         node = tree_next(node)) {
        buf_reset(&path);
        znode_append_path(node, &path);
        uint64_t h = digest_path(buf_slice(&path));
        sum += digest_node(s, node, h) + digest_children(node, h);
    }
    bool whole = buf_ok(&path);
    buf_finish(&path);
    if (whole) {
        *ret = sum;
    }
    return whole;
}

uint64_t digest_session(const struct session *session)
{
    uint64_t h = fold(1, (uint64_t)session->id);
    h = fold(h, (uint64_t)session->timeout_ms);
    h = fold(h, (uint64_t)session->owner);
    h = fold(h, hash_bytes(session->passwd, WIRE_PASSWD_LEN));
    return fold_end(h);
}

uint64_t digest_results(const struct session *session)
{
    const struct once_results *r = session->results;
    uint64_t h = fold(5, (uint64_t)session->id);
    h = fold(h, (uint64_t)(uint32_t)r->count_max << 32 | (uint32_t)r->bytes_max);
    h = fold(h, (uint64_t)(uint32_t)r->last << 32 | (uint32_t)r->forgotten);
    h = fold(h, (uint64_t)r->born);
    return fold_end(h);
}

uint64_t digest_result(int64_t session_id, const struct once_result *result)
{
    uint64_t h = fold(6, (uint64_t)session_id);
    h = fold(h, (uint64_t)(uint32_t)result->number << 32 | (uint32_t)result->err);
    h = fold(h, (uint64_t)result->zxid << 1 | result->deferred);
    h = fold(h, result->len > 0 ? hash_bytes(result->reply, result->len) : 0);
    return fold_end(h);
}

static uint64_t members_digest(const struct membership *m, uint64_t seed)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct state_member *member = &m->list[i];
        uint64_t h = seed;
        h = fold(h, (uint64_t)member->id);
        h = fold(h, (uint64_t)member->role);
        h = fold(h, hash_bytes(member->address, strlen(member->address)));
        sum += fold_end(h);
    }
    return sum;
}

static uint64_t configuration_digest(const struct configuration *e)
{
    uint64_t h = fold(4, (uint64_t)e->version);
    h = fold(h, e->unpublished);
    h = fold(h, (uint64_t)e->reconfig.zxid);
    h = fold(h, (uint64_t)e->reconfig.origin);
    h = fold(h, (uint64_t)e->reconfig.session_id);
    h = fold(h, (uint64_t)e->reconfig.cxid);
    h = e->leaving ? fold(h, 1) : h;
    return fold_end(h) + members_digest(&e->members, 1) + members_digest(&e->target, 2);
}

/* The hash of everything but nodes and sessions: it is small, so it is computed each time. */
static uint64_t rest_digest(const struct state *s)
{
    uint64_t sum = fold_end(fold((uint64_t)s->zxid, (uint64_t)s->time_ms));
    for (size_t i = 0; i < s->origins_count; i++) {
        sum += fold_end(fold((uint64_t)s->origins[i].id, (uint64_t)s->origins[i].sequence));
    }
    const struct state_mirror *m = &s->mirror;
    if (m->id != 0) {
        uint64_t kind = (uint64_t)m->any_reader << 1 | (uint64_t)m->synced;
        sum += fold_end(fold((uint64_t)m->id, kind ^ hash_bytes(m->source.data, m->source.len)));
    }
    return sum + configuration_digest(&s->configuration);
}

uint64_t state_digest(const struct state *s)
{
    uint64_t nodes;
    state_need(digest_nodes(s, &nodes));
    uint64_t sum = rest_digest(s) + nodes;
    for (struct map_node *n = map_next(&s->sessions, NULL); n != NULL;
         n = map_next(&s->sessions, n)) {
        const struct session *session = CONTAINER_OF(n, struct session, map);
        sum += digest_session(session);
        if (session->results != NULL) {
            sum += digest_results(session);
            LIST_FOREACH (link, &session->results->list) {
                sum += digest_result(session->id, CONTAINER_OF(link, struct once_result, link));
            }
        }
    }
    return sum;
}

uint64_t state_digest_now(const struct state *s)
{
    return rest_digest(s) + s->nodes_digest + s->sessions_digest;
}
