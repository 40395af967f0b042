/* The shared value: a cell as it is. */
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/value_cell.h"

#include <conclave/counter.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct conclave_shared {
    struct cell cell; /* first */
    struct conclave_shared_callbacks callbacks;
    void *ctx;
};

static struct conclave_shared *shared_of(struct cell *cell)
{
    return CONTAINER_OF(cell, struct conclave_shared, cell);
}

static void shared_value_tell_change(struct cell *cell, const struct mirror_item *item, bool stale)
{
    struct conclave_shared *s = shared_of(cell);
    struct conclave_shared_value value = {
        .size = sizeof value, .version = CONCLAVE_ABSENT, .stale = stale};
    if (item != NULL) {
        value.data = item->node.data;
        value.data_len = item->node.data_len;
        value.version = item->stat.version;
        value.mzxid = item->stat.mzxid;
    }
    s->callbacks.on_change(s, &value, s->ctx);
}

static void shared_value_tell_closed(struct cell *cell, int why)
{
    struct conclave_shared *s = shared_of(cell);
    if (s->callbacks.on_closed != NULL) {
        s->callbacks.on_closed(s, why, s->ctx);
    }
}

static void value_of(const struct cell_op *op, struct conclave_shared_value *ret)
{
    *ret = (struct conclave_shared_value)CONCLAVE_SHARED_VALUE_INIT;
    ret->version = op->result.there ? op->result.version : CONCLAVE_ABSENT;
    ret->mzxid = op->result.mzxid;
    ret->data = op->result.data;
    ret->data_len = op->result.data_len;
}

static void tell_set(struct cell *cell, struct cell_op *op)
{
    struct conclave_shared_value value = CONCLAVE_SHARED_VALUE_INIT;
    assert(op->ended);
    value_of(op, &value);
    ((conclave_shared_fn)op->fn)(shared_of(cell), op->error, op->error == 0 ? &value : NULL,
                                 op->ctx);
}

static enum cell_verdict compute_get(struct cell *cell, struct cell_op *op,
                                     const struct cell_value *now)
{
    (void)now; /* the operation has its share of it already */
    op->error = 0;
    return CELL_DONE;
}

int conclave_shared_open(struct conclave_recipes *rt, const struct conclave_shared_options *options,
                         const struct conclave_shared_callbacks *callbacks, void *ctx,
                         struct conclave_shared **ret)
{
    struct conclave_shared_options own = CONCLAVE_SHARED_OPTIONS_INIT;
    struct conclave_shared_callbacks calls = CONCLAVE_SHARED_CALLBACKS_INIT;
    if (sized_read_both(&own, options, &calls, callbacks) != 0) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_shared *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return CONCLAVE_ENOMEM;
    }
    s->callbacks = calls;
    s->ctx = ctx;
    s->cell.watching = s->callbacks.on_change != NULL;
    s->cell.tell_change = shared_value_tell_change;
    s->cell.tell_closed = shared_value_tell_closed;
    int error = cell_open(&s->cell, rt, own.path, own.acl, own.acl_count);
    if (error == 0) {
        *ret = s; /* before a callback can run */
        cell_begin(&s->cell);
        client_unlock(rt->client);
    }
    return error;
}

int conclave_shared_get(struct conclave_shared *s, int64_t timeout_ms,
                        struct conclave_shared_value **ret)
{
    struct cell_op *ended = NULL;
    struct cell_op *op = cell_op_make(NULL, 0);
    if (op == NULL) {
        return CONCLAVE_ENOMEM;
    }
    op->compute = compute_get;
    op->needs_read = true;
    int error = cell_call(&s->cell, op, timeout_ms, &ended);
    if (error == 0) {
        assert(ended != NULL && ended->ended);
        struct conclave_shared_value *value = malloc(sizeof *value + ended->result.data_len + 1);
        error = value == NULL ? CONCLAVE_ENOMEM : 0;
        if (value != NULL) {
            char *at = (char *)(value + 1);
            value_of(ended, value);
            value->data = value->data == NULL ? NULL : block_add(&at, value->data, value->data_len);
            *ret = value;
        }
    }
    cell_op_free(ended);
    return error;
}

void conclave_shared_value_free(struct conclave_shared_value *value)
{
    free(value);
}

static int set_op(const void *data, size_t len, int32_t expected, struct cell_op **ret)
{
    if ((data == NULL && len > 0) || expected < CONCLAVE_ABSENT) {
        return CONCLAVE_EINVAL;
    }
    if (expected == -1) {
        return CONCLAVE_ESEQWRAP; /* servers take it for "any version" */
    }
    struct cell_op *op = cell_op_make(data, len);
    if (op == NULL) {
        return CONCLAVE_ENOMEM;
    }
    op->expected = expected;
    *ret = op;
    return 0;
}

int conclave_shared_set(struct conclave_shared *s, const void *data, size_t len,
                        int32_t expected_version, int64_t timeout_ms,
                        struct conclave_shared_value *ret)
{
    struct cell_op *ended = NULL;
    struct cell_op *op;
    int error = sized_can_write(ret) ? set_op(data, len, expected_version, &op) : CONCLAVE_EINVAL;
    if (error != 0) {
        return error;
    }
    error = cell_call(&s->cell, op, timeout_ms, &ended);
    if (error == 0 && ret != NULL) {
        struct conclave_shared_value value = CONCLAVE_SHARED_VALUE_INIT;
        value_of(ended, &value);
        sized_write(ret, &value);
    }
    cell_op_free(ended);
    return error;
}

int conclave_shared_set_async(struct conclave_shared *s, const void *data, size_t len,
                              int32_t expected_version, conclave_shared_fn fn, void *ctx)
{
    struct cell_op *op;
    int error = fn == NULL ? CONCLAVE_EINVAL : set_op(data, len, expected_version, &op);
    if (error != 0) {
        return error;
    }
    op->fn = (void (*)(void))fn;
    op->ctx = ctx;
    op->tell = tell_set;
    return cell_submit(&s->cell, op);
}

void conclave_shared_close(struct conclave_shared *s)
{
    host_close(&s->cell.host);
}

int conclave_shared_close_wait(struct conclave_shared *s, int64_t timeout_ms)
{
    return host_close_wait(&s->cell.host, timeout_ms);
}

void conclave_shared_destroy(struct conclave_shared *s)
{
    host_destroy(s == NULL ? NULL : &s->cell.host);
}
