/* A manager puts its parts together: monitor, store, election, journal, fencer, driver. */
#include "redis/manager/manager.h"

#include "base/clock.h"
#include "base/random.h"
#include "redis/manager/leader_watch.h"
#include "redis/manager/plan_driver.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAD_REPORT_MS = 250 }; /* between two reports of a leading manager, at most */
enum { INCARNATION_BYTES = 16 };

struct redis_manager {
    struct redis_manager_settings s;
    char root[REDIS_ROOT_MAX];
    char id[REDIS_NAME_SIZE];
    struct stream_buffer *read_buffer;
    struct redis_monitor *monitor;
    struct redis_store *store;
    struct conclave_election *election; /* NULL: it has ended */
    struct redis_journal *journal;
    struct redis_fencer *fencer;
    struct redis_driver *driver;
    struct leader_watch *watch;     /* NULL: closed */
    struct sentinel_port *sentinel; /* NULL: none, or closed */
    struct redis_managers managers;
    struct redis_report report;
    struct net_address local; /* that it announces; host "": not known yet */
    uv_timer_t timer;         /* the next report */
    uint32_t probed;          /* bit i: server i was probed at least once */
    uint32_t differing
        [REDIS_MANAGERS_MAX]; /* the last report about the options of views[i]; 0: they agree */
    char leader[REDIS_NAME_SIZE];
    enum conclave_membership membership;
    bool standing_back; /* another manager has the id */
    bool leads;
    bool ready;
    bool closing;
    int parts; /* parts that are not closed */
};

/* --- events */

static void manager_event(struct redis_manager *m, const char *name, int node, int64_t bytes,
                          bool public, const char *text)
{
    const struct redis_current *current =
        m->store != NULL ? redis_store_znodes(m->store).current : NULL;
    struct redis_event event = {.epoch = current != NULL ? current->epoch : 0,
                                .bytes = bytes,
                                .at_ms = clock_wall_ms(clock_system())};
    snprintf(event.name, sizeof event.name, "%s", name);
    snprintf(event.text, sizeof event.text, "%s", text);
    snprintf(event.node, sizeof event.node, "%s",
             node >= 0 ? m->s.config->nodes[node].address : "");
    snprintf(event.manager, sizeof event.manager, "%s", m->id);
    m->s.on_event(m->s.ctx, &event);
    if (public && m->journal != NULL && !m->s.dry_run) {
        redis_journal_event(m->journal, &event);
    }
}

static void __attribute__((format(printf, 4, 5)))
manager_tell(struct redis_manager *m, const char *name, int node, const char *fmt, ...)
{
    char text[2 * REDIS_TEXT_SIZE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    manager_event(m, name, node, -1, false, text);
}

static void on_driver_event(void *ctx, const char *name, int node, int64_t bytes, bool public,
                            const char *text)
{
    manager_event(ctx, name, node, bytes, public, text);
}

/* The facts may have changed: the driver and the subscribers of Sentinel's protocol have to know. */
static void manager_wake(struct redis_manager *m)
{
    if (m->driver != NULL) {
        redis_driver_wake(m->driver);
    }
    if (m->watch != NULL) {
        leader_watch_look(m->watch);
    }
    if (m->sentinel != NULL) {
        sentinel_port_look(m->sentinel);
    }
}

/* --- reports */

static void on_report_timer(uv_timer_t *timer);

/* Without --sentinel-announce: the address that this machine has towards the servers, as a sentinel does. */
static void manager_announce(struct redis_manager *m)
{
    const struct sentinel_options *o = &m->s.sentinel;
    char text[NET_TEXT_MAX];
    if (o->on && o->announce[0] == '\0' && redis_monitor_local(m->monitor, m->local.host)) {
        m->local.port = (uint16_t)o->port;
        snprintf(m->report.sentinel, sizeof m->report.sentinel, "%s",
                 net_address_format(&m->local, text));
    }
}

/* Until the next report. While it leads, it also looks when it may no longer act. */
static int64_t manager_pause_ms(const struct redis_manager *m)
{
    int64_t pause_ms = m->s.config->period_ms;
    int64_t left_ms = leader_watch_left_ms(m->watch);
    if (!m->leads) {
        return pause_ms;
    }
    pause_ms = pause_ms < LEAD_REPORT_MS ? pause_ms : LEAD_REPORT_MS;
    return left_ms > 0 && left_ms < pause_ms ? left_ms : pause_ms;
}

static void manager_report(struct redis_manager *m)
{
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    const struct redis_config *config = m->s.config;
    if (m->closing) {
        return;
    }
    uv_update_time(m->s.loop);
    uv_timer_start(&m->timer, on_report_timer, (uint64_t)manager_pause_ms(m), 0);
    if (m->s.dry_run) {
        return;
    }
    manager_announce(m);
    redis_report_make(&m->report, config, redis_monitor_nodes(m->monitor), redis_link_now_ms());
    m->report.seq++;
    conclave_client_session(m->s.client, &session);
    m->report.lead_ms = leader_watch_report(m->watch, m->report.seq, session.timeout_ms);
    if (redis_store_report(m->store, &m->report) != 0) {
        manager_tell(m, "report-failed", REDIS_NONE, "out of memory: no report this time");
    }
}

static void on_report_timer(uv_timer_t *timer)
{
    struct redis_manager *m = timer->data;
    manager_report(m);
    manager_wake(m);
}

static void manager_check_ready(struct redis_manager *m)
{
    uint32_t all = (uint32_t)((UINT64_C(1) << m->s.config->node_count) - 1);
    if (!m->ready && m->probed == all &&
        (m->s.dry_run || m->membership == CONCLAVE_MEMBERSHIP_IN)) {
        m->ready = true;
        m->s.on_ready(m->s.ctx);
    }
}

/* --- servers */

static void tell_node(struct redis_manager *m, int place, const char *why)
{
    const struct redis_node *node = &redis_monitor_nodes(m->monitor)[place];
    const char *probe = redis_probe_name(node->probe);
    const char *comma = why[0] != '\0' ? ": " : "";
    if (node->state == REDIS_NODE_UP) {
        manager_tell(m, "node-up", place, "answers, %s", redis_role_name(node->facts.role));
    } else if (node->state == REDIS_NODE_SUSPECT) {
        manager_tell(m, "node-suspect", place, "%s%s%s; asked again soon", probe, comma, why);
    } else if (node->state == REDIS_NODE_DOWN) {
        manager_tell(m, "node-down", place, "%s%s%s, %d times in a row; reported as down", probe,
                     comma, why, node->failures);
    } else if (node->state == REDIS_NODE_NOAUTH) {
        manager_tell(m, "node-noauth", place,
                     "refuses our credentials%s%s; mend --redis-user and --redis-password-file",
                     comma, why);
    } else {
        manager_tell(m, "node-not-serving", place, "%s%s%s", redis_node_state_name(node->state),
                     comma, why);
    }
}

static void on_probed(void *ctx, int node, bool changed, const char *text)
{
    struct redis_manager *m = ctx;
    if (m->closing) {
        return;
    }
    if (changed) {
        tell_node(m, node, text);
        manager_report(m);
    }
    assert(node >= 0 && (size_t)node < m->s.config->node_count);
    m->probed |= UINT32_C(1) << node;
    manager_check_ready(m);
    manager_wake(m);
}

/* --- other managers */

/* Managers with other options decide differently. Each difference is reported once. */
static void check_options(struct redis_manager *m, const struct redis_report *report)
{
    const struct redis_config *config = m->s.config;
    size_t known = 0;
    size_t at = 0;
    while (at < m->managers.count && strcmp(m->managers.views[at].report.id, report->id) != 0) {
        at++;
    }
    for (size_t i = 0; i < report->node_count; i++) {
        known += redis_config_find(config, report->nodes[i].address) != REDIS_NONE;
    }
    bool nodes_differ = known != config->node_count || report->node_count != config->node_count;
    bool others_differ =
        report->managers != config->managers || report->period_ms != config->period_ms;
    uint32_t sign = (nodes_differ ? 1U : 0U) + (others_differ ? 2U : 0U);
    if (at == m->managers.count || m->differing[at] == sign) {
        return;
    }
    m->differing[at] = sign;
    if (sign != 0) {
        manager_tell(m, "options-differ", REDIS_NONE,
                     "manager %s has other options (%s); give all managers the same", report->id,
                     nodes_differ ? "--nodes" : "--managers or --period");
    }
}

/* From this manager's node. */
static void on_own_report(void *ctx, const struct redis_report *report)
{
    struct redis_manager *m = ctx;
    if (m->watch != NULL) {
        leader_watch_read_back(m->watch, report);
    }
}

/* The own one may be among them: after a lost link the group may not have found its node yet. */
static void on_report(void *ctx, const struct redis_report *report)
{
    struct redis_manager *m = ctx;
    on_own_report(m, report);
    if (redis_managers_saw(&m->managers, report, redis_link_now_ms()) != 0) {
        manager_tell(m, "too-many-managers", REDIS_NONE,
                     "there are more than %d; manager %s is not counted", REDIS_MANAGERS_MAX,
                     report->id);
        return;
    }
    check_options(m, report);
    manager_wake(m);
}

static void manager_on_gone(void *ctx, const char *id)
{
    struct redis_manager *m = ctx;
    redis_managers_gone(&m->managers, id);
    manager_tell(m, "manager-gone", REDIS_NONE, "manager %s has left, or its session has ended",
                 id);
    memset(m->differing, 0, sizeof m->differing);
    manager_wake(m);
}

/* Two managers with one id would be counted as one: the one whose id is taken leaves the election, too. */
static void on_membership(void *ctx, enum conclave_membership membership)
{
    struct redis_manager *m = ctx;
    bool back = m->standing_back;
    if (membership == CONCLAVE_MEMBERSHIP_CONFLICT && !back) {
        manager_tell(m, "id-in-use", REDIS_NONE,
                     "another manager is %s, or this one's earlier session has not ended yet; "
                     "waiting. Give each manager an --id of its own",
                     m->id);
        m->standing_back = true;
    } else if (membership == CONCLAVE_MEMBERSHIP_IN) {
        m->standing_back = false;
    }
    m->membership = membership;
    if (m->standing_back != back && m->election != NULL) {
        (void)!conclave_election_resign(m->election,
                                        back); /* if it ends, on_election_closed reports it */
    }
    manager_check_ready(m);
}

static void manager_on_change(void *ctx)
{
    struct redis_manager *m = ctx;
    manager_wake(m);
}

/* --- election */

static int manager_on_elected(struct conclave_election *election, struct conclave_token token,
                              bool regrant, void *ctx)
{
    struct redis_manager *m = ctx;
    if (m->closing) {
        return 0;
    }
    if (m->standing_back) {
        return CONCLAVE_ECONFLICT;
    }
    assert(!m->s.dry_run && m->journal != NULL && m->driver != NULL);
    snprintf(m->leader, sizeof m->leader, "%s", m->id);
    manager_event(m, "elected", REDIS_NONE, -1, true, "this manager leads");
    redis_journal_begin(m->journal);
    m->leads = true;
    leader_watch_lead(m->watch, true);
    leader_watch_follow(m->watch, "", "");
    manager_report(m);
    redis_driver_lead(m->driver, token.czxid);
    return 0;
}

static void manager_on_revoked(struct conclave_election *election, int why, int64_t stop_within_ms,
                               void *ctx)
{
    struct redis_manager *m = ctx;
    m->leads = false;
    if (m->watch != NULL) {
        leader_watch_lead(m->watch, false);
    }
    if (m->driver != NULL) {
        redis_driver_stop(m->driver);
    }
    manager_tell(m, "revoked", REDIS_NONE, "this manager no longer leads: %s",
                 conclave_strerror(why));
}

static void on_leader(struct conclave_election *election, const struct conclave_participant *leader,
                      bool acked, void *ctx)
{
    struct redis_manager *m = ctx;
    const char *id = leader != NULL ? leader->id : "";
    if (m->closing) {
        return;
    }
    bool other = leader != NULL && !leader->self;
    leader_watch_follow(m->watch, other ? id : "", other ? leader->node : "");
    if (strcmp(id, m->leader) == 0) {
        return;
    }
    snprintf(m->leader, sizeof m->leader, "%s", id);
    if (id[0] != '\0') {
        manager_tell(m, "leader", REDIS_NONE, "manager %s leads", id);
    } else {
        manager_tell(m, "leader", REDIS_NONE, "no manager leads");
    }
}

/* --- opening and closing */

static void manager_free(struct redis_manager *m)
{
    assert(m->closing && m->store == NULL && m->monitor == NULL && m->driver == NULL &&
           m->watch == NULL);
    void (*closed)(void *) = m->s.on_closed;
    void *ctx = m->s.ctx;
    if (m->read_buffer != NULL) {
        stream_buffer_release(m->read_buffer);
    }
    free(m);
    closed(ctx);
}

static void part_gone(void *ctx)
{
    struct redis_manager *m = ctx;
    assert(m->parts > 0);
    if (--m->parts == 0) {
        manager_free(m);
    }
}

static void manager_on_timer_closed(uv_handle_t *handle)
{
    part_gone(handle->data);
}

static void on_election_closed(struct conclave_election *election, int why, void *ctx)
{
    struct redis_manager *m = ctx;
    if (m->store != NULL) {
        redis_store_set_election(m->store, NULL);
    }
    if (!m->closing) {
        manager_tell(m, "election-failed", REDIS_NONE,
                     "the election has ended (%s); start this manager anew",
                     conclave_strerror(why));
    }
    m->election = NULL; /* it is freed */
    conclave_election_destroy(election);
    part_gone(m);
}

static void on_driver_closed(void *ctx)
{
    part_gone(ctx);
}

/* Once the store and the monitor are closed, nothing calls the driver. */
static void on_hands_gone(void *ctx)
{
    struct redis_manager *m = ctx;
    if (m->store == NULL && m->monitor == NULL && m->driver != NULL) {
        redis_driver_close(m->driver, on_driver_closed, m);
        m->driver = NULL;
    }
}

static void on_monitor_closed(void *ctx)
{
    struct redis_manager *m = ctx;
    m->monitor = NULL;
    on_hands_gone(m);
    part_gone(m);
}

static void on_store_closed(void *ctx)
{
    struct redis_manager *m = ctx;
    m->store = NULL;
    on_hands_gone(m);
    part_gone(m);
}

void redis_manager_close(struct redis_manager *manager)
{
    struct redis_manager *m = manager;
    assert(!m->closing);
    m->closing = true;
    m->parts++; /* until this call ends */
    if (m->sentinel != NULL) {
        sentinel_port_close(m->sentinel, part_gone, m);
        m->sentinel = NULL;
    }
    if (m->watch != NULL) {
        leader_watch_close(m->watch, part_gone, m);
        m->watch = NULL;
    }
    if (m->driver != NULL) {
        redis_driver_stop(m->driver);
    }
    redis_journal_destroy(m->journal);
    m->journal = NULL;
    redis_fencer_destroy(m->fencer);
    m->fencer = NULL;
    if (m->election != NULL) {
        conclave_election_close(m->election);
    }
    if (m->store != NULL) {
        redis_store_close(m->store);
    }
    if (m->monitor != NULL) {
        redis_monitor_close(m->monitor, on_monitor_closed, m);
    }
    uv_close((uv_handle_t *)&m->timer, manager_on_timer_closed);
    part_gone(m);
}

static int open_election(struct redis_manager *m)
{
    char path[REDIS_PATH_MAX];
    struct conclave_election_options options = CONCLAVE_ELECTION_OPTIONS_INIT;
    struct conclave_election_callbacks callbacks = {.size = sizeof callbacks,
                                                    .on_elected = manager_on_elected,
                                                    .on_revoked = manager_on_revoked,
                                                    .on_leader = on_leader,
                                                    .on_closed = on_election_closed};
    options.path = redis_path(m->root, "election", path);
    options.id = m->id;
    options.observe = true;
    options.observe_only = m->s.dry_run;
    int rc = conclave_election_open(m->s.recipes, &options, &callbacks, m, &m->election);
    m->parts += rc == 0;
    redis_store_set_election(m->store, m->election);
    return rc;
}

static int open_store(struct redis_manager *m)
{
    struct redis_store_settings settings = {.client = m->s.client,
                                            .recipes = m->s.recipes,
                                            .root = m->root,
                                            .id = m->s.dry_run ? NULL : m->id,
                                            .gem_root = m->s.gem_root};
    struct redis_store_callbacks callbacks = {.on_change = manager_on_change,
                                              .on_report = on_report,
                                              .on_own_report = on_own_report,
                                              .on_gone = manager_on_gone,
                                              .on_membership = on_membership,
                                              .on_closed = on_store_closed,
                                              .ctx = m};
    int rc = redis_store_open(&settings, &callbacks, &m->store);
    m->parts += m->store != NULL;
    return rc;
}

static bool manager_may_act(void *ctx)
{
    const struct redis_manager *m = ctx;
    return m->watch != NULL && leader_watch_may_act(m->watch);
}

static void on_watch_event(void *ctx, const char *name, const char *text)
{
    manager_event(ctx, name, REDIS_NONE, -1, false, text);
}

static int open_watch(struct redis_manager *m)
{
    struct leader_watch_settings settings = {.loop = m->s.loop,
                                             .config = m->s.config,
                                             .nodes = redis_monitor_nodes(m->monitor),
                                             .store = m->store,
                                             .managers = &m->managers,
                                             .incarnation = m->report.incarnation,
                                             .on_event = on_watch_event,
                                             .on_proved = manager_on_change,
                                             .ctx = m};
    int rc = leader_watch_create(&settings, &m->watch);
    m->parts += rc == 0;
    return rc;
}

static int open_driver(struct redis_manager *m)
{
    int rc = redis_journal_create(m->store, m->s.config, m->s.gem_root, &m->journal);
    if (rc == 0 && m->s.method_count > 0) {
        rc = redis_fencer_create(m->s.loop, m->s.methods, m->s.method_count, &m->fencer);
    }
    struct redis_driver_settings driver = {.loop = m->s.loop,
                                           .config = m->s.config,
                                           .monitor = m->monitor,
                                           .store = m->store,
                                           .managers = &m->managers,
                                           .election = m->election,
                                           .journal = m->journal,
                                           .fencer = m->fencer,
                                           .dry_run = m->s.dry_run,
                                           .on_event = on_driver_event,
                                           .may_act = manager_may_act,
                                           .ctx = m};
    rc = rc != 0 ? rc : redis_driver_create(&driver, &m->driver);
    m->parts += rc == 0;
    return rc;
}

static int open_monitor(struct redis_manager *m)
{
    struct redis_monitor_settings settings = {.loop = m->s.loop,
                                              .read_buffer = m->read_buffer,
                                              .config = m->s.config,
                                              .access = m->s.access,
                                              .on_probed = on_probed,
                                              .ctx = m};
    int rc = redis_monitor_create(&settings, &m->monitor);
    m->parts += rc == 0;
    return rc;
}

static void on_sentinel_refused(void *ctx, const char *peer, const char *why)
{
    manager_tell(ctx, "sentinel-refused", REDIS_NONE, "a client at %s: %s", peer, why);
}

static int open_sentinel(struct redis_manager *m)
{
    const struct sentinel_options *o = &m->s.sentinel;
    int detail;
    struct sentinel_port_settings settings = {.loop = m->s.loop,
                                              .recipes = m->s.recipes,
                                              .options = o,
                                              .config = m->s.config,
                                              .monitor = m->monitor,
                                              .store = m->store,
                                              .managers = &m->managers,
                                              .id = m->id,
                                              .refused = on_sentinel_refused,
                                              .ctx = m};
    if (!o->on) {
        return 0;
    }
    snprintf(m->report.sentinel, sizeof m->report.sentinel, "%s", o->announce);
    int rc = sentinel_port_open(&settings, &m->sentinel, &detail);
    m->parts += rc == 0;
    if (rc != 0) {
        manager_tell(m, "sentinel-port-failed", REDIS_NONE, "cannot listen at %s:%d: %s", o->host,
                     o->port, detail != 0 ? uv_strerror(detail) : conclave_strerror(rc));
    }
    return rc;
}

static int manager_init(struct redis_manager *m)
{
    random_text(m->report.incarnation, INCARNATION_BYTES);
    m->read_buffer = stream_buffer_create();
    if (m->read_buffer == NULL) {
        return CONCLAVE_ENOMEM;
    }
    bool fits = (size_t)snprintf(m->root, sizeof m->root, "%s", m->s.root) < sizeof m->root &&
                (size_t)snprintf(m->id, sizeof m->id, "%s", m->s.id) < sizeof m->id;
    memcpy(m->report.id, m->id, sizeof m->report.id);
    memcpy(m->managers.own, m->report.incarnation, sizeof m->managers.own);
    return fits ? 0 : CONCLAVE_EINVAL;
}

int redis_manager_open(const struct redis_manager_settings *settings, struct redis_manager **ret)
{
    struct redis_manager *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return CONCLAVE_ENOMEM;
    }
    m->s = *settings;
    m->membership = CONCLAVE_MEMBERSHIP_OUT;
    if (uv_timer_init(m->s.loop, &m->timer) != 0) {
        abort(); /* cannot fail: it allocates nothing */
    }
    m->timer.data = m;
    m->parts = 1;
    int rc = manager_init(m);
    rc = rc != 0 ? rc : open_monitor(m);
    rc = rc != 0 ? rc : open_store(m);
    rc = rc != 0 ? rc : open_watch(m);
    rc = rc != 0 ? rc : open_election(m);
    rc = rc != 0 ? rc : open_driver(m);
    rc = rc != 0 ? rc : open_sentinel(m);
    *ret = m;
    if (rc != 0) {
        redis_manager_close(m);
        return rc;
    }
    if (m->s.dry_run) {
        redis_driver_lead(m->driver, 0);
    }
    manager_report(m);
    return 0;
}
