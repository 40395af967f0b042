/*
 * Handles that a user opens and closes (struct host), and the calls that are made on them
 * (struct call): a put, a take, a wait at a barrier. Each call is a small machine of its own
 * with a deadline, and ends exactly once; its answer goes to a callback in the dispatcher, or
 * to the thread that waits for it. A host is closed when it was told to and its last call has
 * ended.
 *
 * Lock of the client held for all functions, unless said otherwise.
 */
#ifndef RECIPES_ENGINE_HANDLE_CALLS_H
#define RECIPES_ENGINE_HANDLE_CALLS_H

#include "recipes/engine/handle_shutdown.h"
#include "recipes/engine/recipe_runtime.h"

/* --- hosts ----------------------------------------------------------------------- */

struct host;

/* All but tell_closed and free may be NULL. */
struct host_class {
    void (*on_state)(struct host *host, enum conclave_state state);
    /* Runs one callback that is due; gives the lock up around it. False: none was. */
    bool (*run_due)(struct host *host);
    /* It is being closed: ends what goes on beside the calls. */
    void (*stop)(struct host *host);
    /* Whether nothing goes on beside the calls any more. */
    bool (*is_idle)(struct host *host);
    /* on_closed. No lock held. */
    void (*tell_closed)(struct host *host, int why);
    void (*free)(struct host *host);
};

struct host {
    struct handle handle; /* first: it is freed through it */
    const struct host_class *class;
    struct list calls; /* struct call.link */
    unsigned untold;   /* callbacks that are due, or run: on_closed comes behind them */
    struct closing closing;
};

/* Takes a reference for the user, which host_destroy gives back. */
void host_init(struct host *host, struct conclave_recipes *rt, const struct host_class *class);

/* Whether what went on beside the calls has ended, too: looks whether it can be closed. */
void host_check(struct host *host);

/* A callback beside the calls' is due, and has returned: no other comes in between with on_closed. */
void host_owes(struct host *host);
void host_told(struct host *host);

/* What the public functions of that name do. No lock held. */
void host_close(struct host *host);
int host_close_wait(struct host *host, int64_t timeout_ms) CONCLAVE_MUST_USE;
void host_destroy(struct host *host);

/* --- calls ------------------------------------------------------------------------- */

struct call;

struct call_class {
    /* Looks at what is known and does what is next; also after each change of the client's
     * state. Not called after call_end. */
    void (*run)(struct call *call);
    /* Before run, at a change of the client's state. May be NULL. */
    void (*on_state)(struct call *call, enum conclave_state state);
    /* Its callback. No lock held. */
    void (*tell)(struct call *call);
    void (*free)(struct call *call);
};

struct call {
    struct handle handle; /* first: it is freed through it */
    struct host *host;
    const struct call_class *class;
    struct list link; /* in host.calls */
    struct client_timer deadline;
    struct client_timer retry;
    int stop; /* 0, or why it shall end: ETIMEDOUT, ECLOSED, ... */
    bool running;
    bool again;
    bool ended;
    int error; /* once ended */
    bool told; /* its answer was taken, or nobody wants it */
    bool held; /* between call_wait and call_release */
    bool released;
};

/* One of the host's calls from here on, to be freed by itself at the end. */
void call_init(struct call *call, struct host *host, const struct call_class *class);

/* Begins: runs it, and stops it with CONCLAVE_ETIMEDOUT when the time is over. */
void call_start(struct call *call, int64_t timeout_ms);

/* Has class->run called, now or when the present run returns. */
void call_run(struct call *call);

/* Asks it to end; the first reason stays. */
void call_stop(struct call *call, int why);

/* The end. The answer must be filled in. */
void call_end(struct call *call, int error);

/* An error that says nothing about the outcome: ends the call when it will be no better, else it
 * is run again, with the next link or in a while. */
void call_trouble(struct call *call, int error);
void call_retry_later(struct call *call);

/* Whether it can send now: linked, and no pause to be kept. */
bool call_can_send(const struct call *call);

/* For a blocking function: begins it and waits until it has ended; gives the lock up meanwhile.
 * Its error. Read the answer, then call call_release. CONCLAVE_EDEADLK: this thread may not wait;
 * there is no answer. */
int call_wait(struct call *call, int64_t timeout_ms) CONCLAVE_MUST_USE;
void call_release(struct call *call);

static inline struct conclave_client *call_client(const struct call *call)
{
    return call->handle.rt->client;
}

#endif
