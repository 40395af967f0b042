/* Proofs that a leading manager may act, and the removal of another one's lead. */
#include "redis/manager/leader_watch.h"

#include "base/clock.h"
#include "redis/manager/redis_connection.h"
#include "redis/planner/lead_proof.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct leader_watch {
    struct leader_watch_settings s;
    uv_timer_t timer;
    /* this manager as the leader */
    struct lead_proof proof; /* its clock counts suspend */
    uint64_t read_seq;       /* of the newest own report that was read back */
    uint64_t asked_seq;      /* of the one whose proof is under way; 0: none is */
    bool stalls;             /* as the operator was told */
    /* another one */
    char leader[REDIS_NAME_SIZE]; /* "": nobody to watch */
    char node[REDIS_NAME_SIZE];
    int64_t since_ms; /* when this manager saw it begin to lead */
    bool removing;    /* a request is under way */
    int refused;      /* why the node cannot be removed, as the operator was told; 0 */

    bool timer_open;
    void (*done)(void *ctx); /* not NULL: closing */
    void *done_ctx;
};

static int64_t boot_ms(void)
{
    return clock_monotonic_ms(clock_system());
}

static void watch_tell(struct leader_watch *w, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void watch_tell(struct leader_watch *w, const char *name, const char *fmt, ...)
{
    char text[2 * REDIS_TEXT_SIZE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    w->s.on_event(w->s.ctx, name, text);
}

static void leader_watch_end(struct leader_watch *w)
{
    if (w->done != NULL && !w->timer_open && !w->removing && w->asked_seq == 0) {
        void (*done)(void *) = w->done;
        void *ctx = w->done_ctx;
        free(w);
        done(ctx);
    }
}

/* --- this manager's own lead */

int64_t leader_watch_report(struct leader_watch *watch, uint64_t seq, int64_t session_timeout_ms)
{
    return lead_proof_make(&watch->proof, seq, session_timeout_ms, boot_ms());
}

static void watch_confirm(struct leader_watch *w, uint64_t seq)
{
    bool could_act = leader_watch_may_act(w);
    lead_proof_confirm(&w->proof, seq, boot_ms());
    if (!could_act && leader_watch_may_act(w)) {
        w->s.on_proved(w->s.ctx);
    }
}

static void watch_prove(struct leader_watch *w);

/* Without the node the report may have been written after another manager removed it. */
static void watch_on_found(void *ctx, int error)
{
    struct leader_watch *w = ctx;
    uint64_t seq = w->asked_seq;
    assert(seq != 0 && seq <= w->read_seq);
    w->asked_seq = 0;
    if (w->done != NULL) {
        leader_watch_end(w);
        return;
    }
    if (error == 0) {
        watch_confirm(w, seq);
    }
    if (w->read_seq > seq) {
        watch_prove(w);
    }
}

static void watch_prove(struct leader_watch *w)
{
    assert(w->asked_seq == 0);
    w->asked_seq = w->read_seq;
    int error = redis_store_find_lead(w->s.store, watch_on_found, w);
    if (error != 0) {
        w->asked_seq = 0; /* the next report tries again */
    }
    if (error == CONCLAVE_NO_NODE) {
        watch_confirm(w, w->read_seq);
    }
}

void leader_watch_read_back(struct leader_watch *watch, const struct redis_report *report)
{
    struct leader_watch *w = watch;
    if (w->done != NULL || strcmp(report->incarnation, w->s.incarnation) != 0 ||
        report->seq <= w->read_seq) {
        return;
    }
    w->read_seq = report->seq;
    if (w->asked_seq == 0) {
        watch_prove(w);
    }
}

bool leader_watch_may_act(const struct leader_watch *watch)
{
    return lead_proof_may_act(&watch->proof, boot_ms());
}

int64_t leader_watch_left_ms(const struct leader_watch *watch)
{
    int64_t now_ms = boot_ms();
    return lead_proof_may_act(&watch->proof, now_ms) ? watch->proof.proved_ms - now_ms : 0;
}

void leader_watch_lead(struct leader_watch *watch, bool leads)
{
    lead_proof_lead(&watch->proof, leads, boot_ms());
}

/* The operator learns once that this manager leads and may not act, and once that it may again. */
static void watch_own_lead(struct leader_watch *w)
{
    bool stalls = lead_proof_stalls(&w->proof, boot_ms());
    if (stalls == w->stalls) {
        return;
    }
    w->stalls = stalls;
    if (stalls) {
        watch_tell(w, "lead-unconfirmed",
                   "this manager leads and does nothing: the ensemble did not confirm its reports "
                   "within %" PRId64 " ms. Look at the ensemble's disks and links; a longer "
                   "--session permits slower ones",
                   w->proof.lead_ms);
    } else if (w->proof.led_ms >= 0) {
        watch_tell(w, "lead-confirmed",
                   "the ensemble confirms the reports of this manager in time again: it goes on");
    }
}

/* --- the lead of another one */

void leader_watch_follow(struct leader_watch *watch, const char *id, const char *node)
{
    bool fits = strlen(id) < sizeof watch->leader && strlen(node) < sizeof watch->node;
    if (strcmp(node, watch->node) != 0) {
        watch->refused = 0;
    }
    snprintf(watch->leader, sizeof watch->leader, "%s", fits ? id : "");
    snprintf(watch->node, sizeof watch->node, "%s", fits ? node : "");
    watch->since_ms = redis_link_now_ms();
    leader_watch_look(watch);
}

/* Most errors mean that there is a newer report, another leader, or no link: then the watch goes on. Any other one
 * comes back at each try until somebody mends it. */
static bool removal_refused(int error)
{
    return error != 0 && error != CONCLAVE_NO_NODE && error != CONCLAVE_BAD_VERSION &&
           error != CONCLAVE_SESSION_EXPIRED && error != CONCLAVE_ECLOSED &&
           !conclave_error_retryable(error);
}

static void leader_watch_on_ended(void *ctx, int error, const char *id)
{
    struct leader_watch *w = ctx;
    assert(w->removing);
    w->removing = false;
    if (w->done != NULL) {
        leader_watch_end(w);
        return;
    }
    if (error == 0) {
        watch_tell(w, "lead-removed",
                   "the master is down, and manager %s, which led, does not report any more: "
                   "another manager leads now",
                   id);
    } else if (removal_refused(error) && error != w->refused) {
        w->refused = error;
        watch_tell(w, "lead-not-removed",
                   "the master is down, and manager %s, which leads, does not report any more; its "
                   "node %s/election/%s cannot be removed (%s). Mend that, or wait until its "
                   "session has ended",
                   id, redis_store_root(w->s.store), w->node, conclave_strerror(error));
    }
}

/* Whether the master is down by all votes. */
static bool master_is_down(const struct leader_watch *w, int master, int64_t now)
{
    struct redis_verdict verdicts[REDIS_NODES_MAX];
    (void)redis_verdicts(w->s.managers, w->s.config, w->s.nodes, master, now, verdicts);
    return verdicts[master].kind == REDIS_VERDICT_DOWN;
}

static void leader_watch_on_timer(uv_timer_t *timer)
{
    leader_watch_look(timer->data);
}

static void watch_other_lead(struct leader_watch *w)
{
    const struct redis_current *current = redis_store_znodes(w->s.store).current;
    int master = current != NULL ? redis_config_find(w->s.config, current->master) : REDIS_NONE;
    int64_t now = redis_link_now_ms();
    if (w->removing || w->leader[0] == '\0' || master == REDIS_NONE ||
        w->s.nodes[master].state == REDIS_NODE_UP) {
        return;
    }
    const struct redis_manager_view *view = redis_managers_find(w->s.managers, w->leader);
    int64_t until = redis_lead_until_ms(view, w->since_ms);
    if (until == INT64_MAX) {
        return;
    }
    if (now < until) {
        uv_update_time(w->s.loop);
        uv_timer_start(&w->timer, leader_watch_on_timer, (uint64_t)(until - now), 0);
    } else if (master_is_down(w, master, now)) {
        w->removing =
            redis_store_end_lead(w->s.store, &view->report, w->node, leader_watch_on_ended, w) == 0;
    }
}

void leader_watch_look(struct leader_watch *watch)
{
    if (watch->done == NULL) {
        watch_own_lead(watch);
        watch_other_lead(watch);
    }
}

/* --- opening and closing */

int leader_watch_create(const struct leader_watch_settings *settings, struct leader_watch **ret)
{
    struct leader_watch *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return CONCLAVE_ENOMEM;
    }
    w->s = *settings;
    lead_proof_init(&w->proof);
    if (uv_timer_init(settings->loop, &w->timer) != 0) {
        abort(); /* cannot fail: it allocates nothing */
    }
    w->timer.data = w;
    w->timer_open = true;
    *ret = w;
    return 0;
}

static void leader_watch_on_timer_closed(uv_handle_t *handle)
{
    struct leader_watch *w = handle->data;
    w->timer_open = false;
    leader_watch_end(w);
}

void leader_watch_close(struct leader_watch *watch, void (*done)(void *ctx), void *ctx)
{
    assert(watch->done == NULL);
    watch->done = done;
    watch->done_ctx = ctx;
    uv_close((uv_handle_t *)&watch->timer, leader_watch_on_timer_closed);
}
