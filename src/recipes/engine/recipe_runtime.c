#include "recipes/engine/recipe_runtime.h"

#include "recipes/engine/machine.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- runtime -------------------------------------------------------------------- */

void recipes_ref(struct conclave_recipes *rt)
{
    rt->refs++;
}

void recipes_unref(struct conclave_recipes *rt)
{
    assert(rt->refs > 0);
    if (--rt->refs > 0) {
        return;
    }
    client_timer_stop(rt->client, &rt->retry);
    client_timer_stop(rt->client, &rt->lease.next_beat);
    client_timer_stop(rt->client, &rt->deletes.retry);
    if (rt->listening) {
        client_listener_remove(rt->client, &rt->listener);
    }
    free(rt);
}

/* Gives a request its answer, which may free the step with its handle. */
static void step_answer(struct step *step, const struct conclave_reply *reply)
{
    struct handle *owner = step->owner;
    struct machine *machine = step->machine;
    assert(step->busy);
    step->busy = false;
    step->fn(step, reply);
    if (machine != NULL) {
        machine_run(machine);
    }
    handle_unref(owner);
}

static void tell_failed(struct conclave_recipes *rt)
{
    struct list failed;
    list_init(&failed);
    while (!list_empty(
        &rt->failed)) { /* a deletion that fails again meanwhile waits for the next round */
        list_push_back(&failed, list_pop_front(&rt->failed));
    }
    for (struct list *it; (it = list_pop_front(&failed)) != NULL;) {
        struct step *step = CONTAINER_OF(it, struct step, failed_link);
        struct conclave_reply reply = {.error = step->error};
        step_answer(step, &reply);
    }
}

static void recipe_runtime_on_retry(struct conclave_client *client, void *ctx)
{
    struct conclave_recipes *rt = ctx;
    recipes_ref(rt);
    tell_failed(rt);
    recipes_unref(rt);
}

static void on_client_state(struct conclave_client *client, enum conclave_state state, void *ctx)
{
    struct conclave_recipes *rt = ctx;
    recipes_ref(rt);
    if (state_is_final(state)) {
        tell_failed(rt); /* timers fire no more */
    }
    lease_on_state(&rt->lease, state);
    deletes_on_state(&rt->deletes, state);
    LIST_FOREACH (it, &rt->handles) {
        struct handle *h = CONTAINER_OF(it, struct handle, link);
        if (h->class->on_state != NULL) {
            h->class->on_state(h, state);
        }
    }
    recipes_unref(rt);
}

int conclave_recipes_open(struct conclave_client *client, struct conclave_recipes **ret)
{
    struct conclave_recipes *rt = calloc(1, sizeof *rt);
    if (rt == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int error = client_dispatcher_open(client, &rt->dispatcher);
    if (error != 0) {
        free(rt);
        return error;
    }
    rt->client = client;
    rt->pid = getpid();
    rt->refs = 1;
    rt->listening = true;
    rt->listener.fn = on_client_state;
    rt->listener.ctx = rt;
    list_init(&rt->handles);
    list_init(&rt->failed);
    client_timer_init(&rt->retry, recipe_runtime_on_retry, rt);
    lease_init(&rt->lease, rt);
    deletes_init(&rt->deletes, rt);
    client_lock(client);
    client_ref(client);
    client_listener_add(client, &rt->listener);
    client_unlock(client);
    *ret = rt;
    return 0;
}

void conclave_recipes_destroy(struct conclave_recipes *rt)
{
    if (rt == NULL) {
        return;
    }
    struct conclave_client *client = rt->client;
    if (rt->pid != getpid()) {
        return; /* threads and lock belong to the parent */
    }
    client_dispatcher_close(client, rt->dispatcher);
    client_lock(client);
    if (!list_empty(&rt->handles)) {
        recipes_misuse(__func__, "handles are left: call _close_wait and _destroy of each first");
    }
    rt->destroyed = true;
    recipes_unref(rt);
    client_unlock(client);
    client_unref(client);
}

_Noreturn void recipes_misuse(const char *function, const char *missing)
{
    (void)fprintf(stderr, "conclave: %s: %s\n", function, missing);
    abort();
}

int recipes_check(const struct conclave_recipes *rt)
{
    if (rt == NULL) {
        recipes_misuse("recipes is NULL", "call conclave_recipes_open first");
    }
    return client_check(rt->client);
}

int recipes_may_block(struct conclave_recipes *rt)
{
    int error = recipes_check(rt);
    if (error == 0 && dispatcher_is_current(rt->dispatcher)) {
        error = CONCLAVE_EDEADLK;
    }
    return error;
}

/* --- handles -------------------------------------------------------------------- */

void handle_init(struct handle *h, struct conclave_recipes *rt, const struct handle_class *class)
{
    h->rt = rt;
    h->class = class;
    h->refs = 1;
    h->job_posted = false;
    list_init(&h->job.link);
    list_push_back(&rt->handles, &h->link);
    recipes_ref(rt);
}

void handle_ref(struct handle *h)
{
    h->refs++;
}

void handle_unref(struct handle *h)
{
    assert(h->refs > 0);
    if (--h->refs > 0) {
        return;
    }
    struct conclave_recipes *rt = h->rt;
    list_remove(&h->link);
    h->class->free(h);
    recipes_unref(rt);
}

static void run_job(struct job *job)
{
    struct handle *h = CONTAINER_OF(job, struct handle, job);
    struct conclave_client *client = h->rt->client;
    client_ref(client); /* the last callback may destroy the runtime and close the client */
    client_lock(client);
    h->job_posted = false;
    if (h->class->run_due(h)) {
        handle_post(h); /* one at a time, so that the other handles get their turn */
    }
    handle_unref(h);
    client_unlock(client);
    client_unref(client);
}

void handle_release(struct handle *h)
{
    list_remove(&h->link);
    handle_unref(h);
}

void handle_retire(struct handle *h)
{
    list_remove(&h->link);
}

void handle_post(struct handle *h)
{
    if (h->job_posted || list_empty(&h->link)) {
        return;
    }
    h->job_posted = true;
    h->job.run = run_job;
    handle_ref(h);
    client_post(h->rt->client, h->rt->dispatcher, &h->job);
}

int handle_begin_wait(struct handle *h)
{
    int error = recipes_may_block(h->rt);
    if (error == 0) {
        client_lock(h->rt->client);
        handle_ref(h);
    }
    return error;
}

int handle_wait(struct handle *h, bool (*done)(void *ctx), void *ctx, int64_t timeout_ms)
{
    struct conclave_client *client = h->rt->client;
    return client_wait(client, done, ctx, client_deadline_ns(client, timeout_ms));
}

void handle_end_wait(struct handle *h)
{
    struct conclave_client *client = h->rt->client;
    handle_unref(h);
    client_unlock(client);
}

/* --- steps ---------------------------------------------------------------------- */

void step_init(struct step *step, struct handle *owner)
{
    memset(step, 0, sizeof *step);
    step->owner = owner;
    list_init(&step->failed_link);
}

static void on_reply(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    step_answer(ctx, reply);
}

void step_submit(struct step *step, const struct conclave_op *op, step_fn fn)
{
    struct conclave_recipes *rt = step->owner->rt;
    assert(!step->busy);
    step->fn = fn;
    step->busy = true;
    handle_ref(step->owner);
    step->error = client_submit(rt->client, op, on_reply, step);
    if (step->error != 0) {
        list_push_back(&rt->failed, &step->failed_link);
        if (!client_timer_active(&rt->retry)) {
            client_timer_start(rt->client, &rt->retry, client_now_ns(rt->client));
        }
    }
}

static void step_ask_as(struct step *step, enum conclave_op_type type, const char *path,
                        bool latest, step_fn fn)
{
    struct conclave_op op = conclave_op_path(type, path, 0);
    op.linearizable = latest;
    step_submit(step, &op, fn);
}

void step_ask(struct step *step, enum conclave_op_type type, const char *path, step_fn fn)
{
    step_ask_as(step, type, path, false, fn);
}

void step_ask_latest(struct step *step, enum conclave_op_type type, const char *path, step_fn fn)
{
    step_ask_as(step, type, path, true, fn);
}

/* --- watches -------------------------------------------------------------------- */

void watch_slot_init(struct watch_slot *slot, struct handle *owner,
                     void (*fn)(struct watch_slot *slot, enum conclave_event_type type))
{
    memset(slot, 0, sizeof *slot);
    slot->owner = owner;
    slot->fn = fn;
}

static void on_watch(struct conclave_client *client, enum conclave_event_type type,
                     const char *path, void *ctx)
{
    struct watch_slot *slot = ctx;
    struct handle *owner = slot->owner;
    struct machine *machine = slot->machine;
    slot->armed = false;
    handle_ref(owner);
    if (slot->fn != NULL) {
        slot->fn(slot, type);
    }
    if (machine != NULL) {
        machine_run(machine);
    }
    handle_unref(owner);
}

static void forget(struct watch_slot *slot)
{
    if (slot->armed) {
        slot->armed = false;
        (void)client_watch_forget(slot->owner->rt->client, slot->path, on_watch, slot);
    }
}

int watch_slot_prepare(struct watch_slot *slot, const char *path, struct conclave_op *op)
{
    assert(!slot->pending);
    char *copy = strdup(path);
    if (copy == NULL) {
        return CONCLAVE_ENOMEM;
    }
    forget(slot);
    free(slot->path);
    slot->path = copy;
    slot->pending = true;
    op->path = copy;
    op->watch = on_watch;
    op->watch_ctx = slot;
    return 0;
}

void watch_slot_answered(struct watch_slot *slot, bool set)
{
    assert(slot->pending);
    slot->pending = false;
    slot->armed = set;
}

void watch_slot_clear(struct watch_slot *slot)
{
    assert(!slot->pending);
    forget(slot);
    free(slot->path);
    slot->path = NULL;
}

/* --- helpers -------------------------------------------------------------------- */

enum { RETRY_MS = 250 };

void recipes_retry_later(struct conclave_recipes *rt, struct client_timer *timer)
{
    client_timer_start(rt->client, timer, client_now_ns(rt->client) + (int64_t)RETRY_MS * 1000000);
}

char *path_join(const char *parent, const char *name)
{
    if (strcmp(parent, "/") == 0) {
        parent = "";
    }
    size_t len = strlen(parent) + strlen(name) + 2;
    char *path = malloc(len);
    if (path != NULL) {
        (void)snprintf(path, len, "%s/%s", parent, name);
    }
    return path;
}

const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

bool error_is_fatal(int error)
{
    switch (error) {
    case CONCLAVE_NO_AUTH:
    case CONCLAVE_INVALID_ACL:
    case CONCLAVE_BAD_ARGUMENTS:
    case CONCLAVE_QUOTA_EXCEEDED:
    case CONCLAVE_NO_CHILDREN_FOR_EPHEMERALS:
    case CONCLAVE_EPHEMERAL_ON_LOCAL_SESSION:
    case CONCLAVE_UNIMPLEMENTED:
    case CONCLAVE_EINVAL:
    case CONCLAVE_ETOOBIG:
    case CONCLAVE_AUTH_FAILED:
        return true;
    default:
        return false;
    }
}
