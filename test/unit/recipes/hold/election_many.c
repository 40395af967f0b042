/*
 * A thousand candidates: what a departure costs, counted at the server. One watch event goes
 * out, to the one behind, which asks for the list and then watches the next before it (a
 * getData), or proves its lease when it is first (a multi, and another one for the
 * acknowledgement). Nobody else sends anything.
 */
#include "support/candidate.h"

enum { CLIENTS = 4, EACH = 250, LONG_MS = 20000 };

struct crowd {
    struct candidate lead; /* one client each, the others' neighbours */
    struct candidate c[CLIENTS][EACH];
};

static void join_all(struct fake_zk *zk, struct crowd *crowd)
{
    make_parent(zk);
    for (int i = 0; i < CLIENTS; i++) {
        for (int j = 0; j < EACH; j++) {
            struct candidate *c = &crowd->c[i][j];
            if (j == 0) {
                candidate_connect_to(c, zk, i == 3 ? 3 : 0, "c", NULL, LONG_MS);
            } else {
                candidate_share(c, &crowd->c[i][0], "c");
            }
            candidate_join(c);
            if (j % 50 == 0) { /* groups are together in the queue */
                EVENTUALLY(candidate_has_node(c));
            }
        }
        EVENTUALLY(fake_zk_child_count(zk, ELECTION_PATH) == (size_t)(i + 1) * EACH);
    }
}

/* All requests and events have been dealt with. */
static void settle(struct fake_zk *zk)
{
    size_t last = SIZE_MAX;
    for (int quiet = 0; quiet < 150;) { /* long enough for a machine that has other work, too */
        size_t now = fake_zk_count(zk, FAKE_ANY_ENDPOINT, FAKE_ANY_OP) -
                     fake_zk_count(zk, FAKE_ANY_ENDPOINT, WIRE_MULTI);
        quiet = now == last ? quiet + 1 : 0;
        last = now;
        sleep_ms(2);
    }
}

static size_t lists(struct fake_zk *zk)
{
    return fake_zk_count(zk, FAKE_ANY_ENDPOINT, WIRE_GET_CHILDREN2) +
           fake_zk_count(zk, FAKE_ANY_ENDPOINT, WIRE_GET_CHILDREN);
}

static void a_departure_wakes_one_of_a_thousand(void **state)
{
    struct fake_zk *zk = *state;
    struct crowd *crowd = calloc(1, sizeof *crowd);
    char name[256];
    char path[320];
    assert_non_null(crowd);
    join_all(zk, crowd);
    settle(zk);
    assert_int_equal(fake_zk_child_count(zk, ELECTION_PATH), CLIENTS * EACH);

    /* One in the middle, which is nobody of ours: it just goes. */
    (void)snprintf(path, sizeof path, "%s/ffff-n_%010d", ELECTION_PATH, CLIENTS * EACH);
    fake_zk_create(zk, path, "x", 0x99);
    struct candidate last;
    candidate_connect_to(&last, zk, 1, "last", NULL, LONG_MS);
    candidate_join(&last);
    candidate_settled(&last);
    settle(zk);
    fake_zk_count_reset(zk);
    fake_zk_delete(zk, path);
    EVENTUALLY(fake_zk_count(zk, 1, WIRE_GET_DATA) == 1);
    settle(zk);
    assert_int_equal(fake_zk_count_events(zk), 1);
    assert_int_equal(lists(zk), 1);
    assert_int_equal(fake_zk_count(zk, FAKE_ANY_ENDPOINT, WIRE_GET_DATA), 1);
    assert_int_equal(fake_zk_count(zk, FAKE_ANY_ENDPOINT, FAKE_ANY_OP) -
                         fake_zk_count(zk, FAKE_ANY_ENDPOINT, WIRE_MULTI),
                     2);

    /* The last client with all that are its own, at once: everybody else sleeps on. */
    fake_zk_count_reset(zk);
    assert_true(fake_zk_child(zk, ELECTION_PATH, 0, name));
    fake_zk_expire(zk, candidate_session(&last));
    settle(zk);
    assert_int_equal(fake_zk_count_events(zk), 0);
    assert_int_equal(lists(zk) - fake_zk_count(zk, 1, WIRE_GET_CHILDREN2) -
                         fake_zk_count(zk, 1, WIRE_GET_CHILDREN),
                     0);
    candidate_finish(&last);
    for (int i = 0; i < CLIENTS; i++) {
        conclave_client_close(crowd->c[i][0].client, 1000); /* one way to be rid of 250 */
        for (int j = 0; j < EACH; j++) {
            candidate_close_election(&crowd->c[i][j]);
        }
        conclave_recipes_destroy(crowd->c[i][0].recipes);
    }
    assert_int_equal(fake_zk_ephemerals(zk), 0);
    free(crowd);
}

static void a_handle_is_small(void **state)
{
    print_message("a handle: %zu bytes and its strings\n", sizeof(struct conclave_election));
    assert_true(sizeof(struct conclave_election) <= 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(a_departure_wakes_one_of_a_thousand),
        cmocka_unit_test(a_handle_is_small),
    };
    return RUN_TESTS(tests);
}
