/*
 * The client as recipes use it: requests, watches, timers and state changes on the client's own loop, under the
 * client's lock, without a callback thread between.
 *
 * One lock guards a client. Every function here must be called with it held (client_lock), unless its comment says
 * otherwise. Every function given here (reply, watch, listener, timer) is called with it held, on the I/O thread or
 * inside conclave_client_dispatch. So a recipe that keeps its state under this lock needs no other. Such a function
 * must not block, must not unlock, and must not run user code: that is posted to a dispatcher. It may call any function
 * of this header, but not the public ones, which take the lock themselves.
 *
 * Order of callbacks: LOST, AUTH_FAILED, CLOSED and SUSPENDED reach the listeners before the replies and watches that
 * end with them. A reply's function is never called before client_submit has returned.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include "base/list.h"
#include "client/core/dispatcher.h"
#include "client/core/timers.h"

#include <conclave/client.h>

/* The lock is not recursive, so the caller must not hold it. client_lock works in any thread of the process that made
 * the client. */
void client_lock(struct conclave_client *client);
void client_unlock(struct conclave_client *client);

/* CONCLAVE_EFORK in a child of the process that made the client, otherwise 0. Call it before client_lock, without the
 * lock. */
int client_check(const struct conclave_client *client) CONCLAVE_MUST_USE;

/* A reference: with one you may lock and read after conclave_client_close, which ends the session and the threads but
 * leaves the memory to the last client_unref. client_ref: with or without the lock; client_unref: without. */
void client_ref(struct conclave_client *client);
void client_unref(struct conclave_client *client);

/* As conclave_submit, but fn and op->watch are called as described above, and the reply is valid until fn returns. */
int client_submit(struct conclave_client *client, const struct conclave_op *op,
                  conclave_reply_fn fn, void *ctx) CONCLAVE_MUST_USE;

/* Removes one watch that client_submit set with this path, function and ctx; it is not called any more. 0 or
 * CONCLAVE_NO_WATCHER. */
int client_watch_forget(struct conclave_client *client, const char *path, conclave_watch_fn watch,
                        void *ctx);

/* Called for every state change, in order; a client may have several. The caller owns the struct. A listener may remove
 * itself or others while it is called. */
struct client_listener {
    struct list link;
    conclave_state_fn fn;
    void *ctx;
};
void client_listener_add(struct conclave_client *client, struct client_listener *listener);
void client_listener_remove(struct conclave_client *client, struct client_listener *listener);

/* A timer on the client's loop. The caller owns the struct; zero it (or client_timer_init) before its first use. */
struct client_timer {
    struct timer timer;
    void (*fn)(struct conclave_client *client, void *ctx);
    void *ctx;
};
void client_timer_init(struct client_timer *timer,
                       void (*fn)(struct conclave_client *client, void *ctx), void *ctx);

/* Calls fn once at at_ns of client_now_ns or soon after; a second start moves it. Never calls fn inside this call.
 * After CLOSED timers do not fire. */
void client_timer_start(struct conclave_client *client, struct client_timer *timer, int64_t at_ns);
void client_timer_stop(struct conclave_client *client,
                       struct client_timer *timer); /* started or not */
bool client_timer_active(const struct client_timer *timer);

/* CLOCK_BOOTTIME in nanoseconds. No lock needed. */
int64_t client_now_ns(const struct conclave_client *client);

/* The current state and facts. */
enum conclave_state client_state(const struct conclave_client *client);
bool client_is_connected(
    const struct conclave_client *client); /* CONNECTED, RECONNECTED or NEW_SESSION */
int64_t client_session_id(const struct conclave_client *client);
int64_t client_timeout_ms(
    const struct conclave_client *client); /* negotiated; 0 before the first session */
size_t client_max_request(const struct conclave_client *client); /* bytes of a frame to send */

/*
 * A dispatcher for user callbacks besides the client's own: with its own thread if the client runs with threads (also
 * if it is started later), otherwise pumped by conclave_client_dispatch. 0, CONCLAVE_ENOMEM, CONCLAVE_EIO. Close: runs
 * the posted jobs, joins the thread, frees. Called in its own thread, it returns at once, and the thread ends by itself
 * after its queue. Call both without the lock.
 */
int client_dispatcher_open(struct conclave_client *client,
                           struct dispatcher **ret) CONCLAVE_MUST_USE;
void client_dispatcher_close(struct conclave_client *client, struct dispatcher *dispatcher);

/* Posts a job, with `run` set, to a dispatcher that was opened here, and wakes the pumping thread. With or without the
 * lock. */
void client_post(struct conclave_client *client, struct dispatcher *dispatcher, struct job *job);

/*
 * Waits until done(ctx) is true or the time deadline_ns (CONCLAVE_FOREVER: no end) has come. done is called with the
 * lock held, first at once and then after each client_notify. The lock is released during the wait; without threads it
 * dispatches. 0, CONCLAVE_ETIMEDOUT, or CONCLAVE_EDEADLK inside a callback of the client's dispatcher or inside
 * conclave_client_dispatch. A recipe that forbids waiting on its own dispatcher calls dispatcher_is_current itself. The
 * caller needs a reference (client_ref), because the client may be closed meanwhile.
 */
int client_wait(struct conclave_client *client, bool (*done)(void *ctx), void *ctx,
                int64_t deadline_ns) CONCLAVE_MUST_USE;

/* 0, or CONCLAVE_EDEADLK where client_wait gives it. Without the lock. */
int client_may_wait(struct conclave_client *client) CONCLAVE_MUST_USE;

/* As conclave_call, if may (NULL: always) returns 0. may is called with the lock held, which is kept until the request
 * is queued: so its answer is still true for all requests that were queued before. It may change op. Without the
 * lock. */
int client_call(struct conclave_client *client, const struct conclave_op *op, int (*may)(void *ctx),
                void *ctx, struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

/* Wakes all waiting client_wait calls to check again. */
void client_notify(struct conclave_client *client);

/* The time in ms milliseconds, for timers; INT64_MAX, which never comes, if that is too far. No lock needed. */
int64_t client_after_ns(const struct conclave_client *client, int64_t ms);

/* The same as a deadline; CONCLAVE_FOREVER and overflow give CONCLAVE_FOREVER. No lock needed. */
int64_t client_deadline_ns(const struct conclave_client *client, int64_t timeout_ms);

#endif
