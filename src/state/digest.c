/*
 * One number for a whole state: the sum of a hash for each node, session and origin, so neither memory
 * layout nor the order of nodes, children or sessions matters.
 */
#include "state/machine.h"

#include "base/endian.h"

/* A small record of numbers to be hashed. */
struct numbers {
    uint8_t bytes[16 * 8];
    size_t len;
};

static void put(struct numbers *n, uint64_t v)
{
    put_be64(n->bytes + n->len, v);
    n->len += 8;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    struct numbers n = {.len = 0};
    put(&n, a);
    put(&n, b);
    return hash_bytes(n.bytes, n.len);
}

static uint64_t path_digest(const struct znode *node)
{
    uint64_t h = 0;
    for (; node->parent != NULL; node = node->parent) {
        h = mix(h, hash_bytes(node->name, znode_name(node).len));
    }
    return h;
}

static uint64_t node_digest(const struct state *s, const struct znode *node)
{
    struct slice data = znode_data(node);
    struct wire_vector acl = state_acl(s, node);
    struct numbers n = {.len = 0};
    put(&n, path_digest(node));
    put(&n, slice_is_null(data) ? 0 : mix(1, hash_bytes(data.data, data.len)));
    put(&n, hash_bytes(acl.items.data, acl.items.len));
    put(&n, (uint64_t)znode_owner(node));
    put(&n, (uint64_t)node->czxid);
    put(&n, (uint64_t)node->mzxid);
    put(&n, (uint64_t)znode_pzxid(node));
    put(&n, (uint64_t)node->ctime);
    put(&n, (uint64_t)node->mtime);
    put(&n, (uint64_t)node->version);
    put(&n, (uint64_t)znode_aversion(node));
    put(&n, (uint64_t)znode_cversion(node));
    put(&n, znode_children(node));
    return hash_bytes(n.bytes, n.len);
}

static uint64_t session_digest(const struct session *session)
{
    struct numbers n = {.len = 0};
    put(&n, (uint64_t)session->id);
    put(&n, (uint64_t)session->timeout_ms);
    put(&n, (uint64_t)session->owner);
    put(&n, hash_bytes(session->passwd, WIRE_PASSWD_LEN));
    return hash_bytes(n.bytes, n.len);
}

static uint64_t members_digest(const struct membership *m, uint64_t seed)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct state_member *member = &m->list[i];
        struct numbers n = {.len = 0};
        put(&n, seed);
        put(&n, (uint64_t)member->id);
        put(&n, (uint64_t)member->role);
        put(&n, hash_bytes(member->address, strlen(member->address)));
        sum += hash_bytes(n.bytes, n.len);
    }
    return sum;
}

static uint64_t configuration_digest(const struct configuration *e)
{
    struct numbers n = {.len = 0};
    put(&n, (uint64_t)e->version);
    put(&n, e->unpublished);
    put(&n, (uint64_t)e->reconfig.zxid);
    put(&n, (uint64_t)e->reconfig.origin);
    put(&n, (uint64_t)e->reconfig.session_id);
    put(&n, (uint64_t)e->reconfig.cxid);
    return hash_bytes(n.bytes, n.len) + members_digest(&e->members, 1) +
           members_digest(&e->target, 2);
}

/* What is no node and changes with most commands. */
static uint64_t head_digest(const struct state *s)
{
    return mix((uint64_t)s->zxid, (uint64_t)s->time_ms) + configuration_digest(&s->configuration);
}

uint64_t state_digest(const struct state *s)
{
    uint64_t sum = head_digest(s);
    for (const struct znode *node = s->tree.root; node != NULL; node = tree_next(node)) {
        sum += node_digest(s, node);
    }
    for (struct map_node *n = map_next(&s->sessions, NULL); n != NULL;
         n = map_next(&s->sessions, n)) {
        sum += session_digest(CONTAINER_OF(n, struct session, map));
    }
    for (size_t i = 0; i < s->origins_count; i++) {
        sum += mix((uint64_t)s->origins[i].id, (uint64_t)s->origins[i].sequence);
    }
    return sum;
}
