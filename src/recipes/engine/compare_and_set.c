#include "recipes/engine/compare_and_set.h"

#include "base/transition.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/persistent_node.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SWEEP_MAX = 32,                     /* markers looked at by one writer */
    SWEEP_AGE_MS = 24 * 60 * 60 * 1000, /* of those that are removed */
    NUMBER_MAX = 24,
};

static const uint16_t cas_next[] = {
    [CAS_IDLE] = TRANSITION_TO(CAS_SEND) | TRANSITION_TO(CAS_REMOVE) | TRANSITION_TO(CAS_ENDED),
    [CAS_SEND] = TRANSITION_TO(CAS_MARKER) | TRANSITION_TO(CAS_IDLE),
    [CAS_MARKER] = TRANSITION_TO(CAS_MARKER) | TRANSITION_TO(CAS_NODE) | TRANSITION_TO(CAS_IDLE),
    [CAS_NODE] = TRANSITION_TO(CAS_MARKER) | TRANSITION_TO(CAS_SEND) | TRANSITION_TO(CAS_IDLE),
    [CAS_REMOVE] = TRANSITION_TO(CAS_ENDED),
    [CAS_ENDED] = 0,
};

static void cas_enter(struct cas *c, enum cas_phase phase)
{
    transition_check(cas_next, c->phase, phase);
    assert(!c->step.busy && !ensure_path_busy(&c->ensure));
    c->phase = phase;
}

static void end_write(struct cas *c, int error, const struct cas_result *result)
{
    assert((error == 0) == (result != NULL));
    cas_enter(c, CAS_IDLE);
    c->data = NULL;
    c->done(c, error, result);
}

/* The outcome is not known, or just now nothing can be done. */
static void doubt(struct cas *c, int error)
{
    cas_enter(c, CAS_MARKER);
    c->synced = false;
    if (error != CONCLAVE_CONNECTION_LOSS) {
        machine_retry_later(&c->machine);
    }
}

/* A request that wrote nothing has failed. */
static void cas_trouble(struct cas *c, int error)
{
    if (error_is_fatal(error)) {
        end_write(c, error, NULL);
    } else {
        doubt(c, error);
    }
}

/* --- left-overs of other writers --------------------------------------------------- */

static void names_clear(struct cas *c)
{
    for (size_t i = 0; i < c->names_count; i++) {
        free(c->names[i]);
    }
    free(c->names);
    c->names = NULL;
    c->names_count = 0;
}

static void sweep_next(struct cas *c);

static void on_swept(struct step *step, const struct conclave_reply *reply)
{
    struct cas *c = CONTAINER_OF(step, struct cas, sweep_step);
    if (reply->error == CONCLAVE_CONNECTION_LOSS) {
        names_clear(c); /* another writer will do it */
    }
    sweep_next(c);
}

static void on_sweep_stat(struct step *step, const struct conclave_reply *reply)
{
    struct cas *c = CONTAINER_OF(step, struct cas, sweep_step);
    if (reply->error != 0 || c->names_count == 0 || c->phase == CAS_ENDED) {
        on_swept(step, reply);
        return;
    }
    char *path = c->names[c->names_count - 1];
    if (strcmp(path, c->marker) == 0) {
        c->now_ms = reply->stat.mtime_ms;
    } else if (reply->stat.mtime_ms < c->now_ms - SWEEP_AGE_MS) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, path, reply->stat.version);
        step_submit(&c->sweep_step, &op, on_swept);
        free(path);
        c->names_count--;
        return;
    }
    free(path);
    c->names_count--;
    sweep_next(c);
}

static void sweep_next(struct cas *c)
{
    if (c->names_count == 0 || c->ending || !recipes_connected(c->machine.owner->rt)) {
        names_clear(c);
        return;
    }
    step_ask(&c->sweep_step, CONCLAVE_OP_EXISTS, c->names[c->names_count - 1], on_sweep_stat);
}

static void on_sweep_list(struct step *step, const struct conclave_reply *reply)
{
    struct cas *c = CONTAINER_OF(step, struct cas, sweep_step);
    size_t count = reply->error == 0 ? reply->children_count : 0;
    c->names = calloc(SWEEP_MAX + 1, sizeof *c->names);
    for (size_t i = 0; c->names != NULL && i < count && c->names_count < SWEEP_MAX; i++) {
        char *path = path_join(c->folder, reply->children[i]);
        if (path != NULL && strcmp(path, c->marker) != 0) {
            c->names[c->names_count++] = path;
        } else {
            free(path);
        }
    }
    /* ours comes first: the others are compared with its time */
    char *own = c->names_count == 0 ? NULL : strdup(c->marker);
    if (c->names == NULL || own == NULL) {
        free(own);
        names_clear(c);
        return;
    }
    c->names[c->names_count++] = own;
    sweep_next(c);
}

static void sweep(struct cas *c)
{
    if (c->swept || c->ending || c->sweep_step.busy) {
        return;
    }
    c->swept = true;
    step_ask(&c->sweep_step, CONCLAVE_OP_GET_CHILDREN, c->folder, on_sweep_list);
}

/* --- the write --------------------------------------------------------------------- */

static void on_ensured(struct ensure_path *ensure, int error)
{
    struct cas *c = CONTAINER_OF(ensure, struct cas, ensure);
    if (error == CONCLAVE_NO_NODE) {
        end_write(c, error, NULL);
    } else if (error != 0) {
        cas_trouble(c, error);
    }
}

static void cas_ensure(struct cas *c, const char *path)
{
    if (ensure_path_start(&c->ensure, path, c->acl, c->acl_count, on_ensured) != 0) {
        machine_retry_later(&c->machine);
    }
}

static void on_refused(struct cas *c, const struct conclave_reply *reply)
{
    int node = reply->results[0]->error;
    int marker = reply->results[1]->error;
    if (node == CONCLAVE_NO_NODE && c->expected == CAS_ABSENT && c->parent != NULL) {
        cas_ensure(c, c->parent);
    } else if (node != 0 && node != CONCLAVE_RUNTIME_INCONSISTENCY) {
        end_write(c, node, NULL);
    } else if (marker == CONCLAVE_NO_NODE && c->marked) {
        c->marked = false; /* somebody removed it: made again, by the same write */
    } else if (marker == CONCLAVE_NO_NODE) {
        cas_ensure(c, c->folder);
    } else if (marker == CONCLAVE_NODE_EXISTS) {
        doubt(c, CONCLAVE_CONNECTION_LOSS); /* an answer that was lost made it: it knows */
    } else {
        end_write(c, reply->error, NULL);
    }
}

static void on_sent(struct step *step, const struct conclave_reply *reply)
{
    struct cas *c = CONTAINER_OF(step, struct cas, step);
    if (reply->error == 0) {
        struct cas_result result = {c->expected == CAS_ABSENT ? 0 : c->expected + 1, reply->zxid};
        if (c->expected != CAS_ABSENT && reply->results_count > 0 && reply->results[0]->has_stat) {
            result.version = reply->results[0]->stat.version;
        }
        c->marked = true;
        sweep(c);
        end_write(c, 0, &result);
    } else if (error_is_unknown(reply->error) || reply->error == CONCLAVE_SESSION_EXPIRED) {
        doubt(c, reply->error);
    } else if (reply->results_count == 2) {
        on_refused(c, reply);
    } else {
        cas_trouble(c, reply->error);
    }
}

static void send(struct cas *c)
{
    char number[NUMBER_MAX];
    int len = snprintf(number, sizeof number, "%" PRIu64, c->number);
    struct conclave_op parts[2];
    if (c->expected == CAS_ABSENT) {
        parts[0] = conclave_op_create(c->path, c->data, c->data_len, CONCLAVE_PERSISTENT);
        parts[0].acl = c->acl;
        parts[0].acl_count = c->acl_count;
    } else {
        parts[0] = conclave_op_set(c->path, c->data, c->data_len, c->expected);
    }
    if (c->marked) {
        parts[1] = conclave_op_set(c->marker, number, (size_t)len, -1);
    } else {
        parts[1] = conclave_op_create(c->marker, number, (size_t)len, CONCLAVE_PERSISTENT);
        parts[1].acl = c->acl;
        parts[1].acl_count = c->acl_count;
    }
    struct conclave_op op = conclave_op_multi(parts, 2);
    c->tried = true;
    step_submit(&c->step, &op, on_sent);
}

/* --- after a lost answer ------------------------------------------------------------- */

static void on_node(struct step *step, const struct conclave_reply *reply)
{
    struct cas *c = CONTAINER_OF(step, struct cas, step);
    if (!c->synced) { /* the link broke meanwhile: the marker may have changed */
        doubt(c, CONCLAVE_CONNECTION_LOSS);
        return;
    }
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        cas_trouble(c, reply->error);
        return;
    }
    bool there = reply->error == 0;
    if (there ? reply->stat.version == c->expected : c->expected == CAS_ABSENT) {
        cas_enter(c, CAS_SEND);
    } else {
        int error = !there                      ? CONCLAVE_NO_NODE
                    : c->expected == CAS_ABSENT ? CONCLAVE_NODE_EXISTS
                                                : CONCLAVE_BAD_VERSION;
        end_write(c, error, NULL);
    }
}

static void on_marker(struct step *step, const struct conclave_reply *reply)
{
    struct cas *c = CONTAINER_OF(step, struct cas, step);
    char number[NUMBER_MAX];
    if (!c->synced) { /* as for the node */
        doubt(c, CONCLAVE_CONNECTION_LOSS);
        return;
    }
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        cas_trouble(c, reply->error);
        return;
    }
    size_t len = (size_t)snprintf(number, sizeof number, "%" PRIu64, c->number);
    c->marked = reply->error == 0;
    if (c->marked && reply->data_len == len && memcmp(reply->data, number, len) == 0) {
        struct cas_result result = {c->expected == CAS_ABSENT ? 0 : c->expected + 1,
                                    reply->stat.mzxid};
        end_write(c, 0, &result);
        return;
    }
    cas_enter(c, CAS_NODE);
}

static void compare_and_set_on_synced(struct step *step, const struct conclave_reply *reply)
{
    struct cas *c = CONTAINER_OF(step, struct cas, step);
    c->synced = reply->error == 0;
    if (!c->synced) {
        doubt(c, reply->error);
    }
}

static void recover(struct cas *c)
{
    if (!c->synced) {
        step_ask(&c->step, CONCLAVE_OP_SYNC, c->path, compare_and_set_on_synced);
    } else if (c->phase == CAS_MARKER) {
        step_ask(&c->step, CONCLAVE_OP_GET, c->marker, on_marker);
    } else {
        step_ask(&c->step, CONCLAVE_OP_EXISTS, c->path, on_node);
    }
}

/* --- the end ------------------------------------------------------------------------ */

static void ended(struct cas *c)
{
    if (c->phase != CAS_ENDED) {
        cas_enter(c, CAS_ENDED);
        c->ended(c);
    }
}

/* The handle goes; the client, if it lives on, removes the marker in its next session. */
static void leave_marker(struct cas *c)
{
    /* Without memory other writers remove it, when it is a day old. */
    int error = deletes_add_persistent(&c->machine.owner->rt->deletes, c->marker);
    (void)error;
    ended(c);
}

static void on_removed(struct step *step, const struct conclave_reply *reply)
{
    struct cas *c = CONTAINER_OF(step, struct cas, step);
    if (reply->error == CONCLAVE_SESSION_EXPIRED) {
        leave_marker(c);
    } else if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE ||
               reply->error == CONCLAVE_ECLOSED ||
               !machine_tries_again(&c->machine, reply->error)) {
        ended(c);
    }
}

static void cas_work(struct machine *machine)
{
    struct cas *c = CONTAINER_OF(machine, struct cas, machine);
    enum conclave_state state = client_state(machine_client(machine));
    if (c->phase == CAS_ENDED || c->step.busy || ensure_path_busy(&c->ensure)) {
        return;
    }
    if (c->ending && c->phase == CAS_IDLE) {
        cas_enter(c, CAS_REMOVE);
    }
    if (c->phase == CAS_REMOVE && (state_is_final(state) || !c->marked)) {
        ended(c);
    } else if (c->phase == CAS_IDLE) {
        return;
    } else if (state_is_final(state)) {
        end_write(c, state_error(state), NULL);
        machine_run(machine); /* it may have to end */
    } else if (!machine_can_send(machine)) {
        return;
    } else if (c->phase == CAS_SEND) {
        send(c);
    } else if (c->phase == CAS_REMOVE) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, c->marker, -1);
        step_submit(&c->step, &op, on_removed);
    } else {
        recover(c);
    }
}

/* No write waits for a link any more. */
static void give_up(struct cas *c)
{
    if (c->phase != CAS_IDLE && c->phase != CAS_REMOVE && c->phase != CAS_ENDED) {
        end_write(c, CONCLAVE_CONNECTION_LOSS, NULL);
    }
    if (c->marked || c->tried) {
        leave_marker(c);
    } else {
        ended(c);
    }
}

void cas_on_state(struct cas *c, enum conclave_state state)
{
    if (recipes_connected(c->machine.owner->rt) || state_is_final(state)) {
        machine_resume(&c->machine);
    }
    if (state == CONCLAVE_STATE_SUSPENDED || state == CONCLAVE_STATE_LOST) {
        c->synced = false;
        if (c->phase == CAS_NODE && !c->step.busy) {
            cas_enter(c, CAS_MARKER); /* a request that lingers may have arrived meanwhile */
        }
    }
    if (state == CONCLAVE_STATE_LOST && c->ending && c->phase != CAS_ENDED && !c->step.busy &&
        !ensure_path_busy(&c->ensure)) {
        give_up(c);
    }
    machine_run(&c->machine);
}

void cas_write(struct cas *c, const void *data, size_t len, int32_t expected)
{
    c->data = data;
    c->data_len = len;
    c->expected = expected;
    c->number++;
    c->tried = false;
    cas_enter(c, CAS_SEND);
    machine_run(&c->machine);
}

bool cas_cancel(struct cas *c)
{
    if (c->tried || ensure_path_busy(&c->ensure) || c->phase == CAS_IDLE) {
        return false;
    }
    cas_enter(c, CAS_IDLE);
    c->data = NULL;
    return true;
}

void cas_end(struct cas *c)
{
    c->ending = true;
    machine_run(&c->machine);
}

int cas_init(struct cas *c, const char *path)
{
    char guid[MEMBER_INCARNATION_MAX];
    memset(c, 0, sizeof *c);
    member_incarnation(guid);
    c->folder = text_concat(path, ".writers");
    c->marker = c->folder == NULL ? NULL : path_join(c->folder, guid);
    const char *slash = strrchr(path, '/');
    if (slash != path) {
        c->parent = strndup(path, (size_t)(slash - path));
    }
    if (c->marker == NULL || (slash != path && c->parent == NULL)) {
        cas_finish(c);
        return CONCLAVE_ENOMEM;
    }
    return 0;
}

void cas_begin(struct cas *c, struct handle *owner)
{
    machine_init(&c->machine, owner, cas_work);
    machine_step_init(&c->machine, &c->step);
    machine_ensure_init(&c->machine, &c->ensure);
    step_init(&c->sweep_step, owner);
}

void cas_finish(struct cas *c)
{
    if (c->machine.owner != NULL) {
        machine_resume(&c->machine);
        ensure_path_finish(&c->ensure);
    }
    names_clear(c);
    free(c->folder);
    free(c->marker);
    free(c->parent);
    memset(c, 0, sizeof *c);
}
