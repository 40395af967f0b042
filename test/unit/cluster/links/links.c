/* Links between servers in one process: up and down, frames, members, identities, all at once. */
#include "support/peer_node.h"

#include "base/clock.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct replica one, two, three;
static struct replica *const all[] = {&one, &two, &three};
static struct replica *const pair[] = {&one, &two};

static int set_up(void **state)
{
    for (size_t i = 0; i < 3; i++) {
        node_init(all[i], i + 1);
    }
    return 0;
}

static int tear_down(void **state)
{
    for (size_t i = 0; i < 3; i++) {
        node_finish(all[i]);
    }
    return 0;
}

static void start(struct replica *const nodes[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        node_start(nodes[i]);
    }
    nodes_introduce(nodes, n);
}

static bool all_linked(void *ctx)
{
    return nodes_linked(all, 3);
}

static bool pair_linked(void *ctx)
{
    return nodes_linked(pair, 2);
}

static bool pair_apart(void *ctx)
{
    return !one.links[2] && !two.links[1];
}

static bool one_down(void *ctx)
{
    return !one.links[2];
}

static bool one_has_refused(void *ctx)
{
    return one.refusals > 0;
}

static bool pair_refuse(void *ctx)
{
    return one.refusals > 0 && two.refusals > 0;
}

static bool one_and_three_refuse(void *ctx)
{
    return one.refusals > 0 && three.refusals > 0;
}

static bool one_and_three_linked(void *ctx)
{
    return one.links[2] && three.links[1];
}

static int64_t now_ms(void)
{
    return clock_monotonic_ms(clock_system());
}

static void link_pair(void)
{
    start(pair, 2);
    assert_true(nodes_run(pair, 2, LIMIT_MS, pair_linked, NULL));
}

static bool has_frames(void *ctx)
{
    return two.frames == *(uint64_t *)ctx;
}

/* Frames */

static void three_link_and_frames_arrive_in_order(void **state)
{
    start(all, 3);
    assert_true(nodes_run(all, 3, LIMIT_MS, all_linked, NULL));
    for (uint64_t k = 0; k < 1000; k++) {
        for (size_t i = 0; i < 3; i++) {
            for (size_t j = 0; j < 3; j++) {
                assert_true(i == j || node_send(all[i], j + 1, 8 + k) == 0);
            }
        }
    }
    uint64_t wanted = 2000;
    assert_true(nodes_run(all, 3, LIMIT_MS, has_frames, &wanted));
    struct peer_stats stats[3];
    assert_int_equal(peers_stats(one.peers, stats, 3), 2);
    assert_int_equal(stats[0].id, 2);
    assert_int_equal(stats[1].id, 3);
    assert_true(stats[0].linked && stats[0].connected && stats[0].accepted);
    assert_int_equal(stats[0].frames_sent, 1000);
    assert_int_equal(stats[0].links, 1);
    assert_int_equal(stats[0].dropped, 0);
    assert_null(stats[0].problem);
    assert_int_equal(one.refusals + two.refusals + three.refusals, 0);
}

static void send_at_once(struct replica *n, uint64_t id, bool up)
{
    if (up) {
        assert_int_equal(node_send(n, id, 8), 0);
    }
}

static bool both_have_one(void *ctx)
{
    return one.frames > 0 && two.frames > 0;
}

/* The other side may not know yet that the link is up. */
static void what_is_sent_at_once_is_not_lost(void **state)
{
    one.on_link = two.on_link = send_at_once;
    start(pair, 2);
    assert_true(nodes_run(pair, 2, LIMIT_MS, both_have_one, NULL));
    /* In each order: who is introduced last is known to the other before. */
    for (unsigned i = 0; i < 20; i++) {
        struct replica *last = i % 2 == 0 ? &one : &two;
        node_stop(last);
        assert_true(nodes_run(pair, 2, LIMIT_MS, pair_apart, NULL));
        one.frames = two.frames = 0;
        node_start(last);
        nodes_run(pair, 2, (int)(i % 5), NULL, NULL);
        nodes_introduce(pair, 2);
        assert_true(nodes_run(pair, 2, LIMIT_MS, both_have_one, NULL));
    }
}

static void nothing_is_sent_without_a_link(void **state)
{
    node_start(&one);
    assert_int_equal(node_send(&one, 2, 8), CONCLAVE_EDISCONNECTED);
    struct peer_member member = {2, &two.address, 1};
    assert_int_equal(peers_set_members(one.peers, &member, 1), 0);
    assert_int_equal(node_send(&one, 2, 8), CONCLAVE_EDISCONNECTED);
    struct peer_stats stats;
    assert_int_equal(peers_stats(one.peers, &stats, 1), 1);
    assert_int_equal(stats.dropped, 1);
}

static void largest_frame_passes_and_no_larger_one(void **state)
{
    link_pair();
    assert_int_equal(node_send(&one, 2, (size_t)PEER_FRAME_MAX + 1), CONCLAVE_ETOOBIG);
    assert_int_equal(node_send(&one, 2, PEER_FRAME_MAX), 0);
    assert_int_equal(node_send(&one, 2, 8), CONCLAVE_EBUSY);
    uint64_t wanted = 1;
    assert_true(nodes_run(pair, 2, LIMIT_MS, has_frames, &wanted));
    assert_int_equal(two.bytes, PEER_FRAME_MAX);
    assert_int_equal(node_send(&one, 2, 8), 0);
    wanted = 2;
    assert_true(nodes_run(pair, 2, LIMIT_MS, has_frames, &wanted));
    assert_int_equal(two.ups[1], 1);
}

/* A peer that does not read: the queue ends, what was taken arrives. */
static void queue_is_bounded(void **state)
{
    struct replica *const alone[] = {&one};
    link_pair();
    enum { SIZE = 1 << 20 };
    uint64_t taken = 0;
    while (taken < 200 && node_send(&one, 2, SIZE) == 0) {
        taken++;
        nodes_run(alone, 1, 2, NULL, NULL);
    }
    assert_true(taken >= PEER_QUEUE_MAX / SIZE);
    assert_true(taken < 100); /* the queue, and what the kernel keeps */
    struct peer_stats stats;
    (void)peers_stats(one.peers, &stats, 1);
    assert_true(stats.queued >= PEER_QUEUE_MAX && stats.queued < PEER_QUEUE_MAX + 2 * SIZE);
    assert_int_equal(stats.dropped, 1);
    assert_true(nodes_run(pair, 2, LIMIT_MS, has_frames, &taken));
    (void)peers_stats(one.peers, &stats, 1);
    assert_int_equal(stats.queued, 0);
    assert_int_equal(node_send(&one, 2, 8), 0);
}

/* Ends */

static void end_is_told_at_once_and_the_link_comes_back(void **state)
{
    link_pair();
    for (unsigned i = 0; i < 5; i++) {
        node_stop(&two);
        int64_t before = now_ms();
        assert_true(nodes_run(&pair[0], 1, LIMIT_MS, one_down, NULL));
        assert_true(now_ms() - before < LIMIT_MS / 2); /* not by silence */
        assert_int_equal(node_send(&one, 2, 8), CONCLAVE_EDISCONNECTED);
        nodes_run(&pair[0], 1, 100, NULL, NULL);
        node_start(&two);
        nodes_introduce(pair, 2);
        assert_true(nodes_run(pair, 2, LIMIT_MS, pair_linked, NULL));
    }
    assert_int_equal(one.ups[2], 6);
}

static void silence_ends_a_link(void **state)
{
    one.options.silence_ms = two.options.silence_ms = 2000;
    link_pair();
    nodes_run(pair, 2, 3000, NULL, NULL); /* idle, but alive */
    assert_int_equal(one.ups[2], 1);
    assert_int_equal(two.ups[1], 1);
    int64_t before = now_ms(); /* two is stopped */
    assert_true(nodes_run(&pair[0], 1, LIMIT_MS, one_down, NULL));
    int64_t took = now_ms() - before;
    assert_true(took >= 1000);
    assert_true(nodes_run(pair, 2, LIMIT_MS, pair_linked, NULL));
    assert_int_equal(one.ups[2], 2);
}

/* Who was stopped itself does not take the others for dead. */
static void own_silence_is_not_theirs(void **state)
{
    one.options.silence_ms = 300;
    link_pair();
    struct timespec pause = {.tv_nsec = 600 * 1000000};
    nanosleep(&pause, NULL);
    nodes_run(pair, 2, 100, NULL, NULL);
    assert_int_equal(one.ups[2], 1);
    assert_true(one.links[2]);
}

/* Members and newcomers */

static bool newcomer_is_known(void *ctx)
{
    return one.hellos[2] > 0 && two.hellos[1] > 0;
}

static void newcomer_is_heard_of_and_linked_once_a_member(void **state)
{
    struct peer_member to_one = {1, &one.address, 1};
    node_start(&one);
    node_start(&two);
    to_one.hosts = &one.address;
    assert_int_equal(peers_set_members(two.peers, &to_one, 1), 0);
    assert_true(nodes_run(pair, 2, LIMIT_MS, newcomer_is_known, NULL));
    nodes_run(pair, 2, 1000, NULL, NULL);
    assert_int_equal(one.who[2].age, PEER_FRESH);
    assert_int_equal(one.ups[2] + two.ups[1], 0);
    assert_int_equal(one.refusals + two.refusals, 0);
    struct peer_stats stats;
    assert_int_equal(peers_stats(one.peers, &stats, 1), 0);
    nodes_introduce(pair, 2);
    assert_true(nodes_run(pair, 2, LIMIT_MS, pair_linked, NULL));
}

static void member_that_is_removed_is_let_go(void **state)
{
    start(all, 3);
    assert_true(nodes_run(all, 3, LIMIT_MS, all_linked, NULL));
    struct peer_member to_three = {3, &three.address, 1};
    assert_int_equal(peers_set_members(one.peers, &to_three, 1), 0);
    assert_true(one.links[2]); /* reported from the loop, not from within */
    assert_true(nodes_run(all, 3, LIMIT_MS, pair_apart, NULL));
    assert_true(one.links[3] && three.links[1] && two.links[3]);
    assert_int_equal(node_send(&one, 2, 8), CONCLAVE_EDISCONNECTED);
    nodes_introduce(all, 3);
    assert_true(nodes_run(all, 3, LIMIT_MS, all_linked, NULL));
    assert_int_equal(one.ups[3], 1);
}

static void bad_members_change_nothing(void **state)
{
    link_pair();
    struct peer_member twice[] = {{2, &two.address, 1}, {3, &two.address, 1}, {3, &two.address, 1}};
    struct peer_member none[] = {{3, NULL, 0}};
    assert_int_equal(peers_set_members(one.peers, twice, 3), CONCLAVE_EINVAL);
    assert_int_equal(peers_set_members(one.peers, none, 1), CONCLAVE_EINVAL);
    nodes_run(pair, 2, 100, NULL, NULL);
    struct peer_stats stats[3];
    assert_int_equal(peers_stats(one.peers, stats, 3), 1);
    assert_true(one.links[2]);
    assert_int_equal(one.ups[2], 1);
}

/* The first address answers nobody, the second is a name with several addresses. */
static void addresses_are_tried_in_turn(void **state)
{
    struct net_address hosts[] = {{.host = "127.0.0.1", .port = 1}, {.host = "localhost"}};
    node_start(&one);
    node_start(&two);
    nodes_introduce(pair, 2);
    hosts[1].port = two.address.port;
    struct peer_member member = {2, hosts, 2};
    assert_int_equal(peers_set_members(one.peers, &member, 1), 0);
    assert_true(nodes_run(pair, 2, LIMIT_MS, pair_linked, NULL));
}

/* Identities */

static const struct peer_identity founded = {.id = 1, .cluster = {7}, .age = PEER_FOUNDED};

static bool two_knows_that_one_is_founded(void *ctx)
{
    return two.who[1].age == PEER_FOUNDED && two.who[1].cluster[0] == 7;
}

static void new_identity_is_told_on_the_link(void **state)
{
    link_pair();
    unsigned before = two.hellos[1];
    peers_set_identity(one.peers, &founded);
    assert_true(nodes_run(pair, 2, LIMIT_MS, two_knows_that_one_is_founded, NULL));
    peers_set_identity(one.peers, &founded); /* nothing new, nothing reported */
    nodes_run(pair, 2, 100, NULL, NULL);
    assert_int_equal(two.hellos[1], before + 1);
    assert_int_equal(one.ups[2], 1);
    assert_int_equal(two.ups[1], 1);
}

static void another_cluster_is_told_of_and_refused(void **state)
{
    struct peer_identity other = {.id = 2, .cluster = {8}, .age = PEER_GROWN};
    one.options.identity = founded;
    two.options.identity = other;
    start(pair, 2);
    assert_true(nodes_run(pair, 2, LIMIT_MS, newcomer_is_known, NULL));
    assert_true(nodes_run(pair, 2, LIMIT_MS, one_has_refused, NULL));
    nodes_run(pair, 2, 1500, NULL, NULL);
    assert_int_equal(one.who[2].cluster[0], 8);
    assert_int_equal(one.ups[2] + two.ups[1], 0);
    assert_non_null(strstr(one.refused, "another cluster"));
    assert_true(one.refusals <= 4); /* a minute holds each reason once per address */
    assert_true(peers_refused(one.peers) >= 1);
    /* The younger gives in. */
    other.id = 1;
    peers_set_identity(one.peers, &other);
    assert_true(nodes_run(pair, 2, LIMIT_MS, pair_linked, NULL));
    /* And one that turns away is let go. */
    other.cluster[0] = 9;
    peers_set_identity(one.peers, &other);
    assert_true(nodes_run(pair, 2, LIMIT_MS, pair_apart, NULL));
    nodes_run(pair, 2, 1500, NULL, NULL);
    assert_int_equal(one.ups[2], 1);
}

/* Two servers with the same id: the first stays, until it is gone. */
static void id_that_is_taken_is_refused(void **state)
{
    link_pair();
    node_finish(&three);
    node_init(&three, 2);
    node_start(&three);
    struct peer_member to_one = {1, &one.address, 1};
    assert_int_equal(peers_set_members(three.peers, &to_one, 1), 0);
    assert_true(nodes_run(all, 3, LIMIT_MS, one_and_three_refuse, NULL));
    assert_non_null(strstr(one.refused, "another server with that id"));
    assert_non_null(strstr(three.refused, "it refused this server: another server with that id"));
    assert_int_equal(one.ups[2], 1);
    assert_int_equal(two.ups[1], 1);
    node_stop(&two);
    two.address = three.address;
    three.hellos[1] = 0;
    nodes_introduce(pair, 1);
    struct peer_member to_three = {2, &three.address, 1};
    assert_int_equal(peers_set_members(one.peers, &to_three, 1), 0);
    assert_true(nodes_run(all, 3, LIMIT_MS, one_and_three_linked, NULL));
    nodes_run(all, 3, 500, NULL, NULL);
    assert_int_equal(one.ups[2], 2);
    assert_true(one.links[2] && three.links[1]);
}

static void own_id_and_wrong_id_are_refused(void **state)
{
    node_finish(&two);
    node_init(&two, 1);
    node_start(&one);
    node_start(&two);
    /* Each takes the other for server 3. */
    struct peer_member wrong = {3, &two.address, 1};
    assert_int_equal(peers_set_members(one.peers, &wrong, 1), 0);
    assert_true(nodes_run(pair, 2, LIMIT_MS, pair_refuse, NULL));
    assert_non_null(strstr(two.refused, "wants another server"));
    assert_non_null(strstr(one.refused, "it refused this server: it wants another server"));
    assert_int_equal(one.hellos[1] + two.hellos[1], 0);
}

/* Everything at once */

static void close_all(struct replica *n, uint64_t from, uint8_t channel, struct slice bytes)
{
    assert_int_equal(peers_set_members(n->peers, NULL, 0), 0);
}

static void callee_may_end_the_link_it_hears_from(void **state)
{
    two.on_message = close_all;
    link_pair();
    for (uint64_t k = 0; k < 100; k++) {
        assert_int_equal(node_send(&one, 2, 100), 0);
    }
    assert_true(nodes_run(pair, 2, LIMIT_MS, pair_apart, NULL));
    assert_int_equal(two.frames, 1);
}

/* Servers come and go at any moment, all connect at once; frames flow. In the end all are linked. */
static void storm(void **state)
{
    struct prng prng = {.state = 12345};
    start(all, 3);
    for (int round = 0; round < 150; round++) {
        struct replica *n = all[prng_next(&prng) % 3];
        if (n->peers != NULL) {
            node_stop(n);
        } else {
            node_start(n);
            nodes_introduce(all, 3);
        }
        nodes_run(all, 3, (int)(prng_next(&prng) % 12), NULL, NULL);
        for (size_t i = 0; i < 3; i++) {
            for (size_t j = 0; j < 3 && all[i]->peers != NULL; j++) {
                int rc = i == j ? 0 : node_send(all[i], j + 1, 1);
                assert_true(rc == 0 || rc == CONCLAVE_EDISCONNECTED);
            }
        }
    }
    for (size_t i = 0; i < 3; i++) {
        if (all[i]->peers == NULL) {
            node_start(all[i]);
        }
    }
    nodes_introduce(all, 3);
    assert_true(nodes_run(all, 3, LIMIT_MS, all_linked, NULL));
    unsigned before = one.ups[2] + one.ups[3] + two.ups[3];
    nodes_run(all, 3, 1000, NULL, NULL);
    assert_int_equal(one.ups[2] + one.ups[3] + two.ups[3], before);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(three_link_and_frames_arrive_in_order),
        CASE(what_is_sent_at_once_is_not_lost),
        CASE(nothing_is_sent_without_a_link),
        CASE(largest_frame_passes_and_no_larger_one),
        CASE(queue_is_bounded),
        CASE(end_is_told_at_once_and_the_link_comes_back),
        CASE(silence_ends_a_link),
        CASE(own_silence_is_not_theirs),
        CASE(newcomer_is_heard_of_and_linked_once_a_member),
        CASE(member_that_is_removed_is_let_go),
        CASE(bad_members_change_nothing),
        CASE(addresses_are_tried_in_turn),
        CASE(new_identity_is_told_on_the_link),
        CASE(another_cluster_is_told_of_and_refused),
        CASE(id_that_is_taken_is_refused),
        CASE(own_id_and_wrong_id_are_refused),
        CASE(callee_may_end_the_link_it_hears_from),
        CASE(storm),
    };
    return cmocka_run_group_tests_name("peer/links", tests, NULL, NULL);
}
