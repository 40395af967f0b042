/* Reads the members of a group once. */
#include "recipes/group/group.h"

#include "client/core/path.h"
#include "recipes/engine/option_copies.h"
#include "recipes/group/node_handle.h"

#include <stdlib.h>
#include <string.h>

/* The list in one block with its texts, so that it outlives the view. */
static int members_copy(const struct mirror_view *view, struct conclave_member ***ret,
                        size_t *ret_count)
{
    struct conclave_member **list;
    size_t count;
    size_t bytes = 0;
    int error = members_of_view(view, NULL, 0, &list, &count);
    if (error != 0) {
        return error;
    }
    for (size_t i = 0; i < count; i++) {
        bytes += strlen(list[i]->id) + 1 + list[i]->data_len + 1;
    }
    char *at;
    struct conclave_member **copy = struct_list(count, sizeof **copy, bytes, &at);
    for (size_t i = 0; copy != NULL && i < count; i++) {
        *copy[i] = *list[i];
        copy[i]->id = block_add(&at, list[i]->id, strlen(list[i]->id));
        copy[i]->data = block_add(&at, list[i]->data, list[i]->data_len);
    }
    free(list);
    if (copy == NULL) {
        return CONCLAVE_ENOMEM;
    }
    *ret = copy;
    *ret_count = count;
    return 0;
}

static bool group_is_seen(void *ctx)
{
    return !((struct node_handle *)ctx)->seen_stale;
}

int conclave_group_members(struct conclave_recipes *rt, const char *path, int64_t timeout_ms,
                           struct conclave_member ***ret, size_t *ret_count)
{
    struct node_handle *n;
    int error = recipes_may_block(rt);
    if (error == 0 && (path == NULL || !path_is_valid(path, false))) {
        error = CONCLAVE_EINVAL;
    }
    if (error == 0) {
        error = node_glance_open(rt, path, true, &n);
    }
    if (error != 0) {
        return error;
    }
    client_lock(rt->client);
    error = host_wait(&n->host, group_is_seen, n, timeout_ms);
    if (error == 0) {
        error = members_copy(&n->seen, ret, ret_count);
    }
    node_glance_close(n);
    client_unlock(rt->client);
    return error;
}

void conclave_members_free(struct conclave_member **list, size_t count)
{
    free(list);
}
