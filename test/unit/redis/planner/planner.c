/* The machine that decides, with fake servers and managers: each promise of a fail-over by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_manager.inc"

static struct cluster *begin(int count, uint64_t seed)
{
    struct cluster *c = cluster_create(count, seed);
    c->world.trace = getenv("CONCLAVE_TRACE") != NULL;
    return c;
}

/* A master, its replicas, and fifty writes that all of them have. */
static struct cluster *ready(int count, uint64_t seed)
{
    struct cluster *c = begin(count, seed);
    assert_true(run_until_converged(c, 20000));
    for (int i = 0; i < 50; i++) {
        assert_true(client_write(c));
    }
    assert_true(run_until_converged(c, 20000));
    return c;
}

static int master_of(const struct cluster *c)
{
    return redis_config_find(&c->config, c->current.master);
}

static void ask(struct cluster *c, enum redis_request_kind kind, const char *target)
{
    memset(&c->request, 0, sizeof c->request);
    c->request.kind = kind;
    snprintf(c->request.name, sizeof c->request.name, "req-0000000001");
    snprintf(c->request.by, sizeof c->request.by, "tester");
    snprintf(c->request.target, sizeof c->request.target, "%s", target);
    c->request.timeout_ms = 2000;
    c->request_there = true;
    c->result_there = false;
}

static void hang(struct cluster *c, int server)
{
    c->world.servers[server].hung = true;
}

static void cut_off(struct cluster *c, int server, bool cut)
{
    for (int i = 0; i < c->world.count; i++) {
        c->world.cut[server][i] = c->world.cut[i][server] = cut && i != server;
    }
    for (int i = 0; i < MANAGERS; i++) {
        c->world.cut_manager[i][server] = cut;
    }
}

/* Whether the leader fails over when this number of managers cannot reach the master. */
static bool fails_over(enum redis_strategy strategy, int blind)
{
    struct cluster *c = ready(3, 3);
    c->config.strategy = strategy;
    c->config.unfenceable = REDIS_UNFENCEABLE_BLOCK;
    for (int i = 0; i < blind; i++) {
        c->world.cut_manager[(c->leader + i) % MANAGERS][0] = true;
    }
    run_for(c, 10000);
    bool began = c->plan_there || c->publications > 1;
    cluster_destroy(c);
    return began;
}

static void E108_the_strategy_says_how_many_managers_must_see_it_down(void **state)
{
    assert_false(fails_over(REDIS_STRATEGY_MAJORITY, 1));
    assert_true(fails_over(REDIS_STRATEGY_MAJORITY, 2));
    assert_false(fails_over(REDIS_STRATEGY_CONSENSUS, 2));
    assert_true(fails_over(REDIS_STRATEGY_CONSENSUS, 3));
    assert_true(fails_over(REDIS_STRATEGY_SINGLE, 1));
}

static void E109_one_manager_of_three_configured_decides_nothing(void **state)
{
    struct cluster *c = ready(3, 4);
    for (int i = 0; i < MANAGERS; i++) {
        c->managers[i].running = i == c->leader;
    }
    run_for(c, 5000);
    crash(&c->world, 0);
    run_for(c, 20000);
    assert_int_equal(c->publications, 1);
    assert_false(c->plan_there);
    assert_int_equal(c->current.state, REDIS_STATE_DEGRADED);
    c->managers[(c->leader + 1) % MANAGERS].running = true;
    run_for(c, 10000);
    assert_int_equal(c->publications, 2);
    cluster_destroy(c);
}

static void E112_a_manager_that_is_lost_at_any_step_is_succeeded(void **state)
{
    for (const char *const *step = redis_step_names(); *step != NULL; step++) {
        for (int when = FLIGHT_BEFORE; when <= FLIGHT_AFTER; when++) {
            struct cluster *c = ready(3, 7);
            c->stop_at = *step;
            c->stop_when = (enum flight)when;
            crash(&c->world, 0);
            run_for(c, 15000);
            assert_int_equal(c->publications, 2);
            assert_true(c->world.servers[1].master != c->world.servers[2].master);
            start(&c->world, 0, 50, false);
            assert_true(run_until_converged(c, 60000));
            assert_int_equal(c->publications, 2);
            cluster_destroy(c);
        }
    }
}

static int64_t diverged_bytes;

static void look_for_demotion(struct cluster *c, int server, const struct redis_command *command)
{
    const struct redis_action *action = &c->managers[c->acting].action;
    if (action->event != NULL && strcmp(action->event, "demoted") == 0) {
        diverged_bytes = action->event_bytes;
        for (size_t i = 0; i < c->current.replica_count; i++) {
            assert_string_not_equal(c->current.replicas[i], "127.0.0.1:7000");
        }
    }
}

static void E113_an_old_master_is_demoted_before_it_is_listed(void **state)
{
    struct cluster *c = ready(3, 5);
    struct server *old = &c->world.servers[0];
    c->methods = 2;
    c->config.min_replicas = 1;
    c->config.min_replicas_lag_s = 2;
    run_for(c, 60000); /* the settings are tried again now and then */
    lose_leader(c);
    run_for(c, 5000);
    assert_int_equal(c->current.lease_ms, 2000);
    cut_off(c, 0, true);
    for (int i = 0; i < 7; i++) {
        assert_true(old->offset < 60);
        old->log[old->offset++] = 1000 + (uint32_t)i; /* its clients are cut off with it */
    }
    run_for(c, 20000);
    assert_int_equal(c->publications, 2);
    assert_true(old->master);
    diverged_bytes = -1;
    c->on_command = look_for_demotion;
    cut_off(c, 0, false);
    assert_true(run_until_converged(c, 60000));
    assert_int_equal(diverged_bytes, 7);
    assert_int_equal(c->publications, 2);
    cluster_destroy(c);
}

static bool old_could_write;

static void look_at_old(struct cluster *c, const struct redis_current *before)
{
    if (c->current.epoch != before->epoch) {
        old_could_write = c->world.servers[0].master && (c->world.servers[0].min_replicas == 0 ||
                                                         good_replicas(&c->world, 0) > 0);
    }
}

static void E114_an_isolated_master_has_stopped_before_another_is_published(void **state)
{
    for (uint64_t seed = 1; seed < 20; seed++) {
        struct cluster *c = begin(3, seed);
        c->config.min_replicas = 1;
        c->config.min_replicas_lag_s = 3;
        assert_true(run_until_converged(c, 20000));
        run_for(c, 3000);
        assert_int_equal(c->current.lease_ms, 3000);
        old_could_write = true;
        c->on_current = look_at_old;
        cut_off(c, 0, true);
        run_for(c, 20000);
        assert_int_equal(c->publications, 2);
        assert_false(old_could_write);
        cluster_destroy(c);
    }
}

static void E114_without_a_lease_an_unreachable_master_blocks(void **state)
{
    struct cluster *c = ready(3, 6);
    cut_off(c, 0, true);
    run_for(c, 30000);
    assert_int_equal(c->publications, 1);
    assert_int_equal(c->current.state, REDIS_STATE_NEEDS_OPERATOR);
    ask(c, REDIS_REQUEST_FAILOVER, "");
    c->request.force = true;
    run_for(c, 5000);
    assert_int_equal(c->publications, 2);
    assert_true(c->result_there && c->result.ok);
    cluster_destroy(c);
}

static void E114_replicas_that_only_managers_reach_keep_the_lease_from_ending(void **state)
{
    struct cluster *c = begin(3, 6);
    c->config.min_replicas = 1;
    c->config.min_replicas_lag_s = 2;
    assert_true(run_until_converged(c, 20000));
    run_for(c, 3000);
    for (int i = 0; i < MANAGERS; i++) {
        c->world.cut_manager[i][0] = true; /* it lives, and its replicas are linked */
    }
    run_for(c, 30000);
    assert_int_equal(c->publications, 1);
    assert_true(server_writes(&c->world, 0));
    cluster_destroy(c);
}

static bool lease_runs_out(bool other_names, int listed)
{
    struct cluster *c = begin(3, 6);
    c->config.min_replicas = 1;
    c->config.min_replicas_lag_s = 2;
    c->world.other_names = other_names;
    c->world.servers[0].listed = listed;
    assert_true(run_until_converged(c, 20000));
    run_for(c, 3000);
    assert_int_equal(c->current.lease_ms, 2000);
    if (other_names) {
        for (int i = 0; i < MANAGERS; i++) {
            c->world.cut_manager[i][0] = true;
        }
    } else {
        cut_off(c, 0, true);
    }
    run_for(c, 30000);
    bool published = c->publications > 1;
    assert_true(published || !other_names || server_writes(&c->world, 0));
    cluster_destroy(c);
    return published;
}

static void E114_a_replica_of_an_unknown_name_may_be_the_old_masters(void **state)
{
    assert_false(lease_runs_out(true, 0));
}

static void E114_replicas_that_are_not_listed_keep_an_old_master_writable(void **state)
{
    assert_true(lease_runs_out(false, 2));
    assert_false(lease_runs_out(false, 3));
}

/* A plan with a target and a note that the old master has stopped, and nobody who carries it out for now. */
static struct cluster *with_note(const char *fenced)
{
    struct cluster *c = ready(3, 24);
    c->stop_at = "promote";
    c->stop_when = FLIGHT_BEFORE;
    if (strcmp(fenced, "method") == 0) {
        c->methods = 1;
        c->config.fence_methods = true;
        hang(c, 0);
    } else {
        crash(&c->world, 0);
    }
    for (int i = 0; i < 2000 && !c->stopped; i++) {
        cluster_tick(c);
    }
    assert_true(c->stopped);
    assert_string_equal(c->plan.fenced, fenced);
    return c;
}

static void E114_a_refused_connection_says_nothing_of_the_next_process(void **state)
{
    struct cluster *c = with_note("refused");
    c->elect_ms = c->world.now + 10000;
    start(&c->world, 0, 50, true);
    for (int i = 0; i < MANAGERS; i++) {
        c->world.cut_manager[i][0] = true;
    }
    run_for(c, 20000);
    assert_true(server_writes(&c->world, 0));
    assert_int_equal(c->publications, 1);
    assert_int_equal(c->current.state, REDIS_STATE_NEEDS_OPERATOR);
    cluster_destroy(c);
}

static void E114_a_note_is_taken_back_when_a_process_answers(void **state)
{
    static const char *const notes[] = {"refused", "method"};
    for (size_t i = 0; i < 4; i++) {
        struct cluster *c = with_note(notes[i % 2]);
        c->world.servers[0].loading = i / 2 != 0;
        cut_off(c, 0, true); /* from its replicas; managers reach it */
        memset(c->world.cut_manager, 0, sizeof c->world.cut_manager);
        start(&c->world, 0, 50, true);
        while (c->plan_there && c->plan.fenced[0] != '\0') {
            assert_int_equal(c->publications, 1);
            cluster_tick(c);
        }
        assert_int_equal(c->publications, 1);
        c->world.servers[0].loading = false;
        run_for(c, 5000);
        assert_int_equal(c->publications, 2);
        cut_off(c, 0, false);
        assert_true(run_until_converged(c, 60000));
        cluster_destroy(c);
    }
}

static void E115_an_empty_master_gives_its_nothing_to_nobody(void **state)
{
    for (uint64_t seed = 1; seed < 40; seed++) {
        struct cluster *c = ready(3, seed);
        c->world.sync_time_ms = 3000;
        crash(&c->world, 0);
        run_for(c, 10 * (int64_t)(seed % 20));
        start(&c->world, 0, 0, false);
        assert_true(run_until_converged(c, 60000));
        assert_int_not_equal(master_of(c), 0);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(c->world.servers[i].offset, 50);
        }
        cluster_destroy(c);
    }
}

static void E115_an_empty_master_waits_for_servers_that_are_away(void **state)
{
    struct cluster *c = ready(3, 9);
    for (int i = 0; i < 3; i++) {
        crash(&c->world, i);
    }
    start(&c->world, 0, 0, false);
    run_for(c, 20000);
    assert_false(server_writes(&c->world, 0));
    start(&c->world, 1, 50, true);
    start(&c->world, 2, 50, true);
    assert_true(run_until_converged(c, 60000));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c->world.servers[i].offset, 50);
    }
    cluster_destroy(c);
}

static void E115_a_master_that_kept_its_data_stays_master(void **state)
{
    struct cluster *c = ready(3, 9);
    uint32_t run = c->world.servers[0].run;
    crash(&c->world, 0);
    run_for(c, 50);
    start(&c->world, 0, 50, true);
    run_for(c, 3000);
    assert_true(run_until_converged(c, 60000));
    assert_int_equal(master_of(c), 0);
    char id[REDIS_ID_SIZE];
    id_text(id, c->world.servers[0].run);
    assert_int_not_equal(run, c->world.servers[0].run);
    assert_string_equal(c->current.run_id, id);
    assert_int_equal(c->publications, 1);
    cluster_destroy(c);
}

static void E116_a_candidate_that_dies_is_followed_by_the_next(void **state)
{
    static const char *const steps[] = {"promote", "publish", "repoint"};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        for (int when = FLIGHT_BEFORE; when <= FLIGHT_AFTER; when++) {
            struct cluster *c = ready(4, 11 + i);
            c->stop_at = steps[i];
            c->stop_when = (enum flight)when;
            crash(&c->world, 0);
            while (!c->stopped) {
                cluster_tick(c);
            }
            int target = redis_config_find(&c->config, c->plan.target);
            crash(&c->world, target);
            run_for(c, 20000);
            assert_int_not_equal(master_of(c), 0);
            assert_int_not_equal(master_of(c), target);
            assert_true(c->world.servers[master_of(c)].master);
            start(&c->world, 0, 50, false);
            start(&c->world, target, 50, true);
            assert_true(run_until_converged(c, 60000));
            assert_int_equal(c->world.servers[master_of(c)].offset, 50);
            cluster_destroy(c);
        }
    }
}

static void E117_without_a_candidate_current_stays_and_it_goes_on_trying(void **state)
{
    struct cluster *c = ready(3, 12);
    for (int i = 0; i < 3; i++) {
        crash(&c->world, i);
    }
    run_for(c, 20000);
    assert_int_equal(c->current.state, REDIS_STATE_NO_CANDIDATE);
    assert_string_equal(c->current.master, "127.0.0.1:7000");
    start(&c->world, 2, 50, true);
    run_for(c, 10000);
    assert_string_equal(c->current.master, "127.0.0.1:7002");
    cluster_destroy(c);
}

static void E118_a_hand_over_loses_nothing(void **state)
{
    for (uint64_t seed = 1; seed < 30; seed++) {
        struct cluster *c = ready(3, seed);
        ask(c, REDIS_REQUEST_FAILOVER, seed % 2 == 0 ? "127.0.0.1:7002" : "");
        int writes = 50;
        for (int i = 0; i < 1000; i++) {
            writes += client_write(c) ? 1 : 0;
            cluster_tick(c);
        }
        assert_true(c->result_there && c->result.ok);
        assert_int_not_equal(master_of(c), 0);
        assert_true(run_until_converged(c, 20000));
        assert_int_equal(c->world.servers[master_of(c)].offset, writes);
        assert_int_equal(c->current.failover_ms, 0); /* and does not count for the cooldown */
        cluster_destroy(c);
    }
}

static void E118_a_hand_over_is_carried_out_once_wherever_the_manager_stops(void **state)
{
    for (const char *const *step = redis_step_names(); *step != NULL; step++) {
        struct cluster *c = ready(3, 8);
        c->stop_at = *step;
        c->stop_when = FLIGHT_AFTER;
        ask(c, REDIS_REQUEST_FAILOVER, "127.0.0.1:7001");
        run_for(c, 15000);
        assert_true(run_until_converged(c, 20000));
        assert_string_equal(c->current.master, "127.0.0.1:7001");
        assert_int_equal(c->publications, 2);
        assert_true(c->result_there && c->result.ok);
        cluster_destroy(c);
    }
}

static void E118_what_cannot_be_is_refused_with_the_reason(void **state)
{
    struct cluster *c = ready(3, 13);
    ask(c, REDIS_REQUEST_FAILOVER, "elsewhere:6379");
    run_for(c, 1000);
    assert_true(c->result_there && !c->result.ok);
    assert_non_null(strstr(c->result.text, "is not one of the servers"));
    crash(&c->world, 2);
    run_for(c, 1000);
    ask(c, REDIS_REQUEST_FAILOVER, "127.0.0.1:7002");
    run_for(c, 1000);
    assert_true(c->result_there && !c->result.ok);
    ask(c, REDIS_REQUEST_FAILOVER, "127.0.0.1:7001");
    c->request.expires_ms = 1; /* long ago */
    run_for(c, 1000);
    assert_true(c->result_there && !c->result.ok);
    assert_non_null(strstr(c->result.text, "expired"));
    assert_string_equal(c->current.master, "127.0.0.1:7000");
    assert_int_equal(c->publications, 1);
    cluster_destroy(c);
}

/* The managers were started after the request, and the replica's first answer takes its time. */
static void E118_a_leader_asks_all_servers_before_it_refuses(void **state)
{
    struct cluster *c = ready(2, 13);
    ask(c, REDIS_REQUEST_FAILOVER, "");
    hang(c, 1);
    lose_leader(c);
    c->elect_ms = c->world.now;
    for (int i = 0; i < MANAGERS; i++) {
        manager_start(c, i);
    }
    run_for(c, c->config.op_timeout_ms / 2);
    assert_false(c->result_there);
    c->world.servers[1].hung = false;
    run_for(c, 5000);
    assert_true(c->result_there && c->result.ok);
    assert_string_equal(c->current.master, "127.0.0.1:7001");
    cluster_destroy(c);
}

static void E118_a_target_that_stands_still_leaves_all_as_it_was(void **state)
{
    struct cluster *c = ready(3, 14);
    hang(c, 1);
    ask(c, REDIS_REQUEST_FAILOVER, "127.0.0.1:7001");
    c->world.servers[0].log[c->world.servers[0].offset++] = 77; /* which it has not */
    run_for(c, 10000);
    assert_true(c->result_there && !c->result.ok);
    assert_string_equal(c->current.master, "127.0.0.1:7000");
    assert_true(server_writes(&c->world, 0));
    assert_false(c->plan_there);
    cluster_destroy(c);
}

static void E120_a_second_fail_over_within_the_cooldown_is_held(void **state)
{
    struct cluster *c = ready(3, 15);
    c->config.cooldown_ms = 60000;
    crash(&c->world, 0);
    run_for(c, 10000);
    assert_int_equal(c->publications, 2);
    assert_false(c->plan_there);
    crash(&c->world, master_of(c));
    run_for(c, 10000);
    assert_int_equal(c->publications, 2);
    lose_leader(c); /* a successor holds it as well */
    run_for(c, 10000);
    assert_int_equal(c->publications, 2);
    ask(c, REDIS_REQUEST_FAILOVER, "");
    run_for(c, 10000);
    assert_int_equal(c->publications, 3);
    cluster_destroy(c);
}

static void E120_it_is_done_when_the_cooldown_is_over(void **state)
{
    struct cluster *c = ready(3, 15);
    c->config.cooldown_ms = 30000;
    crash(&c->world, 0);
    run_for(c, 10000);
    crash(&c->world, master_of(c));
    run_for(c, 30000);
    assert_int_equal(c->publications, 3);
    cluster_destroy(c);
}

static void paused_nothing_is_done_by_itself(void **state)
{
    struct cluster *c = ready(3, 16);
    ask(c, REDIS_REQUEST_PAUSE, "");
    run_for(c, 1000);
    assert_true(c->result_there && c->result.ok);
    assert_int_equal(c->current.state, REDIS_STATE_PAUSED);
    crash(&c->world, 0);
    run_for(c, 10000);
    lose_leader(c);
    run_for(c, 10000);
    assert_int_equal(c->publications, 1);
    ask(c, REDIS_REQUEST_RESUME, "");
    run_for(c, 10000);
    assert_int_equal(c->publications, 2);
    cluster_destroy(c);
}

static void what_is_forgotten_is_listed_again_when_it_answers(void **state)
{
    struct cluster *c = ready(3, 17);
    crash(&c->world, 2);
    run_for(c, 10000);
    assert_int_equal(c->current.unavailable_count, 1);
    ask(c, REDIS_REQUEST_FORGET, "127.0.0.1:7002");
    run_for(c, 1000);
    assert_true(c->result_there && c->result.ok);
    lose_leader(c);
    run_for(c, 5000);
    assert_int_equal(c->current.unavailable_count, 0);
    assert_int_equal(c->current.state, REDIS_STATE_OK);
    start(&c->world, 2, 50, true);
    run_for(c, 10000);
    assert_true(converged(c));
    assert_int_equal(c->current.replica_count, 2);
    cluster_destroy(c);
}

static void a_cluster_of_empty_masters_begins_with_the_first(void **state)
{
    struct cluster *c = begin(3, 18);
    for (int i = 0; i < 3; i++) {
        c->world.servers[i].master = true;
    }
    assert_true(run_until_converged(c, 30000));
    assert_int_equal(master_of(c), 0);
    cluster_destroy(c);
}

static void two_masters_with_data_need_an_operator(void **state)
{
    struct cluster *c = begin(3, 19);
    for (int i = 1; i < 3; i++) {
        c->world.servers[i].master = true;
        c->world.servers[i].replid = ++c->world.next_id;
        c->world.servers[i].log[c->world.servers[i].offset++] = (uint32_t)i;
    }
    run_for(c, 10000);
    assert_int_equal(c->current.state, REDIS_STATE_NEEDS_OPERATOR);
    assert_string_equal(c->current.master, "");
    assert_true(c->world.servers[1].master && c->world.servers[2].master);
    c->world.servers[2].offset = 0; /* a person took it out */
    c->world.servers[2].master = false;
    c->world.servers[2].of = 1;
    crash(&c->world, 0);
    assert_false(run_until_converged(c, 20000));
    assert_int_equal(master_of(c), 1);
    cluster_destroy(c);
}

static void servers_that_all_boot_as_replicas_get_a_master(void **state)
{
    struct cluster *c = begin(3, 20);
    struct server *s = c->world.servers;
    s[0].master = false;
    s[0].of = 1;
    s[0].link_up = false;
    for (uint32_t i = 0; i < 9; i++) {
        s[0].log[s[0].offset++] = 100 + i;
    }
    for (int i = 1; i < 3; i++) {
        s[i].link_up = false;
        memcpy(s[i].log, s[0].log, sizeof s[0].log);
        s[i].offset = i * 4;
    }
    assert_true(run_until_converged(c, 30000));
    assert_int_equal(master_of(c), 0);
    assert_int_equal(s[2].offset, 9);
    cluster_destroy(c);
}

static void replicas_of_a_master_that_is_not_listed_are_left_alone(void **state)
{
    struct cluster *c = begin(3, 25);
    struct server *s = c->world.servers;
    c->config.node_count = 2;
    for (int i = 0; i < 3; i++) {
        s[i].master = i == 2;
        s[i].of = i == 2 ? -1 : 2;
        s[i].link_up = i != 2;
    }
    run_for(c, 10000);
    assert_int_equal(c->current.state, REDIS_STATE_NEEDS_OPERATOR);
    assert_int_equal(c->publications, 0);
    assert_true(!s[0].master && !s[1].master && server_writes(&c->world, 2));
    cluster_destroy(c);
}

static void a_published_master_that_is_taken_out_of_the_list_is_not_replaced(void **state)
{
    struct cluster *c = ready(3, 26);
    ask(c, REDIS_REQUEST_FAILOVER, "127.0.0.1:7002");
    run_for(c, 1000);
    assert_true(run_until_converged(c, 20000));
    assert_int_equal(master_of(c), 2);
    c->config.node_count = 2;
    cut_off(c, 2, true);
    link_drop(&c->world, 0);
    link_drop(&c->world, 1);
    lose_leader(c);
    run_for(c, 10000);
    assert_int_equal(c->publications, 2);
    assert_int_equal(c->current.state, REDIS_STATE_NEEDS_OPERATOR);
    ask(c, REDIS_REQUEST_FAILOVER, ""); /* requests are answered all the same */
    run_for(c, 1000);
    assert_true(c->result_there && !c->result.ok);
    ask(c, REDIS_REQUEST_PAUSE, "");
    run_for(c, 1000);
    assert_true(c->result_there && c->result.ok && c->current.paused);
    ask(c, REDIS_REQUEST_RESUME, "");
    run_for(c, 1000);
    replicaof_no_one(&c->world, 1); /* a person's decision */
    replicaof(&c->world, 0, 1);
    run_for(c, 10000);
    assert_string_equal(c->current.master, "127.0.0.1:7001");
    assert_int_equal(c->publications, 3);
    cluster_destroy(c);
}

static uint32_t saved_masters;
static uint32_t saved_replicas;

static void look_for_saving(struct cluster *c, int server, const struct redis_command *command)
{
    if (strcmp(command->argv[0], "CONFIG") == 0 && strcmp(command->argv[1], "REWRITE") == 0) {
        uint32_t *saved = c->world.servers[server].master ? &saved_masters : &saved_replicas;
        *saved |= 1U << server;
    }
}

static void what_a_server_has_become_is_written_into_its_file(void **state)
{
    struct cluster *c = ready(3, 27);
    saved_masters = saved_replicas = 0;
    c->on_command = look_for_saving;
    ask(c, REDIS_REQUEST_FAILOVER, "127.0.0.1:7001");
    run_for(c, 2000);
    assert_true(run_until_converged(c, 20000));
    assert_int_equal(saved_masters, 1U << 1);
    assert_int_not_equal(saved_replicas & 1U, 0);
    saved_replicas = 0;
    replicaof_no_one(&c->world, 2); /* a second master */
    run_for(c, 10000);
    assert_true(converged(c));
    assert_int_not_equal(saved_replicas & 1U << 2, 0);
    cluster_destroy(c);
}

static void settings_that_were_turned_off_give_no_lease(void **state)
{
    struct cluster *c = begin(3, 28);
    c->config.min_replicas = 1;
    c->config.min_replicas_lag_s = 2;
    assert_true(run_until_converged(c, 20000));
    run_for(c, 3000);
    assert_int_equal(c->current.lease_ms, 2000);
    c->world.servers[0].min_replicas = 0;
    run_for(c, 2500);
    assert_int_equal(c->current.lease_ms, 0);
    for (int i = 0; i < 1500 && c->world.servers[0].min_replicas == 0; i++) {
        cluster_tick(c); /* they are set again in time */
    }
    run_for(c, 2000);
    assert_int_equal(c->current.lease_ms, 2000);
    assert_int_equal(c->world.servers[0].min_replicas, 1);
    c->world.servers[0].min_replicas = 0;
    run_for(c, 2500);
    cut_off(c, 0, true);
    run_for(c, 30000);
    assert_int_equal(c->publications, 1);
    assert_int_equal(c->current.state, REDIS_STATE_NEEDS_OPERATOR);
    cluster_destroy(c);
}

static void a_name_that_leads_to_the_master_is_not_demoted(void **state)
{
    struct cluster *c = ready(3, 29);
    crash(&c->world, 2);
    run_for(c, 5000);
    saved_masters = saved_replicas = 0;
    c->on_command = look_for_saving;
    start(&c->world, 2, 50, true);
    c->world.servers[2].run =
        c->world.servers[0].run; /* the server that answers there is the master */
    c->world.servers[2].master = true;
    run_for(c, 10000);
    assert_true(c->world.servers[2].master);
    assert_int_equal(saved_replicas, 0);
    assert_int_equal(c->publications, 1);
    assert_int_equal(c->current.unavailable_count, 1);
    cluster_destroy(c);
}

static void a_plan_against_a_server_that_is_not_listed_any_more_ends(void **state)
{
    struct cluster *c = ready(3, 30);
    ask(c, REDIS_REQUEST_FAILOVER, "127.0.0.1:7002");
    run_for(c, 1000);
    assert_true(run_until_converged(c, 20000));
    cut_off(c, 2, true);
    run_for(c, 20000);
    assert_true(c->plan_there);
    c->config.node_count = 2;
    lose_leader(c);
    run_for(c, 10000);
    assert_false(c->plan_there);
    assert_int_equal(c->publications, 2);
    assert_int_equal(c->current.state, REDIS_STATE_NEEDS_OPERATOR);
    replicaof_no_one(&c->world, 1);
    replicaof(&c->world, 0, 1);
    run_for(c, 10000);
    assert_string_equal(c->current.master, "127.0.0.1:7001");
    cluster_destroy(c);
}

static void an_answer_that_cannot_be_written_holds_no_fail_over_up(void **state)
{
    struct cluster *c = ready(3, 31);
    c->no_results = true;
    ask(c, REDIS_REQUEST_FAILOVER, "elsewhere:6379");
    run_for(c, 2000);
    crash(&c->world, 0);
    run_for(c, 10000);
    assert_int_equal(c->publications, 2);
    c->no_results = false;
    run_for(c, 3000);
    assert_true(c->result_there && !c->result.ok);
    cluster_destroy(c);
}

static void what_an_operator_did_by_hand_is_taken_over(void **state)
{
    struct cluster *c = ready(3, 21);
    replicaof_no_one(&c->world, 1);
    replicaof(&c->world, 0, 1);
    run_for(c, 2000);
    assert_true(run_until_converged(c, 30000));
    assert_string_equal(c->current.master, "127.0.0.1:7001");
    cluster_destroy(c);
}

static void a_master_that_stands_still_is_killed_by_a_method(void **state)
{
    struct cluster *c = ready(3, 22);
    c->methods = 1;
    c->config.fence_methods = true;
    hang(c, 0);
    run_for(c, 15000);
    assert_int_equal(c->publications, 2);
    assert_false(c->world.servers[0].running);
    cluster_destroy(c);
}

static void the_same_situation_gives_the_same_action(void **state)
{
    struct cluster *c = ready(3, 23);
    crash(&c->world, 0);
    for (int i = 0; i < 600; i++) {
        cluster_tick(c);
        struct manager *m = &c->managers[c->leader];
        if (m->flight == FLIGHT_NONE) {
            static struct redis_action first;
            m->wait_ms = c->world.now + 1000;
            think(c, c->leader);
            first = m->action;
            m->flight = FLIGHT_NONE;
            think(c, c->leader);
            assert_int_equal(first.kind, m->action.kind);
            assert_string_equal(first.step, m->action.step);
            assert_string_equal(first.why, m->action.why);
            m->flight = m->action.kind == REDIS_ACTION_WAIT ? FLIGHT_NONE : FLIGHT_BEFORE;
        }
    }
    assert_int_equal(c->publications, 2);
    cluster_destroy(c);
}

/* Three servers by name, on one port, whose master knows its replicas by their addresses. Whom it is told to hand over to,
 * when the last one of them, at this address, is to become master. */
static void named_handover(const char *peer, struct redis_action *ret)
{
    static const char *const IPS[] = {"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"};
    const char *bad;
    struct redis_memory memory;
    struct redis_config config;
    struct redis_node nodes[3];
    struct redis_verdict verdicts[3] = {0};
    struct redis_current current = {
        .epoch = 1, .state = REDIS_STATE_FAILING_OVER, .master = "redis-a:6379"};
    struct redis_plan plan = {.id = "2-1",
                              .epoch = 2,
                              .step = REDIS_STEP_HANDOVER,
                              .reason = "manual",
                              .old = "redis-a:6379",
                              .target = "redis-c:6379",
                              .request = "req-0000000001"};
    struct redis_request request = {.name = "req-0000000001", .kind = REDIS_REQUEST_FAILOVER};
    struct redis_situation now = {.config = &config,
                                  .now_ms = 1000,
                                  .token = 1,
                                  .current = &current,
                                  .plan = &plan,
                                  .request = &request,
                                  .nodes = nodes,
                                  .verdicts = verdicts,
                                  .decidable = true,
                                  .known_offset = -1};
    redis_config_init(&config);
    assert_int_equal(redis_config_nodes(&config, "redis-a:6379,redis-b:6379,redis-c:6379", &bad),
                     0);
    for (int i = 0; i < 3; i++) {
        redis_node_init(&nodes[i]);
        nodes[i].state = REDIS_NODE_UP;
        nodes[i].probe = REDIS_PROBE_OK;
        nodes[i].probe_ms = nodes[i].answered_ms = nodes[i].facts_ms = now.now_ms;
        nodes[i].facts =
            (struct redis_facts){.role = i == 0 ? REDIS_ROLE_MASTER : REDIS_ROLE_REPLICA,
                                 .link_up = i != 0,
                                 .version = 70015};
        if (i > 0) {
            snprintf(nodes[0].facts.replicas[i - 1], REDIS_ADDRESS_SIZE, "%s", IPS[i]);
        }
    }
    nodes[0].facts.replica_count = 2;
    snprintf(nodes[2].peer, sizeof nodes[2].peer, "%s", peer);
    redis_memory_init(&memory);
    redis_steps_next(&now, &memory, ret);
}

static void test_a_master_is_told_the_address_that_it_knows(void **state)
{
    struct redis_action action;
    named_handover("10.0.0.3", &action);
    assert_int_equal(action.kind, REDIS_ACTION_COMMAND);
    assert_int_equal(action.node, 0);
    assert_int_equal(action.role, REDIS_ROLE_MASTER);
    assert_string_equal(action.u.commands.list[0].argv[0], "FAILOVER");
    assert_string_equal(action.u.commands.list[0].argv[2], "10.0.0.3");
    assert_string_equal(action.u.commands.list[0].argv[3], "6379");
    named_handover("10.0.0.2", &action);
    assert_string_equal(action.u.commands.list[0].argv[2], "10.0.0.2");
    named_handover("192.168.7.3", &action); /* behind a translation: which one is it? */
    assert_int_equal(action.kind, REDIS_ACTION_ANSWER);
    assert_false(action.u.answer.result.ok);
    assert_non_null(strstr(action.u.answer.result.text, "replica-announce-ip"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(E108_the_strategy_says_how_many_managers_must_see_it_down),
        cmocka_unit_test(E109_one_manager_of_three_configured_decides_nothing),
        cmocka_unit_test(E112_a_manager_that_is_lost_at_any_step_is_succeeded),
        cmocka_unit_test(E113_an_old_master_is_demoted_before_it_is_listed),
        cmocka_unit_test(E114_an_isolated_master_has_stopped_before_another_is_published),
        cmocka_unit_test(E114_without_a_lease_an_unreachable_master_blocks),
        cmocka_unit_test(E114_replicas_that_only_managers_reach_keep_the_lease_from_ending),
        cmocka_unit_test(E114_a_replica_of_an_unknown_name_may_be_the_old_masters),
        cmocka_unit_test(E114_replicas_that_are_not_listed_keep_an_old_master_writable),
        cmocka_unit_test(E114_a_refused_connection_says_nothing_of_the_next_process),
        cmocka_unit_test(E114_a_note_is_taken_back_when_a_process_answers),
        cmocka_unit_test(E115_an_empty_master_gives_its_nothing_to_nobody),
        cmocka_unit_test(E115_an_empty_master_waits_for_servers_that_are_away),
        cmocka_unit_test(E115_a_master_that_kept_its_data_stays_master),
        cmocka_unit_test(E116_a_candidate_that_dies_is_followed_by_the_next),
        cmocka_unit_test(E117_without_a_candidate_current_stays_and_it_goes_on_trying),
        cmocka_unit_test(test_a_master_is_told_the_address_that_it_knows),
        cmocka_unit_test(E118_a_hand_over_loses_nothing),
        cmocka_unit_test(E118_a_hand_over_is_carried_out_once_wherever_the_manager_stops),
        cmocka_unit_test(E118_what_cannot_be_is_refused_with_the_reason),
        cmocka_unit_test(E118_a_leader_asks_all_servers_before_it_refuses),
        cmocka_unit_test(E118_a_target_that_stands_still_leaves_all_as_it_was),
        cmocka_unit_test(E120_a_second_fail_over_within_the_cooldown_is_held),
        cmocka_unit_test(E120_it_is_done_when_the_cooldown_is_over),
        cmocka_unit_test(paused_nothing_is_done_by_itself),
        cmocka_unit_test(what_is_forgotten_is_listed_again_when_it_answers),
        cmocka_unit_test(a_cluster_of_empty_masters_begins_with_the_first),
        cmocka_unit_test(two_masters_with_data_need_an_operator),
        cmocka_unit_test(servers_that_all_boot_as_replicas_get_a_master),
        cmocka_unit_test(replicas_of_a_master_that_is_not_listed_are_left_alone),
        cmocka_unit_test(a_published_master_that_is_taken_out_of_the_list_is_not_replaced),
        cmocka_unit_test(what_a_server_has_become_is_written_into_its_file),
        cmocka_unit_test(settings_that_were_turned_off_give_no_lease),
        cmocka_unit_test(a_name_that_leads_to_the_master_is_not_demoted),
        cmocka_unit_test(a_plan_against_a_server_that_is_not_listed_any_more_ends),
        cmocka_unit_test(an_answer_that_cannot_be_written_holds_no_fail_over_up),
        cmocka_unit_test(what_an_operator_did_by_hand_is_taken_over),
        cmocka_unit_test(a_master_that_stands_still_is_killed_by_a_method),
        cmocka_unit_test(the_same_situation_gives_the_same_action),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
