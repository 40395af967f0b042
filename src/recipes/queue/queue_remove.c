/* Removing items by their id: a blocking function that asks one thing after the other. A transaction makes the item's
 * claim, deletes the item and deletes the claim, so an item that somebody has claimed stays. */
#include "recipes/engine/blocking_requests.h"
#include "recipes/queue/queue.h"

#include <stdlib.h>
#include <string.h>

/* One try; *ret_removed: the item was there, and free. */
static int remove_once(struct conclave_queue *q, struct blocking *b, const char *item,
                       const char *claim, bool *ret_removed, bool *ret_no_claims)
{
    struct conclave_reply *reply = NULL;
    struct conclave_op parts[3];
    parts[0] = conclave_op_create(claim, "", 0, CONCLAVE_EPHEMERAL);
    queue_op_acl(q, &parts[0]);
    parts[1] = conclave_op_path(CONCLAVE_OP_DELETE, item, -1);
    parts[2] = conclave_op_path(CONCLAVE_OP_DELETE, claim, -1);
    int error = blocking_request(b, conclave_op_multi(parts, 3), &reply);
    int claim_error = reply == NULL ? 0 : queue_part_error(reply, 0);
    bool gone = reply != NULL && queue_part_error(reply, 1) == CONCLAVE_NO_NODE;
    conclave_reply_free(reply);
    *ret_removed = error == 0;
    *ret_no_claims = claim_error == CONCLAVE_NO_NODE;
    return gone || claim_error == CONCLAVE_NODE_EXISTS || *ret_no_claims ? 0 : error;
}

static int remove_item(struct conclave_queue *q, struct blocking *b, const char *name,
                       size_t *count)
{
    char *item = path_join(q->path, name);
    char *claim = path_join(q->claims, name);
    bool removed = false;
    bool no_claims = true;
    int error = item == NULL || claim == NULL ? CONCLAVE_ENOMEM : 0;
    while (error == 0 && !removed && no_claims) {
        error = remove_once(q, b, item, claim, &removed, &no_claims);
        if (error == 0 && no_claims) {
            b->plain = queue_node_stays(q, q->claims);
            error = blocking_ensure(b, q->claims, q->acl, q->options.acl_count);
        }
    }
    *count += removed ? 1 : 0;
    free(item);
    free(claim);
    return error;
}

static bool has_id(const struct conclave_queue *q, const char *name, const char *id)
{
    struct queue_name parsed;
    return queue_name_parse(&q->naming, name, &parsed) && parsed.id_len == strlen(id) &&
           memcmp(parsed.id, id, parsed.id_len) == 0;
}

int conclave_queue_remove(struct conclave_queue *q, const char *id, int64_t timeout_ms,
                          size_t *ret_count)
{
    struct queue_label label = {.priority = CONCLAVE_QUEUE_PRIORITY_DEFAULT, .id = id};
    struct conclave_reply *children = NULL;
    struct blocking b = blocking_begin(q->host.handle.rt->client, timeout_ms);
    size_t count = 0;
    int error = recipes_may_block(q->host.handle.rt);
    if (error != 0) {
        return error;
    }
    if (id == NULL || !queue_label_valid(&q->naming, &label)) {
        return CONCLAVE_EINVAL;
    }
    error = blocking_ask(&b, CONCLAVE_OP_GET_CHILDREN, q->path, &children);
    for (size_t i = 0; error == 0 && i < children->children_count; i++) {
        if (has_id(q, children->children[i], id)) {
            error = remove_item(q, &b, children->children[i], &count);
        }
    }
    conclave_reply_free(children);
    if (ret_count != NULL) {
        *ret_count = count;
    }
    return error == CONCLAVE_NO_NODE ? 0 : error; /* no queue */
}
