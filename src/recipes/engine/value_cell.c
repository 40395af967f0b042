#include "recipes/engine/value_cell.h"

#include "base/random.h"
#include "client/core/acl.h"
#include "client/core/path.h"

#include <stdlib.h>
#include <string.h>

enum {
    TELL_AGAIN_MS = 250,
    RETRY_MS = 250,
    CONFLICTS_MAX = 6, /* the pause after a conflict grows until then */
};

static void value_cell_run(void *self);

static struct conclave_client *value_cell_client_of(const struct cell *c)
{
    return c->handle.rt->client;
}

/* --- operations -------------------------------------------------------------------- */

struct cell_op *cell_op_make(const void *data, size_t len)
{
    struct cell_op *op = calloc(1, sizeof *op);
    if (op == NULL || (op->data = malloc(len + 1)) == NULL) {
        free(op);
        return NULL;
    }
    if (len > 0) {
        memcpy(op->data, data, len);
    }
    op->data_len = len;
    list_init(&op->link);
    return op;
}

void cell_op_free(struct cell_op *op)
{
    if (op != NULL) {
        free(op->data);
        free(op->held);
        free(op);
    }
}

static struct cell_op *first(const struct cell *c)
{
    struct list *link = c->ops.next; /* what was freed has left the list before */
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    return list_empty(&c->ops) ? NULL : CONTAINER_OF(link, struct cell_op, link);
}

static void op_end(struct cell *c, struct cell_op *op, int error)
{
    list_remove(&op->link);
    op->ended = true;
    op->error = error;
    c->conflicts = 0;
    if (op->abandoned) {
        cell_op_free(op);
    } else if (op->tell != NULL) {
        list_push_back(&c->done, &op->link);
        handle_post(&c->handle);
    } else {
        client_notify(value_cell_client_of(c));
    }
}

/* --- what is there ------------------------------------------------------------------ */

/* Takes data over. */
static void remember(struct cell *c, const struct cell_value *value, char *data)
{
    free(c->now_data);
    c->now_data = data;
    c->now = *value;
    c->now.data = data;
    c->known = true;
}

static void retry_in(struct cell *c, int64_t ms)
{
    client_timer_start(value_cell_client_of(c), &c->retry,
                       client_now_ns(value_cell_client_of(c)) + ms * 1000000);
}

/* Gives the operation its share of what is there. false: no memory. */
static bool op_keep(struct cell_op *op, const struct cell_value *value)
{
    char *held = malloc(value->data_len + 1);
    if (held == NULL) {
        return false;
    }
    if (value->data_len > 0) {
        memcpy(held, value->data, value->data_len);
    }
    held[value->data_len] = '\0';
    free(op->held);
    op->held = held;
    op->result = *value;
    op->result.data = value->data == NULL ? NULL : held;
    return true;
}

static void write_now(struct cell *c, struct cell_op *op, int32_t expected)
{
    if (expected == -1) {
        op_end(c, op, CONCLAVE_ESEQWRAP);
        value_cell_run(c);
        return;
    }
    c->writing = true;
    c->write_version = expected;
    cas_write(&c->cas, op->data, op->data_len, expected);
}

static void decide(struct cell *c)
{
    struct cell_op *op = first(c);
    if (!op_keep(op, &c->now)) {
        retry_in(c, RETRY_MS);
        return;
    }
    if (op->compute(c, op, &c->now) == CELL_DONE) {
        op_end(c, op, op->error);
        value_cell_run(c);
    } else {
        write_now(c, op, c->now.there ? c->now.version : CAS_ABSENT);
    }
}

static void on_read(struct step *step, const struct conclave_reply *reply)
{
    struct cell *c = CONTAINER_OF(step, struct cell, step);
    struct cell_op *op = first(c);
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        if (op != NULL && error_is_fatal(reply->error)) {
            op_end(c, op, reply->error);
        } else if (reply->error != CONCLAVE_CONNECTION_LOSS) {
            retry_in(c, RETRY_MS);
        }
        value_cell_run(c);
        return;
    }
    struct cell_value value = {.there = reply->error == 0};
    char *data = malloc(reply->data_len + 1);
    if (data == NULL) {
        retry_in(c, RETRY_MS);
        return;
    }
    if (reply->data_len > 0) {
        memcpy(data, reply->data, reply->data_len);
    }
    if (value.there) {
        value.data_len = reply->data_len;
        value.version = reply->stat.version;
        value.mzxid = reply->stat.mzxid;
    }
    remember(c, &value, data);
    if (!value.there || reply->data == NULL) {
        c->now.data = NULL;
    }
    if (op != NULL) {
        op->needs_read = false;
        decide(c);
    }
}

/* --- the machine -------------------------------------------------------------------- */

static void conflict(struct cell *c, struct cell_op *op)
{
    c->known = false;
    op->needs_read = true;
    if (c->conflicts < CONFLICTS_MAX) {
        c->conflicts++;
    }
    /* the more meet, the further apart they try again */
    retry_in(c, (int64_t)random_below(((uint64_t)1 << c->conflicts)));
}

static void on_written(struct cas *cas, int error, const struct cas_result *result)
{
    struct cell *c = CONTAINER_OF(cas, struct cell, cas);
    struct cell_op *op = first(c);
    bool other =
        error == CONCLAVE_BAD_VERSION || error == CONCLAVE_NO_NODE || error == CONCLAVE_NODE_EXISTS;
    c->writing = false;
    if (other && op->compute != NULL && !c->closing.ending) {
        conflict(c, op);
        return;
    }
    if (other && op->compute != NULL) {
        error = c->closing.why; /* its turn would have come again */
    }
    if (error == 0) {
        struct cell_value value = {true, op->data, op->data_len, result->version, result->mzxid};
        char *copy = malloc(op->data_len + 1);
        c->known = false;
        if (copy != NULL) {
            if (op->data_len > 0) {
                memcpy(copy, op->data, op->data_len);
            }
            remember(c, &value, copy);
        }
        op->result = value;
        op->result.data = NULL;
        op->result.data_len = 0;
    } else {
        c->known = false;
    }
    op_end(c, op, error);
}

static void on_cas_ended(struct cas *cas)
{
    struct cell *c = CONTAINER_OF(cas, struct cell, cas);
    c->cas_ended = true;
    value_cell_run(c);
}

static void run_closing(struct cell *c)
{
    LIST_FOREACH (it, &c->ops) {
        struct cell_op *op = CONTAINER_OF(it, struct cell_op, link);
        if (!c->writing || op != first(c)) {
            op_end(c, op, c->closing.why);
        }
    }
    mirror_stop(&c->mirror);
    if (!c->cas.ending) {
        cas_end(&c->cas);
    }
    if (c->cas_ended && !c->step.busy && list_empty(&c->done)) {
        client_timer_stop(value_cell_client_of(c), &c->retry);
        closing_done(&c->closing);
    }
}

static void value_cell_run(void *self)
{
    struct cell *c = self;
    struct cell_op *op = first(c);
    if (c->closing.ending) {
        run_closing(c);
        return;
    }
    if (op == NULL || c->writing || c->step.busy || client_timer_active(&c->retry) ||
        !recipes_connected(c->handle.rt)) {
        return;
    }
    if (op->compute == NULL) {
        write_now(c, op, op->expected);
    } else if (!op->needs_read && c->known) {
        decide(c);
    } else {
        struct conclave_op get = conclave_op_path(CONCLAVE_OP_GET, c->path, 0);
        get.linearizable = true;
        step_submit(&c->step, &get, on_read);
    }
}

static void value_cell_on_retry(struct conclave_client *client, void *ctx)
{
    value_cell_run(ctx);
}

static void value_cell_on_change(struct mirror *m)
{
    struct cell *c = CONTAINER_OF(m, struct cell, mirror);
    c->change_due = true;
    handle_post(&c->handle);
}

static void on_watch_failed(struct mirror *m, int error)
{
    struct cell *c = CONTAINER_OF(m, struct cell, mirror);
    closing_begin(&c->closing, error);
    value_cell_run(c);
}

static void cell_on_state(struct handle *h, enum conclave_state state)
{
    struct cell *c = CONTAINER_OF(h, struct cell, handle);
    handle_ref(h);
    if (state_is_final(state)) {
        closing_begin(&c->closing,
                      state == CONCLAVE_STATE_CLOSED ? CONCLAVE_ECLOSED : CONCLAVE_AUTH_FAILED);
    }
    if (recipes_connected(h->rt)) {
        client_timer_stop(value_cell_client_of(c), &c->retry);
    }
    mirror_on_state(&c->mirror, state);
    cas_on_state(&c->cas, state);
    value_cell_run(c);
    handle_unref(h);
}

/* --- telling ------------------------------------------------------------------------- */

static bool tell_done(struct cell *c)
{
    struct list *link = list_pop_front(&c->done);
    if (link == NULL) {
        return false;
    }
    struct cell_op *op = CONTAINER_OF(link, struct cell_op, link);
    client_unlock(value_cell_client_of(c));
    op->tell(c, op);
    cell_op_free(op);
    client_lock(value_cell_client_of(c));
    value_cell_run(c);
    return true;
}

/* There was no memory to tell a change. */
static void on_again(struct conclave_client *client, void *ctx)
{
    handle_post(&((struct cell *)ctx)->handle);
}

static bool tell_change(struct cell *c)
{
    struct mirror_view view;
    if (!c->change_due || c->closing.ending) {
        return false;
    }
    if (mirror_view(&c->mirror, &view) != 0) {
        client_timer_start(value_cell_client_of(c), &c->again,
                           client_now_ns(value_cell_client_of(c)) + TELL_AGAIN_MS * 1000000LL);
        return false;
    }
    c->change_due = false;
    bool stale = !c->mirror.fresh;
    client_unlock(value_cell_client_of(c));
    c->tell_change(c, view.count > 0 ? view.items[0] : NULL, stale);
    client_lock(value_cell_client_of(c));
    mirror_view_clear(&view);
    return true;
}

static bool cell_run_due(struct handle *h)
{
    struct cell *c = CONTAINER_OF(h, struct cell, handle);
    return tell_done(c) || tell_change(c) || closing_tell(&c->closing, c->tell_closed, c);
}

/* --- the handle ----------------------------------------------------------------------- */

static void cell_clear(struct cell *c)
{
    mirror_finish(&c->mirror);
    cas_finish(&c->cas);
    free(c->now_data);
    free(c->path);
    free(c->acl);
}

static void cell_free(struct handle *h)
{
    struct cell *c = CONTAINER_OF(h, struct cell, handle);
    client_timer_stop(h->rt->client, &c->retry);
    client_timer_stop(h->rt->client, &c->again);
    cell_clear(c);
    free(c);
}

static const struct handle_class cell_class = {cell_on_state, cell_run_due, cell_free};

int cell_open(struct cell *c, struct conclave_recipes *rt, const char *path,
              const struct conclave_acl *acl, size_t acl_count, void **ret)
{
    int error = client_check(rt->client);
    if (error != 0) {
        return error;
    }
    if (path == NULL || !path_is_valid(path, false) || strcmp(path, "/") == 0) {
        return CONCLAVE_EINVAL;
    }
    bool with_acl = acl != NULL && acl_count > 0;
    c->path = strdup(path);
    c->acl = with_acl ? acl_copy(acl, acl_count) : NULL;
    if (c->path == NULL || (with_acl && c->acl == NULL) || cas_init(&c->cas, path) != 0 ||
        mirror_init(&c->mirror, &c->handle, path, 0, value_cell_on_change, on_watch_failed) != 0) {
        free(c->path);
        free(c->acl);
        c->acl = NULL;
        cas_finish(&c->cas);
        return CONCLAVE_ENOMEM;
    }
    c->cas.path = c->path;
    c->cas.acl = c->acl;
    c->cas.acl_count = with_acl ? acl_count : 0;
    c->cas.done = on_written;
    c->cas.ended = on_cas_ended;
    list_init(&c->ops);
    list_init(&c->done);
    client_lock(rt->client);
    if (state_is_final(client_state(rt->client))) {
        client_unlock(rt->client);
        free(c->mirror.path);
        cas_finish(&c->cas);
        free(c->path);
        free(c->acl);
        return CONCLAVE_ECLOSED;
    }
    handle_init(&c->handle, rt, &cell_class);
    closing_init(&c->closing, &c->handle);
    step_init(&c->step, &c->handle);
    client_timer_init(&c->retry, value_cell_on_retry, c);
    client_timer_init(&c->again, on_again, c);
    cas_begin(&c->cas, &c->handle);
    *ret = c;
    if (c->watching) {
        mirror_start(&c->mirror);
    }
    client_unlock(rt->client);
    return 0;
}

int cell_submit(struct cell *c, struct cell_op *op)
{
    struct conclave_client *client = value_cell_client_of(c);
    int error = client_check(client);
    if (error != 0) {
        cell_op_free(op);
        return error;
    }
    client_lock(client);
    if (c->closing.ending) {
        cell_op_free(op);
        error = CONCLAVE_ECLOSED;
    } else {
        list_push_back(&c->ops, &op->link);
        value_cell_run(c);
    }
    client_unlock(client);
    return error;
}

static bool op_ended(void *ctx)
{
    return ((struct cell_op *)ctx)->ended;
}

int cell_call(struct cell *c, struct cell_op *op, int64_t timeout_ms, struct cell_op **ret_op)
{
    struct conclave_client *client = value_cell_client_of(c);
    int error = recipes_may_block(c->handle.rt);
    if (error != 0) {
        cell_op_free(op);
        return error;
    }
    client_lock(client);
    if (c->closing.ending) {
        error = c->closing.why;
        cell_op_free(op);
        client_unlock(client);
        return error;
    }
    handle_ref(&c->handle);
    list_push_back(&c->ops, &op->link);
    value_cell_run(c);
    error = client_wait(client, op_ended, op, client_deadline_ns(client, timeout_ms));
    if (op->ended) {
        error = op->error;
        *ret_op = op;
    } else if (c->writing && op == first(c) && !cas_cancel(&c->cas)) {
        op->abandoned = true; /* it cannot be called back */
    } else {
        c->writing = c->writing && op != first(c);
        list_remove(&op->link);
        cell_op_free(op);
        value_cell_run(c);
    }
    handle_unref(&c->handle);
    client_unlock(client);
    return error;
}

void cell_close(struct cell *c)
{
    closing_ask(&c->closing, value_cell_run, c);
}

int cell_close_wait(struct cell *c, int64_t timeout_ms)
{
    cell_close(c);
    return closing_wait(&c->closing, timeout_ms);
}

void cell_destroy(struct cell *c)
{
    if (c != NULL) {
        closing_destroy(&c->closing);
    }
}
