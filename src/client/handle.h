/*
 * The client handle: the connection core, the servers to try, and the code that runs them. Shared by the files of the
 * handle: open and close (handle.c), the loop (client_loop.c), the interface for recipes (client.c), the public calls
 * (blocking_api.c, blocking_call.c).
 *
 * `lock` guards all fields that are not marked constant. Lock order: first a client's lock, then a dispatcher's.
 */
#ifndef CLIENT_HANDLE_H
#define CLIENT_HANDLE_H

#include "client/client.h"
#include "client/core/core.h"
#include "client/core/hosts.h"
#include "client/core/request.h"
#include "client/resolver.h"
#include "tls/tls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { STATE_JOBS = 8 };

/* A state change on its way to the program. */
struct state_job {
    struct job job;
    struct conclave_client *client;
    enum conclave_state state;
    bool pooled; /* from the client's pool; otherwise from the heap */
    bool used;   /* only for pooled ones */
};

/* What the client notes about the newest lost link, for conclave_client_why. Times monotonic, in ns. */
struct link_loss {
    struct conclave_loss seen; /* without its texts and what depends on the present time */
    bool open;                 /* attempts to connect still belong to it */
    int64_t lost_ns;           /* when the link ended */
    int64_t paused_ns;         /* longest pause that ended since the last answered request */
    int64_t paused_until_ns;   /* when it ended */
};

struct conclave_client {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* client_notify; on CLOCK_MONOTONIC */
    pid_t pid;              /* constant: the process that may use the client */
    atomic_int refs;

    conclave_log_fn on_log;            /* constant */
    enum conclave_log_level log_level; /* constant */
    size_t log_waiting;                /* lines that were posted */
    uint64_t log_dropped;              /* lines since the last one that was posted */

    conclave_span_fn on_span; /* constant */
    void *span_ctx;           /* constant */
    size_t spans_waiting;     /* spans that were posted */
    uint64_t spans_dropped;   /* spans since the last one that was posted */

    struct core core;
    struct hosts hosts;
    bool follow_ensemble;     /* constant */
    bool reading_ensemble;    /* the ensemble's configuration was asked for, or is watched */
    char *chroot;             /* constant */
    struct conclave_acl *acl; /* constant: for creates without an ACL, or NULL */
    struct lookup *lookups[HOSTS_MAX]; /* by index in hosts */
    struct timers timers;              /* struct client_timer */
    struct list listeners;             /* struct client_listener */
    conclave_state_fn on_state;        /* constant */
    void *on_state_ctx;                /* constant */
    struct state_job state_jobs[STATE_JOBS];
    struct state_job
        *last_state_job; /* the newest one that was posted and has not begun, or NULL */

    struct dispatcher dispatcher; /* for the program's callbacks */
    struct list dispatchers;      /* dispatchers of the recipes, by link */
    atomic_bool started;          /* the client runs with threads */
    pthread_t io_thread;
    bool dispatching; /* a thread is inside conclave_client_dispatch */
    pthread_t dispatch_thread;

    int epoll_fd;          /* constant */
    int wake_fd;           /* constant: eventfd */
    int timer_fd;          /* constant */
    int sock;              /* -1: none */
    bool connecting;       /* sock is not connected yet, or its TLS handshake is in progress */
    bool want_write;       /* sock is watched for writing */
    bool wake_pending;     /* wake_fd is readable or will be soon */
    bool in_turn;          /* the loop holds the lock and will check everything before it sleeps */
    int64_t armed_ns;      /* when timer_fd fires, INT64_MAX: never */
    int64_t connect_by_ns; /* end of the attempt to connect */
    int64_t attached_ns;   /* when this link got its session, 0: not yet */

    struct tls_context *tls_context;  /* NULL: without TLS */
    struct link_tls_files *tls_files; /* its files, to be read again; or NULL */
    struct tls *tls;                  /* TLS of sock, once it is connected */
    char *tls_name;                   /* name in servers' certificates; NULL: names of the list */
    bool tls_verify_host;
    bool tls_own_cert;                   /* there is a certificate to present */
    struct cyrus_settings *sasl;         /* NULL: without SASL */
    struct link_login *login;            /* login on sock, from its begin; or NULL */
    char trying_name[HOST_NAME_LEN + 1]; /* the server of sock, which may have left the list */
    uint16_t trying_port;

    bool closed;         /* CLOSED was posted, the last of all */
    bool finish_by_loop; /* closed inside a callback: the loop frees the client */

    char server[64];           /* server of the link */
    char *problems[HOSTS_MAX]; /* by index in hosts: why its last attempt failed, or NULL */
    size_t last_problem;       /* index of the newest problem */
    struct link_loss loss;
};

/* client_loop.c --- with the lock held */

/* Creates the descriptors. 0 or CONCLAVE_EIO. */
int loop_open(struct conclave_client *client) CONCLAVE_MUST_USE;
void loop_close(struct conclave_client *client);

/* Handles the events of the descriptors without waiting, then does everything that is due. */
void loop_turn(struct conclave_client *client);

/* Does everything that is due: timers, connecting, sending. */
void loop_step(struct conclave_client *client);

/* Sends what can be sent now, from any thread; the loop sends the rest. */
void loop_send_early(struct conclave_client *client);

/* The link is up, with TLS if used: the session begins. */
void loop_connected(struct conclave_client *client, int64_t now_ns);

/* As core_events.login. */
int loop_login(struct conclave_client *client, struct slice challenge) CONCLAVE_MUST_USE;

/* The servers of hosts are about to be replaced: gives up what belongs to the old ones. */
void loop_forget_servers(struct conclave_client *client);

/* When the loop wants to be called, INT64_MAX: never. */
int64_t loop_deadline_ns(const struct conclave_client *client);

/* Makes the loop check again, unless it is doing so. */
void loop_wake(struct conclave_client *client);

/* The I/O thread. */
void *loop_main(void *client);

/* client_loss.c --- with the lock held */

/* The loop runs at now_ns; it wanted to run at due_ns (INT64_MAX: not at all). */
void loss_note_turn(struct conclave_client *client, int64_t due_ns, int64_t now_ns);

/* The client begins to connect. */
void loss_note_attempt(struct conclave_client *client);

/* The state changed; the socket of a lost link is still known. */
void loss_note_state(struct conclave_client *client, enum conclave_state state, int64_t now_ns);

/* The sentences of conclave_loss.text for what is noted. Cut to len bytes with the final NUL. */
void loss_text(const struct conclave_loss *l, char *buf, size_t len);

/* blocking_api.c: as conclave_client_last_error, with the lock held. */
void handle_problems(const struct conclave_client *client, char *buf, size_t len);

/* client_log.c --- with the lock held */

/* Posts a line for the program: fields are pairs of key and value, then NULL. */
void client_log_fields(struct conclave_client *client, enum conclave_log_level level,
                       const char *message, const char *const *fields);
#define client_log(client, level, message, ...)                                                    \
    client_log_fields(client, level, message, (const char *const[]){__VA_ARGS__, NULL})

/* Posts the line for a new state. */
void client_log_state(struct conclave_client *client, enum conclave_state state);

/* client_span.c --- with the lock held */

/* Posts the span of r, which was answered. */
void client_span_post(struct conclave_client *client, struct client_request *r);

/* client_servers.c --- with the lock held */

/* As conclave_client_set_servers. */
int client_set_servers(struct conclave_client *client, const char *servers) CONCLAVE_MUST_USE;

/* A session was attached: reads and watches the ensemble's configuration, if it is to be followed. */
void client_follow_ensemble(struct conclave_client *client);

/* handle.c */

extern const struct core_events handle_events;

/* Lock held. Posts CLOSED when the core has ended. */
void handle_tell_closed(struct conclave_client *client);

/* Lock not held: frees the client after CLOSED was posted and no loop runs any more. */
void handle_finish(struct conclave_client *client);

/* Lock not held. Begins to close as inside a callback: the memory is freed by the dispatch that returns
 * CONCLAVE_ECLOSED, or by the I/O thread. */
void handle_begin_close(struct conclave_client *client, int64_t timeout_ms);

/* Lock held. Whether the calling thread runs a callback of the client and so must not wait. */
bool handle_is_inside(struct conclave_client *client);

/* Lock not held. One round of conclave_client_dispatch. */
int handle_dispatch(struct conclave_client *client);

/* Who gets the answer and the watch. */
enum submit_kind {
    SUBMIT_PUBLIC,   /* the program, through the client's dispatcher */
    SUBMIT_INTERNAL, /* a recipe, on the loop */
    SUBMIT_BEYOND,   /* as INTERNAL; the path may begin with "//": beyond the chroot */
    SUBMIT_CALL, /* the answer on the loop, for a waiting thread; the watch through the dispatcher */
};

/* client.c: checks op, makes the request, gives it to the core. Lock held. Errors as conclave_submit. */
int handle_submit(struct conclave_client *client, const struct conclave_op *op,
                  conclave_reply_fn fn, void *ctx, enum submit_kind kind) CONCLAVE_MUST_USE;

/* Lock held or not. Makes conclave_client_dispatch run after jobs were posted; with threads it does nothing. */
void handle_wake_pump(struct conclave_client *client);

/* blocking_call.c: sleeps on cond until woken or the deadline. Lock held. */
void handle_sleep(struct conclave_client *client, pthread_cond_t *cond, int64_t deadline_ns);

/* blocking_call.c: waits until the loop has work, or the deadline (INT64_MAX: none). Lock not held. */
void handle_poll(struct conclave_client *client, int64_t deadline_ns);

/* A condition variable on CLOCK_MONOTONIC. 0 or CONCLAVE_EIO. */
int handle_cond_init(pthread_cond_t *cond) CONCLAVE_MUST_USE;

#endif
