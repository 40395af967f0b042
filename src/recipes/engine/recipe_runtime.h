/*
 * The base of all recipes: the runtime of a client, handles, requests and watches that
 * belong to a handle, and the callbacks' thread.
 *
 * Everything here lives under the client's one lock (client_lock): recipes need none of their
 * own. Replies, watches, timers and state changes come on the client's I/O thread with that
 * lock held; user code runs only in the runtime's dispatcher, with no lock held. A handle's
 * callbacks run one at a time: the handle has one job, and each run of it asks the handle what
 * is due now (level-triggered), so nothing is queued and nothing becomes stale.
 *
 * A recipe is written as a machine that looks at what is known and decides; a wakeup never
 * carries a decision.
 */
#ifndef RECIPES_ENGINE_RECIPE_RUNTIME_H
#define RECIPES_ENGINE_RECIPE_RUNTIME_H

#include "client/client.h"
#include "recipes/engine/guaranteed_delete.h"
#include "recipes/engine/lease.h"

#include <conclave/recipes.h>

#include <sys/types.h>

/* struct conclave_recipes: one per client. */
struct conclave_recipes {
    struct conclave_client *client;
    struct dispatcher *dispatcher;
    struct client_listener listener;
    struct list handles;       /* struct handle.link */
    struct list failed;        /* struct step.failed_link: requests that could not be submitted */
    struct client_timer retry; /* tells them */
    struct lease lease;
    struct deletes deletes;
    pid_t pid;      /* of the process that made it */
    unsigned refs;  /* the user's, one per handle, step in flight, heartbeat and deletion */
    bool destroyed; /* by the user; requests in flight still end */
    bool listening;
};

/* Lock held. The last unref frees. */
void recipes_ref(struct conclave_recipes *rt);
void recipes_unref(struct conclave_recipes *rt);

/* A program's mistake that would corrupt memory: says on stderr which function was called too early and which call is
 * missing, and aborts. */
_Noreturn void recipes_misuse(const char *function, const char *missing);

/* 0, or CONCLAVE_EFORK. Aborts without a runtime. No lock held. */
int recipes_check(const struct conclave_recipes *rt) CONCLAVE_MUST_USE;

/* 0 when the calling thread may block here: CONCLAVE_EDEADLK in a callback of this runtime,
 * CONCLAVE_EFORK in a child of the process that made it. No lock held. */
int recipes_may_block(struct conclave_recipes *rt) CONCLAVE_MUST_USE;

/* Whether the client has a session and a link on which it can write. Lock held. */
static inline bool recipes_connected(const struct conclave_recipes *rt)
{
    return client_is_connected(rt->client);
}

/* Whether the state is one after which nothing comes. */
static inline bool state_is_final(enum conclave_state state)
{
    return state == CONCLAVE_STATE_CLOSED || state == CONCLAVE_STATE_AUTH_FAILED;
}

/* --- handles --------------------------------------------------------------------- */

struct handle;

struct handle_class {
    /* A change of the client's state; NULL: of no interest. Lock held. */
    void (*on_state)(struct handle *h, enum conclave_state state);
    /* Runs the one callback that is due, if any; true when it ran one. Called with the lock
     * held, in the dispatcher; gives the lock up around user code. */
    bool (*run_due)(struct handle *h);
    /* Frees it: nothing refers to it any more. Lock held. */
    void (*free)(struct handle *h);
};

struct handle {
    struct list link; /* in conclave_recipes.handles */
    struct conclave_recipes *rt;
    const struct handle_class *class;
    struct job job;
    unsigned refs;
    bool job_posted;
};

/* Lock held for all of these. init takes a reference for the caller. */
void handle_init(struct handle *h, struct conclave_recipes *rt, const struct handle_class *class);
void handle_ref(struct handle *h);
void handle_unref(struct handle *h);

/* The user is done with it: gives back the reference of init. It learns of no state any more
 * and its callbacks do not run; requests in flight keep it alive. */
void handle_release(struct handle *h);

/* The user gave it up inside its last callback: as handle_release, but the reference stays until that
 * has returned, when handle_release follows. The runtime may be destroyed meanwhile. */
void handle_retire(struct handle *h);

/* Something may be due: has run_due called in the dispatcher. */
void handle_post(struct handle *h);

/* For functions that block, no lock held before and after: takes the lock and a reference, unless this is no place to
 * wait (CONCLAVE_EDEADLK, CONCLAVE_EFORK: nothing is taken). Between them, as often as needed: waits for done(ctx);
 * 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK. */
int handle_begin_wait(struct handle *h) CONCLAVE_MUST_USE;
int handle_wait(struct handle *h, bool (*done)(void *ctx), void *ctx,
                int64_t timeout_ms) CONCLAVE_MUST_USE;
void handle_end_wait(struct handle *h);

/* --- requests and watches of a handle ------------------------------------------ */

struct step;
struct machine;

typedef void (*step_fn)(struct step *step, const struct conclave_reply *reply);

/* One request in flight at a time; keeps its handle alive until it was answered. Zero it, then
 * step_init. */
struct step {
    struct handle *owner;
    struct machine *machine; /* is run after fn; NULL: none (machine.h) */
    step_fn fn;
    struct list failed_link;
    int error;           /* that client_submit gave */
    uint32_t generation; /* free for the sender: the subject of the request */
    bool busy;
    bool abandoned; /* the answer is of no interest: a repeated request shows it here */
};

void step_init(struct step *step, struct handle *owner);

/* Sends; fn is called exactly once, later, also when the request could not even be submitted
 * (reply->error says why). The step must not be busy. */
void step_submit(struct step *step, const struct conclave_op *op, step_fn fn);

/* Sends a request that is a type and a path; latest: linearizable, a server that lags cannot hide anything. */
void step_ask(struct step *step, enum conclave_op_type type, const char *path, step_fn fn);
void step_ask_latest(struct step *step, enum conclave_op_type type, const char *path, step_fn fn);

/* One watch. fired: it has gone off, or the session it was set in has ended; armed: it is set. */
struct watch_slot {
    struct handle *owner;
    struct machine *machine; /* is run after fn; NULL: none */
    void (*fn)(struct watch_slot *slot, enum conclave_event_type type); /* NULL with a machine */
    char *path;
    bool armed;
    bool pending; /* its request is in flight */
};

void watch_slot_init(struct watch_slot *slot, struct handle *owner,
                     void (*fn)(struct watch_slot *slot, enum conclave_event_type type));

/* Forgets what is armed, then makes op ask for this slot's watch on path. 0 or
 * CONCLAVE_ENOMEM. */
int watch_slot_prepare(struct watch_slot *slot, const char *path,
                       struct conclave_op *op) CONCLAVE_MUST_USE;

/* To be called with the answer of the request it was prepared for; set: whether that answer
 * means that it is set. */
void watch_slot_answered(struct watch_slot *slot, bool set);

/* Forgets it and frees the path. */
void watch_slot_clear(struct watch_slot *slot);

/* --- helpers -------------------------------------------------------------------- */

/* Starts the timer of something that is to be tried again, because memory was out or the server refused it for
 * now. */
void recipes_retry_later(struct conclave_recipes *rt, struct client_timer *timer);

/* Why everything ends with a final state. */
static inline int state_error(enum conclave_state state)
{
    return state == CONCLAVE_STATE_CLOSED ? CONCLAVE_ECLOSED : CONCLAVE_AUTH_FAILED;
}

/* "parent/name" on the heap, NULL without memory. parent may be "/". */
char *path_join(const char *parent, const char *name);

/* Name after the last slash. */
const char *path_name(const char *path);

/* Outcome unknown: the request may have been carried out. */
static inline bool error_is_unknown(int error)
{
    return error == CONCLAVE_CONNECTION_LOSS || error == CONCLAVE_OPERATION_TIMEOUT ||
           error == CONCLAVE_REQUEST_TIMEOUT || error == CONCLAVE_SESSION_MOVED ||
           error == CONCLAVE_ENOMEM; /* there may have been an answer, and no room for it */
}

/* What is told about a read to a caller who does not wait for the next link. */
static inline int error_without_waiting(int error)
{
    return error_is_unknown(error) && error != CONCLAVE_ENOMEM ? CONCLAVE_EDISCONNECTED : error;
}

/* It will be no better next time with the same session and tree: the user has to do something. */
bool error_is_fatal(int error);

#endif
