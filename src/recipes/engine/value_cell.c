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
    return c->host.handle.rt->client;
}

static void value_cell_run(struct cell *c)
{
    machine_run(&c->machine);
}

static struct cell *cell_of(struct host *host)
{
    return CONTAINER_OF(host, struct cell, host);
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
    struct list *link = c->ops.next; /* a freed operation has left the list before */
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
        handle_post(&c->host.handle);
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
    if (other && op->compute != NULL && !c->host.closing.ending) {
        conflict(c, op);
        return;
    }
    if (other && op->compute != NULL) {
        error = c->host.closing.why; /* its turn would have come again */
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

/* A running write ends by itself. */
static void cell_stop(struct host *host)
{
    struct cell *c = cell_of(host);
    LIST_FOREACH (it, &c->ops) {
        struct cell_op *op = CONTAINER_OF(it, struct cell_op, link);
        if (!c->writing || op != first(c)) {
            op_end(c, op, host->closing.why);
        }
    }
    machine_resume(&c->machine);
    machine_resume(&c->again);
    mirror_stop(&c->mirror);
    cas_end(&c->cas);
}

static bool cell_is_idle(struct host *host)
{
    const struct cell *c = cell_of(host);
    assert(!c->cas_ended || !c->writing);
    return c->cas_ended && !c->step.busy && list_empty(&c->done);
}

static void cell_work(struct machine *machine)
{
    struct cell *c = CONTAINER_OF(machine, struct cell, machine);
    struct cell_op *op = first(c);
    if (c->host.closing.ending) {
        host_check(&c->host);
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
    handle_post(&c->host.handle);
}

static void on_watch_failed(struct mirror *m, int error)
{
    host_end(&CONTAINER_OF(m, struct cell, mirror)->host, error);
}

static void cell_on_state(struct host *host, enum conclave_state state)
{
    struct cell *c = cell_of(host);
    if (recipes_connected(host->handle.rt)) {
        machine_resume(&c->machine);
    }
    mirror_on_state(&c->mirror, state);
    cas_on_state(&c->cas, state);
    value_cell_run(c);
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
    if (!c->change_due || c->host.closing.ending) {
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

static bool cell_run_due(struct host *host)
{
    return tell_done(cell_of(host)) || tell_change(cell_of(host));
}

static void cell_tell_closed(struct host *host, int why)
{
    cell_of(host)->tell_closed(cell_of(host), why);
}

/* --- the handle ----------------------------------------------------------------------- */

static void cell_free(struct host *host)
{
    struct cell *c = cell_of(host);
    machine_resume(&c->machine);
    machine_resume(&c->again);
    mirror_finish(&c->mirror);
    cas_finish(&c->cas);
    free(c->now_data);
    free(c->path);
    free(c->acl);
    free(c);
}

static const struct host_class cell_class = {
    .on_state = cell_on_state,
    .run_due = cell_run_due,
    .stop = cell_stop,
    .is_idle = cell_is_idle,
    .tell_closed = cell_tell_closed,
    .free = cell_free,
};

static int cell_make(struct cell *c, const char *path, const struct conclave_acl *acl,
                     size_t acl_count)
{
    machine_init(&c->machine, &c->host.handle, cell_work);
    machine_init(&c->again, &c->host.handle, cell_tell_again);
    machine_step_init(&c->machine, &c->step);
    list_init(&c->ops);
    list_init(&c->done);
    if (!option_path_valid(path)) {
        return CONCLAVE_EINVAL;
    }
    c->path = strdup(path);
    if (c->path == NULL || cas_init(&c->cas, path) != 0 ||
        !acl_copy_option(acl, acl_count, &c->acl, &c->cas.acl_count)) {
        return CONCLAVE_ENOMEM;
    }
    c->cas.path = c->path;
    c->cas.acl = c->acl;
    c->cas.done = on_written;
    c->cas.ended = on_cas_ended;
    return mirror_init(&c->mirror, &c->host.handle, path, 0, value_cell_on_change, on_watch_failed);
}

int cell_open(struct cell *c, struct conclave_recipes *rt, const char *path,
              const struct conclave_acl *acl, size_t acl_count)
{
    return host_open(&c->host, rt, &cell_class, cell_make(c, path, acl, acl_count));
}

void cell_begin(struct cell *c)
{
    cas_begin(&c->cas, &c->host.handle);
    if (c->watching) {
        mirror_start(&c->mirror);
    }
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
    if (c->host.closing.ending) {
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
    int error = handle_begin_wait(&c->host.handle);
    if (error != 0) {
        cell_op_free(op);
        return error;
    }
    if (c->host.closing.ending) {
        error = c->host.closing.why;
        cell_op_free(op);
        handle_end_wait(&c->host.handle);
        return error;
    }
    list_push_back(&c->ops, &op->link);
    value_cell_run(c);
    error = handle_wait(&c->host.handle, op_ended, op, timeout_ms);
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
    handle_end_wait(&c->host.handle);
    return error;
}
