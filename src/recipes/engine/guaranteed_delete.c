#include "recipes/engine/guaranteed_delete.h"

#include "recipes/engine/recipe_runtime.h"

#include <stdlib.h>
#include <string.h>

/* Between two tries that the server refused (not between lost links, which wait for the next
 * link). */
enum { DELETES_RETRY_MS = 1000 };

struct deletion {
    struct list link;
    struct deletes *deletes;
    char *path;
    int64_t session_id; /* that owns the node */
    bool persistent;    /* no session owns it: the deletion outlives them */
    bool in_flight;
    char *mark;  /* the end of its data; NULL: the name is ours alone */
    bool looked; /* they were just read, and end so */
    void (*done)(void *ctx);
    void *ctx;
    bool gives_up;   /* when the server refuses for good */
    int *ret_result; /* error of the last answer; NULL: nobody asks */
};

static void deletion_end(struct deletion *d)
{
    struct conclave_recipes *rt = d->deletes->rt;
    void (*done)(void *ctx) = d->done;
    void *ctx = d->ctx;
    list_remove(&d->link);
    deletion_free(d);
    if (done != NULL) {
        done(ctx);
    }
    recipes_unref(rt);
}

static void guaranteed_delete_retry_later(struct deletes *deletes, int error)
{
    struct conclave_client *client = deletes->rt->client;
    if (error == CONCLAVE_ENOMEM) {
        recipes_retry_later(deletes->rt, &deletes->retry);
    } else if (!client_timer_active(&deletes->retry)) {
        client_timer_start(client, &deletes->retry,
                           client_now_ns(client) + (int64_t)DELETES_RETRY_MS * 1000000);
    }
}

/* Whether nothing is left to do after this answer. */
static bool guaranteed_delete_is_over(const struct conclave_client *client,
                                      const struct deletion *d, int error)
{
    enum conclave_state state = client_state(client);
    if (error == 0 || error == CONCLAVE_NO_NODE || state_is_final(state)) {
        return true;
    }
    if ((d->persistent || d->gives_up) && error_is_fatal(error)) {
        return true;
    }
    if (d->persistent) {
        return false;
    }
    return client_session_id(client) != d->session_id || state == CONCLAVE_STATE_LOST ||
           error == CONCLAVE_SESSION_EXPIRED;
}

bool data_has_mark(const struct conclave_reply *reply, const char *mark)
{
    size_t len = strlen(mark);
    return reply->data_len >= len &&
           memcmp((const char *)reply->data + reply->data_len - len, mark, len) == 0;
}

static void deletion_send(struct deletion *d);

static void guaranteed_delete_on_answer(struct conclave_client *client,
                                        const struct conclave_reply *reply, void *ctx)
{
    struct deletion *d = ctx;
    d->in_flight = false;
    bool read = d->mark != NULL && !d->looked && reply->error == 0;
    d->looked = read && data_has_mark(reply, d->mark);
    if (d->looked) {
        deletion_send(d);
        return;
    }
    if (guaranteed_delete_is_over(client, d, reply->error)) { /* gone, or another's */
        if (d->ret_result != NULL && error_is_fatal(reply->error)) {
            *d->ret_result = reply->error;
        }
        deletion_end(d);
        return;
    }
    /* A lost link is followed by a state that sends again; all else is tried again until the
     * session ends. */
    guaranteed_delete_retry_later(d->deletes, reply->error);
}

static void deletion_send(struct deletion *d)
{
    struct conclave_client *client = d->deletes->rt->client;
    bool look = d->mark != NULL && !d->looked;
    struct conclave_op op = look ? conclave_op_path(CONCLAVE_OP_GET, d->path, 0)
                                 : conclave_op_path(CONCLAVE_OP_DELETE, d->path, -1);
    op.linearizable = look; /* a server that lags must not hide it */
    int error = client_submit(client, &op, guaranteed_delete_on_answer, d);
    d->in_flight = error == 0;
    d->looked = d->looked && d->in_flight;         /* again before a later try */
    if (error != 0 && error != CONCLAVE_ECLOSED) { /* then CLOSED is on its way and ends it */
        guaranteed_delete_retry_later(d->deletes, error);
    }
}

static void send_all(struct deletes *deletes)
{
    if (!recipes_connected(deletes->rt)) {
        return;
    }
    LIST_FOREACH (it, &deletes->pending) {
        struct deletion *d = CONTAINER_OF(it, struct deletion, link);
        if (!d->in_flight) {
            deletion_send(d);
        }
    }
}

static void guaranteed_delete_on_retry(struct conclave_client *client, void *ctx)
{
    send_all(ctx);
}

void deletes_init(struct deletes *deletes, struct conclave_recipes *rt)
{
    deletes->rt = rt;
    list_init(&deletes->pending);
    client_timer_init(&deletes->retry, guaranteed_delete_on_retry, deletes);
}

struct deletion *deletion_create(const char *path)
{
    struct deletion *d = calloc(1, sizeof *d);
    if (d != NULL && (d->path = strdup(path)) == NULL) {
        free(d);
        return NULL;
    }
    return d;
}

void deletion_free(struct deletion *d)
{
    if (d != NULL) {
        free(d->path);
        free(d->mark);
        free(d);
    }
}

struct deletion *deletion_create_marked(const char *path, const char *mark)
{
    struct deletion *d = deletion_create(path);
    if (d != NULL && (d->mark = strdup(mark)) == NULL) {
        deletion_free(d);
        return NULL;
    }
    return d;
}

void deletion_forget(struct deletion *d)
{
    d->done = NULL;
    d->ret_result = NULL;
}

struct deletion_wait {
    struct conclave_client *client;
    bool done;
};

static void deletion_on_done(void *ctx)
{
    struct deletion_wait *wait = ctx;
    wait->done = true;
    client_notify(wait->client);
}

static bool deletion_is_done(void *ctx)
{
    return ((struct deletion_wait *)ctx)->done;
}

int deletes_run(struct deletes *deletes, struct deletion *d_take, int64_t deadline_ns)
{
    struct conclave_client *client = deletes->rt->client;
    struct deletion_wait wait = {.client = client};
    int result = 0;
    client_ref(client);
    d_take->gives_up = true;
    d_take->ret_result = &result;
    deletes_start(deletes, d_take, deletion_on_done, &wait);
    if (client_wait(client, deletion_is_done, &wait, deadline_ns) != 0) {
        deletion_forget(d_take);
        result = CONCLAVE_ETIMEDOUT;
    }
    client_unref(client);
    return result;
}

void deletes_start(struct deletes *deletes, struct deletion *d_take, void (*done)(void *ctx),
                   void *ctx)
{
    struct deletion *d = d_take;
    d->deletes = deletes;
    d->session_id = client_session_id(deletes->rt->client);
    d->done = done;
    d->ctx = ctx;
    list_push_back(&deletes->pending, &d->link);
    recipes_ref(deletes->rt);
    send_all(deletes);
}

static int deletes_add_as(struct deletes *deletes, const char *path, bool persistent,
                          void (*done)(void *ctx), void *ctx)
{
    struct deletion *d = deletion_create(path);
    if (d == NULL) {
        return CONCLAVE_ENOMEM;
    }
    d->persistent = persistent;
    deletes_start(deletes, d, done, ctx);
    return 0;
}

int deletes_add(struct deletes *deletes, const char *path, void (*done)(void *ctx), void *ctx)
{
    return deletes_add_as(deletes, path, false, done, ctx);
}

int deletes_add_persistent(struct deletes *deletes, const char *path)
{
    return deletes_add_as(deletes, path, true, NULL, NULL);
}

void deletes_on_state(struct deletes *deletes, enum conclave_state state)
{
    bool ended = state == CONCLAVE_STATE_LOST || state_is_final(state);
    struct conclave_recipes *rt = deletes->rt;
    recipes_ref(rt); /* the last deletion may hold the last reference */
    if (ended) {
        client_timer_stop(rt->client, &deletes->retry);
        /* Those in flight are answered soon, and end then. */
        LIST_FOREACH (it, &deletes->pending) {
            struct deletion *d = CONTAINER_OF(it, struct deletion, link);
            if (!d->in_flight && (!d->persistent || state_is_final(state))) {
                deletion_end(d);
            }
        }
    } else {
        send_all(deletes);
    }
    recipes_unref(rt);
}
