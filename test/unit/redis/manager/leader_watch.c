/*
 * A leading manager acts only for a while after a report that the ensemble has confirmed; another one removes its lead, and
 * says once why it cannot. The functions of the store are the test's: linked before the room's library, they take its place.
 */
#include "redis/manager/leader_watch.h"

#include "base/clock.h"
#include "redis/manager/redis_connection.h"
#include "redis/planner/lead_proof.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SESSION_MS = 6000 };

/* --- the store */

static struct {
    bool has_node; /* this manager is in the election */
    int finds;     /* requests under way, answered by found() */
    void (*on_found)(void *ctx, int error);
    void *found_ctx;
    int removals; /* all, and the last one, answered by removed() */
    redis_lead_fn on_removed;
    void *removed_ctx;
    struct redis_current current;
} fake;

int redis_store_find_lead(struct redis_store *store, void (*done)(void *ctx, int error), void *ctx)
{
    if (!fake.has_node) {
        return CONCLAVE_NO_NODE;
    }
    fake.finds++;
    fake.on_found = done;
    fake.found_ctx = ctx;
    return 0;
}

int redis_store_end_lead(struct redis_store *store, const struct redis_report *report,
                         const char *node, redis_lead_fn done, void *ctx)
{
    fake.removals++;
    fake.on_removed = done;
    fake.removed_ctx = ctx;
    return 0;
}

struct redis_znodes redis_store_znodes(const struct redis_store *store)
{
    return (struct redis_znodes){.known = true, .current = &fake.current};
}

const char *redis_store_root(const struct redis_store *store)
{
    return "/r";
}

static void found(int error)
{
    assert_int_equal(fake.finds, 1);
    fake.finds--;
    fake.on_found(fake.found_ctx, error);
}

/* --- the watch */

struct hall {
    uv_loop_t loop;
    struct redis_config config;
    struct redis_node nodes[2];
    struct redis_managers *managers;
    struct leader_watch *watch;
    char told[8][32]; /* names of events */
    int tells;
    int proofs;
    int closed;
};

static int64_t time_ms(void)
{
    return clock_monotonic_ms(clock_system());
}

static void note_closed(void *ctx)
{
    int *closed = ctx;
    (*closed)++;
}

static void note_event(void *ctx, const char *name, const char *text)
{
    struct hall *h = ctx;
    assert_in_range(h->tells, 0, 7);
    snprintf(h->told[h->tells++], sizeof h->told[0], "%s", name);
}

static void note_proof(void *ctx)
{
    struct hall *h = ctx;
    h->proofs++;
}

static void run(void (*body)(struct hall *h))
{
    static struct hall hall;
    struct hall *h = &hall;
    const char *bad;
    memset(&fake, 0, sizeof fake);
    *h = (struct hall){.managers = calloc(1, sizeof *h->managers)};
    assert_non_null(h->managers);
    redis_config_init(&h->config);
    assert_int_equal(redis_config_nodes(&h->config, "a:1,b:2", &bad), 0);
    redis_node_init(&h->nodes[0]);
    redis_node_init(&h->nodes[1]);
    assert_int_equal(uv_loop_init(&h->loop), 0);
    struct leader_watch_settings settings = {.loop = &h->loop,
                                             .config = &h->config,
                                             .nodes = h->nodes,
                                             .managers = h->managers,
                                             .incarnation = "mine",
                                             .on_event = note_event,
                                             .on_proved = note_proof,
                                             .ctx = h};
    assert_int_equal(leader_watch_create(&settings, &h->watch), 0);
    body(h);
    leader_watch_close(h->watch, note_closed, &h->closed);
    assert_int_equal(h->closed, 0);
    uv_run(&h->loop, UV_RUN_DEFAULT);
    if (fake.finds > 0) { /* it waits for the answer */
        assert_int_equal(h->closed, 0);
        found(0);
    }
    assert_int_equal(h->closed, 1);
    assert_int_equal(uv_loop_close(&h->loop), 0);
    free(h->managers);
}

static void read_back(struct hall *h, const char *incarnation, uint64_t seq)
{
    static struct redis_report report;
    snprintf(report.incarnation, sizeof report.incarnation, "%s", incarnation);
    report.seq = seq;
    leader_watch_read_back(h->watch, &report);
}

/* Whether it may act by a report that was made after before_ms; on a machine that stood still, its time may be over. */
static bool acts(const struct hall *h, int64_t before_ms)
{
    return leader_watch_may_act(h->watch) || time_ms() - before_ms >= REDIS_LEAD_MIN_MS;
}

static void confirm_some(struct hall *h)
{
    int64_t before = time_ms();
    assert_false(leader_watch_may_act(h->watch)); /* nothing was reported yet */
    read_back(h, "mine", 7);
    assert_false(leader_watch_may_act(h->watch)); /* none of this process */
    (void)leader_watch_report(h->watch, 8, SESSION_MS);
    assert_false(leader_watch_may_act(h->watch));
    assert_int_equal(leader_watch_left_ms(h->watch), 0);
    read_back(h, "mine", 8);
    assert_true(acts(h, before));
    assert_in_range(leader_watch_left_ms(h->watch), 0, REDIS_LEAD_MIN_MS);
    assert_true(h->proofs == 1 || time_ms() - before >= REDIS_LEAD_MIN_MS);
}

static void E110_a_leader_acts_after_a_confirmed_report(void **state)
{
    run(confirm_some);
}

static void confirm_another_life(struct hall *h)
{
    int64_t before = time_ms();
    (void)leader_watch_report(h->watch, 8, SESSION_MS);
    read_back(h, "earlier", 8);
    assert_false(leader_watch_may_act(h->watch));
    read_back(h, "mine", 8);
    assert_true(acts(h, before));
}

static void E190_a_report_of_an_earlier_life_proves_nothing(void **state)
{
    run(confirm_another_life);
}

static void lose_the_node(struct hall *h)
{
    fake.has_node = true;
    (void)leader_watch_report(h->watch, 1, SESSION_MS);
    read_back(h, "mine", 1);
    assert_false(leader_watch_may_act(h->watch)); /* it may have been written after the removal */
    found(CONCLAVE_NO_NODE);
    assert_false(leader_watch_may_act(h->watch));
    (void)leader_watch_report(h->watch, 2, SESSION_MS);
    read_back(h, "mine", 2);
    found(CONCLAVE_CONNECTION_LOSS);
    assert_false(leader_watch_may_act(h->watch));
    int64_t before = time_ms();
    (void)leader_watch_report(h->watch, 3, SESSION_MS);
    (void)leader_watch_report(h->watch, 4, SESSION_MS);
    read_back(h, "mine", 3);
    read_back(h, "mine", 4); /* while the node is looked for */
    found(0);
    assert_true(acts(h, before));
    assert_int_equal(fake.finds, 1); /* for the newer one */
}

static void E190_a_report_counts_if_the_leaders_node_is_found_after_it(void **state)
{
    run(lose_the_node);
}

static void let_expire(struct hall *h)
{
    int64_t before = time_ms();
    int64_t lead_ms = leader_watch_report(h->watch, 1, SESSION_MS);
    int64_t after = time_ms();
    read_back(h, "mine", 1);
    int64_t asked = time_ms();
    while (leader_watch_may_act(h->watch)) {
        assert_true(asked - after < lead_ms);
        uv_sleep(2);
        asked = time_ms();
    }
    assert_in_range(time_ms() - before, lead_ms, INT32_MAX);
    before = time_ms();
    (void)leader_watch_report(h->watch, 2, SESSION_MS);
    assert_false(leader_watch_may_act(h->watch));
    read_back(h, "mine", 2);
    assert_true(acts(h, before));
}

static void E110_a_leader_waits_once_its_reports_are_old(void **state)
{
    run(let_expire);
}

static void stall(struct hall *h)
{
    (void)leader_watch_report(h->watch, 1, SESSION_MS);
    leader_watch_lead(h->watch, true);
    while (h->tells == 0) {
        uv_sleep(2);
        leader_watch_look(h->watch);
    }
    leader_watch_look(h->watch);
    assert_int_equal(h->tells, 1);
    for (uint64_t seq = 2; h->tells == 1; seq++) {
        (void)leader_watch_report(h->watch, seq, SESSION_MS);
        read_back(h, "mine", seq);
        leader_watch_look(h->watch);
    }
    leader_watch_look(h->watch);
    assert_int_equal(h->tells, 2);
    assert_string_equal(h->told[0], "lead-unconfirmed");
    assert_string_equal(h->told[1], "lead-confirmed");
}

static void a_leader_that_may_not_act_is_told_once(void **state)
{
    run(stall);
}

/* --- the lead of another one */

/* The master is down, and m1 leads and has reported once: the time that it states passes. */
static void leader_dies(struct hall *h)
{
    static struct redis_report report;
    report = (struct redis_report){.id = "m1", .incarnation = "its", .lead_ms = 4};
    snprintf(fake.current.master, sizeof fake.current.master, "a:1");
    h->nodes[0].state = REDIS_NODE_DOWN;
    h->config.managers = 1;
    h->config.strategy = REDIS_STRATEGY_SINGLE;
    assert_int_equal(redis_managers_saw(h->managers, &report, redis_link_now_ms()), 0);
    leader_watch_follow(h->watch, "m1", "n_0");
    while (fake.removals == 0) {
        uv_run(&h->loop, UV_RUN_ONCE);
    }
}

static void refuse_removal(struct hall *h)
{
    static const int passing[] = {CONCLAVE_NO_NODE, CONCLAVE_BAD_VERSION, CONCLAVE_CONNECTION_LOSS,
                                  CONCLAVE_SESSION_EXPIRED, CONCLAVE_EDISCONNECTED};
    leader_dies(h);
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++) {
        fake.on_removed(fake.removed_ctx, passing[i], "m1");
        leader_watch_look(h->watch);
        assert_int_equal(fake.removals, 2 + (int)i);
    }
    assert_int_equal(h->tells, 0);
    for (int i = 0; i < 3; i++) {
        fake.on_removed(fake.removed_ctx, CONCLAVE_NO_AUTH, "m1");
        leader_watch_look(h->watch);
    }
    assert_int_equal(h->tells, 1);
    assert_string_equal(h->told[0], "lead-not-removed");
    fake.on_removed(fake.removed_ctx, CONCLAVE_CONNECTION_LOSS, "m1");
    leader_watch_follow(h->watch, "m1", "n_0"); /* the same lead, acknowledged */
    while (fake.removals < 10) {
        uv_run(&h->loop, UV_RUN_ONCE);
    }
    fake.on_removed(fake.removed_ctx, CONCLAVE_NO_AUTH, "m1");
    assert_int_equal(h->tells, 1);
    leader_watch_look(h->watch);
    fake.on_removed(fake.removed_ctx, 0, "m1"); /* somebody has mended it */
    assert_int_equal(h->tells, 2);
    assert_string_equal(h->told[1], "lead-removed");
}

static void an_operator_learns_once_why_a_lead_cannot_be_removed(void **state)
{
    run(refuse_removal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(E110_a_leader_acts_after_a_confirmed_report),
        cmocka_unit_test(E190_a_report_of_an_earlier_life_proves_nothing),
        cmocka_unit_test(E190_a_report_counts_if_the_leaders_node_is_found_after_it),
        cmocka_unit_test(E110_a_leader_waits_once_its_reports_are_old),
        cmocka_unit_test(a_leader_that_may_not_act_is_told_once),
        cmocka_unit_test(an_operator_learns_once_why_a_lead_cannot_be_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
