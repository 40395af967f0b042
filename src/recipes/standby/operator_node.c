#include "recipes/standby/operator_node.h"

#include "base/random.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/recipe_runtime.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Whether the node is of this call; then the question's requests are bound to its session. CONCLAVE_EBUSY: it is
 * another's. */
static int node_look(struct operator_node *n)
{
    struct conclave_reply *reply;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, n->path, 0);
    op.linearizable = true;
    int error = blocking_request(&n->q->blocking, op, &reply);
    if (error == 0) {
        bool ours = data_has_mark(reply, n->mark);
        n->q->blocking.session_id = ours ? reply->stat.ephemeral_owner : 0;
        error = ours ? 0 : CONCLAVE_EBUSY;
    }
    conclave_reply_free(reply);
    return error;
}

/* A creation whose answer was lost is followed by one that finds the node. */
static int node_create(struct operator_node *n, struct slice data)
{
    struct conclave_op op = conclave_op_create(n->path, data.data, data.len, CONCLAVE_EPHEMERAL);
    op.acl = n->acl;
    op.acl_count = n->acl_count;
    bool again;
    int error;
    do {
        error = blocking_request(&n->q->blocking, op, NULL);
        bool there = error == 0 || error == CONCLAVE_NODE_EXISTS;
        error = there ? node_look(n) : error;
        again = error == CONCLAVE_ENOMEM || (there && error == CONCLAVE_NO_NODE); /* it has gone */
        if (again && blocking_is_late(&n->q->blocking)) {
            return error == CONCLAVE_NO_NODE ? CONCLAVE_ETIMEDOUT : error;
        }
    } while (again);
    return error;
}

/* Text and mark; data.failed without memory. */
static void node_data(const struct operator_node *n, struct slice text, struct buf *data)
{
    buf_init(data, 0);
    buf_append_slice(data, text);
    buf_append_slice(data, slice_str(n->mark));
}

int operator_node_make(struct operator_node *n, struct elector_question *q, const char *name,
                       struct slice text, const struct conclave_acl *acl, size_t acl_count)
{
    struct buf data;
    *n = (struct operator_node){
        .q = q, .path = text_concat(q->dir, name), .acl = acl, .acl_count = acl_count};
    random_text(n->mark, OPERATOR_MARK_BYTES);
    n->removal = n->path != NULL ? deletion_create_marked(n->path, n->mark) : NULL;
    node_data(n, text, &data);
    int error = CONCLAVE_ENOMEM;
    if (n->removal == NULL || !buf_ok(&data)) {
        operator_node_gone(n);
    } else {
        error = node_create(n, buf_slice(&data));
        if (error != 0) {
            int ended = operator_node_end(n); /* it may be there, or come */
            (void)ended;                      /* the first error counts */
        }
    }
    buf_finish(&data);
    return error;
}

int operator_node_set(struct operator_node *n, struct slice text)
{
    struct buf data;
    assert(n->path != NULL && n->removal != NULL); /* it was made, and has not ended */
    node_data(n, text, &data);
    int error = buf_ok(&data) ? node_look(n) : CONCLAVE_ENOMEM;
    if (error == 0) {
        struct slice bytes = buf_slice(&data);
        struct conclave_op op = conclave_op_set(n->path, bytes.data, bytes.len, -1);
        error = blocking_request(&n->q->blocking, op, NULL);
    }
    buf_finish(&data);
    return error == CONCLAVE_EBUSY ? CONCLAVE_NO_NODE : error;
}

/* --- the end ------------------------------------------------------------------------- */

int operator_node_end(struct operator_node *n)
{
    struct blocking *b = &n->q->blocking;
    int error = 0;
    client_lock(b->client);
    if (n->removal != NULL && client_session_id(b->client) != 0) {
        struct deletion *removal = n->removal;
        n->removal = NULL;
        error = deletes_run(&n->q->rt->deletes, removal, b->deadline_ns);
    } /* else it went with its session */
    client_unlock(b->client);
    operator_node_gone(n);
    return error == CONCLAVE_ETIMEDOUT ? 0 : error;
}

void operator_node_gone(struct operator_node *n)
{
    deletion_free(n->removal);
    n->removal = NULL;
    free(n->path);
    n->path = NULL;
    n->q->blocking.session_id = 0;
}
