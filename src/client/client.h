/*
 * The client as the recipes see it: requests, watches, timers and state changes told on the
 * client's own loop, under the client's lock, without a detour over a callback thread.
 *
 * One lock guards a client. Every function here wants it held (client_lock) unless its comment
 * says otherwise, and every function given here (reply, watch, listener, timer) is called with
 * it held, on the I/O thread or inside conclave_client_dispatch. So a recipe that keeps its
 * state under this lock needs none of its own. Such a function must not block, must not unlock,
 * and never runs user code: that is posted to a dispatcher. It may call any function of this
 * header; it must not call the public ones, which take the lock themselves.
 *
 * Order of news: LOST, AUTH_FAILED, CLOSED and SUSPENDED reach the listeners before the replies
 * and watches that end with them. A reply's function is never called before client_submit has
 * returned.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include "base/list.h"
#include "client/core/dispatcher.h"
#include "client/core/timers.h"

#include <conclave/client.h>

/* The lock is not recursive. No lock held before; client_lock works in any thread of the
 * process that made the client. */
void client_lock(struct conclave_client *client);
void client_unlock(struct conclave_client *client);

/* CONCLAVE_EFORK in a child of the process that made the client, else 0. Call it before
 * client_lock. No lock held. */
int client_check(const struct conclave_client *client) CONCLAVE_MUST_USE;

/* A share of the memory: who holds one may lock and read after conclave_client_close, which
 * then ends the session and the threads but leaves the memory to the last client_unref. Lock
 * held or not for ref; not held for unref. */
void client_ref(struct conclave_client *client);
void client_unref(struct conclave_client *client);

/* As conclave_submit, but fn and op->watch are called as said above, and the reply lives until
 * fn returns. */
int client_submit(struct conclave_client *client, const struct conclave_op *op,
                  conclave_reply_fn fn, void *ctx) CONCLAVE_MUST_USE;

/* Forgets one watch set with client_submit and this path, function and ctx; it is not called
 * any more. 0 or CONCLAVE_NO_WATCHER. */
int client_watch_forget(struct conclave_client *client, const char *path, conclave_watch_fn watch,
                        void *ctx);

/* Told of every state change, in order; several per client. The caller owns the struct. A
 * listener may remove itself or others while it is called. */
struct client_listener {
    struct list link;
    conclave_state_fn fn;
    void *ctx;
};
void client_listener_add(struct conclave_client *client, struct client_listener *listener);
void client_listener_remove(struct conclave_client *client, struct client_listener *listener);

/* A timer on the client's loop. The caller owns the struct; zero it (or client_timer_init)
 * before first use. */
struct client_timer {
    struct timer timer;
    void (*fn)(struct conclave_client *client, void *ctx);
    void *ctx;
};
void client_timer_init(struct client_timer *timer,
                       void (*fn)(struct conclave_client *client, void *ctx), void *ctx);

/* Calls fn once at at_ns of client_now_ns or soon after; started again it moves. Never called
 * before this returns. Timers do not fire any more once the client is CLOSED. */
void client_timer_start(struct conclave_client *client, struct client_timer *timer, int64_t at_ns);
void client_timer_stop(struct conclave_client *client,
                       struct client_timer *timer); /* started or not */
bool client_timer_active(const struct client_timer *timer);

/* CLOCK_BOOTTIME in nanoseconds. No lock needed. */
int64_t client_now_ns(const struct conclave_client *client);

/* What is known now. */
enum conclave_state client_state(const struct conclave_client *client);
bool client_is_connected(
    const struct conclave_client *client); /* CONNECTED, RECONNECTED or NEW_SESSION */
int64_t client_session_id(const struct conclave_client *client);
int64_t client_timeout_ms(
    const struct conclave_client *client); /* negotiated; 0 before the first session */
size_t client_max_request(const struct conclave_client *client); /* bytes of a frame to send */

/*
 * A dispatcher for user callbacks beside the client's own: with a thread of its own when the
 * client runs with threads (also when it is started later), else pumped by
 * conclave_client_dispatch. 0, CONCLAVE_ENOMEM, CONCLAVE_EIO. Close: runs what is posted, joins
 * the thread, frees. Called by its own thread it returns at once and the thread ends by itself
 * after its queue. No lock held for either.
 */
int client_dispatcher_open(struct conclave_client *client,
                           struct dispatcher **ret) CONCLAVE_MUST_USE;
void client_dispatcher_close(struct conclave_client *client, struct dispatcher *dispatcher);

/* Posts a job, its `run` set, to a dispatcher opened above and wakes who pumps it. Lock held or
 * not. */
void client_post(struct conclave_client *client, struct dispatcher *dispatcher, struct job *job);

/*
 * Waits until done(ctx) is true or the time deadline_ns (CONCLAVE_FOREVER: no end) has come;
 * done is called with the lock held, at first at once and then after each client_notify. The
 * lock is given up while it waits; without threads it dispatches. 0, CONCLAVE_ETIMEDOUT, or
 * CONCLAVE_EDEADLK inside a callback of the client's dispatcher or inside
 * conclave_client_dispatch. A recipe that forbids waiting on its own dispatcher asks
 * dispatcher_is_current itself. The caller holds a share (client_ref), as the client may be
 * closed meanwhile.
 */
int client_wait(struct conclave_client *client, bool (*done)(void *ctx), void *ctx,
                int64_t deadline_ns) CONCLAVE_MUST_USE;

/* As conclave_call, if may (NULL: always) answers 0; it is asked with the lock held, which is kept until
 * the request is queued: what it found still holds for everything that is queued before. It may change op.
 * No lock held. */
int client_call(struct conclave_client *client, const struct conclave_op *op, int (*may)(void *ctx),
                void *ctx, struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

/* Wakes everyone in client_wait to look again. */
void client_notify(struct conclave_client *client);

/* now + timeout_ms as a deadline: CONCLAVE_FOREVER and what would overflow give
 * CONCLAVE_FOREVER. No lock needed. */
int64_t client_deadline_ns(const struct conclave_client *client, int64_t timeout_ms);

#endif
