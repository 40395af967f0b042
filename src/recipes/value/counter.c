/* The counter: the computation between reading and writing a cell, and the number's forms. */
#include "base/endian.h"
#include "client/core/sized.h"
#include "recipes/engine/value_cell.h"

#include <conclave/counter.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 32 };

struct conclave_counter {
    struct cell cell; /* first */
    enum conclave_counter_form form;
    int64_t initial;
    struct conclave_counter_callbacks callbacks;
    void *ctx;
};

static struct conclave_counter *counter_of(struct cell *cell)
{
    return CONTAINER_OF(cell, struct conclave_counter, cell);
}

/* --- the number ---------------------------------------------------------------------- */

static int text_read(const char *text, size_t len, int64_t *ret)
{
    char copy[NUMBER_MAX];
    char *end;
    if (len >= sizeof copy || strchr("-0123456789", text[0]) == NULL || text[0] == '\0') {
        return CONCLAVE_ECORRUPT;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    errno = 0;
    long long value = strtoll(copy, &end, 10);
    if (errno != 0 || end == copy || (size_t)(end - copy) != len) {
        return CONCLAVE_ECORRUPT;
    }
    *ret = value;
    return 0;
}

static int number_read(const struct conclave_counter *c, const void *data, size_t len, int64_t *ret)
{
    if (data == NULL || len == 0) {
        *ret = c->initial;
        return 0;
    }
    if (c->form == CONCLAVE_COUNTER_TEXT) {
        return text_read(data, len, ret);
    }
    *ret = len == 8 ? (int64_t)get_be64(data) : 0;
    return len == 8 ? 0 : CONCLAVE_ECORRUPT;
}

static int number_write(const struct conclave_counter *c, struct cell_op *op, int64_t value)
{
    char *text = malloc(NUMBER_MAX);
    if (text == NULL) {
        return CONCLAVE_ENOMEM;
    }
    if (c->form == CONCLAVE_COUNTER_BINARY) {
        put_be64(text, (uint64_t)value);
        op->data_len = 8;
    } else {
        op->data_len = (size_t)snprintf(text, NUMBER_MAX, "%" PRId64, value);
    }
    assert(op->data_len > 0 && op->data_len < NUMBER_MAX);
    free(op->data);
    op->data = text;
    op->value = value;
    return 0;
}

/* --- the number to write ---------------------------------------------------------------- */

static enum cell_verdict write_value(struct conclave_counter *c, struct cell_op *op, int64_t value)
{
    op->error = number_write(c, op, value);
    return op->error == 0 ? CELL_WRITE : CELL_DONE;
}

static enum cell_verdict compute_get(struct cell *cell, struct cell_op *op,
                                     const struct cell_value *now)
{
    op->error = number_read(counter_of(cell), now->data, now->data_len, &op->value);
    return CELL_DONE;
}

static enum cell_verdict compute_add(struct cell *cell, struct cell_op *op,
                                     const struct cell_value *now)
{
    struct conclave_counter *c = counter_of(cell);
    int64_t value;
    op->error = number_read(c, now->data, now->data_len, &value);
    if (op->error == 0 && __builtin_add_overflow(value, op->a, &value)) {
        op->error = CONCLAVE_ETOOBIG;
    }
    return op->error != 0 ? CELL_DONE : write_value(c, op, value);
}

static enum cell_verdict compute_set(struct cell *cell, struct cell_op *op,
                                     const struct cell_value *now)
{
    struct conclave_counter *c = counter_of(cell);
    op->error = number_read(c, now->data, now->data_len, &op->value);
    if (op->error == 0 && op->value != op->a) {
        op->error = CONCLAVE_ECONFLICT;
    }
    return op->error != 0 ? CELL_DONE : write_value(c, op, op->b);
}

/* --- callbacks -------------------------------------------------------------------------- */

static void counter_tell_change(struct cell *cell, const struct mirror_item *item, bool stale)
{
    struct conclave_counter *c = counter_of(cell);
    int64_t value = 0;
    if (stale) {
        return; /* nothing new is known */
    }
    int error = number_read(c, item == NULL ? NULL : item->node.data,
                            item == NULL ? 0 : item->node.data_len, &value);
    c->callbacks.on_change(c, error == 0 ? value : 0, error, c->ctx);
}

static void counter_tell_closed(struct cell *cell, int why)
{
    struct conclave_counter *c = counter_of(cell);
    if (c->callbacks.on_closed != NULL) {
        c->callbacks.on_closed(c, why, c->ctx);
    }
}

static void tell_op(struct cell *cell, struct cell_op *op)
{
    assert(op->ended && op->fn != NULL);
    ((conclave_counter_fn)op->fn)(counter_of(cell), op->error, op->value, op->ctx);
}

/* --- public ------------------------------------------------------------------------------ */

int conclave_counter_open(struct conclave_recipes *rt,
                          const struct conclave_counter_options *options,
                          const struct conclave_counter_callbacks *callbacks, void *ctx,
                          struct conclave_counter **ret)
{
    struct conclave_counter_options own = CONCLAVE_COUNTER_OPTIONS_INIT;
    struct conclave_counter_callbacks calls = CONCLAVE_COUNTER_CALLBACKS_INIT;
    if (sized_read_both(&own, options, &calls, callbacks) != 0 ||
        (unsigned)own.form > CONCLAVE_COUNTER_BINARY) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_counter *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return CONCLAVE_ENOMEM;
    }
    c->callbacks = calls;
    c->ctx = ctx;
    c->form = own.form;
    c->initial = own.initial;
    c->cell.watching = c->callbacks.on_change != NULL;
    c->cell.tell_change = counter_tell_change;
    c->cell.tell_closed = counter_tell_closed;
    int error = cell_open(&c->cell, rt, own.path, own.acl, own.acl_count);
    if (error == 0) {
        *ret = c; /* before a callback can run */
        cell_begin(&c->cell);
        client_unlock(rt->client);
    }
    return error;
}

typedef enum cell_verdict (*compute_fn)(struct cell *cell, struct cell_op *op,
                                        const struct cell_value *now);

static struct cell_op *op_make(compute_fn compute, int64_t a, int64_t b)
{
    struct cell_op *op = cell_op_make(NULL, 0);
    if (op != NULL) {
        op->compute = compute;
        op->needs_read = compute == compute_get;
        op->a = a;
        op->b = b;
    }
    return op;
}

static int counter_call(struct conclave_counter *c, compute_fn compute, int64_t a, int64_t b,
                        int64_t timeout_ms, int64_t *ret_value)
{
    struct cell_op *ended = NULL;
    struct cell_op *op = op_make(compute, a, b);
    int error = op == NULL ? CONCLAVE_ENOMEM : cell_call(&c->cell, op, timeout_ms, &ended);
    assert(error != 0 || ended != NULL);
    if (ended != NULL && ret_value != NULL && (error == 0 || error == CONCLAVE_ECONFLICT)) {
        *ret_value = ended->value;
    }
    cell_op_free(ended);
    return error;
}

static int counter_submit(struct conclave_counter *c, compute_fn compute, int64_t a, int64_t b,
                          conclave_counter_fn fn, void *ctx)
{
    struct cell_op *op = fn == NULL ? NULL : op_make(compute, a, b);
    if (op == NULL) {
        return fn == NULL ? CONCLAVE_EINVAL : CONCLAVE_ENOMEM;
    }
    op->fn = (void (*)(void))fn;
    op->ctx = ctx;
    op->tell = tell_op;
    return cell_submit(&c->cell, op);
}

int conclave_counter_get(struct conclave_counter *c, int64_t timeout_ms, int64_t *ret_value)
{
    return counter_call(c, compute_get, 0, 0, timeout_ms, ret_value);
}

int conclave_counter_add(struct conclave_counter *c, int64_t delta, int64_t timeout_ms,
                         int64_t *ret_value)
{
    return counter_call(c, compute_add, delta, 0, timeout_ms, ret_value);
}

int conclave_counter_compare_and_set(struct conclave_counter *c, int64_t expected, int64_t desired,
                                     int64_t timeout_ms, int64_t *ret_value)
{
    return counter_call(c, compute_set, expected, desired, timeout_ms, ret_value);
}

int conclave_counter_get_async(struct conclave_counter *c, conclave_counter_fn fn, void *ctx)
{
    return counter_submit(c, compute_get, 0, 0, fn, ctx);
}

int conclave_counter_add_async(struct conclave_counter *c, int64_t delta, conclave_counter_fn fn,
                               void *ctx)
{
    return counter_submit(c, compute_add, delta, 0, fn, ctx);
}

int conclave_counter_compare_and_set_async(struct conclave_counter *c, int64_t expected,
                                           int64_t desired, conclave_counter_fn fn, void *ctx)
{
    return counter_submit(c, compute_set, expected, desired, fn, ctx);
}

void conclave_counter_close(struct conclave_counter *c)
{
    host_close(&c->cell.host);
}

int conclave_counter_close_wait(struct conclave_counter *c, int64_t timeout_ms)
{
    return host_close_wait(&c->cell.host, timeout_ms);
}

void conclave_counter_destroy(struct conclave_counter *c)
{
    host_destroy(c == NULL ? NULL : &c->cell.host);
}
