#include "state/memory_estimate.h"

#include "state/state_internal.h"
#include "tree/memory.h"
#include "tree/path.h"

static int64_t node_memory(size_t name_len, size_t data_len)
{
    return (int64_t)tree_node_memory(name_len, data_len);
}

/* An existing list of permissions is shared. */
static int64_t acl_growth(const struct state *s, struct wire_vector entries)
{
    bool fresh = entries.count > 0 && !acl_known(&s->tree.acls, entries);
    return fresh ? (int64_t)entries.items.len : 0;
}

static int64_t create_growth(const struct state *s, const struct wire_create_ttl_request *r)
{
    size_t name = path_last_slash(r->path) + 1;
    return node_memory(r->path.len > name ? r->path.len - name : 0, r->data.len) +
           acl_growth(s, r->acl);
}

static int64_t delete_growth(const struct state *s, struct slice path)
{
    const struct znode *node = tree_find(&s->tree, path);
    return node != NULL ? -node_memory(znode_name(node).len, znode_data(node).len) : 0;
}

static int64_t set_data_growth(const struct state *s, const struct wire_set_data_request *r)
{
    const struct znode *node = tree_find(&s->tree, r->path);
    return node != NULL ? (int64_t)r->data.len - (int64_t)znode_data(node).len : 0;
}

static int64_t set_acl_growth(const struct state *s, const struct wire_set_acl_request *r)
{
    const struct znode *node = tree_find(&s->tree, r->path);
    int64_t before = node != NULL ? (int64_t)acl_get(&s->tree.acls, node->acl)->len : 0;
    int64_t growth = acl_growth(s, r->acl);
    return node != NULL && growth > 0 ? growth - before : 0;
}

static int64_t operation_growth(const struct state *s, const struct operation *op)
{
    switch (op->type) {
    case WIRE_CREATE:
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
    case WIRE_CREATE_TTL:
        return create_growth(s, &op->u.create);
    case WIRE_DELETE:
        return delete_growth(s, op->u.delete.path);
    case WIRE_SET_DATA:
        return set_data_growth(s, &op->u.set_data);
    case WIRE_SET_ACL:
        return set_acl_growth(s, &op->u.set_acl);
    default:
        return 0;
    }
}

/* A deletion counts only before the first operation that grows: otherwise a create and a delete of the same node could
 * be counted again and again. */
static int64_t multi_growth(const struct state *s, struct slice body)
{
    struct wire_reader r = wire_reader_make(body);
    struct operation op;
    int64_t growth = 0;
    bool grew = false;
    int rc;
    while ((rc = multi_next_part(&r, &op)) > 0) {
        int64_t part = operation_growth(s, &op);
        grew = grew || part > 0;
        if (part > 0 || (!grew && op.type == WIRE_DELETE)) {
            growth += part;
        }
    }
    return rc == 0 ? growth : 0;
}

int64_t state_growth(const struct state *s, int32_t type, struct slice body)
{
    struct wire_reader r = wire_reader_make(body);
    struct operation op;
    if (type == WIRE_MULTI) {
        return multi_growth(s, body);
    }
    return operation_decode(&r, type, &op) == 0 ? operation_growth(s, &op) : 0;
}

size_t state_memory(const struct state *s)
{
    return account_state(&s->account);
}
