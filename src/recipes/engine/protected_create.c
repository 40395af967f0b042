#include "recipes/engine/protected_create.h"

#include <stdlib.h>
#include <string.h>

enum { RETRY_MS = 250 };

/* --- containers ------------------------------------------------------------------ */

void ensure_path_init(struct ensure_path *ensure, struct handle *owner)
{
    memset(ensure, 0, sizeof *ensure);
    step_init(&ensure->step, owner);
}

void ensure_path_finish(struct ensure_path *ensure)
{
    free(ensure->path);
    ensure->path = NULL;
}

static void on_ensured(struct step *step, const struct conclave_reply *reply);

static void ensure_submit(struct ensure_path *ensure)
{
    char cut = ensure->path[ensure->len];
    ensure->path[ensure->len] = '\0';
    struct conclave_op op = conclave_op_create(
        ensure->path, "", 0, ensure->persistent ? CONCLAVE_PERSISTENT : CONCLAVE_CONTAINER);
    op.acl = ensure->acl;
    op.acl_count = ensure->acl_count;
    step_submit(&ensure->step, &op, on_ensured);
    ensure->path[ensure->len] = cut;
}

static void ensure_end(struct ensure_path *ensure, int error)
{
    free(ensure->path);
    ensure->path = NULL;
    ensure->done(ensure, error);
}

/* From the node up to the first parent that stands, then down again: what stands is not
 * touched, so that no right on it is needed. */
static void on_ensured(struct step *step, const struct conclave_reply *reply)
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
    found_clear(create);
    create->phase = PROTECTED_IDLE;
    if (create->canceled && !error_is_fatal(error)) {
        error = CONCLAVE_ECANCELED; /* whatever else: nothing of ours stands */
    }
    create->done(create, error, NULL, NULL);
}

static void protected_create_on_deleted(void *ctx)
{
    struct protected_create *create = ctx;
    struct handle *owner = create->owner;
    end(create, CONCLAVE_ECANCELED);
    handle_unref(owner);
}

/* It may be that the node stands, and just now there is no memory to find out. */
static void protected_create_retry_later(struct protected_create *create,
                                         enum protected_phase phase)
{
    struct conclave_client *client = create->owner->rt->client;
    create->phase = phase;
    client_timer_start(client, &create->retry, client_now_ns(client) + (int64_t)RETRY_MS * 1000000);
}

static void protected_create_on_retry(struct conclave_client *client, void *ctx)
{
    protected_create_run(ctx);
}

/* The node stands and is ours. Takes path. */
static void accept(struct protected_create *create, char *path, const struct conclave_stat *stat)
{
    if (!create->canceled) {
        create->phase = PROTECTED_IDLE;
        create->done(create, 0, path, stat);
        return;
    }
    create->phase = PROTECTED_DELETE;
    handle_ref(create->owner);
    int error = deletes_add(&create->owner->rt->deletes, path, protected_create_on_deleted, create);
    free(path);
    if (error != 0) {
        protected_create_retry_later(create, PROTECTED_RECOVER);
        handle_unref(create->owner);
    }
}

/* A step failed in a way that asks for the next link; or for an end. */
static void protected_create_trouble(struct protected_create *create, int error,
                                     enum protected_phase phase)
{
    if (error == CONCLAVE_ENOMEM) {
        protected_create_retry_later(create, phase);
    } else if (error_is_unknown(error)) {
        create->phase = phase;
        protected_create_run(create);
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
        create->phase = PROTECTED_CREATE;
        protected_create_run(create);
        return;
    }
    accept(create, path, &stat);
}

static int drop_extra(struct protected_create *create, const char *path)
{
    return deletes_add(&create->owner->rt->deletes, path, NULL, NULL);
}

static void on_examined(struct step *step, const struct conclave_reply *reply)
{
    struct protected_create *create = CONTAINER_OF(step, struct protected_create, step);
    char **path = &create->found[create->examined];
    int error = 0;
    if (reply->error == 0 && reply->stat.ephemeral_owner == create->session_id) {
        if (create->kept == NULL || reply->stat.czxid < create->kept_stat.czxid) {
            if (create->kept != NULL) {
                error = drop_extra(create, create->kept);
                free(create->kept);
            }
            create->kept = *path;
            create->kept_stat = reply->stat;
            *path = NULL;
        } else {
            error = drop_extra(create, *path);
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
    struct conclave_op op =
        conclave_op_path(CONCLAVE_OP_EXISTS, create->found[create->examined], 0);
    step_submit(&create->step, &op, on_examined);
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
        if (strncmp(reply->children[i], create->prefix, strlen(create->prefix)) == 0) {
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
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, create->node.parent, 0);
    step_submit(&create->step, &op, on_listed);
}

/* --- creation -------------------------------------------------------------------- */

static void on_parent(struct ensure_path *ensure, int error)
{
    struct protected_create *create = CONTAINER_OF(ensure, struct protected_create, ensure);
    create->ensuring = false;
    if (error != 0) {
        protected_create_trouble(create, error, PROTECTED_CREATE);
    } else {
        protected_create_run(create);
    }
}

static void on_created(struct step *step, const struct conclave_reply *reply)
{
    struct protected_create *create = CONTAINER_OF(step, struct protected_create, step);
    if (reply->error == CONCLAVE_NO_NODE) {
        create->ensuring = true;
        int error = ensure_path_start(&create->ensure, create->node.parent, create->node.acl,
                                      create->node.acl_count, on_parent);
        if (error != 0) {
            create->ensuring = false;
            end(create, error);
        }
        return;
    }
    if (reply->error != 0) {
        protected_create_trouble(create, reply->error, PROTECTED_RECOVER);
        return;
    }
    char *path = reply->has_stat ? strdup(reply->path) : NULL;
    if (path == NULL) { /* its stat is needed; without memory it is looked up, too */
        protected_create_trouble(create,
                                 reply->has_stat ? CONCLAVE_ENOMEM : CONCLAVE_CONNECTION_LOSS,
                                 PROTECTED_RECOVER);
        return;
    }
    accept(create, path, &reply->stat);
}

static void create_submit(struct protected_create *create)
{
    char *path = path_join(create->node.parent, create->prefix);
    if (path == NULL) {
        end(create, CONCLAVE_ENOMEM);
        return;
    }
    struct conclave_op op = conclave_op_create(path, create->node.data, create->node.data_len,
                                               CONCLAVE_EPHEMERAL_SEQUENTIAL);
    op.acl = create->node.acl;
    op.acl_count = create->node.acl_count;
    create->sent_ns = client_now_ns(create->owner->rt->client);
    step_submit(&create->step, &op, on_created);
    free(path);
}

void protected_create_run(struct protected_create *create)
{
    struct conclave_client *client = create->owner->rt->client;
    enum conclave_state state = client_state(client);
    bool waiting = create->phase == PROTECTED_CREATE || create->phase == PROTECTED_RECOVER;
    if (!waiting || create->step.busy || create->ensuring) {
        return;
    }
    client_timer_stop(client, &create->retry);
    if (state == CONCLAVE_STATE_LOST || client_session_id(client) != create->session_id) {
        end(create, CONCLAVE_SESSION_EXPIRED);
    } else if (state_is_final(state)) {
        end(create, state == CONCLAVE_STATE_CLOSED ? CONCLAVE_ECLOSED : CONCLAVE_AUTH_FAILED);
    } else if (create->phase == PROTECTED_CREATE && create->canceled) {
        end(create, CONCLAVE_ECANCELED);
    } else if (!recipes_connected(create->owner->rt)) {
        return;
    } else if (create->phase == PROTECTED_CREATE) {
        create_submit(create);
    } else {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, create->node.parent, 0);
        step_submit(&create->step, &op, protected_create_on_synced);
    }
}

void protected_create_init(struct protected_create *create, struct handle *owner,
                           void (*done)(struct protected_create *create, int error, char *path,
                                        const struct conclave_stat *stat))
{
    memset(create, 0, sizeof *create);
    create->owner = owner;
    create->done = done;
    step_init(&create->step, owner);
    client_timer_init(&create->retry, protected_create_on_retry, create);
    ensure_path_init(&create->ensure, owner);
}

void protected_create_start(struct protected_create *create, const struct protected_node *node)
{
    create->node = *node;
    create->phase = PROTECTED_CREATE;
    create->canceled = false;
    create->session_id = client_session_id(create->owner->rt->client);
    name_make_prefix(node->naming, node->kind, create->prefix);
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
    client_timer_stop(create->owner->rt->client, &create->retry);
    ensure_path_finish(&create->ensure);
}
