#include "recipes/engine/compare_and_set.h"

#include "recipes/engine/option_copies.h"
#include "recipes/engine/persistent_node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RETRY_MS = 250,
    SWEEP_MAX = 32,                     /* markers looked at by one writer */
    SWEEP_AGE_MS = 24 * 60 * 60 * 1000, /* of those that are removed */
    NUMBER_MAX = 24,
};

static void compare_and_set_run(struct cas *c);

static struct conclave_client *compare_and_set_client_of(const struct cas *c)
{
    return c->owner->rt->client;
}

static void compare_and_set_retry_later(struct cas *c)
{
    client_timer_start(compare_and_set_client_of(c), &c->retry,
                       client_now_ns(compare_and_set_client_of(c)) + (int64_t)RETRY_MS * 1000000);
}

static void end_write(struct cas *c, int error, const struct cas_result *result)
{
    c->phase = CAS_IDLE;
    c->data = NULL;
    c->done(c, error, result);
    compare_and_set_run(c);
}

/* The outcome is not known, or just now nothing can be done. */
static void doubt(struct cas *c, int error)
{
    c->phase = CAS_MARKER;
    c->synced = false;
    if (error != CONCLAVE_CONNECTION_LOSS) {
        compare_and_set_retry_later(c);
    }
    compare_and_set_run(c);
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
    if (c->names_count == 0 || c->ending || !recipes_connected(c->owner->rt)) {
        names_clear(c);
        return;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, c->names[c->names_count - 1], 0);
    step_submit(&c->sweep_step, &op, on_sweep_stat);
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
    /* ours comes first: its time is what the others are compared with */
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
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, c->folder, 0);
    step_submit(&c->sweep_step, &op, on_sweep_list);
}

/* --- the write --------------------------------------------------------------------- */

static void on_ensured(struct ensure_path *ensure, int error)
{
    struct cas *c = CONTAINER_OF(ensure, struct cas, ensure);
    c->ensuring = false;
    if (error != 0 && (error_is_fatal(error) || error == CONCLAVE_NO_NODE)) {
        end_write(c, error, NULL);
    } else if (error != 0) {
        doubt(c, error);
    } else {
        compare_and_set_run(c);
    }
}

static void cas_ensure(struct cas *c, const char *path)
{
    c->ensuring = true;
    if (ensure_path_start(&c->ensure, path, c->acl, c->acl_count, on_ensured) != 0) {
        c->ensuring = false;
        compare_and_set_retry_later(c);
    }
}

static void on_refused(struct cas *c, const struct conclave_reply *reply)
{
    int node = reply->results[0].error;
    int marker = reply->results[1].error;
    if (node == CONCLAVE_NO_NODE && c->expected == CAS_ABSENT && c->parent != NULL) {
        cas_ensure(c, c->parent);
    } else if (node != 0 && node != CONCLAVE_RUNTIME_INCONSISTENCY) {
        end_write(c, node, NULL);
    } else if (marker == CONCLAVE_NO_NODE && c->marked) {
        c->marked = false; /* somebody removed it: made again, by the same write */
        compare_and_set_run(c);
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
        if (c->expected != CAS_ABSENT && reply->results_count > 0 && reply->results[0].has_stat) {
            result.version = reply->results[0].stat.version;
        }
        c->marked = true;
        sweep(c);
        end_write(c, 0, &result);
    } else if (error_is_unknown(reply->error) || reply->error == CONCLAVE_SESSION_EXPIRED) {
        doubt(c, reply->error);
    } else if (reply->results_count == 2) {
        on_refused(c, reply);
    } else if (error_is_fatal(reply->error)) {
        end_write(c, reply->error, NULL);
    } else {
        doubt(c, reply->error);
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
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        if (error_is_fatal(reply->error)) {
            end_write(c, reply->error, NULL);
        } else {
            doubt(c, reply->error);
        }
        return;
    }
    bool there = reply->error == 0;
    if (there ? reply->stat.version == c->expected : c->expected == CAS_ABSENT) {
        c->phase = CAS_SEND;
        compare_and_set_run(c);
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
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        if (error_is_fatal(reply->error)) {
            end_write(c, reply->error, NULL);
        } else {
            doubt(c, reply->error);
        }
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
    c->phase = CAS_NODE;
    compare_and_set_run(c);
}

static void compare_and_set_on_synced(struct step *step, const struct conclave_reply *reply)
{
    struct cas *c = CONTAINER_OF(step, struct cas, step);
    c->synced = reply->error == 0;
    if (!c->synced) {
        doubt(c, reply->error);
        return;
    }
    compare_and_set_run(c);
}

static void recover(struct cas *c)
{
    if (!c->synced) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, c->path, 0);
        step_submit(&c->step, &op, compare_and_set_on_synced);
        return;
    }
    bool marker = c->phase == CAS_MARKER;
    struct conclave_op op = conclave_op_path(marker ? CONCLAVE_OP_GET : CONCLAVE_OP_EXISTS,
                                             marker ? c->marker : c->path, 0);
    step_submit(&c->step, &op, marker ? on_marker : on_node);
}

/* --- the end ------------------------------------------------------------------------ */

static void ended(struct cas *c)
{
    if (c->phase != CAS_ENDED) {
        c->phase = CAS_ENDED;
        c->ended(c);
    }
}

/* The handle goes; the client, if it lives on, removes the marker in its next session. */
static void leave_marker(struct cas *c)
{
    /* Without memory other writers remove it, when it is a day old. */
    int error = deletes_add_persistent(&c->owner->rt->deletes, c->marker);
    (void)error;
    ended(c);
}

static void on_removed(struct step *step, const struct conclave_reply *reply)
{
    struct cas *c = CONTAINER_OF(step, struct cas, step);
    if (reply->error == CONCLAVE_SESSION_EXPIRED) {
        leave_marker(c);
        return;
    }
    if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE || error_is_fatal(reply->error) ||
        reply->error == CONCLAVE_ECLOSED) {
        ended(c);
        return;
    }
    if (reply->error != CONCLAVE_CONNECTION_LOSS) {
        compare_and_set_retry_later(c);
    }
    compare_and_set_run(c);
}

static void compare_and_set_run(struct cas *c)
{
    if (c->phase == CAS_ENDED || c->step.busy || c->ensuring) {
        return;
    }
    if (c->ending && c->phase == CAS_IDLE) {
        c->phase = CAS_REMOVE;
    }
    enum conclave_state state = client_state(compare_and_set_client_of(c));
    if (state_is_final(state)) {
        if (c->phase == CAS_REMOVE) {
            ended(c);
        } else if (c->phase != CAS_IDLE) {
            end_write(c, state == CONCLAVE_STATE_CLOSED ? CONCLAVE_ECLOSED : CONCLAVE_AUTH_FAILED,
                      NULL);
        }
        return;
    }
    if (c->phase == CAS_REMOVE && !c->marked) {
        ended(c);
        return;
    }
    if (c->phase == CAS_IDLE || !recipes_connected(c->owner->rt) ||
        client_timer_active(&c->retry)) {
        return;
    }
    if (c->phase == CAS_SEND) {
        send(c);
    } else if (c->phase == CAS_REMOVE) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, c->marker, -1);
        step_submit(&c->step, &op, on_removed);
    } else {
        recover(c);
    }
}

static void compare_and_set_on_retry(struct conclave_client *client, void *ctx)
{
    compare_and_set_run(ctx);
}

/* Nobody waits for a link any more. */
static void give_up(struct cas *c)
{
    if (c->phase != CAS_IDLE && c->phase != CAS_REMOVE && c->phase != CAS_ENDED) {
        c->phase = CAS_IDLE;
        c->data = NULL;
        c->done(c, CONCLAVE_CONNECTION_LOSS, NULL);
    }
    if (c->marked || c->tried) {
        leave_marker(c);
    } else {
        ended(c);
    }
}

void cas_on_state(struct cas *c, enum conclave_state state)
{
    if (recipes_connected(c->owner->rt) || state_is_final(state)) {
        client_timer_stop(compare_and_set_client_of(c), &c->retry);
    }
    if (state == CONCLAVE_STATE_SUSPENDED || state == CONCLAVE_STATE_LOST) {
        c->synced = false;
        if (c->phase == CAS_NODE) {
            c->phase = CAS_MARKER; /* a request that lingers may have arrived meanwhile */
        }
    }
    if (state == CONCLAVE_STATE_LOST && c->ending && !c->step.busy && !c->ensuring) {
        give_up(c);
    }
    compare_and_set_run(c);
}

void cas_write(struct cas *c, const void *data, size_t len, int32_t expected)
{
    c->data = data;
    c->data_len = len;
    c->expected = expected;
    c->number++;
    c->tried = false;
    c->phase = CAS_SEND;
    compare_and_set_run(c);
}

bool cas_cancel(struct cas *c)
{
    if (c->tried || c->ensuring || c->phase == CAS_IDLE) {
        return false;
    }
    c->phase = CAS_IDLE;
    c->data = NULL;
    return true;
}

void cas_end(struct cas *c)
{
    c->ending = true;
    compare_and_set_run(c);
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
    c->owner = owner;
    step_init(&c->step, owner);
    step_init(&c->sweep_step, owner);
    ensure_path_init(&c->ensure, owner);
    client_timer_init(&c->retry, compare_and_set_on_retry, c);
}

void cas_finish(struct cas *c)
{
    if (c->owner != NULL) {
        client_timer_stop(compare_and_set_client_of(c), &c->retry);
        ensure_path_finish(&c->ensure);
    }
    names_clear(c);
    free(c->folder);
    free(c->marker);
    free(c->parent);
    memset(c, 0, sizeof *c);
}
