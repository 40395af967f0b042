#include "support/standby.h"

int standby_get(const struct standby *m, const _Atomic int *field)
{
    return *field;
}

bool standby_fenced(struct standby *m, const char *id)
{
    (void)pthread_mutex_lock(&m->base.lock);
    bool same = strcmp(m->fenced_id, id) == 0;
    (void)pthread_mutex_unlock(&m->base.lock);
    return same;
}

static int on_activate(struct conclave_elector *elector, struct conclave_token token, void *ctx)
{
    struct standby *m = ctx;
    (void)pthread_mutex_lock(&m->base.lock);
    m->broken = m->broken || m->activated != m->deactivated || m->closed > 0;
    m->token = token.czxid;
    m->active_from_ns = now_ns();
    m->activated++;
    int result = m->fail_activate > 0 ? -1 : 0;
    m->fail_activate -= m->fail_activate > 0;
    (void)pthread_mutex_unlock(&m->base.lock);
    return result;
}

/* Of the time as active that ends: nothing is proved anew before deactivate has returned. */
static int64_t lease_end(const struct conclave_elector *elector)
{
    struct conclave_client *client = elector->c.handle.rt->client;
    client_lock(client);
    int64_t until = elector->c.holder.until_ns;
    client_unlock(client);
    return until;
}

static int on_deactivate(struct conclave_elector *elector, int why, int64_t stop_within_ms,
                         void *ctx)
{
    struct standby *m = ctx;
    int64_t to = now_ns();
    bool active = conclave_elector_is_active(elector);
    int64_t until = lease_end(elector);
    (void)pthread_mutex_lock(&m->base.lock);
    m->broken = m->broken || active || m->activated != m->deactivated + 1 || m->closed > 0;
    if (m->cut_by_deactivate) {
        fake_zk_link(m->base.zk, m->base.endpoint, FAKE_REFUSE);
    }
    m->why = why;
    m->stop_within_ms = stop_within_ms;
    m->active_to_ns = until != 0 && until < to ? until : to; /* this thread may come late */
    m->deactivated++;
    int result = m->fail_deactivate;
    (void)pthread_mutex_unlock(&m->base.lock);
    while (m->slow_to_stop) {
        sleep_ms(1);
    }
    return result;
}

static int on_fence(struct conclave_elector *elector, const struct conclave_breadcrumb *old,
                    struct conclave_token mine, void *ctx)
{
    struct standby *m = ctx;
    (void)pthread_mutex_lock(&m->base.lock);
    m->broken = m->broken || mine.czxid <= old->token.czxid || m->closed > 0;
    (void)snprintf(m->fenced_id, sizeof m->fenced_id, "%s", old->id);
    m->fenced_token = old->token.czxid;
    m->fenced++;
    int result = m->fail_fence > 0 ? -1 : 0;
    m->fail_fence -= m->fail_fence > 0;
    int64_t ms = m->fence_ms;
    (void)pthread_mutex_unlock(&m->base.lock);
    sleep_ms(ms);
    while (m->fence_waits) {
        sleep_ms(1);
    }
    if (m->ends_in_fence) {
        assert_int_equal(conclave_elector_close_wait(elector, CONCLAVE_FOREVER), CONCLAVE_EDEADLK);
        conclave_elector_close(elector);
    }
    return result;
}

static void on_state(struct conclave_elector *elector, enum conclave_elector_state state,
                     const char *reason, void *ctx)
{
    struct standby *m = ctx;
    (void)pthread_mutex_lock(&m->base.lock);
    m->broken = m->broken || m->closed > 0;
    m->states |= 1 << state;
    (void)pthread_mutex_unlock(&m->base.lock);
}

static void on_closed(struct conclave_elector *elector, int why, void *ctx)
{
    struct standby *m = ctx;
    (void)pthread_mutex_lock(&m->base.lock);
    m->closed++;
    (void)pthread_mutex_unlock(&m->base.lock);
}

void standby_open_for(struct standby *m, struct fake_zk *zk, int endpoint, const char *name,
                      int64_t session_ms)
{
    memset(m, 0, sizeof *m);
    candidate_connect_to(&m->base, zk, endpoint, name, NULL, session_ms);
    m->health = CONCLAVE_HEALTH_HEALTHY;
}

void standby_open(struct standby *m, struct fake_zk *zk, int endpoint, const char *name)
{
    standby_open_for(m, zk, endpoint, name, usual_session_ms);
}

void standby_start(struct standby *m)
{
    static const struct conclave_elector_callbacks callbacks = {
        sizeof callbacks, on_activate, on_deactivate, on_fence, on_state, on_closed};
    struct conclave_elector_options options = CONCLAVE_ELECTOR_OPTIONS_INIT;
    options.dir = DIR;
    options.id = m->base.name;
    options.incarnation = m->incarnation;
    options.data = m->layout == CONCLAVE_ELECTOR_LAYOUT_HADOOP ? "\x0a\x02ns" : "address";
    options.data_len = m->layout == CONCLAVE_ELECTOR_LAYOUT_HADOOP ? 4 : 7;
    options.layout = m->layout;
    options.herd_free = m->herd_free;
    options.listed = m->listed;
    options.observer = m->observer;
    options.reports_ready = m->reports_ready;
    options.health = m->health;
    options.backoff_min_ms = m->backoff_ms != 0 ? m->backoff_ms : 20;
    options.backoff_max_ms = m->backoff_ms != 0 ? m->backoff_ms : 100;
    m->closed = 0;
    assert_int_equal(conclave_elector_open(m->base.recipes, &options, &callbacks, m, &m->elector),
                     0);
}

void standby_join(struct standby *m, struct fake_zk *zk, int endpoint, const char *name)
{
    standby_open(m, zk, endpoint, name);
    standby_start(m);
}

void standby_stop(struct standby *m)
{
    assert_int_equal(conclave_elector_close_wait(m->elector, PATIENCE_MS), 0);
    assert_false(m->broken);
    assert_int_equal(m->closed, 1);
    assert_int_equal(m->activated, m->deactivated);
    conclave_elector_destroy(m->elector);
    m->elector = NULL;
}

void standby_finish(struct standby *m)
{
    if (m->elector != NULL) {
        standby_stop(m);
    }
    candidate_finish(&m->base);
}

bool standby_crumb_has(struct fake_zk *zk, const char *part)
{
    char text[512];
    return fake_zk_data(zk, CRUMB_NODE, text, sizeof text) && strstr(text, part) != NULL;
}

/* One that died as the active one: its session is over, its breadcrumb remains. */
void standby_dies(struct fake_zk *zk, const char *name)
{
    struct standby m;
    standby_join(&m, zk, 3, name);
    EVENTUALLY(ACTIVATED(&m));
    m.fail_deactivate = -1;
    m.cut_by_deactivate = true; /* it does not come back */
    fake_zk_expire(zk, candidate_session(&m.base));
    EVENTUALLY(standby_get(&m, &m.deactivated) == 1);
    standby_stop(&m);
    candidate_finish(&m.base);
    fake_zk_link(zk, 3, FAKE_UP);
    assert_true(fake_zk_exists(zk, CRUMB_NODE));
    assert_false(fake_zk_exists(zk, LOCK_NODE));
}
