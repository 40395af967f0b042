#include "recipes/engine/value_cell.h"

#include "base/random.h"
#include "client/core/acl.h"
#include "recipes/engine/option_copies.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CONFLICTS_MAX = 6 }; /* the pause after a conflict grows until then */

static struct conclave_client *value_cell_client_of(const struct cell *c)
{
    return c->handle.rt->client;
}

static void value_cell_run(void *self)
{
    machine_run(&((struct cell *)self)->machine);
}

/* --- operations -------------------------------------------------------------------- */

struct cell_op *cell_op_make(const void *data, size_t len)
{
    struct cell_op *op = calloc(1, sizeof *op);
    if (op == NULL || (op->data = bytes_copy(data, len)) == NULL) {
        free(op);
        return NULL;
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
    assert(!op->ended && !(c->writing && op == first(c)));
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

/* Gives the operation its share of what is there. false: no memory. */
static bool op_keep(struct cell_op *op, const struct cell_value *value)
{
    char *held = bytes_copy(value->data, value->data_len);
    if (held == NULL) {
        return false;
    }
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
        machine_retry_later(&c->machine);
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
        if (!machine_tries_again(&c->machine, reply->error) && op != NULL) {
            op_end(c, op, reply->error);
        }
        return;
    }
    struct cell_value value = {.there = reply->error == 0};
    char *data = bytes_copy(reply->data, reply->data_len);
    if (data == NULL) {
        machine_retry_later(&c->machine);
        return;
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
    machine_pause(&c->machine, (int64_t)random_below(((uint64_t)1 << c->conflicts)));
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
        char *copy = bytes_copy(op->data, op->data_len);
        c->known = false;
        if (copy != NULL) {
            remember(c, &value, copy);
        }
        op->result = value;
        op->result.data = NULL;
        op->result.data_len = 0;
    } else {
        c->known = false;
    }
    op_end(c, op, error);
    value_cell_run(c); /* the next one's turn */
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
        machine_resume(&c->machine);
        closing_done(&c->closing);
    }
}

static void cell_work(struct machine *machine)
{
    struct cell *c = CONTAINER_OF(machine, struct cell, machine);
    struct cell_op *op = first(c);
    if (c->closing.ending) {
        run_closing(c);
        return;
    }
    if (op == NULL || c->writing || c->step.busy || !machine_can_send(machine)) {
        return;
    }
    if (op->compute == NULL) {
        write_now(c, op, op->expected);
    } else if (!op->needs_read && c->known) {
        decide(c);
    } else {
        step_ask_latest(&c->step, CONCLAVE_OP_GET, c->path, on_read);
    }
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
        closing_begin(&c->closing, state_error(state));
    }
    if (recipes_connected(h->rt)) {
        machine_resume(&c->machine);
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
static void cell_tell_again(struct machine *machine)
{
    handle_post(machine->owner);
}

static bool tell_change(struct cell *c)
{
    struct mirror_view view;
    if (!c->change_due || c->closing.ending) {
        return false;
    }
    if (mirror_view(&c->mirror, &view) != 0) {
        machine_retry_later(&c->again);
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
    machine_resume(&c->machine);
    machine_resume(&c->again);
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
    if (!option_path_valid(path)) {
        return CONCLAVE_EINVAL;
    }
    c->path = strdup(path);
    if (!acl_copy_option(acl, acl_count, &c->acl, &acl_count) || c->path == NULL ||
        cas_init(&c->cas, path) != 0 ||
        mirror_init(&c->mirror, &c->handle, path, 0, value_cell_on_change, on_watch_failed) != 0) {
        free(c->path);
        free(c->acl);
        c->acl = NULL;
        cas_finish(&c->cas);
        return CONCLAVE_ENOMEM;
    }
    c->cas.path = c->path;
    c->cas.acl = c->acl;
    c->cas.acl_count = acl_count;
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
    machine_init(&c->machine, &c->handle, cell_work);
    machine_init(&c->again, &c->handle, cell_tell_again);
    machine_step_init(&c->machine, &c->step);
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
    int error = handle_begin_wait(&c->handle);
    if (error != 0) {
        cell_op_free(op);
        return error;
    }
    if (c->closing.ending) {
        error = c->closing.why;
        cell_op_free(op);
        handle_end_wait(&c->handle);
        return error;
    }
    list_push_back(&c->ops, &op->link);
    value_cell_run(c);
    error = handle_wait(&c->handle, op_ended, op, timeout_ms);
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
    handle_end_wait(&c->handle);
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
