/*
 * Handles that a user opens and closes (struct host), and the calls that are made on them
 * (struct call): a put, a take, a wait at a barrier. Each call is a small machine of its own
 * with a deadline, and ends exactly once; its answer goes to a callback in the dispatcher, or
 * to the thread that waits for it. A host is closed after a request to close it, when its last call has
 * ended.
 *
 * Lock of the client held for all functions, unless said otherwise.
 */
#ifndef RECIPES_ENGINE_HANDLE_CALLS_H
#define RECIPES_ENGINE_HANDLE_CALLS_H

#include "recipes/engine/handle_shutdown.h"
#include "recipes/engine/machine.h"
#include "recipes/engine/protected_create.h"

/* --- hosts ----------------------------------------------------------------------- */

struct host;

/* All but tell_closed and free may be NULL. */
struct host_class {
    void (*on_state)(struct host *host, enum conclave_state state);
    /* Runs one callback that is due; gives the lock up around it. False: none was. */
    bool (*run_due)(struct host *host);
    /* The host is closing: ends its activities outside the calls. */
    void (*stop)(struct host *host);
    /* Whether all activities outside the calls have ended. */
    bool (*is_idle)(struct host *host);
    /* on_closed. No lock held. */
    void (*tell_closed)(struct host *host, int why);
    /* Also of one that could not be opened: parts that were not initialised are zero. */
    void (*free)(struct host *host);
};

struct host {
    struct handle handle; /* first: it is freed through it */
    const struct host_class *class;
    struct list calls; /* struct call.link */
    unsigned untold;   /* callbacks that are due, or run: on_closed comes behind them */
    struct closing closing;
};

/* Opens a zeroed host whose options were copied with this error. 0: the user has a reference, which host_destroy gives
 * back, and the client's lock is held, so that no callback runs before the caller has handed the host out. An error:
 * class->free was called; also CONCLAVE_ECLOSED, CONCLAVE_EFORK. No lock held before. */
int host_open(struct host *host, struct conclave_recipes *rt, const struct host_class *class,
              int error) CONCLAVE_MUST_USE;

/* Ends it from within, for an error that will not pass. */
void host_end(struct host *host, int why);

/* Waits until ready(ctx), which is asked after each client_notify. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK, or why it
 * was closed; then it may be freed already. */
int host_wait(struct host *host, bool (*ready)(void *ctx), void *ctx,
              int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Whether what went on beside the calls has ended, too: looks whether it can be closed. */
void host_check(struct host *host);

/* A callback beside the calls' is due, and has returned: no other comes in between with on_closed. */
void host_owes(struct host *host);
void host_told(struct host *host);

/* The bodies of the public functions with these names. No lock held. */
void host_close(struct host *host);
int host_close_wait(struct host *host, int64_t timeout_ms) CONCLAVE_MUST_USE;
void host_destroy_by(struct host *host, const char *function);
#define host_destroy(host) host_destroy_by(host, __func__)

/* --- calls ------------------------------------------------------------------------- */

struct call;

typedef void (*call_fn)(struct call *call, const struct conclave_reply *reply);

struct call_class {
    /* Looks at what is known and does what is next; also after each change of the client's
     * state. Not called while its request is in flight, nor after call_end. */
    void (*run)(struct call *call);
    /* Before run, at a change of the client's state. May be NULL. */
    void (*on_state)(struct call *call, enum conclave_state state);
    /* Ends it with an error that will not pass. */
    void (*fail)(struct call *call, int error);
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
    struct machine machine;    /* works by class->run */
    struct step step;          /* its request */
    call_fn answered;          /* gets the answer to that */
    struct ensure_path ensure; /* a node that it needs, and the parents of that */
    bool now;                  /* its time is 0: it does not wait, but asks once */
    int stop;                  /* 0, or the reason to end it: ETIMEDOUT, ECLOSED, ... */
    bool ended;
    int error; /* once ended */
    bool told; /* its answer was taken, or is not wanted */
    bool held; /* somebody waits in host_call_wait */
    bool released;
};

/* The body of the public functions that begin a call: make it, run it, stop it with CONCLAVE_ETIMEDOUT when the time is
 * over. 0, what create returns (lock held; it ends in call_init), CONCLAVE_ECLOSED, CONCLAVE_EFORK. No lock held. */
typedef int (*call_create_fn)(struct host *host, void *request, struct call **ret);
int host_call(struct host *host, call_create_fn create, void *request,
              int64_t timeout_ms) CONCLAVE_MUST_USE;

/* The same and waits for its end. collect (may be NULL) takes the answer of one that ended well. Also the error with
 * which it ended, CONCLAVE_EDEADLK. */
int host_call_wait(struct host *host, call_create_fn create, void *request, int64_t timeout_ms,
                   void (*collect)(struct call *call, void *request)) CONCLAVE_MUST_USE;

/* One of the host's calls from here on, to be freed by itself at the end. */
void call_init(struct call *call, struct host *host, const struct call_class *class);

/* Has class->run called, now or when the present run returns. */
void call_run(struct call *call);

/* Asks it to end; the first reason stays. */
void call_stop(struct call *call, int why);

/* The end. The answer must be filled in. */
void call_end(struct call *call, int error);

/* An error that says nothing about the outcome: class->fail when it will be no better, else it is
 * run again, with the next link or in a while. */
void call_trouble(struct call *call, int error);
void call_retry_later(struct call *call);

/* Whether it can send now: linked, and no pause to be kept. */
static inline bool call_can_send(const struct call *call)
{
    return machine_can_send(&call->machine);
}

/* Whether call->stop ends it now: a call that does not wait may still ask once. */
bool call_gives_up(const struct call *call);

/* Sends its request; after fn it is run. */
void call_send(struct call *call, const struct conclave_op *op, call_fn fn);

/* The same with a watch on path, which fn has to tell of the answer; for want of memory it is tried later. */
void call_send_watch(struct call *call, struct watch_slot *watch, const char *path,
                     struct conclave_op op, call_fn fn);

/* Makes a node and what is missing above it; then the call is run. */
void call_ensure(struct call *call, const char *path, const struct conclave_acl *acl,
                 size_t acl_count);

static inline struct conclave_client *call_client(const struct call *call)
{
    return call->handle.rt->client;
}

#endif
