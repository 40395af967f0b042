/* Opens, runs and closes a client, and delivers the core's callbacks. */
#include "client/handle.h"

#include "client/core/acl.h"

#include "base/clock.h"
#include "base/random.h"
#include "client/core/sized.h"
#include "client/core/threads.h"
#include "client/link_sasl.h"
#include "client/link_tls.h"
#include "client/server_list.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    PUMP_JOBS = 1000, /* callbacks of one dispatch, so that the program's loop is not starved */
    MAX_REPLY = 16 * 1024 * 1024,
    MAX_REQUESTS = 10000,
    SESSION_TIMEOUT_MIN_MS = 10,
};

/* --- news of the core
 * --------------------------------------------------------------------------------- */

static void run_state_job(struct job *job)
{
    struct state_job *sj = CONTAINER_OF(job, struct state_job, job);
    struct conclave_client *client = sj->client;
    pthread_mutex_lock(&client->lock);
    enum conclave_state state = sj->state;
    if (client->last_state_job == sj) {
        client->last_state_job = NULL;
    }
    assert(sj->used);
    sj->used = false;
    bool pooled = sj->pooled;
    pthread_mutex_unlock(&client->lock);
    if (!pooled) {
        free(sj);
    }
    client->on_state(client, state, client->on_state_ctx);
}

static struct state_job *state_job_get(struct conclave_client *client)
{
    for (size_t i = 0; i < STATE_JOBS; i++) {
        if (!client->state_jobs[i].used) {
            return &client->state_jobs[i];
        }
    }
    return calloc(1, sizeof(struct state_job));
}

static void post_state(struct conclave_client *client, enum conclave_state state)
{
    if (client->on_state == NULL) {
        return;
    }
    struct state_job *sj = state_job_get(client);
    if (sj == NULL && client->last_state_job != NULL) {
        /* Out of memory, and the program has not seen the last state yet: it will see this one instead. */
        client->last_state_job->state = state;
        return;
    }
    assert(sj != NULL); /* if no job is outstanding, the pool cannot be empty */
    sj->client = client;
    sj->state = state;
    sj->pooled = sj >= client->state_jobs && sj < client->state_jobs + STATE_JOBS;
    sj->used = true;
    client->last_state_job = sj;
    dispatcher_post(&client->dispatcher, &sj->job, run_state_job);
}

static void tell_listeners(struct conclave_client *client, enum conclave_state state)
{
    /* A marker keeps the position, because a listener may remove others. */
    struct list marker;
    struct list *it = client->listeners.next;
    while (it != &client->listeners) {
        list_push_back(it->next, &marker);
        struct client_listener *listener = CONTAINER_OF(it, struct client_listener, link);
        listener->fn(client, state, listener->ctx);
        it = marker.next;
        list_remove(&marker);
    }
}

static void on_core_state(void *ctx, enum conclave_state state)
{
    struct conclave_client *client = ctx;
    bool attached = client_is_connected(client);
    if (attached) {
        client->attached_ns = clock_monotonic_ns(clock_system());
    }
    loss_note_state(client, state, clock_monotonic_ns(clock_system()));
    client_log_state(client, state);
    if (attached) {
        client_follow_ensemble(client);
    }
    if (state != CONCLAVE_STATE_CLOSED) {
        post_state(client, state); /* CLOSED comes after everything else: handle_tell_closed */
    }
    tell_listeners(client, state);
    pthread_cond_broadcast(&client->changed);
}

static void run_reply_job(struct job *job)
{
    struct client_request *r = CONTAINER_OF(job, struct client_request, job);
    r->fn(r->client, &r->reply, r->ctx);
    request_unref(r);
}

static void on_core_reply(void *ctx, struct client_request *r)
{
    struct conclave_client *client = ctx;
    assert(r->client == client && r->answered && !r->timer.active);
    if (r->span != NULL) {
        client_span_post(client, r);
    }
    if (r->internal || r->fn == NULL) {
        if (r->fn != NULL) {
            r->fn(client, &r->reply, r->ctx);
        }
        request_unref(r);
        return;
    }
    dispatcher_post(&client->dispatcher, &r->job, run_reply_job);
}

static void run_watch_job(struct job *job)
{
    struct client_watch *w = CONTAINER_OF(job, struct client_watch, job);
    w->fn(w->client, w->type, w->path, w->ctx);
    free(w);
}

static void on_core_watch(void *ctx, struct client_watch *w)
{
    struct conclave_client *client = ctx;
    assert(w->client == client && list_empty(&w->link) && list_empty(&w->same));
    if (w->internal) {
        w->fn(client, w->type, w->path, w->ctx);
        free(w);
        return;
    }
    dispatcher_post(&client->dispatcher, &w->job, run_watch_job);
}

static void run_event_job(struct job *job)
{
    struct client_event *e = CONTAINER_OF(job, struct client_event, job);
    struct client_watch *w = e->watch; /* still valid: its end is reported after this event */
    w->fn(w->client, e->type, e->path, w->ctx);
    free(e);
}

static void on_core_event(void *ctx, struct client_event *e)
{
    struct conclave_client *client = ctx;
    if (e->watch->internal) {
        e->watch->fn(client, e->type, e->path, e->watch->ctx);
        free(e);
        return;
    }
    dispatcher_post(&client->dispatcher, &e->job, run_event_job);
}

static int on_core_login(void *ctx, struct slice challenge)
{
    return loop_login(ctx, challenge);
}

const struct core_events handle_events = {
    .state = on_core_state,
    .reply = on_core_reply,
    .watch = on_core_watch,
    .event = on_core_event,
    .login = on_core_login,
};

void handle_tell_closed(struct conclave_client *client)
{
    if (client->core.state != CONCLAVE_STATE_CLOSED || client->closed) {
        return;
    }
    assert(client->core.link == LINK_NONE && client->core.pending == 0);
    post_state(client, CONCLAVE_STATE_CLOSED);
    client->closed = true;
    pthread_cond_broadcast(&client->changed);
}

/* --- opening
 * ------------------------------------------------------------------------------------------ */

/* Writes why conclave_client_open fails. */
static void tell_wrong(const struct conclave_client_options *o, const char *form, ...)
    __attribute__((format(printf, 2, 3)));

static void tell_wrong(const struct conclave_client_options *o, const char *form, ...)
{
    va_list args;
    if (o->error != NULL && o->error_len > 0) {
        va_start(args, form);
        vsnprintf(o->error, o->error_len, form, args);
        va_end(args);
    }
}

/* An option and the values that it may have. */
struct option_range {
    const char *name;
    int64_t value, min, max;
};

static bool options_are_valid(const struct conclave_client_options *o)
{
    const struct option_range ranges[] = {
        {"session_timeout_ms", o->session_timeout_ms, SESSION_TIMEOUT_MIN_MS, INT32_MAX},
        {"request_timeout_ms", o->request_timeout_ms, CONCLAVE_FOREVER, INT64_MAX},
        {"connect_timeout_ms", o->connect_timeout_ms, 0, INT32_MAX},
        {"reconnect_min_ms", o->reconnect_min_ms, 0, INT32_MAX},
        {"reconnect_max_ms", o->reconnect_max_ms, 0, INT32_MAX},
        {"log_level", o->log_level, CONCLAVE_LOG_ERROR, CONCLAVE_LOG_DEBUG},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        const struct option_range *r = &ranges[i];
        if (r->value < r->min || r->value > r->max) {
            tell_wrong(o, "%s is %" PRId64 ": it must be from %" PRId64 " to %" PRId64, r->name,
                       r->value, r->min, r->max);
            return false;
        }
    }
    const char *wrong =
        o->session_id != 0 && o->passwd == NULL ? "passwd: a session_id needs its password"
        : o->acl != NULL && o->acl_count == 0   ? "acl: it has no entry (acl_count is 0)"
        : !acl_is_valid(o->acl, o->acl_count)   ? "acl: an entry lacks permissions, scheme or id"
        : retry_read(&(struct conclave_retry_options){0}, o->retry) != 0
            ? "retry: begin with CONCLAVE_RETRY_OPTIONS_INIT; 0 <= pause_min_ms <= pause_max_ms"
        : o->reconnect_max_ms != 0 && o->reconnect_min_ms > o->reconnect_max_ms
            ? "reconnect_min_ms is larger than reconnect_max_ms"
            : NULL;
    if (wrong != NULL) {
        tell_wrong(o, "%s", wrong);
    }
    return wrong == NULL;
}

/* Parses the list of servers. */
static int servers_open(struct conclave_client *client, const struct conclave_client_options *o)
{
    uint64_t seed;
    random_bytes(&seed, sizeof seed);
    struct hosts *hosts = &client->hosts;
    int rc = hosts_parse(hosts, server_list_text(o->servers), seed, &client->chroot);
    if (rc == CONCLAVE_EINVAL) {
        tell_wrong(o,
                   "servers: \"%.*s\" is not HOST:PORT, a list of at most %d of them, or a /CHROOT",
                   (int)hosts->bad.len, (const char *)hosts->bad.data, HOSTS_MAX);
    }
    if (rc != 0) {
        return rc;
    }
    hosts_for_session(hosts, o->session_timeout_ms);
    hosts->connect_ms = o->connect_timeout_ms;
    hosts->pause_min_ms = o->reconnect_min_ms != 0 ? o->reconnect_min_ms : hosts->pause_min_ms;
    if (o->reconnect_max_ms != 0) {
        hosts->pause_max_ms = o->reconnect_max_ms;
    }
    /* One of the two may be given without the other. */
    if (hosts->pause_min_ms > hosts->pause_max_ms) {
        *(o->reconnect_max_ms != 0 ? &hosts->pause_min_ms : &hosts->pause_max_ms) =
            o->reconnect_max_ms != 0 ? hosts->pause_max_ms : hosts->pause_min_ms;
    }
    return 0;
}

static int core_open(struct conclave_client *client, const struct conclave_client_options *o)
{
    struct core_options options = {
        .chroot = slice_str(client->chroot),
        .session_timeout_ms = o->session_timeout_ms,
        .request_timeout_ms = o->request_timeout_ms != 0 ? o->request_timeout_ms : CONCLAVE_FOREVER,
        .max_request = o->max_request != 0 ? o->max_request : WIRE_FRAME_MAX,
        .max_reply = o->max_reply != 0 ? o->max_reply : MAX_REPLY,
        .session_id = o->session_id,
        .new_session = o->new_session,
        .login = o->sasl != NULL,
        .max_pending = o->max_requests != 0 ? o->max_requests : MAX_REQUESTS,
        .spans = o->on_span != NULL,
        .exactly_once = o->exactly_once,
        .read_only = o->read_only,
        .acl = client->acl,
        .acl_count = o->acl_count,
    };
    if (retry_read(&options.retry, o->retry) != 0) {
        return CONCLAVE_EINVAL;
    }
    random_bytes(&options.seed, sizeof options.seed);
    if (o->session_id != 0) {
        memcpy(options.passwd, o->passwd, sizeof options.passwd);
    }
    return core_init(&client->core, &options, &handle_events, client);
}

/* Frees a client for which the first `steps` steps of client_handle_init were done. */
static void handle_free(struct conclave_client *client, int steps)
{
    switch (steps) {
    case 5:
        loop_close(client);
        link_tls_close(client);
        link_sasl_close(client);
        core_finish(&client->core);
        /* fall through */
    case 4:
        hosts_finish(&client->hosts);
        free(client->chroot);
        free(client->acl);
        /* fall through */
    case 3:
        dispatcher_finish(&client->dispatcher);
        /* fall through */
    case 2:
        pthread_cond_destroy(&client->changed);
        /* fall through */
    case 1:
        pthread_mutex_destroy(&client->lock);
        /* fall through */
    default:
        free(client);
    }
}

static int client_handle_init(struct conclave_client *client,
                              const struct conclave_client_options *o, int *steps)
{
    if (pthread_mutex_init(&client->lock, NULL) != 0) {
        return CONCLAVE_EIO;
    }
    *steps = 1;
    int rc = handle_cond_init(&client->changed);
    if (rc != 0) {
        return rc;
    }
    *steps = 2;
    rc = dispatcher_init(&client->dispatcher);
    if (rc != 0) {
        return rc;
    }
    *steps = 3;
    rc = servers_open(client, o);
    if (rc != 0) {
        return rc;
    }
    *steps = 4;
    client->acl = o->acl != NULL ? acl_copy(o->acl, o->acl_count) : NULL;
    rc = o->acl != NULL && client->acl == NULL ? CONCLAVE_ENOMEM : core_open(client, o);
    if (rc != 0) {
        return rc;
    }
    *steps = 5;
    rc = link_tls_open(client, o);
    if (rc == 0) {
        rc = link_sasl_open(client, o);
    }
    if (rc == 0) {
        rc = loop_open(client);
    }
    if (rc == 0) {
        /* The descriptor is readable from the start, because there are servers to connect to. */
        loop_wake(client);
    }
    return rc;
}

int conclave_client_open(const struct conclave_client_options *options,
                         struct conclave_client **ret_client)
{
    struct conclave_client_options o = CONCLAVE_CLIENT_OPTIONS_INIT;
    if (ret_client == NULL || sized_read(&o, options) != 0) {
        return CONCLAVE_EINVAL;
    }
    if (!options_are_valid(&o)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_client *client = calloc(1, sizeof *client);
    if (client == NULL) {
        return CONCLAVE_ENOMEM;
    }
    client->pid = getpid();
    atomic_init(&client->refs, 1);
    atomic_init(&client->started, false);
    client->on_state = o.on_state;
    client->on_log = o.on_log;
    client->on_span = o.on_span;
    client->span_ctx = o.span_ctx;
    client->log_level = o.log_level;
    client->follow_ensemble = o.follow_ensemble;
    client->on_state_ctx = o.ctx;
    client->sock = client->epoll_fd = client->wake_fd = client->timer_fd = -1;
    list_init(&client->listeners);
    list_init(&client->dispatchers);
    int steps = 0;
    int rc = client_handle_init(client, &o, &steps);
    if (rc != 0) {
        handle_free(client, steps);
        return rc;
    }
    *ret_client = client;
    return 0;
}

int conclave_client_start(struct conclave_client *client)
{
    int rc = client_check(client);
    if (rc != 0) {
        return rc;
    }
    pthread_mutex_lock(&client->lock);
    if (client->started || client->dispatching || client->core.closing) {
        rc = CONCLAVE_EINVAL;
    } else {
        rc = dispatcher_start(&client->dispatcher);
        LIST_FOREACH (link, &client->dispatchers) {
            rc = rc == 0 ? dispatcher_start(CONTAINER_OF(link, struct dispatcher, link)) : rc;
        }
        if (rc == 0 && thread_start(&client->io_thread, loop_main, client) != 0) {
            rc = CONCLAVE_EIO;
        }
        client->started = rc == 0;
        loop_wake(client);
    }
    pthread_mutex_unlock(&client->lock);
    return rc;
}

/* --- running in the program's loop
 * --------------------------------------------------------------------- */

void handle_wake_pump(struct conclave_client *client)
{
    if (atomic_load(&client->started)) {
        return;
    }
    thread_wake(client->wake_fd);
}

/* Runs the posted jobs of the client's and the recipes' dispatchers; true: some are left. */
static bool pump(struct conclave_client *client)
{
    (void)dispatcher_pump(&client->dispatcher, PUMP_JOBS);
    bool left = !dispatcher_is_empty(&client->dispatcher);
    pthread_mutex_lock(&client->lock);
    struct list marker;
    struct list *it = client->dispatchers.next;
    while (it != &client->dispatchers) {
        struct dispatcher *d = CONTAINER_OF(it, struct dispatcher, link);
        list_push_back(it->next, &marker);
        pthread_mutex_unlock(&client->lock);
        (void)dispatcher_pump(d, PUMP_JOBS);
        left = left || !dispatcher_is_empty(d);
        bool over = d->stopping; /* one of its own jobs closed it and could not free it */
        pthread_mutex_lock(&client->lock);
        it = marker.next;
        list_remove(&marker);
        if (over) {
            list_remove(&d->link);
            dispatcher_finish(d);
            free(d);
        }
    }
    pthread_mutex_unlock(&client->lock);
    return left;
}

int handle_dispatch(struct conclave_client *client)
{
    pthread_mutex_lock(&client->lock);
    if (client->started || client->dispatching) {
        int rc = client->started ? CONCLAVE_EINVAL : 0;
        pthread_mutex_unlock(&client->lock);
        return rc;
    }
    client->dispatching = true;
    client->dispatch_thread = pthread_self();
    loop_turn(client);
    pthread_mutex_unlock(&client->lock);
    bool left = pump(client);
    pthread_mutex_lock(&client->lock);
    loop_step(client);
    client->dispatching = false;
    if (left || !dispatcher_is_empty(&client->dispatcher)) {
        loop_wake(client);
        left = true;
    }
    bool over = client->closed && !left;
    bool finish = over && client->finish_by_loop;
    client->finish_by_loop = client->finish_by_loop && !finish;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    if (finish) {
        handle_finish(client);
    }
    return over ? CONCLAVE_ECLOSED : 0;
}

int conclave_client_dispatch(struct conclave_client *client)
{
    int rc = client_check(client);
    return rc != 0 ? rc : handle_dispatch(client);
}

bool handle_is_inside(struct conclave_client *client)
{
    bool dispatching =
        client->dispatching && pthread_equal(client->dispatch_thread, pthread_self());
    return dispatching || dispatcher_is_current(&client->dispatcher);
}

/* --- closing
 * ------------------------------------------------------------------------------------------ */

void client_ref(struct conclave_client *client)
{
    atomic_fetch_add_explicit(&client->refs, 1, memory_order_relaxed);
}

void client_unref(struct conclave_client *client)
{
    int refs = atomic_fetch_sub_explicit(&client->refs, 1, memory_order_acq_rel);
    assert(refs > 0);
    if (refs == 1) {
        handle_free(client, 5);
    }
}

void handle_finish(struct conclave_client *client)
{
    assert(client->closed && !client->dispatching);
    dispatcher_stop(&client->dispatcher, NULL, NULL);
    client_unref(client);
}

/* Waits, in the program's loop mode, until everything is delivered, by running the loop. */
static void close_by_pumping(struct conclave_client *client)
{
    int rc;
    do {
        pthread_mutex_lock(&client->lock);
        while (client->dispatching) {
            pthread_cond_wait(&client->changed, &client->lock);
        }
        pthread_mutex_unlock(&client->lock);
        rc = handle_dispatch(client);
        if (rc == 0) {
            handle_poll(client, INT64_MAX);
        }
    } while (rc == 0);
}

static void begin_close(struct conclave_client *client, int64_t timeout_ms, bool finish_by_loop)
{
    core_close(&client->core, client_now_ns(client), timeout_ms);
    client->finish_by_loop = client->finish_by_loop || finish_by_loop;
    loop_wake(client);
}

void handle_begin_close(struct conclave_client *client, int64_t timeout_ms)
{
    pthread_mutex_lock(&client->lock);
    begin_close(client, timeout_ms, true);
    pthread_mutex_unlock(&client->lock);
}

void conclave_client_close(struct conclave_client *client, int64_t timeout_ms)
{
    if (client == NULL) {
        return;
    }
    if (client_check(client) != 0) {
        /* In a child process threads and locks belong to the parent: only closes the descriptors. */
        loop_close(client);
        return;
    }
    pthread_mutex_lock(&client->lock);
    bool inside = handle_is_inside(client);
    bool started = client->started;
    begin_close(client, timeout_ms, inside);
    pthread_mutex_unlock(&client->lock);
    if (inside) {
        return;
    }
    if (started) {
        pthread_join(client->io_thread, NULL);
    } else {
        close_by_pumping(client);
    }
    /* The pumped loop frees only a client that was closed inside a callback, but not this one. */
    handle_finish(client); /* NOLINT(clang-analyzer-unix.Malloc) */
}
