#include "recipes/hold/lease_pool.h"

#include "recipes/engine/option_copies.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GATE_OWNER = 1,
    TAKE_MAX = 1000,
    POOL_CHECKS = 2
}; /* CHECKS: parts of the transaction before the nodes */

/* --- nodes ----------------------------------------------------------------------- */

static void pool_forget_nodes(struct lease_pool *pool)
{
    for (size_t i = 0; i < pool->nodes_count; i++) {
        free(pool->nodes[i]);
    }
    free(pool->nodes);
    pool->nodes = NULL;
    pool->nodes_count = 0;
}

/* False: no memory. */
static bool pool_add_node(struct lease_pool *pool, const char *path)
{
    char **nodes = realloc(pool->nodes, (pool->nodes_count + 1) * sizeof *nodes);
    if (nodes == NULL) {
        return false;
    }
    pool->nodes = nodes;
    nodes[pool->nodes_count] = strdup(path);
    if (nodes[pool->nodes_count] == NULL) {
        return false;
    }
    pool->nodes_count++;
    return true;
}

/* The session in which the nodes may have been created has ended, and they with it. */
static bool pool_session_ended(const struct lease_pool *pool)
{
    struct conclave_client *client = pool->rt->client;
    enum conclave_state state = client_state(client);
    return state == CONCLAVE_STATE_LOST || state_is_final(state) ||
           client_session_id(client) != pool->session_id;
}

bool pool_leave(struct lease_pool *pool)
{
    if (pool_session_ended(pool)) {
        pool_forget_nodes(pool); /* deletions would wait for a link, which may never come */
    }
    while (pool->nodes_count > 0) {
        char *node = pool->nodes[pool->nodes_count - 1];
        if (lock_delete(pool->lock, node) != 0) {
            return false;
        }
        free(node);
        pool->nodes_count--;
    }
    pool_forget_nodes(pool);
    return true;
}

/* --- the gate --------------------------------------------------------------------- */

static bool pool_lost_gate(const struct lease_pool *pool)
{
    return pool->has_gate && (pool->gate == NULL || !contender_holds(&pool->gate->c));
}

static void pool_open_gate(struct lease_pool *pool)
{
    bool last;
    if (pool->gate == NULL) {
        return;
    }
    if (pool->request != NULL && !pool->request->done) {
        lock_answer(pool->gate, pool->request, CONCLAVE_ECANCELED);
    }
    int error = lock_let_go(pool->gate, GATE_OWNER, &last);
    (void)error; /* not held, or lost: as good */
    contender_run(&pool->gate->c);
}

/* Back to the begin, without nodes. */
static void pool_give_up(struct lease_pool *pool)
{
    pool->phase = POOL_IDLE;
    pool->has_gate = false;
    pool->limit_known = false;
    if (!pool->watch.pending) {
        watch_slot_clear(&pool->watch);
    }
    pool_open_gate(pool);
    machine_run_again(&pool->lock->c.machine);
}

static void pool_on_gate(struct conclave_lock *gate, int error, struct conclave_token token,
                         void *ctx)
{
    struct lease_pool *pool = ctx;
    struct conclave_lock *l = pool->lock;
    client_lock(pool->rt->client);
    pool->request = NULL; /* freed by who calls us */
    if (pool->phase != POOL_GATE || error != 0) {
        bool wanted = pool->phase == POOL_GATE;
        pool_give_up(pool);
        if (wanted && (error == CONCLAVE_EBUSY || error == CONCLAVE_EDISCONNECTED ||
                       error == CONCLAVE_SESSION_EXPIRED)) {
            lock_fail(l, error);
        } else if (wanted && error != CONCLAVE_ECANCELED) {
            contender_trouble(&l->c, error);
        }
    } else {
        pool->has_gate = true;
        pool->phase = POOL_COUNT;
    }
    contender_run(&l->c);
    client_unlock(pool->rt->client);
}

static void pool_ask_for_gate(struct lease_pool *pool)
{
    if (pool->gate == NULL || pool->request != NULL) {
        return; /* it ends, or an earlier one does */
    }
    pool->request = calloc(1, sizeof *pool->request);
    if (pool->request == NULL) {
        machine_retry_later(&pool->lock->c.machine);
        return;
    }
    pool->request->owner = GATE_OWNER;
    pool->request->fn = pool_on_gate;
    pool->request->ctx = pool;
    pool->phase = POOL_GATE;
    lock_request_add(pool->gate, pool->request, pool->lock->serving->try ? 0 : CONCLAVE_FOREVER);
}

/* --- the semaphore's node --------------------------------------------------------- */

/* The nodes are ours. */
static void pool_accept(struct lease_pool *pool, const struct conclave_stat *stat)
{
    struct contender *c = &pool->lock->c;
    char *path = pool->nodes[0];
    if (c->class->leaving(c)) {
        if (pool_leave(pool)) {
            pool_give_up(pool);
        } else {
            pool->phase = POOL_FIND;
            machine_retry_later(&c->machine);
        }
        return;
    }
    pool->nodes_count--;
    memmove(pool->nodes, pool->nodes + 1, pool->nodes_count * sizeof *pool->nodes);
    pool_give_up(pool);
    contender_joined(c, path, stat, pool->sent_ns);
}

/* --- after a lost answer ------------------------------------------------------------- */

static void pool_failed(struct lease_pool *pool, int error, enum pool_phase phase)
{
    pool->phase = phase;
    contender_trouble(&pool->lock->c, error);
}

static struct lease_pool *pool_of_step(struct step *step)
{
    return CONTAINER_OF(step, struct lease_pool, step);
}

static void pool_on_seen(struct step *step, const struct conclave_reply *reply)
{
    struct lease_pool *pool = pool_of_step(step);
    if (reply->error == 0 && reply->stat.ephemeral_owner == pool->session_id) {
        pool->sent_ns = 0;
        pool_accept(pool, &reply->stat);
    } else if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        contender_trouble(&pool->lock->c, reply->error);
    } /* else it was deleted meanwhile: looks for the others */
}

static void pool_on_found(struct step *step, const struct conclave_reply *reply)
{
    struct lease_pool *pool = pool_of_step(step);
    bool memory = true;
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        contender_trouble(&pool->lock->c, reply->error);
        return;
    }
    pool_forget_nodes(pool);
    for (size_t i = 0; reply->error == 0 && i < reply->children_count && memory; i++) {
        if (strncmp(reply->children[i], pool->prefix, strlen(pool->prefix)) == 0) {
            char *path = path_join(pool->leases, reply->children[i]);
            memory = path != NULL && pool_add_node(pool, path);
            free(path);
        }
    }
    if (!memory) {
        machine_retry_later(&pool->lock->c.machine);
    } else if (pool->nodes_count > 0) {
        step_ask_latest(&pool->step, CONCLAVE_OP_EXISTS, pool->nodes[0], pool_on_seen);
    } else {
        pool->phase = POOL_COUNT;
    }
}

/* --- N ---------------------------------------------------------------------------- */

/* It may have changed: kazoo's layout has it in the folder's data. */
static void pool_compare_again(struct lease_pool *pool)
{
    pool->limit_known = false;
    pool->phase = pool->naming == CONCLAVE_NAMING_KAZOO ? POOL_LIMIT : POOL_COUNT;
}

static void pool_limit_fits(struct lease_pool *pool, int32_t version)
{
    pool->limit_known = true;
    pool->limit_version = version;
    pool->phase = pool->has_gate ? POOL_COUNT : POOL_IDLE;
}

static void pool_on_limit_set(struct step *step, const struct conclave_reply *reply)
{
    struct lease_pool *pool = pool_of_step(step);
    if (reply->error == 0) {
        pool_limit_fits(pool, reply->stat.version);
    } else if (reply->error != CONCLAVE_BAD_VERSION && reply->error != CONCLAVE_NO_NODE) {
        contender_trouble(&pool->lock->c, reply->error);
    } /* else another was first: it is read again */
}

static void pool_make_folder(struct lease_pool *pool);

static void pool_on_limit(struct step *step, const struct conclave_reply *reply)
{
    struct lease_pool *pool = pool_of_step(step);
    struct conclave_lock *l = pool->lock;
    char text[LIMIT_TEXT_MAX];
    if (reply->error == CONCLAVE_NO_NODE) {
        pool_make_folder(pool);
        return;
    }
    if (reply->error != 0) {
        contender_trouble(&l->c, reply->error);
        return;
    }
    switch (semaphore_compare(l, reply)) {
    case LIMIT_SAME:
        pool_limit_fits(pool, reply->stat.version);
        break;
    case LIMIT_UNSET: {
        struct conclave_op op = semaphore_limit_op(l, text, reply->stat.version);
        step_submit(&pool->step, &op, pool_on_limit_set);
        break;
    }
    default:
        lock_fail(l, CONCLAVE_ECONFLICT); /* the next run gives up */
        break;
    }
}

/* --- creation -------------------------------------------------------------------- */

static void pool_on_folder(struct ensure_path *ensure, int error)
{
    struct lease_pool *pool = CONTAINER_OF(ensure, struct lease_pool, ensure);
    if (error != 0) {
        contender_trouble(&pool->lock->c, error);
    }
}

static void pool_make_folder(struct lease_pool *pool)
{
    const struct contender *c = &pool->lock->c;
    pool_compare_again(pool);
    if (naming_needs_persistent(pool->naming)) {
        pool->ensure.persistent = true;
    }
    if (ensure_path_start(&pool->ensure, pool->leases, c->acl, c->acl_count, pool_on_folder) != 0) {
        machine_retry_later(&pool->lock->c.machine);
    }
}

static bool pool_keep(struct lease_pool *pool, const struct conclave_reply *reply)
{
    bool memory = reply->results_count == (size_t)pool->take + POOL_CHECKS &&
                  reply->results[POOL_CHECKS]->has_stat;
    for (size_t i = POOL_CHECKS; i < reply->results_count && memory; i++) {
        memory = pool_add_node(pool, reply->results[i]->path);
    }
    return memory;
}

static void pool_on_created(struct step *step, const struct conclave_reply *reply)
{
    struct lease_pool *pool = pool_of_step(step);
    bool gate_gone = reply->results_count > 0 && reply->results[0]->error == CONCLAVE_NO_NODE;
    if (reply->error == 0 && pool_keep(pool, reply)) {
        pool_accept(pool, &reply->results[POOL_CHECKS]->stat);
    } else if (reply->error == 0 || error_is_unknown(reply->error)) {
        pool_failed(pool, reply->error == 0 ? CONCLAVE_ENOMEM : reply->error, POOL_FIND);
    } else if (gate_gone) {
        pool_give_up(pool);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        pool_make_folder(pool);
    } else if (reply->error == CONCLAVE_BAD_VERSION) {
        pool_compare_again(pool);
    } else {
        pool_failed(pool, reply->error, POOL_COUNT);
    }
}

/* Of the nth node; curator's are sequential. */
static char *pool_node_path(const struct lease_pool *pool, int32_t n)
{
    char name[NAME_MAX_LEN];
    if (pool->naming == CONCLAVE_NAMING_KAZOO && n > 0) {
        (void)snprintf(name, sizeof name, "%s-%d", pool->prefix, n);
    } else {
        (void)snprintf(name, sizeof name, "%s", pool->prefix);
    }
    return path_join(pool->leases, name);
}

/* kazoo's names are a guid alone. */
static void pool_make_prefix(struct lease_pool *pool)
{
    name_make_prefix(pool->naming, NAME_PLAIN, pool->prefix);
    size_t marker = strlen(pool->prefix) - strlen(name_marker(pool->naming));
    (void)snprintf(pool->prefix + marker, sizeof pool->prefix - marker, "%s",
                   pool->naming == CONCLAVE_NAMING_KAZOO ? "" : "lease-");
}

static void pool_submit(struct lease_pool *pool)
{
    const struct contender *c = &pool->lock->c;
    bool kazoo = pool->naming == CONCLAVE_NAMING_KAZOO;
    enum conclave_create_mode mode = kazoo ? CONCLAVE_EPHEMERAL : CONCLAVE_EPHEMERAL_SEQUENTIAL;
    struct conclave_op *parts = calloc((size_t)pool->take + POOL_CHECKS, sizeof *parts);
    bool memory = parts != NULL;
    pool_make_prefix(pool);
    for (int32_t i = 0; i < pool->take && memory; i++) {
        char *path = pool_node_path(pool, i);
        parts[i + POOL_CHECKS] = contender_create_op(c, path, c->id, strlen(c->id), mode);
        memory = path != NULL;
    }
    if (memory) {
        parts[0] = conclave_op_path(CONCLAVE_OP_CHECK, pool->gate->c.node, -1);
        parts[1] = conclave_op_path(CONCLAVE_OP_CHECK, pool->leases,
                                    pool->limit_known ? pool->limit_version : -1);
        struct conclave_op op = conclave_op_multi(parts, (size_t)pool->take + POOL_CHECKS);
        pool_forget_nodes(pool);
        pool->phase = POOL_CREATE;
        pool->session_id = client_session_id(contender_client(c));
        pool->sent_ns = client_now_ns(contender_client(c));
        step_submit(&pool->step, &op, pool_on_created);
    } else {
        pool->phase = POOL_COUNT;
        machine_retry_later(&pool->lock->c.machine);
    }
    for (int32_t i = 0; i < pool->take && parts != NULL; i++) {
        free((void *)(uintptr_t)parts[i + POOL_CHECKS].path);
    }
    free(parts);
}

/* --- counting -------------------------------------------------------------------- */

static void pool_on_counted(struct step *step, const struct conclave_reply *reply)
{
    struct lease_pool *pool = pool_of_step(step);
    struct conclave_lock *l = pool->lock;
    watch_slot_answered(&pool->watch, reply->error == 0);
    if (reply->error == CONCLAVE_NO_NODE) {
        pool_make_folder(pool);
    } else if (reply->error != 0) {
        contender_trouble(&l->c, reply->error);
    } else if (l->serving == NULL || pool_lost_gate(pool)) {
        /* the next run gives up */
    } else if (reply->children_count + (size_t)pool->take <= (size_t)l->permits) {
        watch_slot_clear(&pool->watch);
        pool_submit(pool);
    } else if (l->serving->try) {
        lock_fail(l, CONCLAVE_EBUSY);
    } else {
        pool->phase = POOL_WAIT;
    }
}

static void pool_count(struct lease_pool *pool)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, NULL, 0);
    if (watch_slot_prepare(&pool->watch, pool->leases, &op) != 0) {
        machine_retry_later(&pool->lock->c.machine);
        return;
    }
    pool->phase = POOL_COUNT;
    step_submit(&pool->step, &op, pool_on_counted);
}

/* --- the machine ------------------------------------------------------------------ */

/* Before the gate, so that another N is told without waiting for it; and again when it has changed. */
static void pool_read_limit(struct lease_pool *pool)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, pool->leases, 0);
    pool->phase = POOL_LIMIT;
    step_submit(&pool->step, &op, pool_on_limit);
}

static void pool_find(struct lease_pool *pool)
{
    if (pool_session_ended(pool)) {
        pool_forget_nodes(pool);
        pool_give_up(pool);
        lock_fail(pool->lock, CONCLAVE_SESSION_EXPIRED);
    } else if (machine_can_send(&pool->lock->c.machine)) {
        step_ask_latest(&pool->step, CONCLAVE_OP_GET_CHILDREN, pool->leases, pool_on_found);
    }
}

void pool_run(struct lease_pool *pool)
{
    struct contender *c = &pool->lock->c;
    if (pool->step.busy || ensure_path_busy(&pool->ensure)) {
        return;
    }
    if (pool->phase == POOL_CREATE || pool->phase == POOL_FIND) {
        pool->phase = POOL_FIND;
        pool_find(pool);
    } else if (c->class->leaving(c)) {
        pool_give_up(pool);
        contender_enter(c, CONTENDER_OUT);
    } else if (pool_lost_gate(pool)) {
        bool expired = pool->gate != NULL && pool->gate->c.stop_why == CONCLAVE_SESSION_EXPIRED;
        pool_give_up(pool);
        if (expired) {
            lock_fail(pool->lock, CONCLAVE_SESSION_EXPIRED);
        }
    } else if (pool->phase == POOL_IDLE || pool->phase == POOL_LIMIT) {
        if (!machine_can_send(&c->machine)) {
            return;
        }
        if (pool->naming == CONCLAVE_NAMING_KAZOO && !pool->limit_known) {
            pool_read_limit(pool);
        } else {
            pool_ask_for_gate(pool);
        }
    } else if (pool->phase == POOL_GATE) {
        return;
    } else if (machine_can_send(&c->machine) && (pool->phase == POOL_COUNT || !pool->watch.armed)) {
        pool_count(pool);
    }
}

bool pool_is_quiet(const struct lease_pool *pool)
{
    return pool->phase == POOL_IDLE && pool->request == NULL && !pool->step.busy;
}

/* --- the whole -------------------------------------------------------------------- */

void pool_free(struct lease_pool *pool)
{
    if (pool != NULL) {
        assert(pool->gate == NULL && pool->request == NULL);
        pool_forget_nodes(pool);
        ensure_path_finish(&pool->ensure);
        free(pool->leases);
        free(pool);
    }
}

static void pool_on_gate_closed(struct conclave_lock *gate, int why, void *ctx)
{
    struct lease_pool *pool = ctx;
    struct conclave_client *client = pool->rt->client;
    conclave_lock_destroy(gate);
    client_lock(client);
    pool->gate = NULL;
    if (pool->discarded) {
        pool_free(pool);
    } else if (pool->lock != NULL) { /* else it is still being opened */
        struct handle *handle = &pool->lock->c.handle;
        contender_run(&pool->lock->c);
        handle_unref(handle);
    }
    client_unlock(client);
}

bool pool_close(struct lease_pool *pool)
{
    if (pool->gate != NULL) {
        contender_end(&pool->gate->c, CONCLAVE_ECLOSED);
        contender_run(&pool->gate->c);
    }
    return pool->gate == NULL;
}

void pool_attach(struct lease_pool *pool, struct conclave_lock *lock)
{
    pool->lock = lock;
    if (pool->gate != NULL) {
        handle_ref(&lock->c.handle); /* until the gate has closed */
    }
    machine_step_init(&lock->c.machine, &pool->step);
    machine_watch_init(&lock->c.machine, &pool->watch);
    machine_ensure_init(&lock->c.machine, &pool->ensure);
}

void pool_discard(struct lease_pool *pool)
{
    if (pool != NULL) {
        struct conclave_client *client = pool->rt->client;
        client_lock(client);
        pool->discarded = true;
        if (pool_close(pool)) {
            pool_free(pool);
        } else {
            client_notify(client);
        }
        client_unlock(client);
    }
}

int pool_create(struct conclave_recipes *rt, const struct conclave_lock_options *options,
                int32_t take, struct lease_pool **ret)
{
    static const struct conclave_lock_callbacks callbacks = {.size = sizeof callbacks,
                                                             .on_closed = pool_on_gate_closed};
    bool kazoo = options->naming == CONCLAVE_NAMING_KAZOO;
    struct conclave_lock_options gate = *options;
    struct lease_pool *pool = NULL;
    char *path = NULL;
    int error = CONCLAVE_EINVAL;
    if (option_path_valid(options->path) && take <= TAKE_MAX &&
        (kazoo || options->naming == CONCLAVE_NAMING_CURATOR_LOCK)) {
        error = CONCLAVE_ENOMEM;
        pool = calloc(1, sizeof *pool);
        path = text_concat(options->path, kazoo ? "-__lock__" : "/locks");
    }
    if (pool != NULL && path != NULL &&
        (pool->leases = text_concat(options->path, kazoo ? "" : "/leases")) != NULL) {
        pool->rt = rt;
        pool->naming = options->naming;
        pool->take = take;
        gate.path = path;
        error = conclave_lock_open(rt, &gate, &callbacks, pool, &pool->gate);
    }
    free(path);
    if (error != 0) {
        pool_free(pool);
        return error;
    }
    *ret = pool;
    return 0;
}
