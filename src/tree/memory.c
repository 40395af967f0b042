#include "tree/memory.h"

enum { NODE_EXTRA = 40 }; /* an estimate for owner, table and allocator per node */

size_t tree_node_memory(size_t name_len, size_t data_len)
{
    return sizeof(struct znode) + name_len + sizeof(struct znode_data) + data_len + NODE_EXTRA;
}

static size_t znode_memory(const struct znode *node)
{
    return tree_node_memory(node->map.key_len, znode_data(node).len);
}

void tree_set_account(struct tree *t, struct account *account)
{
    t->account = account;
    t->acls.account = account;
    account_charge(account, ACCOUNT_NODES, znode_memory(t->root));
}

void tree_memory_charge(struct tree *t, const struct znode *node, const struct znode_dir *dir)
{
    account_charge(t->account, ACCOUNT_NODES, znode_memory(node));
    if (dir != NULL && dir->count == 1) {
        account_charge(t->account, ACCOUNT_NODES, sizeof *dir);
    }
}

void tree_memory_credit(struct tree *t, const struct znode *node, const struct znode_dir *dir)
{
    account_credit(t->account, ACCOUNT_NODES, znode_memory(node));
    if (dir != NULL && dir->count == 0) {
        account_credit(t->account, ACCOUNT_NODES, sizeof *dir);
    }
}
