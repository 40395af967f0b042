/* Proofs that a leading manager may act, and the removal of another one's lead. */
#include "redis/manager/leader_watch.h"

#include "base/clock.h"
#include "redis/manager/redis_connection.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

struct leader_watch {
    struct leader_watch_settings s;
    uv_timer_t timer;
    uint64_t awaited;  /* number of the report that was made at awaited_ms; 0: none is awaited */
    int64_t made_ms;   /* when (clock that counts suspend) */
    int64_t proved_ms; /* when the newest confirmed report was made; -1: none */
    char leader[REDIS_NAME_SIZE]; /* "": nobody to watch */
    char node[REDIS_NAME_SIZE];
    int64_t since_ms; /* when this manager saw it begin to lead */
    bool removing;    /* a request is under way */
    bool timer_open;
    void (*done)(void *ctx); /* not NULL: closing */
    void *done_ctx;
};

static int64_t boot_ms(void)
{
    return clock_monotonic_ms(clock_system());
}

void leader_watch_reports(struct leader_watch *watch, uint64_t seq)
{
    if (watch->awaited == 0) {
        watch->awaited = seq;
        watch->made_ms = boot_ms();
    }
}

void leader_watch_confirms(struct leader_watch *watch, uint64_t seq)
{
    if (watch->awaited != 0 && seq >= watch->awaited) {
        assert(watch->made_ms >= watch->proved_ms);
        watch->proved_ms =
            watch->made_ms; /* a later report was made later: this is the safe side */
        watch->awaited = 0;
    }
}

bool leader_watch_may_act(const struct leader_watch *watch)
{
    return watch->proved_ms >= 0 && boot_ms() - watch->proved_ms < REDIS_LEAD_MS;
}

void leader_watch_follow(struct leader_watch *watch, const char *id, const char *node)
{
    bool fits = strlen(id) < sizeof watch->leader && strlen(node) < sizeof watch->node;
    snprintf(watch->leader, sizeof watch->leader, "%s", fits ? id : "");
    snprintf(watch->node, sizeof watch->node, "%s", fits ? node : "");
    watch->since_ms = redis_link_now_ms();
    leader_watch_look(watch);
}

static void leader_watch_end(struct leader_watch *w)
{
    if (w->done != NULL && !w->timer_open && !w->removing) {
        void (*done)(void *) = w->done;
        void *ctx = w->done_ctx;
        free(w);
        done(ctx);
    }
}

/* Any error means that there is a newer report, another leader, or no link: then the watch goes on. */
static void leader_watch_on_ended(void *ctx, int error, const char *id)
{
    struct leader_watch *w = ctx;
    assert(w->removing);
    w->removing = false;
    if (error == 0 && w->done == NULL) {
        w->s.on_removed(w->s.ctx, id);
    }
    leader_watch_end(w);
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

void leader_watch_look(struct leader_watch *watch)
{
    struct leader_watch *w = watch;
    const struct redis_current *current = redis_store_znodes(w->s.store).current;
    int master = current != NULL ? redis_config_find(w->s.config, current->master) : REDIS_NONE;
    int64_t now = redis_link_now_ms();
    if (w->done != NULL || w->removing || w->leader[0] == '\0' || master == REDIS_NONE ||
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

int leader_watch_create(const struct leader_watch_settings *settings, struct leader_watch **ret)
{
    struct leader_watch *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return CONCLAVE_ENOMEM;
    }
    w->s = *settings;
    w->proved_ms = -1;
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
