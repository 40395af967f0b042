/*
 * Nodes that are deleted by themselves: containers that lost their last child, and nodes whose TTL is over. The leader
 * searches them and proposes each deletion. Apply checks again what the leader found, so that a node that was changed
 * or created again meanwhile stays.
 */
#include "state/state_internal.h"

#include <assert.h>

/* A container or TTL node that was used is spent when it has no child, as in ZooKeeper's ContainerManager. */
static bool is_spent(const struct znode *node, const struct state_spent_rules *rules)
{
    int64_t age_ms = rules->now_ms - node->mtime;
    if (znode_children(node) > 0) {
        return false;
    }
    if (tree_owner_kind(znode_owner(node)) == TREE_OWNER_IS_TTL) {
        return age_ms > tree_owner_ttl_ms(znode_owner(node));
    }
    return znode_cversion(node) != 0 || (rules->never_used_ms > 0 && age_ms > rules->never_used_ms);
}

size_t state_spent_scan(struct state *s, const struct state_spent_rules *rules, size_t max,
                        void (*fn)(void *ctx, const struct spent *), void *ctx)
{
    struct list *extended = &s->tree.extended;
    size_t count = s->tree.extended_count < max ? s->tree.extended_count : max;
    for (size_t i = 0; i < count; i++) {
        struct list *link = list_pop_front(extended);
        assert(link != NULL); /* the count is that of the list */
        struct znode *node = znode_of_link(link);
        list_push_back(extended, link);
        if (is_spent(node, rules)) {
            buf_reset(&s->name);
            znode_append_path(node, &s->name);
            state_need(buf_ok(&s->name));
            fn(ctx, &(struct spent){buf_slice(&s->name), node->czxid, node->mzxid});
        }
    }
    return count;
}

int write_collect(struct write *w, const struct spent *spent)
{
    struct znode *node = tree_find(&w->s->tree, spent->path);
    if (node == NULL) {
        return CONCLAVE_NO_NODE;
    }
    enum tree_owner kind = tree_owner_kind(znode_owner(node));
    bool extended = kind == TREE_OWNER_IS_CONTAINER || kind == TREE_OWNER_IS_TTL;
    if (!extended || node->czxid != spent->czxid || node->mzxid != spent->mzxid) {
        return CONCLAVE_BAD_VERSION;
    }
    if (znode_children(node) > 0) {
        return CONCLAVE_NOT_EMPTY;
    }
    write_remove(w, node);
    return 0;
}
