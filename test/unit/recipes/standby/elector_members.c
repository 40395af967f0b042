/* Members of an active/standby service that are listed: E184 and E185. */
#include "support/standby.h"

#include <conclave/elector_admin.h>

enum { LONG_MS = 10000 /* no session ends by itself */ };

static void start_listed(struct standby *m, struct fake_zk *zk, int endpoint, const char *name)
{
    standby_open_for(m, zk, endpoint, name, LONG_MS);
    m->listed = true;
    standby_start(m);
}

/* Whether the member shows this. token: -1: that of now, not 0. */
static bool shows(struct standby *asker, const char *id, enum conclave_elector_state state,
                  enum conclave_health health, bool observer, bool active)
{
    struct conclave_elector_member **m;
    if (conclave_elector_member(asker->base.recipes, DIR, id, PATIENCE_MS, &m) != 0) {
        return false;
    }
    bool same = strcmp(m[0]->id, id) == 0 && m[0]->state == state && m[0]->health == health &&
                m[0]->observer == observer && m[0]->ready == active &&
                (m[0]->token.czxid != 0) == active && m[0]->data_len == 7 &&
                memcmp(m[0]->data, "address", 7) == 0 && m[0]->session_id != 0;
    conclave_elector_members_free(m, 1);
    return same;
}

#define SHOWS(id, state, observer)                                                                 \
    shows(&op, id, CONCLAVE_ELECTOR_##state, CONCLAVE_HEALTH_HEALTHY, observer,                    \
          CONCLAVE_ELECTOR_##state == CONCLAVE_ELECTOR_ACTIVE)

static size_t count_members(struct standby *asker)
{
    struct conclave_elector_member **list;
    size_t count;
    assert_int_equal(conclave_elector_members(asker->base.recipes, DIR, PATIENCE_MS, &list, &count),
                     0);
    for (size_t i = 1; i < count; i++) {
        assert_true(strcmp(list[i - 1]->id, list[i]->id) < 0);
    }
    conclave_elector_members_free(list, count);
    return count;
}

static void E184_a_listed_member_shows_state_and_health_as_they_change(void **state)
{
    struct fake_zk *zk = *state;
    struct standby op;
    struct standby a;
    struct standby b;
    struct standby unlisted;
    struct conclave_elector_member **none;
    standby_open_for(&op, zk, 3, "op", LONG_MS);
    assert_int_equal(count_members(&op), 0);
    start_listed(&b, zk, 1, "b");
    EVENTUALLY(SHOWS("b", ACTIVE, false));
    start_listed(&a, zk, 0, "a");
    EVENTUALLY(SHOWS("a", STANDBY, false));
    standby_join(&unlisted, zk, 2, "c");
    EVENTUALLY(STATE_IS(&unlisted, STANDBY));
    assert_int_equal(count_members(&op), 2);
    assert_int_equal(conclave_elector_member(op.base.recipes, DIR, "c", PATIENCE_MS, &none),
                     CONCLAVE_NO_NODE);
    assert_int_equal(conclave_elector_member(op.base.recipes, DIR, "", PATIENCE_MS, &none),
                     CONCLAVE_EINVAL);
    conclave_elector_set_health(a.elector, CONCLAVE_HEALTH_NOT_RESPONDING);
    EVENTUALLY(
        shows(&op, "a", CONCLAVE_ELECTOR_NEUTRAL, CONCLAVE_HEALTH_NOT_RESPONDING, false, false));
    conclave_elector_set_health(a.elector, CONCLAVE_HEALTH_HEALTHY);
    EVENTUALLY(SHOWS("a", STANDBY, false));
    fake_zk_expire(zk, candidate_session(&a.base)); /* it is made again */
    EVENTUALLY(fake_zk_owner(zk, DIR "/members/a") == candidate_session(&a.base) &&
               SHOWS("a", STANDBY, false));
    standby_finish(&unlisted);
    standby_finish(&b);
    EVENTUALLY(SHOWS("a", ACTIVE, false));
    assert_int_equal(count_members(&op), 1);
    standby_finish(&a);
    assert_int_equal(count_members(&op), 0);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
    standby_finish(&op);
}

static void E185_an_observer_is_never_active_and_may_become_a_standby(void **state)
{
    struct fake_zk *zk = *state;
    struct standby op;
    struct standby a;
    struct standby b;
    standby_open_for(&op, zk, 3, "op", LONG_MS);
    standby_open_for(&a, zk, 0, "a", LONG_MS);
    a.listed = a.observer = true;
    standby_start(&a);
    EVENTUALLY(SHOWS("a", OBSERVER, true));
    STAYS(!fake_zk_exists(zk, LOCK_NODE), 50); /* though nobody else is there */
    start_listed(&b, zk, 1, "b");
    EVENTUALLY(ACTIVE(&b));
    assert_int_equal(conclave_elector_observe(a.elector, false), 0);
    EVENTUALLY(SHOWS("a", STANDBY, false));
    assert_int_equal(conclave_elector_observe(a.elector, true), 0);
    EVENTUALLY(SHOWS("a", OBSERVER, true));
    assert_int_equal(conclave_elector_observe(a.elector, false), 0);
    EVENTUALLY(SHOWS("a", STANDBY, false));
    assert_int_equal(conclave_elector_observe(b.elector, true), 0); /* the active one */
    EVENTUALLY(ACTIVE(&a));
    EVENTUALLY(SHOWS("b", OBSERVER, true));
    assert_int_equal(standby_get(&a, &a.fenced), 0); /* it had stopped cleanly */
    standby_stop(&a);
    STAYS(!ACTIVE(&b), 50);
    assert_int_equal(standby_get(&b, &b.activated), 1);
    standby_finish(&b);
    standby_finish(&a);
    standby_finish(&op);
}

static int ready_later(struct conclave_elector *elector, struct conclave_token token, void *ctx)
{
    return 0;
}

static void a_service_that_reports_it_is_ready_from_then_on(void **state)
{
    struct fake_zk *zk = *state;
    struct standby op;
    struct conclave_elector_options options = CONCLAVE_ELECTOR_OPTIONS_INIT;
    struct conclave_elector_callbacks calls = CONCLAVE_ELECTOR_CALLBACKS_INIT;
    struct conclave_elector_member **m = NULL;
    standby_open_for(&op, zk, 3, "op", LONG_MS);
    calls.activate = ready_later;
    options.dir = DIR;
    options.id = "a/b";
    options.listed = options.reports_ready = true;
    assert_int_equal(conclave_elector_open(op.base.recipes, &options, &calls, NULL, &op.elector),
                     CONCLAVE_EINVAL);
    options.id = "a";
    assert_int_equal(conclave_elector_open(op.base.recipes, &options, &calls, NULL, &op.elector),
                     0);
    bool active = false;
    while (!active) {
        if (conclave_elector_member(op.base.recipes, DIR, "a", PATIENCE_MS, &m) == 0) {
            active = m[0]->token.czxid != 0;
            assert_false(m[0]->ready);
            conclave_elector_members_free(m, 1);
        }
    }
    conclave_elector_ready(op.elector);
    for (bool ready = false; !ready;) {
        assert_int_equal(conclave_elector_member(op.base.recipes, DIR, "a", PATIENCE_MS, &m), 0);
        ready = m[0]->ready;
        conclave_elector_members_free(m, 1);
    }
    assert_int_equal(conclave_elector_close_wait(op.elector, PATIENCE_MS), 0);
    conclave_elector_destroy(op.elector);
    op.elector = NULL;
    standby_finish(&op);
}

/* A client that ends under it, and nodes of others in the list. */
static void a_card_of_others_and_a_client_that_ends(void **state)
{
    struct fake_zk *zk = *state;
    struct standby op;
    struct standby a;
    struct conclave_elector_member **m;
    standby_open_for(&op, zk, 3, "op", LONG_MS);
    start_listed(&a, zk, 0, "a");
    EVENTUALLY(SHOWS("a", ACTIVE, false));
    fake_zk_create(zk, DIR "/members/x", "state=ACTIVE", 0);
    assert_int_equal(conclave_elector_member(op.base.recipes, DIR, "x", PATIENCE_MS, &m), 0);
    assert_int_equal(m[0]->state, CONCLAVE_ELECTOR_INIT);
    assert_int_equal(m[0]->data_len, 12);
    conclave_elector_members_free(m, 1);
    conclave_client_close(a.base.client, 0);
    EVENTUALLY(standby_get(&a, &a.closed) == 1);
    conclave_elector_destroy(a.elector);
    conclave_recipes_destroy(a.base.recipes);
    standby_finish(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E184_a_listed_member_shows_state_and_health_as_they_change),
        E_TEST(E185_an_observer_is_never_active_and_may_become_a_standby),
        E_TEST(a_service_that_reports_it_is_ready_from_then_on),
        E_TEST(a_card_of_others_and_a_client_that_ends),
    };
    return RUN_TESTS(tests);
}
