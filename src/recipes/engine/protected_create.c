#include "recipes/engine/protected_create.h"

#include "base/transition.h"
#include "client/core/request.h"
#include "recipes/engine/option_copies.h"

#include <stdlib.h>
#include <string.h>

/* --- containers ------------------------------------------------------------------ */

void ensure_path_init(struct ensure_path *ensure, struct handle *owner)
{
    memset(ensure, 0, sizeof *ensure);
    step_init(&ensure->step, owner);
}

void machine_ensure_init(struct machine *m, struct ensure_path *ensure)
{
    memset(ensure, 0, sizeof *ensure);
    machine_step_init(m, &ensure->step);
}

void ensure_path_finish(struct ensure_path *ensure)
{
    free(ensure->path);
    ensure->path = NULL;
}

static void on_ensure_step(struct step *step, const struct conclave_reply *reply);

static void ensure_submit(struct ensure_path *ensure)
{
    char cut = ensure->path[ensure->len];
    ensure->path[ensure->len] = '\0';
    struct conclave_op op = conclave_op_create(
        ensure->path, "", 0, ensure->persistent ? CONCLAVE_PERSISTENT : CONCLAVE_CONTAINER);
    op.acl = ensure->acl;
    op.acl_count = ensure->acl_count;
    step_submit(&ensure->step, &op, on_ensure_step);
    ensure->path[ensure->len] = cut;
}

static void ensure_end(struct ensure_path *ensure, int error)
{
    free(ensure->path);
    ensure->path = NULL;
    ensure->done(ensure, error);
}

/* From the node up to the first parent that exists, then down again: existing nodes are not
 * touched, so no right on them is needed. */
static void on_ensure_step(struct step *step, const struct conclave_reply *reply)
{
    struct ensure_path *ensure = CONTAINER_OF(step, struct ensure_path, step);
    switch (reply->error) {
    case 0:
    case CONCLAVE_NODE_EXISTS:
        if (ensure->path[ensure->len] == '\0') {
            ensure_end(ensure, 0);
            return;
        }
        ensure->len += 1 + strcspn(ensure->path + ensure->len + 1, "/");
        break;
    case CONCLAVE_NO_NODE:
        while (ensure->len > 0 && ensure->path[--ensure->len] != '/') {}
        if (ensure->len == 0) {
            ensure_end(ensure, CONCLAVE_NO_NODE); /* the chroot itself is missing */
            return;
        }
        break;
    case CONCLAVE_UNIMPLEMENTED:
        if (ensure->persistent) {
            ensure_end(ensure, reply->error);
            return;
        }
        ensure->persistent = true;
        break;
    default:
        ensure_end(ensure, reply->error);
        return;
    }
    ensure_submit(ensure);
}

int ensure_path_start(struct ensure_path *ensure, const char *path, const struct conclave_acl *acl,
                      size_t acl_count, void (*done)(struct ensure_path *ensure, int error))
{
    assert(!ensure_path_busy(ensure));
    ensure->path = strdup(path);
    if (ensure->path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    ensure->len = strlen(path);
    ensure->acl = acl;
    ensure->acl_count = acl_count;
    ensure->done = done;
    ensure_submit(ensure);
    return 0;
}

/* --- the node -------------------------------------------------------------------- */

static void examine(struct protected_create *create);

static const uint16_t protected_next[] = {
    [PROTECTED_IDLE] = TRANSITION_TO(PROTECTED_CREATE),
    [PROTECTED_CREATE] = TRANSITION_TO(PROTECTED_CREATE) | TRANSITION_TO(PROTECTED_RECOVER) |
                         TRANSITION_TO(PROTECTED_DELETE) | TRANSITION_TO(PROTECTED_IDLE),
    [PROTECTED_RECOVER] = TRANSITION_TO(PROTECTED_RECOVER) | TRANSITION_TO(PROTECTED_CREATE) |
                          TRANSITION_TO(PROTECTED_DELETE) | TRANSITION_TO(PROTECTED_WAIT) |
                          TRANSITION_TO(PROTECTED_IDLE),
    [PROTECTED_WAIT] = TRANSITION_TO(PROTECTED_CREATE) | TRANSITION_TO(PROTECTED_IDLE),
    [PROTECTED_DELETE] = TRANSITION_TO(PROTECTED_RECOVER) | TRANSITION_TO(PROTECTED_IDLE),
};

static void protected_enter(struct protected_create *create, enum protected_phase phase)
{
    transition_check(protected_next, create->phase, phase);
    assert(!create->step.busy && !ensure_path_busy(&create->ensure));
    assert(phase != PROTECTED_DELETE || create->canceled);
    assert(phase != PROTECTED_WAIT || create->other.armed);
    create->phase = phase;
}

static void found_clear(struct protected_create *create)
{
    for (size_t i = 0; i < create->found_count; i++) {
        free(create->found[i]);
    }
    free(create->found);
    create->found = NULL;
    create->found_count = 0;
    create->examined = 0;
    free(create->kept);
    create->kept = NULL;
}

static void end(struct protected_create *create, int error)
{
    assert(error != 0);
    found_clear(create);
    watch_slot_clear(&create->other);
    protected_enter(create, PROTECTED_IDLE);
    if (create->canceled && !error_is_fatal(error)) {
        error = CONCLAVE_ECANCELED; /* any other error: no node of ours exists */
    }
    create->done(create, error, NULL, NULL);
}

static void protected_create_on_deleted(void *ctx)
{
    struct protected_create *create = ctx;
    struct handle *owner = create->machine.owner;
    end(create, CONCLAVE_ECANCELED);
    handle_unref(owner);
}

/* The node may exist, and there is no memory now to find out. */
static void protected_create_retry_later(struct protected_create *create,
                                         enum protected_phase phase)
{
    protected_enter(create, phase);
    machine_retry_later(&create->machine);
}

static int delete_later(struct protected_create *create, const char *path, void (*done)(void *ctx))
{
    return deletes_add(&create->machine.owner->rt->deletes, path, done, create);
}

static bool create_is_fixed(const struct protected_create *create)
{
    return create->node.naming == CONCLAVE_NAMING_FIXED;
}

/* Names are numbers alone: the prefix is in the data. */
static bool create_is_plain(const struct protected_create *create)
{
    return create->node.naming == CONCLAVE_NAMING_PLAIN;
}

static void delete_fixed(struct protected_create *create);

/* The node exists and is ours. Takes path. */
static void accept(struct protected_create *create, char *path, const struct conclave_stat *stat)
{
    if (!create->canceled) {
        protected_enter(create, PROTECTED_IDLE);
        create->done(create, 0, path, stat);
        return;
    }
    protected_enter(create, PROTECTED_DELETE);
    if (create_is_fixed(create)) {
        free(path);
        delete_fixed(create);
        return;
    }
    handle_ref(create->machine.owner);
    int error = delete_later(create, path, protected_create_on_deleted);
    free(path);
    if (error != 0) {
        protected_create_retry_later(create, PROTECTED_RECOVER);
        handle_unref(create->machine.owner);
    }
}

/* A step failed in a way that asks for the next link; or for an end. */
static void protected_create_trouble(struct protected_create *create, int error,
                                     enum protected_phase phase)
{
    if (error == CONCLAVE_ENOMEM || (phase == PROTECTED_RECOVER && error_is_refusal(error))) {
        protected_create_retry_later(create, phase); /* while it is not known, the node may exist */
    } else if (error_is_unknown(error)) {
        protected_enter(create, phase);
    } else {
        end(create, error);
    }
}

/* --- recovery of a lost answer ----------------------------------------------------- */

static void examined_all(struct protected_create *create)
{
    char *path = create->kept;
    create->sent_ns = 0;
    struct conclave_stat stat = create->kept_stat;
    create->kept = NULL;
    found_clear(create);
    if (path == NULL) {
        protected_enter(create, PROTECTED_CREATE);
    } else {
        accept(create, path, &stat);
    }
}

static bool is_ours(const struct protected_create *create, const struct conclave_reply *reply)
{
    size_t len = strlen(create->prefix);
    return reply->stat.ephemeral_owner == create->session_id &&
           (!create_is_plain(create) ||
            (reply->data_len >= len &&
             memcmp((const char *)reply->data + reply->data_len - len, create->prefix, len) == 0));
}

static void on_examined(struct step *step, const struct conclave_reply *reply)
{
    struct protected_create *create = CONTAINER_OF(step, struct protected_create, step);
    char **path = &create->found[create->examined];
    int error = 0;
    if (reply->error == 0 && is_ours(create, reply)) {
        if (create->kept == NULL || reply->stat.czxid < create->kept_stat.czxid) {
            if (create->kept != NULL) {
                error = delete_later(create, create->kept, NULL);
                free(create->kept);
            }
            create->kept = *path;
            create->kept_stat = reply->stat;
            *path = NULL;
        } else {
            error = delete_later(create, *path, NULL);
        }
    } else if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        error = reply->error;
    }
    if (error != 0) {
        found_clear(create);
        protected_create_trouble(create, error, PROTECTED_RECOVER);
        return;
    }
    create->examined++;
    examine(create);
}

static void examine(struct protected_create *create)
{
    if (create->examined == create->found_count) {
        examined_all(create);
        return;
    }
    step_ask(&create->step, create_is_plain(create) ? CONCLAVE_OP_GET : CONCLAVE_OP_EXISTS,
             create->found[create->examined], on_examined);
}

static bool may_be_ours(const struct protected_create *create, const char *name)
{
    int32_t sequence;
    return create_is_plain(create) ? sequence_parse(name, &sequence)
                                   : strncmp(name, create->prefix, strlen(create->prefix)) == 0;
}

static void on_listed(struct step *step, const struct conclave_reply *reply)
{
    struct protected_create *create = CONTAINER_OF(step, struct protected_create, step);
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        protected_create_trouble(create, reply->error, PROTECTED_RECOVER);
        return;
    }
    found_clear(create);
    size_t count = reply->error == 0 ? reply->children_count : 0;
    create->found = calloc(count == 0 ? 1 : count, sizeof *create->found);
    if (create->found == NULL) {
        protected_create_retry_later(create, PROTECTED_RECOVER);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (may_be_ours(create, reply->children[i])) {
            char *path = path_join(create->node.parent, reply->children[i]);
            if (path == NULL) {
                found_clear(create);
                protected_create_retry_later(create, PROTECTED_RECOVER);
                return;
            }
            create->found[create->found_count++] = path;
        }
    }
    examine(create);
}

static void protected_create_on_synced(struct step *step, const struct conclave_reply *reply)
{
    struct protected_create *create = CONTAINER_OF(step, struct protected_create, step);
    if (reply->error != 0) {
        protected_create_trouble(create, reply->error, PROTECTED_RECOVER);
        return;
    }
    step_ask(&create->step, CONCLAVE_OP_GET_CHILDREN, create->node.parent, on_listed);
}

/* --- a fixed name ------------------------------------------------------------------ */

/* After a lost answer it is not deleted again before a look: it may be another's by then. */
static void on_fixed_deleted(struct step *step, const struct conclave_reply *reply)
{
    struct protected_create *create = CONTAINER_OF(step, struct protected_create, step);
    bool gone = reply->error == 0 || reply->error == CONCLAVE_NO_NODE;
    create->doubt = true;
    protected_create_trouble(create, gone ? CONCLAVE_ECANCELED : reply->error, PROTECTED_RECOVER);
}

static void delete_fixed(struct protected_create *create)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, create->node.parent, -1);
    step_submit(&create->step, &op, on_fixed_deleted);
}

/* Whose the node is, with a watch on it. */
static void on_fixed_seen(struct step *step, const struct conclave_reply *reply)
{
    struct protected_create *create = CONTAINER_OF(step, struct protected_create, step);
    watch_slot_answered(&create->other, reply->error == 0);
    if (reply->error == CONCLAVE_NO_NODE) {
        create->doubt = false;
        protected_enter(create, PROTECTED_CREATE);
    } else if (reply->error != 0) {
        protected_create_trouble(create, reply->error, PROTECTED_RECOVER);
    } else if (create->doubt && reply->stat.ephemeral_owner == create->session_id) {
        char *path = strdup(create->node.parent);
        watch_slot_clear(&create->other);
        if (path == NULL) {
            protected_create_retry_later(create, PROTECTED_RECOVER);
        } else {
            create->sent_ns = 0;
            accept(create, path, &reply->stat);
        }
    } else {
        create->doubt = false;
        create->other_czxid = reply->stat.czxid;
        if (create->node.no_wait || create->canceled) {
            end(create, CONCLAVE_EBUSY);
        } else {
            protected_enter(create, PROTECTED_WAIT);
        }
    }
}

static void look_at_fixed(struct protected_create *create)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, NULL, 0);
    op.linearizable = create->doubt;
    if (watch_slot_prepare(&create->other, create->node.parent, &op) != 0) {
        protected_create_retry_later(create, PROTECTED_RECOVER);
    } else {
        step_submit(&create->step, &op, on_fixed_seen);
    }
}

/* --- creation -------------------------------------------------------------------- */

static void on_parent(struct ensure_path *ensure, int error)
{
    struct protected_create *create = CONTAINER_OF(ensure, struct protected_create, ensure);
    if (error != 0) {
        protected_create_trouble(create, error, PROTECTED_CREATE);
    }
}

/* The nodes above the node: containers, unless others need them. */
static int create_parents(struct protected_create *create)
{
    char *parent = strdup(create->node.parent);
    if (parent == NULL) {
        return CONCLAVE_ENOMEM;
    }
    if (create_is_fixed(create)) {
        *strrchr(parent, '/') = '\0';
    }
    if (naming_needs_persistent(create->node.naming)) {
        create->ensure.persistent = true;
    }
    int error = *parent == '\0' ? CONCLAVE_NO_NODE /* the chroot itself is missing */
                                : ensure_path_start(&create->ensure, parent, create->node.acl,
                                                    create->node.acl_count, on_parent);
    free(parent);
    return error;
}

static void on_created(struct step *step, const struct conclave_reply *reply)
{
    struct protected_create *create = CONTAINER_OF(step, struct protected_create, step);
    if (reply->error == CONCLAVE_NO_NODE) {
        int error = create_parents(create);
        if (error != 0) {
            end(create, error);
        }
        return;
    }
    if (reply->error == CONCLAVE_NODE_EXISTS && create_is_fixed(create)) {
        protected_enter(create, PROTECTED_RECOVER);
        return;
    }
    create->doubt = reply->error != 0;
    if (reply->error != 0) {
        protected_create_trouble(create, reply->error, PROTECTED_RECOVER);
        return;
    }
    char *path = reply->has_stat ? strdup(reply->path) : NULL;
    if (path == NULL) { /* its stat is needed; without memory it is looked up, too */
        create->doubt = true;
        protected_create_trouble(create,
                                 reply->has_stat ? CONCLAVE_ENOMEM : CONCLAVE_CONNECTION_LOSS,
                                 PROTECTED_RECOVER);
        return;
    }
    accept(create, path, &reply->stat);
}

/* The data, a newline and the guid; the data are a text. NULL without memory. */
static char *marked_data(const struct protected_create *create)
{
    char *data = malloc(create->node.data_len + 1 + sizeof create->prefix);
    char *at = data;
    if (data != NULL) {
        (void)block_add(&at, create->node.data, create->node.data_len);
        at[-1] = '\n';
        (void)strcpy(at, create->prefix);
    }
    return data;
}

static void create_submit(struct protected_create *create)
{
    bool fixed = create_is_fixed(create);
    bool plain = create_is_plain(create);
    char *path = fixed ? strdup(create->node.parent)
                       : path_join(create->node.parent, plain ? "" : create->prefix);
    char *data = plain ? marked_data(create) : NULL;
    if (path != NULL && create->node.label != NULL) {
        char *labelled = text_concat(path, create->node.label);
        free(path);
        path = labelled;
    }
    if (path == NULL || (plain && data == NULL)) {
        free(path);
        free(data);
        end(create, CONCLAVE_ENOMEM);
        return;
    }
    struct conclave_op op = conclave_op_create(
        path, plain ? data : create->node.data, plain ? strlen(data) : create->node.data_len,
        fixed ? CONCLAVE_EPHEMERAL : CONCLAVE_EPHEMERAL_SEQUENTIAL);
    op.acl = create->node.acl;
    op.acl_count = create->node.acl_count;
    create->sent_ns = client_now_ns(machine_client(&create->machine));
    step_submit(&create->step, &op, on_created);
    free(path);
    free(data);
}

static void protected_create_work(struct machine *machine)
{
    struct protected_create *create = CONTAINER_OF(machine, struct protected_create, machine);
    struct conclave_client *client = machine_client(machine);
    enum conclave_state state = client_state(client);
    bool waiting = create->phase == PROTECTED_CREATE || create->phase == PROTECTED_RECOVER ||
                   create->phase == PROTECTED_WAIT;
    if (!waiting || create->step.busy || ensure_path_busy(&create->ensure) ||
        machine_pauses(machine)) {
        return;
    }
    if (state == CONCLAVE_STATE_LOST || client_session_id(client) != create->session_id) {
        end(create, CONCLAVE_SESSION_EXPIRED);
    } else if (state_is_final(state)) {
        end(create, state_error(state));
    } else if (create->phase != PROTECTED_RECOVER && create->canceled) {
        end(create, CONCLAVE_ECANCELED);
    } else if (create->phase == PROTECTED_WAIT && create->other.armed) {
        return;
    } else if (!recipes_connected(machine->owner->rt)) {
        return;
    } else if (create->phase == PROTECTED_WAIT) {
        protected_enter(create, PROTECTED_CREATE);
        create_submit(create);
    } else if (create->phase == PROTECTED_CREATE) {
        create_submit(create);
    } else if (create_is_fixed(create)) {
        look_at_fixed(create);
    } else {
        step_ask(&create->step, CONCLAVE_OP_SYNC, create->node.parent, protected_create_on_synced);
    }
}

void protected_create_run(struct protected_create *create)
{
    machine_resume(&create->machine);
    machine_run(&create->machine);
}

void protected_create_init(struct protected_create *create, struct handle *owner,
                           protected_create_fn done)
{
    memset(create, 0, sizeof *create);
    create->done = done;
    machine_init(&create->machine, owner, protected_create_work);
    machine_step_init(&create->machine, &create->step);
    machine_ensure_init(&create->machine, &create->ensure);
    machine_watch_init(&create->machine, &create->other);
}

void protected_create_start(struct protected_create *create, const struct protected_node *node)
{
    protected_enter(create, PROTECTED_CREATE);
    create->node = *node;
    create->canceled = false;
    create->session_id = client_session_id(machine_client(&create->machine));
    create->doubt = false;
    if (!create_is_fixed(create)) {
        name_make_prefix(node->naming, node->kind, create->prefix);
    }
    if (node->weight > 1) {
        name_add_weight(node->weight, create->prefix);
    }
    if (node->label != NULL) {
        create->prefix[strlen(create->prefix) - strlen(name_marker(node->naming))] = '\0';
    }
    protected_create_run(create);
}

void protected_create_cancel(struct protected_create *create)
{
    create->canceled = true;
    protected_create_run(create);
}

void protected_create_finish(struct protected_create *create)
{
    found_clear(create);
    watch_slot_clear(&create->other);
    machine_resume(&create->machine);
    ensure_path_finish(&create->ensure);
}
