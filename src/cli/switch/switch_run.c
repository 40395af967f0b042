/*
 * conclave switch DIR: one member of an active/standby service.
 *
 * hold_run (hold_command.h) runs the command while the elector says so. This file has the rest: the elector's callbacks,
 * fencing, hooks, health, and operators' requests.
 *
 * Threads: the elector's and the groups' callbacks (one thread), the fencing thread, the monitor of
 * health, the main one. `lock` guards what they share; while it is held the library may be called, as no
 * callback runs under the library's own lock.
 */
#include "cli/switch/switch.h"

#include "base/random.h"
#include "fencing/child_process.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { INCARNATION_BYTES = 8, CLOSE_TIMEOUT_MS = 2000, TEXT_MAX = SWITCH_PATH_MAX + 32 };

struct switching {
    struct switch_options *o;
    struct hold *hold;
    char incarnation[2 * INCARNATION_BYTES + 1];
    struct buf address; /* the elector's data */
    int fence_stop_fd;  /* eventfd: cancels the running fencing method */
    struct health_monitor health;
    char health_variables[2][TEXT_MAX];
    const char *health_more[3];

    pthread_mutex_t lock; /* what follows */
    struct conclave_elector *elector;
    struct conclave_group *requests;
    int64_t token; /* of the term that has begun, else 0 */
    bool ready;    /* in that term */
    enum conclave_health health_state;
    struct switch_request asked[SWITCH_REQUESTS_MAX];
    char asked_by[SWITCH_REQUESTS_MAX][CARD_NAME_MAX];
    size_t asked_count;
    int64_t ceded_token;               /* of the last term that was given up on request */
    char role_asked_by[CARD_NAME_MAX]; /* the last request for a role that was carried out */
};

void switch_path(char buf[SWITCH_PATH_MAX], const char *dir, const char *group)
{
    int len = snprintf(buf, SWITCH_PATH_MAX, "%s%s", dir, group);
    assert(len > 0 &&
           len < SWITCH_PATH_MAX); /* the check of the options leaves room for the group */
}

/* --- ready ------------------------------------------------------------------------------ */

static void ready(struct switching *s, int64_t token)
{
    pthread_mutex_lock(&s->lock);
    bool mine = token != 0 && s->token == token && !s->ready;
    if (mine) {
        s->ready = true;
        conclave_elector_ready(s->elector);
    }
    pthread_mutex_unlock(&s->lock);
    if (mine) {
        switch_tell_ready(s->o, token);
    }
}

/* --- requests ---------------------------------------------------------------------------- */

/* lock held. */
static void request_role(struct switching *s, const struct switch_request *request, const char *by)
{
    if (strcmp(request->to, s->o->hold.id) != 0 || strcmp(by, s->role_asked_by) == 0) {
        return;
    }
    (void)snprintf(s->role_asked_by, sizeof s->role_asked_by, "%s", by);
    switch_tell_request(s->o, request->observer ? "observer" : "standby", by, 0);
    int error = conclave_elector_observe(s->elector, request->observer);
    if (error != 0) {
        fail(SWITCH_USAGE.name, s->o->hold.path, error);
    }
}

/* lock held. */
static void request_cede(struct switching *s, const struct switch_request *request, const char *by)
{
    if (s->token == 0 || request->token != s->token || request->token == s->ceded_token) {
        return;
    }
    s->ceded_token = request->token;
    switch_tell_request(s->o, "cede", by, request->stay_out_ms);
    int error = conclave_elector_cede(s->elector, request->stay_out_ms);
    if (error != 0) {
        fail(SWITCH_USAGE.name, s->o->hold.path, error);
    }
}

/* Carries out requests for this member and for this term. lock held. */
static void requests_consider(struct switching *s)
{
    assert(s->asked_count <= SWITCH_REQUESTS_MAX);
    for (size_t i = 0; i < s->asked_count && s->elector != NULL; i++) {
        if (s->asked[i].to[0] != '\0') {
            request_role(s, &s->asked[i], s->asked_by[i]);
        } else {
            request_cede(s, &s->asked[i], s->asked_by[i]);
        }
    }
}

static void on_requests(struct conclave_group *group, const struct conclave_group_view *view,
                        void *ctx)
{
    struct switching *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->asked_count = 0;
    for (size_t i = 0; i < view->count && s->asked_count < SWITCH_REQUESTS_MAX; i++) {
        const struct conclave_member *m = view->members[i];
        if (request_read(m->data, m->data_len, &s->asked[s->asked_count])) {
            (void)snprintf(s->asked_by[s->asked_count++], CARD_NAME_MAX, "%s", m->id);
        }
    }
    requests_consider(s);
    pthread_mutex_unlock(&s->lock);
}

static void on_group_closed(struct conclave_group *group, int why, void *ctx)
{
    struct switching *s = ctx;
    if (why != CONCLAVE_ECLOSED) {
        fail(SWITCH_USAGE.name, s->o->hold.path, why);
    }
}

static int requests_open(struct switching *s, struct conclave_recipes *recipes)
{
    static const struct conclave_group_callbacks observer = {
        .size = sizeof observer, .on_view = on_requests, .on_closed = on_group_closed};
    char path[SWITCH_PATH_MAX];
    struct conclave_group_options options = CONCLAVE_GROUP_OPTIONS_INIT;
    options.path = path;
    switch_path(path, s->o->hold.path, SWITCH_REQUESTS);
    return conclave_group_open(recipes, &options, &observer, s, &s->requests);
}

/* Closed and gone; false: not in time. */
static bool group_end(struct conclave_group *group)
{
    if (group == NULL) {
        return true;
    }
    if (conclave_group_close_wait(group, CLOSE_TIMEOUT_MS) != 0) {
        return false;
    }
    conclave_group_destroy(group);
    return true;
}

/* --- hooks ------------------------------------------------------------------------------- */

static bool still_active(void *ctx)
{
    return conclave_elector_is_active(ctx);
}

/* Runs a hook; 0 when it ended well. elector: the hook is broken off when it is no longer active; NULL: never. */
static int hook_run(struct switching *s, const char *command, const char *role, int64_t token,
                    const char *why, int64_t timeout_ms, struct conclave_elector *elector)
{
    const struct switch_options *o = s->o;
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    char variables[6][TEXT_MAX];
    int code = 0;
    (void)snprintf(variables[0], TEXT_MAX, "CONCLAVE_ROLE=%s", role);
    (void)snprintf(variables[1], TEXT_MAX, "CONCLAVE_PATH=%s", o->hold.path);
    (void)snprintf(variables[2], TEXT_MAX, "CONCLAVE_ID=%s", o->hold.id);
    (void)snprintf(variables[3], TEXT_MAX, "CONCLAVE_TOKEN=%" PRId64, token);
    (void)snprintf(variables[4], TEXT_MAX, "CONCLAVE_REASON=%s", why);
    (void)snprintf(variables[5], TEXT_MAX, "CONCLAVE_STOP_WITHIN_MS=%" PRId64, timeout_ms);
    const char *const more[] = {variables[0], variables[1], variables[2], variables[3],
                                variables[4], variables[5], NULL};
    struct process_spec spec = {.argv = argv,
                                .more = more,
                                .timeout_ms = timeout_ms,
                                .stop_fd = -1,
                                .go_on = elector != NULL ? still_active : NULL,
                                .go_on_ctx = elector};
    int error = process_run(&spec, &code);
    if (error == CONCLAVE_ETIMEDOUT) {
        fprintf(stderr, "conclave switch: --on-%s took longer than %" PRId64 "ms and was killed\n",
                role, timeout_ms);
    } else if (error == CONCLAVE_EIO) {
        fprintf(stderr, "conclave switch: --on-%s: cannot run /bin/sh: %s\n", role, strerror(code));
    } else if (error != 0) {
        fprintf(stderr, "conclave switch: --on-%s: %s\n", role, conclave_strerror(error));
    } else if (code != 0) {
        fprintf(stderr, "conclave switch: --on-%s: exit code %d\n", role, code);
    }
    return error != 0 ? error : code;
}

/* --- the elector's callbacks ---------------------------------------------------------------- */

static void on_state(struct conclave_elector *elector, enum conclave_elector_state state,
                     const char *reason, void *ctx)
{
    struct switching *s = ctx;
    if (state != CONCLAVE_ELECTOR_FENCING) {
        (void)eventfd_write(s->fence_stop_fd, 1);
    }
    if (state != CONCLAVE_ELECTOR_ACTIVE) { /* activate prints that, with the token */
        switch_tell_state(s->o, state, 0, reason);
    }
}

static int activate(struct conclave_elector *elector, struct conclave_token token, void *ctx)
{
    struct switching *s = ctx;
    const char *hook = s->o->on_active;
    switch_tell_state(s->o, CONCLAVE_ELECTOR_ACTIVE, token.czxid, "");
    if (hook != NULL &&
        hook_run(s, hook, "active", token.czxid, "", s->o->hook_timeout_ms, elector) != 0) {
        return -1;
    }
    pthread_mutex_lock(&s->lock);
    assert(s->token == 0 && !s->ready); /* the term before has ended */
    s->token = token.czxid;
    requests_consider(s);
    pthread_mutex_unlock(&s->lock);
    hold_granted(s->hold, token.czxid, conclave_elector_lease_until_ns(elector));
    if (s->o->hold.command == NULL) {
        ready(s, token.czxid);
    }
    return 0;
}

static int deactivate(struct conclave_elector *elector, int why, int64_t stop_within_ms, void *ctx)
{
    struct switching *s = ctx;
    int result = 0;
    pthread_mutex_lock(&s->lock);
    int64_t token = s->token;
    s->token = 0;
    s->ready = false;
    pthread_mutex_unlock(&s->lock);
    if (s->o->on_standby != NULL) {
        /* Out of time already it has to be tried all the same, as long as it takes. */
        bool in_time = stop_within_ms > 0 && stop_within_ms < s->o->hook_timeout_ms;
        result = hook_run(s, s->o->on_standby, "standby", token, conclave_errname(why),
                          in_time ? stop_within_ms : s->o->hook_timeout_ms, NULL);
    }
    hold_revoked(s->hold, why, stop_within_ms);
    return result == 0 && hold_certain(s->hold) ? 0 : -1;
}

static void switch_run_on_closed(struct conclave_elector *elector, int why, void *ctx)
{
    struct switching *s = ctx;
    hold_closed(s->hold, why);
}

/* --- fencing ---------------------------------------------------------------------------------- */

struct told {
    const struct switching *s;
    const struct fence_target *target;
};

static void on_method(const struct fence_method *method, int error, const char *text, void *ctx)
{
    const struct told *t = ctx;
    switch_tell_fence(t->s->o, t->target->id, t->target->old_token, fence_kind_name(method->kind),
                      error == 0, text);
}

static int fence(struct conclave_elector *elector, const struct conclave_breadcrumb *old,
                 struct conclave_token mine, void *ctx)
{
    struct switching *s = ctx;
    const struct switch_options *o = s->o;
    struct address address;
    struct pollfd stopped = {.fd = s->fence_stop_fd, .events = POLLIN};
    eventfd_t count;
    if (poll(&stopped, 1, 0) == 1) {
        (void)eventfd_read(s->fence_stop_fd, &count); /* that was for an earlier time */
    }
    if (conclave_elector_state(elector) != CONCLAVE_ELECTOR_FENCING) {
        return CONCLAVE_ECANCELED;
    }
    address_read(old->data, old->data_len, &address);
    struct fence_target target = {.id = old->id[0] != '\0' ? old->id : address.id,
                                  .host = address.host,
                                  .port = address.port,
                                  .data = address.data.data,
                                  .data_len = address.data.len,
                                  .old_token = old->token.czxid,
                                  .new_token = mine.czxid};
    struct told told = {s, &target};
    int error = fence_methods_run(o->fence.methods, o->fence.count, &target, s->fence_stop_fd,
                                  on_method, &told);
    if (error == CONCLAVE_EBUSY) {
        fprintf(stderr,
                "conclave switch: %s: no method has confirmed that %s (token %" PRId64 ") is dead; "
                "nobody becomes active before one does. When you have made sure yourself: "
                "conclave switch %s --override %" PRId64 "\n",
                o->hold.path, target.id, target.old_token, o->hold.path, target.old_token);
    }
    return error;
}

/* --- health ------------------------------------------------------------------------------------ */

static void on_health(enum conclave_health health, void *ctx)
{
    struct switching *s = ctx;
    switch_tell_health(s->o, health);
    pthread_mutex_lock(&s->lock);
    s->health_state = health;
    if (s->elector != NULL) {
        conclave_elector_set_health(s->elector, health);
    }
    pthread_mutex_unlock(&s->lock);
}

static int health_begin(struct switching *s)
{
    if (s->o->health.command == NULL) {
        return 0;
    }
    (void)snprintf(s->health_variables[0], TEXT_MAX, "CONCLAVE_PATH=%s", s->o->hold.path);
    (void)snprintf(s->health_variables[1], TEXT_MAX, "CONCLAVE_ID=%s", s->o->hold.id);
    s->health_more[0] = s->health_variables[0];
    s->health_more[1] = s->health_variables[1];
    s->health = (struct health_monitor){.rules = &s->o->health,
                                        .more = s->health_more,
                                        .changed = on_health,
                                        .ctx = s,
                                        .stop_fd = -1};
    return health_start(&s->health);
}

/* --- what is held --------------------------------------------------------------------------------- */

static struct switching
    *switching; /* the one of this process: the handle that is held is the elector */

static int elector_begin(struct switching *s, struct hold *r, struct conclave_elector **ret)
{
    static const struct conclave_elector_callbacks callbacks = {.size = sizeof callbacks,
                                                                .activate = activate,
                                                                .deactivate = deactivate,
                                                                .fence = fence,
                                                                .on_state = on_state,
                                                                .on_closed = switch_run_on_closed};
    struct conclave_elector_options options = CONCLAVE_ELECTOR_OPTIONS_INIT;
    options.dir = r->options->path;
    options.id = r->options->id;
    options.incarnation = s->incarnation;
    options.data = s->address.data;
    options.data_len = s->address.len;
    options.layout = s->o->hadoop || s->o->yarn ? CONCLAVE_ELECTOR_LAYOUT_HADOOP
                                                : CONCLAVE_ELECTOR_LAYOUT_NATIVE;
    options.herd_free = s->o->herd_free;
    options.health = s->health_state;
    options.listed = options.reports_ready = true;
    options.observer = s->o->observer;
    options.lease.grace_ms = hold_lease_grace_ms(r);
    return conclave_elector_open(r->recipes, &options, &callbacks, s, ret);
}

static int switch_run_start(struct hold *r, void **ret_holding)
{
    struct switching *s = switching;
    bool first = s->hold == NULL;
    int error = 0;
    s->hold = r;
    pthread_mutex_lock(&s->lock);
    if (first) {
        error = requests_open(s, r->recipes);
    }
    assert(s->elector == NULL);
    error = error == 0 ? elector_begin(s, r, &s->elector) : error;
    if (error == 0) {
        *ret_holding = s->elector;
        requests_consider(s);
    }
    pthread_mutex_unlock(&s->lock);
    if (error == 0 && first) {
        error = health_begin(s);
        if (error != 0) {
            hold_failed(r, error); /* the handle has to be closed */
        }
    }
    return error;
}

static void close_elector(void *holding)
{
    conclave_elector_close(holding);
}

static void destroy_elector(void *holding)
{
    pthread_mutex_lock(&switching->lock);
    assert(switching->elector == holding);
    switching->elector = NULL;
    pthread_mutex_unlock(&switching->lock);
    conclave_elector_destroy(holding);
}

static bool end(struct hold *r)
{
    struct switching *s = switching;
    health_stop(&s->health);
    pthread_mutex_lock(&s->lock);
    struct conclave_group *requests = s->requests;
    s->requests = NULL;
    pthread_mutex_unlock(&s->lock);
    return group_end(requests);
}

static int64_t lease_until_ns(const void *holding)
{
    return conclave_elector_lease_until_ns(holding);
}

static void node(const void *holding, char *buf, size_t len)
{
    (void)snprintf(buf, len, "ActiveBreadCrumb");
}

static int ack(void *holding)
{
    ready(switching, conclave_elector_token(holding).czxid);
    return 0;
}

const struct hold_kind SWITCHING = {
    .role = "active",
    .lost = "no longer active",
    .withdrawn = "it has left",
    .late = "not active",
    .see = "who is active",
    .start = switch_run_start,
    .close = close_elector,
    .destroy = destroy_elector,
    .lease_until_ns = lease_until_ns,
    .node = node,
    .ack = ack,
    .end = end,
};

/* --- beginning and end ------------------------------------------------------------------------------ */

static int address_make(struct switching *s)
{
    const struct switch_options *o = s->o;
    const char *slash = strrchr(o->hold.path, '/');
    struct address address = {.port = (int)o->port,
                              .data = slice_str(o->data != NULL ? o->data : ""),
                              .service = slash != NULL ? slash + 1 : o->hold.path,
                              .failover_port = (int)o->failover_port};
    (void)snprintf(address.id, sizeof address.id, "%s", o->hold.id);
    (void)snprintf(address.host, sizeof address.host, "%s", o->host);
    buf_init(&s->address, 0);
    address_write(&s->address,
                  o->yarn     ? ADDRESS_YARN
                  : o->hadoop ? ADDRESS_HDFS
                              : ADDRESS_NATIVE,
                  &address);
    return buf_ok(&s->address) ? 0 : CONCLAVE_ENOMEM;
}

int switch_run(struct switch_options *options)
{
    static struct switching s = {
        .fence_stop_fd = -1, .health = {.stop_fd = -1}, .lock = PTHREAD_MUTEX_INITIALIZER};
    s.o = options;
    s.health_state =
        options->health.command != NULL ? CONCLAVE_HEALTH_INITIALIZING : CONCLAVE_HEALTH_HEALTHY;
    switching = &s;
    random_text(s.incarnation, INCARNATION_BYTES);
    s.fence_stop_fd = eventfd(0, EFD_CLOEXEC);
    int error = s.fence_stop_fd < 0 ? CONCLAVE_EIO : address_make(&s);
    if (error != 0) {
        return fail(SWITCH_USAGE.name, NULL, error);
    }
    if (options->on_standby != NULL &&
        hook_run(&s, options->on_standby, "standby", 0, "", options->hook_timeout_ms, NULL) != 0) {
        fprintf(stderr,
                "conclave switch: %s: it is not sure that the service is on standby: not "
                "taking part\n",
                options->hold.path);
        return CLI_EXIT_CONFIG;
    }
    int code = hold_run(&options->hold);
    close(s.fence_stop_fd);
    buf_finish(&s.address);
    return code;
}
