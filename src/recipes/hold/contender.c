/* The machine that contender.h draws, and what public functions of all recipes do with it. */
#include "recipes/hold/contender.h"

#include "client/core/acl.h"
#include "recipes/engine/option_copies.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTENDER_ID_MAX = 1024 };

/* --- transitions ----------------------------------------------------------------- */

#define TO CONTENDER_TO

static const uint16_t common_arrows[CONTENDER_STATES] = {
    [CONTENDER_OUT] = TO(JOINING) | TO(CLOSED),
    [CONTENDER_JOINING] = TO(WAITING),
    [CONTENDER_WAITING] = TO(FIRST) | TO(LEAVING),
    [CONTENDER_FIRST] = TO(LEAVING),
    [CONTENDER_PROVING] = TO(LEAVING),
    [CONTENDER_GRANTED] = TO(STARTING) | TO(LEAVING),
    [CONTENDER_STARTING] = TO(HELD) | TO(INTERRUPTED),
    [CONTENDER_HELD] = TO(STOPPING),
    [CONTENDER_INTERRUPTED] = TO(STOPPING),
    [CONTENDER_STOPPING] = TO(ENDING),
    [CONTENDER_ENDING] = TO(LEAVING),
    [CONTENDER_LEAVING] = TO(OUT),
};

/* The conditions of the state that is entered; state is the one that is left. */
static void contender_check(const struct contender *c, enum contender_state to)
{
    bool visible = atomic_load_explicit(&c->grant.until_ns, memory_order_relaxed) != 0;
    switch (to) {
    case CONTENDER_OUT:
        assert(c->node == NULL && !c->holder.added && !visible);
        break;
    case CONTENDER_GRANTED:
        assert(c->class->begin != NULL && !visible);
        assert(c->node != NULL && c->holder.added && c->holder.until_ns != 0);
        break;
    case CONTENDER_STARTING:
    case CONTENDER_HELD:
        assert(c->node != NULL && c->holder.added && c->holder.until_ns != 0);
        break;
    case CONTENDER_CLOSED:
        assert(c->closing.ending && c->node == NULL && !visible);
        break;
    case CONTENDER_LEAVING:
        /* A user that learned of a grant has stopped, unless its owner released it. */
        assert(c->class->begin == NULL ||
               (c->state != CONTENDER_STARTING && c->state != CONTENDER_HELD &&
                c->state != CONTENDER_INTERRUPTED && c->state != CONTENDER_STOPPING));
        assert(!c->holder.added && !visible);
        break;
    default:
        assert(!c->holder.added && !visible); /* not granted, or revoked */
        break;
    }
}

void contender_enter(struct contender *c, enum contender_state state)
{
    unsigned arrows = common_arrows[c->state] | c->class->arrows[c->state];
    assert((arrows & TRANSITION_TO(state)) != 0);
    contender_check(c, state);
    c->state = state;
    machine_run_again(&c->machine);
}

/* --- pauses and errors ------------------------------------------------------------ */

void contender_trouble(struct contender *c, int error)
{
    if (machine_tries_again(&c->machine, error)) {
        return;
    }
    if (c->class->fail == NULL) {
        contender_end(c, error);
    } else if (!c->class->fail(c, error)) {
        machine_retry_later(&c->machine);
    }
}

void contender_end(struct contender *c, int why)
{
    if (c->closing.ending) {
        return;
    }
    closing_begin(&c->closing, why);
    if (c->class->ending != NULL) {
        c->class->ending(c);
    }
}

/* --- the node -------------------------------------------------------------------- */

bool contender_may_join(struct contender *c)
{
    if (client_now_ns(contender_client(c)) < c->not_before_ns) {
        machine_pause_until(&c->machine, c->not_before_ns);
        return false;
    }
    return !machine_pauses(&c->machine); /* a failed try waits */
}

struct protected_node contender_node(const struct contender *c, enum name_kind kind,
                                     const void *data, size_t len)
{
    return (struct protected_node){.parent = c->place.parent,
                                   .naming = c->place.naming,
                                   .kind = kind,
                                   .data = data,
                                   .data_len = len,
                                   .acl = c->acl,
                                   .acl_count = c->acl_count};
}

struct conclave_op contender_create_op(const struct contender *c, const char *path,
                                       const void *data, size_t len, enum conclave_create_mode mode)
{
    struct conclave_op op = conclave_op_create(path, data, len, mode);
    op.acl = c->acl;
    op.acl_count = c->acl_count;
    return op;
}

void contender_join_as(struct contender *c, const struct protected_node *node)
{
    assert(c->node == NULL);
    contender_enter(c, CONTENDER_JOINING);
    protected_create_start(&c->create, node);
}

void contender_join(struct contender *c, enum name_kind kind, const void *data, size_t len)
{
    struct protected_node node = contender_node(c, kind, data, len);
    contender_join_as(c, &node);
}

void contender_submit(struct contender *c, struct step *step, const struct conclave_op *op,
                      step_fn fn)
{
    step->generation = c->generation;
    step_submit(step, op, fn);
}

void contender_take(struct contender *c, char *path, const struct conclave_stat *stat)
{
    assert(c->node == NULL && !c->holder.added);
    c->node = path;
    c->node_session = stat->ephemeral_owner;
    c->czxid = stat->czxid;
    c->generation++;
    c->session_ended = false;
    if (!c->holder.versioned) { /* else the lease is that of another node */
        c->holder.path = path;
    }
    client_notify(contender_client(c));
}

void contender_joined(struct contender *c, char *path, const struct conclave_stat *stat,
                      int64_t sent_ns)
{
    contender_take(c, path, stat);
    c->sent_ns = c->class->create_proves ? sent_ns : 0;
    place_enter(&c->place, path, c->node_session, c->czxid);
    if (c->class->joined != NULL) {
        c->class->joined(c);
    }
    contender_enter(c, CONTENDER_WAITING);
    if (c->node_session != client_session_id(contender_client(c))) {
        contender_node_gone(c, CONCLAVE_SESSION_EXPIRED);
    }
}

static void contender_on_created(struct protected_create *create, int error, char *path,
                                 const struct conclave_stat *stat)
{
    struct contender *c = CONTAINER_OF(create, struct contender, create);
    handle_ref(&c->handle);
    if (error != 0) {
        c->class->not_joined(c, error);
    } else {
        contender_joined(c, path, stat, create->sent_ns);
    }
    contender_run(c);
    handle_unref(&c->handle);
}

void contender_forget_node(struct contender *c)
{
    c->generation++;
    place_leave(&c->place);
    lease_remove(&contender_rt(c)->lease, &c->holder); /* its path may be the node's */
    free(c->node);
    c->node = NULL;
}

void contender_node_gone(struct contender *c, int why)
{
    if (c->node == NULL) {
        return;
    }
    contender_forget_node(c);
    if (c->class->gone != NULL) {
        c->class->gone(c, why);
    }
    if (contender_is_granted(c)) {
        contender_revoke(c, why, 0);
    } else if (contender_is_queued(c) || c->state == CONTENDER_PREPARING) {
        contender_enter(c, CONTENDER_LEAVING);
    }
}

/* --- place_class ------------------------------------------------------------------ */

static struct contender *contender_of_place(struct place *place)
{
    return CONTAINER_OF(place, struct contender, place);
}

void contender_place_free(struct place *place)
{
    struct contender *c = contender_of_place(place);
    if (c->state == CONTENDER_WAITING) {
        contender_enter(c, CONTENDER_FIRST);
    }
}

void contender_place_gone(struct place *place)
{
    contender_node_gone(contender_of_place(place), CONCLAVE_ELOST);
}

void contender_place_trouble(struct place *place, int error)
{
    contender_trouble(contender_of_place(place), error);
}

const struct place_class contender_place_class = {
    .judge = place_judge_first,
    .free = contender_place_free,
    .gone = contender_place_gone,
    .trouble = contender_place_trouble,
};

/* --- lease and grant -------------------------------------------------------------- */

void contender_add_lease(struct contender *c)
{
    c->holder.heartbeat_ms = c->lease.heartbeat_ms;
    lease_add_proved(&contender_rt(c)->lease, &c->holder, c->sent_ns);
    c->sent_ns = 0;
}

void contender_grant(struct contender *c)
{
    assert(c->state == CONTENDER_PROVING);
    c->token = c->czxid;
    if (c->class->begin != NULL) {
        contender_enter(c, CONTENDER_GRANTED);
    } else {
        contender_enter(c, CONTENDER_HELD);
        grant_publish(&c->grant, c->token, c->holder.until_ns);
        c->class->granted(c);
    }
    handle_post(&c->handle);
}

void contender_withdraw(struct contender *c)
{
    grant_withdraw(&c->grant);
    lease_remove(&contender_rt(c)->lease, &c->holder);
}

void contender_revoke(struct contender *c, int why, int64_t until_ns)
{
    assert(contender_is_granted(c) && why != 0);
    contender_withdraw(c);
    c->stop_why = why;
    c->stop_until_ns = until_ns;
    if (c->class->revoked != NULL) {
        c->class->revoked(c);
    }
    client_notify(contender_client(c));
    if (c->state == CONTENDER_GRANTED) {
        c->class->stopped(c); /* the user never knew */
    } else if (c->state == CONTENDER_STARTING) {
        contender_enter(c, CONTENDER_INTERRUPTED);
    } else {
        contender_enter(c, CONTENDER_STOPPING);
        handle_post(&c->handle);
    }
}

static void contender_on_proved(struct lease_holder *holder)
{
    struct contender *c = CONTAINER_OF(holder, struct contender, holder);
    if (contender_holds(c)) {
        grant_publish(&c->grant, c->token, holder->until_ns);
    } else if (c->state == CONTENDER_PROVING) {
        contender_run(c);
    }
}

static void contender_on_lease_lost(struct lease_holder *holder, int why)
{
    struct contender *c = CONTAINER_OF(holder, struct contender, holder);
    handle_ref(&c->handle);
    if (c->class->lease_lost != NULL) {
        c->class->lease_lost(c, why);
    } else if (why != CONCLAVE_ELOST) {
        contender_node_gone(c, why == CONCLAVE_NO_NODE ? CONCLAVE_ELOST : why);
    } else if (contender_is_granted(c)) {
        contender_revoke(c, CONCLAVE_ELOST, holder->until_ns);
    } else if (c->state == CONTENDER_PROVING) {
        contender_enter(c, CONTENDER_WAITING);
    }
    contender_run(c);
    handle_unref(&c->handle);
}

/* --- the machine ------------------------------------------------------------------ */

static void contender_run_out(struct contender *c)
{
    if (!c->closing.ending) {
        c->class->out(c);
    } else if (c->class->is_clear == NULL || c->class->is_clear(c)) {
        contender_enter(c, CONTENDER_CLOSED);
        machine_resume(&c->machine);
        closing_done(&c->closing);
    }
}

/* From WAITING to PROVING. */
static void contender_run_queued(struct contender *c)
{
    struct lease *lease = &contender_rt(c)->lease;
    if (c->class->leaving(c)) {
        lease_remove(lease, &c->holder);
        contender_enter(c, CONTENDER_LEAVING);
        return;
    }
    if (!recipes_connected(contender_rt(c))) {
        if (c->state != CONTENDER_WAITING) {
            lease_remove(lease, &c->holder);
            contender_enter(c, CONTENDER_WAITING);
        }
        return;
    }
    if (!machine_pauses(&c->machine)) {
        if (c->class->queued != NULL) {
            c->class->queued(c);
        }
        place_run(&c->place, c->state == CONTENDER_WAITING);
    }
    if (c->state == CONTENDER_FIRST && c->class->ready(c)) {
        contender_enter(c, CONTENDER_PROVING);
        contender_add_lease(c);
    }
    if (c->state == CONTENDER_PROVING && c->holder.until_ns != 0 && c->class->ready(c)) {
        contender_grant(c);
    }
}

static void contender_run_granted(struct contender *c)
{
    if (c->class->leaving(c)) {
        contender_revoke(c, c->closing.ending ? c->closing.why : CONCLAVE_ECANCELED,
                         c->holder.until_ns);
    } else if (recipes_connected(contender_rt(c))) {
        c->class->held(c);
    }
}

/* The common way of a state. */
static void contender_run_state(struct contender *c)
{
    switch (c->state) {
    case CONTENDER_OUT:
        contender_run_out(c);
        break;
    case CONTENDER_JOINING:
        if (c->class->leaving(c) && !c->create.canceled) {
            protected_create_cancel(&c->create);
        }
        break;
    case CONTENDER_WAITING:
    case CONTENDER_FIRST:
    case CONTENDER_PROVING:
        contender_run_queued(c);
        break;
    case CONTENDER_GRANTED:
    case CONTENDER_STARTING:
    case CONTENDER_HELD:
        contender_run_granted(c);
        break;
    case CONTENDER_LEAVING:
        c->class->leave(c);
        break;
    default: /* waits for a callback or an owner, or is closed */
        break;
    }
}

static void contender_work(struct machine *machine)
{
    struct contender *c = CONTAINER_OF(machine, struct contender, machine);
    if (c->class->run == NULL || !c->class->run(c)) {
        contender_run_state(c);
    }
    if (c->class->after_run != NULL) {
        c->class->after_run(c);
    }
}

/* --- callbacks -------------------------------------------------------------------- */

static void contender_tell_begin(struct contender *c)
{
    struct conclave_client *client = contender_client(c);
    if (client_now_ns(client) >= c->holder.until_ns) {
        /* over, though its timer comes late */
        contender_revoke(c, CONCLAVE_ELOST, c->holder.until_ns);
        contender_run(c);
        return;
    }
    contender_enter(c, CONTENDER_STARTING);
    grant_publish(&c->grant, c->token, c->holder.until_ns);
    int answer = c->class->begin(c);
    contender_enter(c, c->state == CONTENDER_STARTING ? CONTENDER_HELD : CONTENDER_STOPPING);
    c->class->began(c, answer);
    client_notify(client);
    contender_run(c);
}

static void contender_tell_end(struct contender *c)
{
    struct conclave_client *client = contender_client(c);
    int64_t within =
        lease_stop_within_ms(client_now_ns(client), c->stop_until_ns, client_timeout_ms(client));
    contender_enter(c, CONTENDER_ENDING);
    c->class->end(c, c->stop_why, within);
    c->class->stopped(c);
    contender_run(c);
}

static bool contender_run_due(struct handle *h)
{
    struct contender *c = CONTAINER_OF(h, struct contender, handle);
    if (c->class->tell_first != NULL && c->class->tell_first(c)) {
        return true;
    }
    if (c->state == CONTENDER_GRANTED) {
        contender_tell_begin(c);
        return true;
    }
    if (c->state == CONTENDER_STOPPING && c->class->begin != NULL) {
        contender_tell_end(c);
        return true;
    }
    if (c->class->tell_last != NULL && c->class->tell_last(c)) {
        return true;
    }
    return closing_tell(&c->closing, c->class->closed, c);
}

/* --- the client's state ------------------------------------------------------------ */

static void contender_session_end(struct contender *c, int why)
{
    contender_node_gone(c, why);
    c->session_ended = true;
    if (c->class->session_ended != NULL) {
        c->class->session_ended(c);
    }
}

static void contender_on_link(struct contender *c)
{
    struct conclave_client *client = contender_client(c);
    machine_resume(&c->machine);
    if (c->node != NULL && c->node_session != client_session_id(client)) {
        contender_session_end(c, CONCLAVE_SESSION_EXPIRED);
    }
    if (c->lease.grace_ms > lease_grace_max_ms(client_timeout_ms(client))) {
        contender_end(c, CONCLAVE_EINVAL); /* the server gave less time than was asked for */
    }
}

static void contender_on_state(struct handle *h, enum conclave_state state)
{
    struct contender *c = CONTAINER_OF(h, struct contender, handle);
    handle_ref(h);
    switch (state) {
    case CONCLAVE_STATE_CLOSED:
        contender_session_end(c, CONCLAVE_ECLOSED);
        contender_end(c, CONCLAVE_ECLOSED);
        break;
    case CONCLAVE_STATE_AUTH_FAILED:
        contender_session_end(c, CONCLAVE_AUTH_FAILED);
        contender_end(c, CONCLAVE_AUTH_FAILED);
        break;
    case CONCLAVE_STATE_LOST:
        contender_session_end(c, CONCLAVE_SESSION_EXPIRED);
        break;
    case CONCLAVE_STATE_SUSPENDED:
        if (contender_is_granted(c) && c->lease.stop_on_suspend) {
            contender_revoke(c, CONCLAVE_ELOST, c->holder.until_ns);
        }
        break;
    default:
        contender_on_link(c);
        break;
    }
    if (c->class->on_state != NULL) {
        c->class->on_state(c, state);
    }
    protected_create_run(&c->create);
    contender_run(c);
    handle_unref(h);
}

/* --- the handle ------------------------------------------------------------------- */

/* Frees what was copied, and c. */
static void contender_discard(struct contender *c)
{
    if (c->class->free_copies != NULL) {
        c->class->free_copies(c);
    }
    free(c->path);
    free(c->id);
    free(c->acl);
    free(c);
}

static void contender_free(struct handle *h)
{
    struct contender *c = CONTAINER_OF(h, struct contender, handle);
    assert(c->state == CONTENDER_CLOSED && !c->holder.added);
    protected_create_finish(&c->create);
    place_finish(&c->place);
    machine_resume(&c->machine);
    free(c->node);
    c->class->finish(c);
    contender_discard(c);
}

static const struct handle_class contender_handle_class = {
    .on_state = contender_on_state,
    .run_due = contender_run_due,
    .free = contender_free,
};

/* --- beginning -------------------------------------------------------------------- */

static bool contender_options_valid(const struct contender_options *o)
{
    return option_path_valid(o->path) &&
           (o->id == NULL || (strchr(o->id, '\n') == NULL && strlen(o->id) <= CONTENDER_ID_MAX)) &&
           (unsigned)o->naming <= CONCLAVE_NAMING_PLAIN && lease_options_valid(o->lease);
}

static bool contender_copy_options(struct contender *c, const struct contender_options *o,
                                   const void *own)
{
    c->path = strdup(o->path);
    c->id = o->id != NULL ? strdup(o->id) : default_id();
    c->lease = *o->lease;
    return acl_copy_option(o->acl, o->acl_count, &c->acl, &c->acl_count) && c->path != NULL &&
           c->id != NULL && (c->class->copy == NULL || c->class->copy(c, own));
}

/* 0 or why it cannot be a handle. Lock held. */
static int contender_init(struct contender *c, struct conclave_recipes *rt,
                          enum conclave_naming naming)
{
    int64_t timeout_ms = client_timeout_ms(rt->client);
    if (state_is_final(client_state(rt->client))) {
        return CONCLAVE_ECLOSED;
    }
    if (timeout_ms > 0 && c->lease.grace_ms > lease_grace_max_ms(timeout_ms)) {
        return CONCLAVE_EINVAL;
    }
    handle_init(&c->handle, rt, &contender_handle_class);
    machine_init(&c->machine, &c->handle, contender_work);
    closing_init(&c->closing, &c->handle);
    protected_create_init(&c->create, &c->handle, contender_on_created);
    c->holder.on_proved = contender_on_proved;
    c->holder.on_lost = contender_on_lease_lost;
    list_init(&c->holder.link);
    place_init(&c->place, &c->machine, c->class->place, c->path, naming);
    c->class->init(c);
    return 0;
}

int contender_open(struct conclave_recipes *rt, const struct contender_class *class,
                   const struct contender_options *options, const void *own, void *ctx,
                   struct contender **ret)
{
    int error = recipes_check(rt);
    if (error != 0) {
        return error;
    }
    if (own == NULL || !contender_options_valid(options)) {
        return CONCLAVE_EINVAL;
    }
    struct contender *c = calloc(1, class->size);
    if (c == NULL) {
        return CONCLAVE_ENOMEM;
    }
    c->class = class;
    c->ctx = ctx;
    if (!contender_copy_options(c, options, own)) {
        contender_discard(c);
        return CONCLAVE_ENOMEM;
    }
    client_lock(rt->client);
    error = contender_init(c, rt, options->naming);
    if (error != 0) {
        contender_discard(c);
        client_unlock(rt->client);
        return error;
    }
    *ret = c;
    return 0;
}

void contender_opened(struct contender *c)
{
    contender_run(c);
    client_unlock(contender_client(c));
}

/* --- public functions of all recipes ------------------------------------------------ */

void contender_node_name(const struct contender *c, char *buf, size_t len)
{
    struct conclave_client *client = contender_client(c);
    if (len == 0) {
        return;
    }
    buf[0] = '\0';
    if (client_check(client) != 0) {
        return;
    }
    client_lock(client);
    if (c->node != NULL) {
        (void)snprintf(buf, len, "%s", path_name(c->node));
    }
    client_unlock(client);
}

int contender_begin_call(struct contender *c)
{
    struct conclave_client *client = contender_client(c);
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    if (c->closing.ending) {
        client_unlock(client);
        return CONCLAVE_ECLOSED;
    }
    return 0;
}

void contender_end_call(struct contender *c)
{
    contender_run(c);
    client_notify(contender_client(c));
    client_unlock(contender_client(c));
}

/* Path of the node that is held, for the check; or why there is none. */
static int contender_fencing_node(struct contender *c, char **ret_path)
{
    int error = 0;
    client_lock(contender_client(c));
    /* The lease may be over before its timer has fired. */
    if (contender_holds(c) && contender_has_lease(c)) {
        *ret_path = strdup(c->node);
        error = *ret_path == NULL ? CONCLAVE_ENOMEM : 0;
    } else {
        error = c->session_ended ? CONCLAVE_SESSION_EXPIRED : CONCLAVE_EFENCED;
    }
    client_unlock(contender_client(c));
    return error;
}

int contender_fenced_multi(struct contender *c, const struct conclave_op *parts, size_t count,
                           struct conclave_reply **ret_reply)
{
    struct conclave_client *client = contender_client(c);
    char *path = NULL;
    int error = client_check(client);
    if (ret_reply != NULL) {
        *ret_reply = NULL;
    }
    if (error == 0) {
        error = contender_fencing_node(c, &path);
    }
    if (error == 0) {
        error = fenced_multi(client, path, parts, count, ret_reply);
        free(path);
    }
    return error;
}

void contender_close(struct contender *c)
{
    struct conclave_client *client = contender_client(c);
    if (client_check(client) != 0) {
        return;
    }
    client_lock(client);
    contender_end(c, CONCLAVE_ECLOSED);
    contender_end_call(c);
}

int contender_close_wait(struct contender *c, int64_t timeout_ms)
{
    int error = recipes_may_block(contender_rt(c));
    if (error != 0) {
        return error;
    }
    contender_close(c);
    return closing_wait(&c->closing, timeout_ms);
}
