/* The follower of a set of Redis servers, against an ensemble that misbehaves on command: E121; what is
 * told, when writes may go on, and what becomes of both when links, sessions and nodes go. */
#include "support/candidate.h"

#include <conclave/redis.h>

#include <limits.h>
#include <pthread.h>

#define ROOT "/redis_failover/default"
#define CURRENT ROOT "/current"
#define NODES ROOT "/nodes"

enum { STALE_MS = 1000, QUIET_MS = 60000 };

struct follower {
    struct candidate c; /* client and recipes; its lock guards what follows */
    struct conclave_redis *redis;
    char log[4096]; /* each view: "OK 1 a:1", with "?" behind a stale one */
    char last[256];
    int changes;
    uint64_t change; /* of the last view */
    int64_t last_epoch;
    _Atomic int closed;
    int closed_why;
    int after_end;
    bool broken; /* `change` did not grow */
    void (*inside)(struct follower *f);
};

static void on_change(struct conclave_redis *redis, const struct conclave_redis_view *view,
                      void *ctx)
{
    struct follower *f = ctx;
    (void)pthread_mutex_lock(&f->c.lock);
    (void)snprintf(f->last, sizeof f->last, "%s %" PRId64 " %s%s",
                   conclave_redis_state_name(view->state), view->epoch,
                   view->master == NULL ? "-" : view->master, view->stale ? "?" : "");
    size_t len = strlen(f->log);
    (void)snprintf(f->log + len, sizeof f->log - len, "%s%s", len > 0 ? ", " : "", f->last);
    f->changes++;
    f->broken = f->broken || view->change <= f->change || (view->stale && view->writable);
    f->change = view->change;
    f->last_epoch = view->epoch;
    f->after_end += f->closed;
    (void)pthread_mutex_unlock(&f->c.lock);
    if (f->inside != NULL) {
        f->inside(f);
    }
}

static void on_closed(struct conclave_redis *redis, int why, void *ctx)
{
    struct follower *f = ctx;
    f->closed_why = why;
    f->after_end += f->closed;
    f->closed++;
}

static const struct conclave_redis_callbacks callbacks = {sizeof callbacks, on_change, on_closed};

static struct conclave_redis_options options_of(int64_t stale_ms)
{
    struct conclave_redis_options options = CONCLAVE_REDIS_OPTIONS_INIT;
    options.stale_ms = stale_ms;
    return options;
}

static void follower_start(struct follower *f, struct fake_zk *zk, int endpoint,
                           const struct conclave_redis_options *options)
{
    memset(f, 0, sizeof *f);
    candidate_connect(&f->c, zk, endpoint, "x");
    assert_int_equal(conclave_redis_open(f->c.recipes, options, &callbacks, f, &f->redis), 0);
}

static void follower_open(struct follower *f, struct fake_zk *zk, int64_t stale_ms)
{
    struct conclave_redis_options options = options_of(stale_ms);
    follower_start(f, zk, 0, &options);
}

static void follower_finish(struct follower *f)
{
    assert_int_equal(conclave_redis_close_wait(f->redis, PATIENCE_MS), 0);
    assert_true(conclave_redis_may_write(f->redis, f->last_epoch) != 0);
    assert_int_equal(f->closed, 1);
    assert_false(f->broken);
    conclave_redis_destroy(f->redis);
    candidate_finish(&f->c);
    assert_int_equal(f->after_end, 0);
}

static bool last_is(struct follower *f, const char *last)
{
    (void)pthread_mutex_lock(&f->c.lock);
    bool same = strcmp(f->last, last) == 0;
    (void)pthread_mutex_unlock(&f->c.lock);
    return same;
}

static bool log_is(struct follower *f, const char *log)
{
    (void)pthread_mutex_lock(&f->c.lock);
    bool same = strcmp(f->log, log) == 0;
    (void)pthread_mutex_unlock(&f->c.lock);
    return same;
}

static bool log_has(struct follower *f, const char *part)
{
    (void)pthread_mutex_lock(&f->c.lock);
    bool has = strstr(f->log, part) != NULL;
    (void)pthread_mutex_unlock(&f->c.lock);
    return has;
}

#define MAY(f, epoch) conclave_redis_may_write((f)->redis, (epoch))

/* A record. Static: one at a time. */
static const char *record(const char *word, int epoch, const char *master, const char *run_id)
{
    static char text[256];
    (void)snprintf(text, sizeof text,
                   "{\"version\":1,\"epoch\":%d,\"state\":\"%s\",\"master\":\"%s\","
                   "\"run_id\":\"%s\",\"replicas\":[\"b:1\"],\"unavailable\":[]}",
                   epoch, word, master, run_id);
    return text;
}

static void make_root(struct fake_zk *zk)
{
    fake_zk_create(zk, "/redis_failover", "", 0);
    fake_zk_create(zk, ROOT, "", 0);
}

static void publish(struct fake_zk *zk, const char *word, int epoch, const char *master)
{
    if (fake_zk_exists(zk, CURRENT)) {
        fake_zk_write(zk, CURRENT, record(word, epoch, master, ""));
    } else {
        fake_zk_create(zk, CURRENT, record(word, epoch, master, ""), 0);
    }
}

/* Opens it on a record whose master is a:1, and waits until it has read it. */
static void follower_open_at_a(struct follower *f, struct fake_zk *zk, int64_t stale_ms)
{
    publish(zk, "ok", 1, "a:1");
    follower_open(f, zk, stale_ms);
    EVENTUALLY(last_is(f, "OK 1 a:1"));
}

/* --- the reports ---------------------------------------------------------------------- */

static void a_fail_over_is_followed(struct fake_zk *zk)
{
    struct follower f;
    follower_open(&f, zk, QUIET_MS);
    EVENTUALLY(last_is(&f, "NONE 0 -"));
    assert_int_equal(MAY(&f, 0), CONCLAVE_EFENCED);
    assert_int_equal(MAY(&f, 1), CONCLAVE_EFENCED);
    make_root(zk);
    publish(zk, "ok", 1, "a:1");
    EVENTUALLY(last_is(&f, "OK 1 a:1"));
    assert_int_equal(MAY(&f, 1), 0);
    assert_int_equal(MAY(&f, 0), CONCLAVE_EFENCED);
    publish(zk, "failing_over", 1, "a:1");
    EVENTUALLY(last_is(&f, "FAILING_OVER 1 a:1"));
    assert_int_equal(MAY(&f, 1), CONCLAVE_EBUSY);
    publish(zk, "ok", 2, "b:1");
    EVENTUALLY(last_is(&f, "OK 2 b:1"));
    assert_int_equal(MAY(&f, 1), CONCLAVE_EFENCED);
    assert_int_equal(MAY(&f, 2), 0);
    fake_zk_delete(zk, CURRENT); /* an operator's doing: nobody is known to be master then */
    EVENTUALLY(last_is(&f, "NONE 0 -"));
    assert_int_equal(MAY(&f, 2), CONCLAVE_EFENCED);
    assert_true(log_is(&f, "NONE 0 -, OK 1 a:1, FAILING_OVER 1 a:1, OK 2 b:1, NONE 0 -"));
    follower_finish(&f);
}

static void followed_by_a_persistent_watch(void **state)
{
    a_fail_over_is_followed(*state);
    assert_int_equal(fake_zk_count(*state, 0, WIRE_ADD_WATCH), 1);
}

static void followed_by_one_shot_watches(void **state)
{
    fake_zk_old(*state, 0, true);
    a_fail_over_is_followed(*state);
}

static void a_malformed_record_ends_writing_until_it_is_mended(void **state)
{
    struct fake_zk *zk = *state;
    struct follower f;
    make_root(zk);
    follower_open_at_a(&f, zk, QUIET_MS);
    fake_zk_write(zk, CURRENT, "{\"epoch\":1,\"state\":\"ok\",\"master\":");
    EVENTUALLY(last_is(&f, "UNREADABLE 0 -"));
    assert_int_equal(MAY(&f, 1), CONCLAVE_EFENCED);
    publish(zk, "ok", 1, "a:1");
    EVENTUALLY(last_is(&f, "OK 1 a:1"));
    assert_int_equal(MAY(&f, 1), 0);
    follower_finish(&f);
}

static void the_gems_layout_has_epochs_of_its_own(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_redis_options options = options_of(QUIET_MS);
    struct follower f;
    make_root(zk);
    fake_zk_create(zk, NODES, "{\"master\":\"a:1\",\"slaves\":[\"b:1\"],\"unavailable\":[]}", 0);
    options.layout = CONCLAVE_REDIS_LAYOUT_GEM;
    options.path = ROOT;
    follower_start(&f, zk, 0, &options);
    EVENTUALLY(last_is(&f, "OK 1 a:1"));
    fake_zk_write(zk, NODES, "{\"master\":\"a:1\",\"slaves\":[],\"unavailable\":[\"b:1\"]}");
    EVENTUALLY(log_is(&f, "OK 1 a:1, OK 1 a:1")); /* the same master */
    assert_int_equal(MAY(&f, 1), 0);
    fake_zk_write(zk, NODES, "{\"master\":null,\"slaves\":[],\"unavailable\":[]}");
    EVENTUALLY(last_is(&f, "NO_CANDIDATE 0 -"));
    assert_int_equal(MAY(&f, 1), CONCLAVE_EFENCED);
    fake_zk_delete(zk, NODES); /* as the gem does when it fails over */
    EVENTUALLY(last_is(&f, "NONE 0 -"));
    fake_zk_create(zk, NODES, "{\"master\":\"a:1\",\"slaves\":[],\"unavailable\":[]}", 0);
    EVENTUALLY(last_is(&f, "OK 2 a:1")); /* chosen again */
    fake_zk_write(zk, NODES, "{\"master\":\"b:1\",\"slaves\":[],\"unavailable\":[]}");
    EVENTUALLY(last_is(&f, "OK 3 b:1"));
    assert_int_equal(MAY(&f, 2), CONCLAVE_EFENCED);
    follower_finish(&f);
}

/* --- staleness ----------------------------------------------------------------------------- */

static void E121_a_change_missed_without_a_link_is_read_on_reconnect(void **state)
{
    struct fake_zk *zk = *state;
    for (int old = 0; old < 2; old++) {
        struct follower f;
        fake_zk_old(zk, 0, old == 1);
        if (old == 0) {
            make_root(zk);
        }
        follower_open_at_a(&f, zk, STALE_MS);
        assert_int_equal(MAY(&f, 1), 0);
        fake_zk_link(zk, 0, FAKE_REFUSE);
        publish(zk, "ok", 2, "b:1");
        EVENTUALLY(MAY(&f, 1) == CONCLAVE_EDISCONNECTED);
        EVENTUALLY(last_is(&f, "OK 1 a:1?"));
        fake_zk_link(zk, 0, FAKE_UP);
        while (MAY(&f, 2) != 0) {
            assert_true(MAY(&f, 1) != 0); /* the old master is not written to for one moment */
        }
        EVENTUALLY(last_is(&f, "OK 2 b:1"));
        follower_finish(&f);
    }
}

static void a_server_that_lags_is_brought_up_to_date_first(void **state)
{
    struct fake_zk *zk = *state;
    struct follower f;
    make_root(zk);
    follower_open_at_a(&f, zk, QUIET_MS);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    fake_zk_freeze(zk, 0);
    publish(zk, "ok", 2, "b:1");
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(last_is(&f, "OK 2 b:1"));
    assert_int_equal(MAY(&f, 2), 0);
    follower_finish(&f);
}

static void silence_ends_writing_within_the_limit(void **state)
{
    struct fake_zk *zk = *state;
    struct follower f;
    make_root(zk);
    follower_open_at_a(&f, zk, STALE_MS);
    for (int round = 0; round < 3; round++) {
        EVENTUALLY(MAY(&f, 1) == 0);
        STAYS(MAY(&f, 1) == 0, STALE_MS + STALE_MS / 2); /* proofs go on */
        fake_zk_link(zk, 0, FAKE_SILENT);
        int64_t from = now_ns();
        int64_t asked = from; /* before the last answer that writes may go on */
        for (int64_t now = from; MAY(&f, 1) == 0; now = now_ns()) {
            asked = now;
            assert_true(asked - from < (STALE_MS + 50) * INT64_C(1000000));
            sleep_ms(1);
        }
        assert_int_equal(MAY(&f, 1), CONCLAVE_EDISCONNECTED);
        fake_zk_link(zk, 0, FAKE_UP);
    }
    EVENTUALLY(last_is(&f, "OK 1 a:1"));
    follower_finish(&f);
}

static void a_link_that_is_back_in_time_is_not_noticed(void **state)
{
    struct fake_zk *zk = *state;
    struct follower f;
    make_root(zk);
    follower_open_at_a(&f, zk, 4000);
    fake_zk_cut(zk, 0);
    STAYS(MAY(&f, 1) == 0, 500);
    assert_true(log_is(&f, "OK 1 a:1"));
    follower_finish(&f);
}

static void a_session_that_expires_is_followed_by_another(void **state)
{
    struct fake_zk *zk = *state;
    struct follower f;
    make_root(zk);
    follower_open_at_a(&f, zk, STALE_MS);
    fake_zk_expire(zk, 0);
    publish(zk, "ok", 2, "b:1");
    EVENTUALLY(MAY(&f, 2) == 0);
    EVENTUALLY(last_is(&f, "OK 2 b:1"));
    fake_zk_reset(zk); /* an ensemble that has lost everything */
    EVENTUALLY(log_has(&f, "NONE 0 -"));
    assert_int_equal(MAY(&f, 2) == 0, 0);
    follower_finish(&f);
}

static void nothing_is_allowed_before_the_first_proof(void **state)
{
    struct fake_zk *zk = *state;
    struct follower f;
    struct conclave_redis_view *view = NULL;
    make_root(zk);
    publish(zk, "ok", 1, "a:1");
    fake_zk_link(zk, 0, FAKE_REFUSE);
    follower_open(&f, zk, STALE_MS);
    STAYS(MAY(&f, 1) == CONCLAVE_EDISCONNECTED, 50);
    assert_int_equal(conclave_redis_wait_change(f.redis, 0, 50, &view), CONCLAVE_ETIMEDOUT);
    assert_int_equal(candidate_get(&f.c, &f.changes), 0);
    fake_zk_link(zk, 0, FAKE_UP);
    assert_int_equal(conclave_redis_wait_change(f.redis, 0, PATIENCE_MS, &view), 0);
    assert_int_equal(view->change, 1);
    conclave_redis_view_free(view);
    follower_finish(&f);
}

/* --- checks of a server ---------------------------------------------------------------------- */

static int check(struct follower *f, int64_t epoch, const char *answer)
{
    return conclave_redis_check(f->redis, epoch, answer, strlen(answer));
}

static void a_server_that_is_not_the_master_of_the_epoch_is_refused(void **state)
{
    struct fake_zk *zk = *state;
    struct follower f;
    make_root(zk);
    fake_zk_create(zk, CURRENT, record("ok", 3, "a:1", "aaaa"), 0);
    follower_open(&f, zk, STALE_MS);
    EVENTUALLY(last_is(&f, "OK 3 a:1"));
    assert_int_equal(check(&f, 3, "master"), 0);
    assert_int_equal(check(&f, 3, "slave"), CONCLAVE_ENOTOWNER);
    assert_int_equal(check(&f, 3, "run_id:aaaa\r\nrole:master\r\n"), 0);
    assert_int_equal(check(&f, 3, "run_id:aaab\r\nrole:master\r\n"), CONCLAVE_ENOTOWNER);
    assert_int_equal(check(&f, 3, "run_id:aaa\r\nrole:master\r\n"), CONCLAVE_ENOTOWNER);
    assert_int_equal(check(&f, 3, "run_id:aaaa\r\nrole:slave\r\n"), CONCLAVE_ENOTOWNER);
    assert_int_equal(check(&f, 3, "role:master\r\n"), 0); /* says nothing of its run */
    assert_int_equal(check(&f, 3, "LOADING"), CONCLAVE_EPROTO);
    assert_int_equal(check(&f, 2, "master"), CONCLAVE_EFENCED);
    assert_int_equal(check(&f, 4, "master"), CONCLAVE_EFENCED);
    assert_int_equal(check(&f, 0, "master"), CONCLAVE_EFENCED);
    fake_zk_write(zk, CURRENT, record("ok", 3, "a:1", "cccc")); /* restarted, and accepted */
    EVENTUALLY(check(&f, 3, "run_id:cccc\r\nrole:master\r\n") == 0);
    assert_int_equal(check(&f, 3, "run_id:aaaa\r\nrole:master\r\n"), CONCLAVE_ENOTOWNER);
    fake_zk_write(zk, CURRENT, record("failing_over", 3, "a:1", "cccc"));
    EVENTUALLY(check(&f, 3, "master") == CONCLAVE_EBUSY);
    fake_zk_link(zk, 0, FAKE_SILENT);
    EVENTUALLY(check(&f, 3, "master") == CONCLAVE_EDISCONNECTED);
    fake_zk_link(zk, 0, FAKE_UP);
    follower_finish(&f);
}

/* --- waiting, closing ------------------------------------------------------------------------- */

static void *publish_later(void *zk)
{
    sleep_ms(50);
    publish(zk, "failing_over", 1, "a:1");
    sleep_ms(50);
    publish(zk, "ok", 2, "b:1");
    return NULL;
}

static void waits_for_changes_and_for_a_master(void **state)
{
    struct fake_zk *zk = *state;
    struct follower f;
    struct conclave_redis_view *view = NULL;
    pthread_t thread;
    make_root(zk);
    publish(zk, "no_candidate", 1, "a:1");
    follower_open(&f, zk, QUIET_MS);
    assert_int_equal(conclave_redis_wait_change(f.redis, 0, PATIENCE_MS, &view), 0);
    assert_int_equal(view->state, CONCLAVE_REDIS_NO_CANDIDATE);
    assert_false(view->writable);
    uint64_t change = view->change;
    conclave_redis_view_free(view);
    view = NULL;
    assert_int_equal(conclave_redis_wait_change(f.redis, change, 20, &view), CONCLAVE_ETIMEDOUT);
    assert_int_equal(conclave_redis_wait_master(f.redis, 20, &view), CONCLAVE_ETIMEDOUT);
    assert_null(view);
    assert_int_equal(pthread_create(&thread, NULL, publish_later, zk), 0);
    assert_int_equal(conclave_redis_wait_change(f.redis, change, PATIENCE_MS, &view), 0);
    assert_int_equal(view->state, CONCLAVE_REDIS_FAILING_OVER);
    conclave_redis_view_free(view);
    assert_int_equal(conclave_redis_wait_master(f.redis, PATIENCE_MS, &view), 0);
    assert_true(view->writable);
    assert_string_equal(view->master, "b:1");
    assert_string_equal(view->host, "b");
    assert_int_equal(view->port, 1);
    assert_int_equal(MAY(&f, view->epoch), 0);
    conclave_redis_view_free(view);
    assert_int_equal(pthread_join(thread, NULL), 0);
    follower_finish(&f);
}

static void wait_inside(struct follower *f)
{
    struct conclave_redis_view *view = NULL;
    int error = conclave_redis_wait_master(f->redis, PATIENCE_MS, &view);
    (void)pthread_mutex_lock(&f->c.lock);
    f->broken = f->broken || error != CONCLAVE_EDEADLK ||
                conclave_redis_check(f->redis, f->last_epoch, "master", 6) != 0;
    (void)pthread_mutex_unlock(&f->c.lock);
    conclave_redis_close(f->redis);
}

static void a_callback_may_check_and_close_but_not_wait(void **state)
{
    struct fake_zk *zk = *state;
    struct follower f;
    struct conclave_redis_options options = options_of(QUIET_MS);
    make_root(zk);
    publish(zk, "ok", 1, "a:1");
    memset(&f, 0, sizeof f);
    candidate_connect(&f.c, zk, 0, "x");
    f.inside = wait_inside;
    assert_int_equal(conclave_redis_open(f.c.recipes, &options, &callbacks, &f, &f.redis), 0);
    EVENTUALLY(f.closed == 1);
    assert_int_equal(f.closed_why, CONCLAVE_ECLOSED);
    assert_int_equal(candidate_get(&f.c, &f.changes), 1);
    follower_finish(&f);
}

static void *wait_for_ever(void *arg)
{
    struct follower *f = arg;
    struct conclave_redis_view *view = NULL;
    return (void *)(intptr_t)conclave_redis_wait_master(f->redis, CONCLAVE_FOREVER, &view);
}

static void closing_ends_those_who_wait(void **state)
{
    struct fake_zk *zk = *state;
    struct follower f;
    pthread_t thread;
    void *error;
    follower_open(&f, zk, QUIET_MS);
    EVENTUALLY(last_is(&f, "NONE 0 -"));
    assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, &f), 0);
    sleep_ms(20);
    conclave_redis_close(f.redis);
    assert_int_equal(pthread_join(thread, &error), 0);
    assert_int_equal((int)(intptr_t)error, CONCLAVE_ECLOSED);
    follower_finish(&f);
}

static void a_record_that_may_not_be_read_ends_the_handle(void **state)
{
    struct fake_zk *zk = *state;
    struct follower f;
    struct fake_hook h = {.endpoint = 0,
                          .op = WIRE_GET_DATA,
                          .path = CURRENT,
                          .nth = 1,
                          .action = FAKE_ERROR,
                          .error = CONCLAVE_NO_AUTH};
    make_root(zk);
    publish(zk, "ok", 1, "a:1");
    fake_zk_hook(zk, &h);
    follower_open(&f, zk, QUIET_MS);
    EVENTUALLY(f.closed == 1);
    assert_int_equal(f.closed_why, CONCLAVE_NO_AUTH);
    follower_finish(&f);
}

static void bad_options_are_refused(void **state)
{
    struct candidate c;
    struct conclave_redis *redis = NULL;
    candidate_connect(&c, *state, 0, "x");
    struct conclave_redis_options bad[] = {options_of(29),  options_of(-1),  options_of(INT64_MAX),
                                           options_of(100), options_of(100), options_of(100),
                                           options_of(100), options_of(100)};
    bad[3].cluster = "";
    bad[4].cluster = "a/b";
    bad[5].path = "relative";
    bad[6].size = 8;
    bad[7].layout = (enum conclave_redis_layout)9;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(conclave_redis_open(c.recipes, &bad[i], NULL, NULL, &redis),
                         CONCLAVE_EINVAL);
    }
    assert_int_equal(conclave_redis_open(c.recipes, NULL, NULL, NULL, &redis), CONCLAVE_EINVAL);
    struct conclave_redis_options good = options_of(100);
    good.cluster = ".";
    assert_int_equal(conclave_redis_open(c.recipes, &good, NULL, NULL, &redis), CONCLAVE_EINVAL);
    assert_null(redis);
    conclave_redis_view_free(NULL);
    conclave_redis_destroy(NULL);
    candidate_finish(&c);
}

/* --- trouble at any step -------------------------------------------------------------------------- */

enum { STEPS = 14 };

static void stop_endpoint(struct fake_zk *zk, void *ctx)
{
    fake_zk_link_locked(zk, 0, FAKE_SILENT);
}

/* One fault at each request in turn; then the master changes, and is followed. */
static void trouble_at_every_step(void **state)
{
    struct fake_zk *zk = *state;
    static const enum fake_action actions[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY, FAKE_EXPIRE_BEFORE,
                                               FAKE_EXPIRE_AFTER, FAKE_CALL};
    make_root(zk);
    int epoch = 0;
    int met = 0;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        for (int step = 1; step <= STEPS; step++) {
            struct follower f;
            struct fake_hook h = {.endpoint = 0,
                                  .op = FAKE_ANY_OP,
                                  .nth = step,
                                  .action = actions[i],
                                  .fn = stop_endpoint};
            publish(zk, "ok", ++epoch, "a:1");
            fake_zk_hook(zk, &h);
            follower_open(&f, zk, 60);
            for (int ms = 0; ms < 100 && fake_zk_hooks_left(zk) > 0 && MAY(&f, epoch) != 0; ms++) {
                sleep_ms(1);
            }
            publish(zk, "ok", ++epoch, "b:1");
            for (int ms = 0; ms < 100 && fake_zk_hooks_left(zk) > 0; ms++) {
                sleep_ms(1);
            }
            met += fake_zk_hooks_left(zk) == 0 ? 1 : 0;
            fake_zk_hooks_clear(zk);
            fake_zk_link(zk, 0, FAKE_UP);
            EVENTUALLY(MAY(&f, epoch) == 0);
            assert_true(MAY(&f, epoch - 1) != 0);
            follower_finish(&f);
        }
    }
    print_message("%d faults were met\n", met);
    assert_true(met > 5 * 5);
}

/* Closed while each request in turn is without an answer. */
static void closed_at_every_step(void **state)
{
    struct fake_zk *zk = *state;
    static const int32_t ops[] = {WIRE_SYNC, WIRE_ADD_WATCH, WIRE_GET_DATA};
    make_root(zk);
    publish(zk, "ok", 1, "a:1");
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        struct follower f;
        fake_zk_hold(zk, 0, ops[i]);
        follower_open(&f, zk, 60);
        sleep_ms(20);
        assert_int_equal(candidate_get(&f.c, &f.changes), 0);
        conclave_redis_close(f.redis);
        EVENTUALLY(f.closed == 1);
        assert_true(MAY(&f, 1) != 0);
        fake_zk_release(zk, 0);
        follower_finish(&f);
    }
    EVENTUALLY(fake_zk_watches(zk) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(followed_by_a_persistent_watch),
        E_TEST(followed_by_one_shot_watches),
        E_TEST(a_malformed_record_ends_writing_until_it_is_mended),
        E_TEST(the_gems_layout_has_epochs_of_its_own),
        E_TEST(E121_a_change_missed_without_a_link_is_read_on_reconnect),
        E_TEST(a_server_that_lags_is_brought_up_to_date_first),
        E_TEST(silence_ends_writing_within_the_limit),
        E_TEST(a_link_that_is_back_in_time_is_not_noticed),
        E_TEST(a_session_that_expires_is_followed_by_another),
        E_TEST(nothing_is_allowed_before_the_first_proof),
        E_TEST(a_server_that_is_not_the_master_of_the_epoch_is_refused),
        E_TEST(waits_for_changes_and_for_a_master),
        E_TEST(a_callback_may_check_and_close_but_not_wait),
        E_TEST(closing_ends_those_who_wait),
        E_TEST(a_record_that_may_not_be_read_ends_the_handle),
        E_TEST(bad_options_are_refused),
        E_TEST(trouble_at_every_step),
        E_TEST(closed_at_every_step),
    };
    return RUN_TESTS(tests);
}
