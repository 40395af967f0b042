/* A lock's node: created once, found again, removed; the remains of an acquire. E01 to E20. */
#include "support/locker.h"

static void lose_first_server(struct fake_zk *zk, void *ctx)
{
    fake_zk_freeze_locked(zk, 1); /* as of before the creation */
    fake_zk_link_locked(zk, 0, FAKE_REFUSE);
}

static void reap_parent(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_locked(zk, LOCK_PATH);
}

static void call_at(struct fake_zk *zk, int32_t op, const char *path, int nth,
                    void (*fn)(struct fake_zk *zk, void *ctx))
{
    struct fake_hook h = {
        .endpoint = 0, .op = op, .path = path, .nth = nth, .action = FAKE_CALL, .fn = fn};
    fake_zk_hook(zk, &h);
}

static void make_lock_parent(struct fake_zk *zk)
{
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, LOCK_PATH, "", 0);
}

static void acquire(struct locker *l)
{
    struct conclave_token token;
    char node[256];
    assert_int_equal(conclave_lock_acquire(l->lock, PATIENCE_MS, &token), 0);
    assert_true(HELD(l));
    assert_true(locker_node(l, node, sizeof node));
    assert_int_equal(fake_zk_czxid(l->zk, node), token.czxid);
    assert_int_equal(fake_zk_owner(l->zk, node), locker_session(l));
    assert_int_equal(conclave_lock_token(l->lock).czxid, token.czxid);
}

static void E01_create_reply_lost_is_adopted(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    make_lock_parent(zk);
    hook(zk, 0, WIRE_CREATE, "-n_", 1, FAKE_DROP_REPLY);
    locker_open(&a, zk, 0, "a");
    acquire(&a);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 1);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE2), 1);
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 0);
    locker_finish(&a);
}

static void E01_a_refused_lookup_is_asked_again(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct fake_hook busy = {.endpoint = 0,
                             .op = WIRE_GET_CHILDREN2,
                             .nth = 1,
                             .action = FAKE_ERROR,
                             .error = CONCLAVE_THROTTLED};
    make_lock_parent(zk);
    hook(zk, 0, WIRE_CREATE, "-n_", 1, FAKE_DROP_REPLY);
    fake_zk_hook(zk, &busy);
    locker_open(&a, zk, 0, "a");
    acquire(&a);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 1); /* not a second node behind it */
    locker_finish(&a);
}

static void E02_lookup_syncs_with_a_lagging_server(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    char servers[128];
    make_lock_parent(zk);
    call_at(zk, WIRE_CREATE, "-n_", 1, lose_first_server);
    (void)snprintf(servers, sizeof servers, "%s,%s", fake_zk_address(zk, 0),
                   fake_zk_address(zk, 1));
    fake_zk_link(zk, 1, FAKE_REFUSE); /* so that it begins on the first one */
    locker_connect_to(&a, zk, 0, "a", servers, 5000);
    assert_int_equal(conclave_client_wait_connected(a.client, PATIENCE_MS), 0);
    fake_zk_link(zk, 1, FAKE_UP);
    locker_create(&a);
    acquire(&a);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 1);
    assert_true(fake_zk_count(zk, 1, WIRE_SYNC) >= 1);
    locker_finish(&a);
}

static void E03_create_that_never_arrived_is_retried_once(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    make_lock_parent(zk);
    hook(zk, 0, WIRE_CREATE, "-n_", 1, FAKE_CUT_BEFORE);
    locker_open(&a, zk, 0, "a");
    acquire(&a);
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 1);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE2), 2); /* the lost one, and one */
    locker_finish(&a);
}

/* An acquire ends with its session: it is for the caller to ask again. */
static void E05_session_that_ended_during_the_create_leaves_nothing(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    make_lock_parent(zk);
    hook(zk, 0, WIRE_CREATE, "-n_", 1, FAKE_EXPIRE_AFTER);
    locker_open(&a, zk, 0, "a");
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), CONCLAVE_SESSION_EXPIRED);
    assert_false(HELD(&a));
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 0);
    acquire(&a); /* in the new session, with another guid */
    locker_finish(&a);
}

static void E06_not_granted_before_the_node_of_the_last_session_is_gone(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    const char *old = LOCK_PATH "/0123456789abcdef0123456789abcdef-n_0000000000";
    make_lock_parent(zk);
    fake_zk_create(zk, old, "a", 0x99); /* this process's last life */
    locker_open(&a, zk, 0, "a");
    locker_ask(&a, CONCLAVE_FOREVER);
    locker_settled(&a);
    STAYS(!HELD(&a) && ANSWER(&a) == UNTOLD, 150);
    fake_zk_delete(zk, old);
    EVENTUALLY(ANSWER(&a) == 0);
    assert_true(HELD(&a));
    locker_finish(&a);
}

/* Clients that make the lock's node once, and not again if the servers take it away while it is empty. */
static void E08_parents_that_others_need_are_no_containers(void **state)
{
    static const enum conclave_naming namings[] = {CONCLAVE_NAMING_KAZOO, CONCLAVE_NAMING_PLAIN};
    struct fake_zk *zk = *state;
    for (size_t i = 0; i < sizeof namings / sizeof namings[0]; i++) {
        struct locker a;
        locker_connect(&a, zk, 0, "a");
        struct conclave_lock_options options = locker_options("a");
        options.naming = namings[i];
        locker_create_with(&a, &options);
        acquire(&a);
        assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE_CONTAINER), 0);
        locker_finish(&a);
        fake_zk_delete(zk, LOCK_PATH);
        fake_zk_delete(zk, "/app");
    }
}

static void E08_parents_are_made_as_containers_with_the_acl(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    char acl[256];
    char node[256];
    struct conclave_acl mine = {CONCLAVE_PERM_ALL, "ip", "127.0.0.1"};
    locker_connect(&a, zk, 0, "a");
    struct conclave_lock_options options = locker_options("a");
    options.acl = &mine;
    options.acl_count = 1;
    locker_create_with(&a, &options);
    acquire(&a);
    assert_true(fake_zk_count(zk, 0, WIRE_CREATE_CONTAINER) >= 2);
    assert_true(locker_node(&a, node, sizeof node));
    const char *const made[] = {"/app", LOCK_PATH, node};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        assert_true(fake_zk_acl(zk, made[i], acl));
        assert_string_equal(acl, "ip:127.0.0.1:31");
    }
    locker_finish(&a);
}

static void E09_parent_reaped_before_the_create_is_made_again(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    call_at(zk, WIRE_CREATE, "-n_", 2, reap_parent); /* the first one finds none, either */
    locker_open(&a, zk, 0, "a");
    acquire(&a);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    locker_finish(&a);
}

static void E10_foreign_children_are_ignored(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    static const char *const foreign[] = {
        "abc", "x-", "n_", "lock-foo", "Gr\xc3\xbc\xc3\x9f", "guid-n_12", "guid-__READ__x"};
    make_lock_parent(zk);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, LOCK_PATH "/%s", foreign[i]);
        fake_zk_create(zk, path, "", 0);
    }
    locker_open(&a, zk, 0, "a");
    acquire(&a);
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    assert_int_equal(conclave_lock_try(a.lock, NULL), 0);
    locker_finish(&a);
}

static void E12_numbers_that_wrap_keep_their_order(void **state)
{
    struct fake_zk *zk = *state;
    struct locker l[4];
    make_lock_parent(zk);
    fake_zk_set_sequence(zk, LOCK_PATH, 2147483646);
    for (int i = 0; i < 4; i++) {
        locker_open(&l[i], zk, i, "x");
        locker_ask(&l[i], CONCLAVE_FOREVER);
        locker_settled(&l[i]);
    }
    for (int i = 0; i < 4; i++) {
        EVENTUALLY(ANSWER(&l[i]) == 0);
        for (int j = i + 1; j < 4; j++) {
            assert_int_equal(ANSWER(&l[j]), UNTOLD);
        }
        locker_let_go(&l[i]);
    }
    for (int i = 0; i < 4; i++) {
        locker_finish(&l[i]);
    }
}

static void E13_equal_numbers_are_ordered_by_czxid(void **state)
{
    struct fake_zk *zk = *state;
    struct locker l[3];
    make_lock_parent(zk);
    fake_zk_set_sequence(zk, LOCK_PATH, 2147483647);
    fake_zk_stick_sequence(zk, true);
    for (int i = 0; i < 3; i++) {
        locker_open(&l[i], zk, i, "x");
        locker_ask(&l[i], CONCLAVE_FOREVER);
        locker_settled(&l[i]);
    }
    for (int i = 0; i < 3; i++) {
        EVENTUALLY(ANSWER(&l[i]) == 0);
        for (int j = i + 1; j < 3; j++) {
            assert_int_equal(ANSWER(&l[j]), UNTOLD);
        }
        locker_let_go(&l[i]);
    }
    for (int i = 0; i < 3; i++) {
        locker_finish(&l[i]);
    }
}

static void E15_delete_reply_lost_wakes_the_next_once(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    locker_open(&a, zk, 0, "a");
    locker_open(&b, zk, 1, "b");
    acquire(&a);
    locker_ask(&b, CONCLAVE_FOREVER);
    locker_settled(&b);
    hook(zk, 0, WIRE_DELETE, NULL, 1, FAKE_DROP_REPLY);
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    EVENTUALLY(ANSWER(&b) == 0);
    assert_int_equal(ANSWERS(&b), 1);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    locker_finish(&a);
    locker_finish(&b);
}

static void E16_release_without_a_link_is_told_later_and_ends_the_grant_at_once(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    locker_connect_to(&a, zk, 0, "a", NULL, 5000);
    assert_int_equal(conclave_client_wait_connected(a.client, PATIENCE_MS), 0);
    locker_create(&a);
    acquire(&a);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(locker_suspended(&a));
    assert_true(HELD(&a));
    assert_int_equal(conclave_lock_release(a.lock, 20), CONCLAVE_ETIMEDOUT);
    assert_false(HELD(&a));
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 1);
    fake_zk_link(zk, 0, FAKE_UP);
    all_gone(zk, LOCK_PATH);
    locker_finish(&a);
}

static void E17_late_deletion_does_not_hit_the_next_node(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    locker_open(&a, zk, 0, "a");
    acquire(&a);
    int64_t first = conclave_lock_token(a.lock).czxid;
    hook(zk, 0, WIRE_DELETE, NULL, 1, FAKE_CUT_BEFORE);
    hook(zk, 0, WIRE_DELETE, NULL, 1, FAKE_DROP_REPLY);
    assert_int_equal(conclave_lock_release_async(a.lock, 0, NULL, NULL), 0);
    acquire(&a);
    assert_true(conclave_lock_token(a.lock).czxid > first);
    EVENTUALLY(fake_zk_hooks_left(zk) == 0);
    EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == 1);
    STAYS(HELD(&a), 150);
    locker_finish(&a);
}

static void E18_refused_parent_is_told_once(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    make_lock_parent(zk);
    struct fake_hook h = {.endpoint = 0,
                          .op = WIRE_CREATE,
                          .path = "-n_",
                          .nth = 1,
                          .action = FAKE_ERROR,
                          .error = CONCLAVE_NO_AUTH};
    fake_zk_hook(zk, &h);
    locker_open(&a, zk, 0, "a");
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), CONCLAVE_NO_AUTH);
    size_t creates = fake_zk_count(zk, 0, WIRE_CREATE2);
    assert_int_equal(creates, 1);
    sleep_ms(300);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE2), creates);
    acquire(&a); /* and the handle is as good as before */
    locker_finish(&a);
}

static void E19_bad_options_are_refused(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    static const char *const bad[] = {"", "/", "relative", "/a//b", "/a/", "/a/../b"};
    locker_connect(&a, zk, 0, "a");
    struct conclave_lock *none = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct conclave_lock_options options = locker_options("a");
        options.path = bad[i];
        assert_int_equal(conclave_lock_open(a.recipes, &options, NULL, NULL, &none),
                         CONCLAVE_EINVAL);
    }
    struct conclave_lock_options options = locker_options("two\nlines");
    assert_int_equal(conclave_lock_open(a.recipes, &options, NULL, NULL, &none), CONCLAVE_EINVAL);
    options = locker_options("a");
    options.kind = CONCLAVE_LOCK_READ;
    options.naming = CONCLAVE_NAMING_CURATOR_LATCH;
    assert_int_equal(conclave_lock_open(a.recipes, &options, NULL, NULL, &none), CONCLAVE_EINVAL);
    options = locker_options("a");
    options.lease.grace_ms = LONG_SESSION_MS;
    assert_int_equal(conclave_lock_open(a.recipes, &options, NULL, NULL, &none), CONCLAVE_EINVAL);
    locker_finish(&a);
}

static void E20_try_of_a_held_lock_leaves_no_contender(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    locker_open(&a, zk, 0, "a");
    locker_open(&b, zk, 1, "b");
    acquire(&a);
    /* It looks first: a held lock costs no write. */
    size_t creates = fake_zk_count(zk, 1, WIRE_CREATE2);
    assert_int_equal(conclave_lock_try(b.lock, NULL), CONCLAVE_EBUSY);
    assert_int_equal(fake_zk_count(zk, 1, WIRE_CREATE2), creates);
    locker_finish(&a);
    locker_finish(&b);
}

static void put_before(struct fake_zk *zk, void *ctx)
{
    fake_zk_create_locked(zk, LOCK_PATH "/0123456789abcdef0123456789abcdef-n_-000000001", "", 0x99);
}

/* Somebody comes between the look and the node; then the link goes during the clean-up. */
static void E20_link_lost_while_a_try_cleans_up(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    make_lock_parent(zk);
    locker_open(&a, zk, 0, "a");
    call_at(zk, WIRE_CREATE, "-n_", 1, put_before);
    hook(zk, 0, WIRE_DELETE, NULL, 1, FAKE_CUT_BEFORE);
    assert_int_equal(conclave_lock_try(a.lock, NULL), CONCLAVE_EBUSY);
    EVENTUALLY(fake_zk_hooks_left(zk) == 0);
    EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == 1);
    locker_finish(&a);
}

static void try_without_a_link_does_not_wait(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    locker_connect_to(&a, zk, 0, "a", NULL, 5000);
    assert_int_equal(conclave_client_wait_connected(a.client, PATIENCE_MS), 0);
    locker_create(&a);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(locker_suspended(&a));
    assert_int_equal(conclave_lock_try(a.lock, NULL), CONCLAVE_EDISCONNECTED);
    fake_zk_link(zk, 0, FAKE_UP);
    locker_finish(&a);
}

/* Uncontended: one write and two reads to acquire, one write to release, no heartbeat. */
static void acquire_and_release_cost_what_they_must(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    locker_connect_to(&a, zk, 0, "a", NULL, 30000);
    assert_int_equal(conclave_client_wait_connected(a.client, PATIENCE_MS), 0);
    locker_create(&a);
    acquire(&a);
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    fake_zk_count_reset(zk);
    for (int i = 0; i < 10; i++) {
        acquire(&a);
        assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    }
    assert_int_equal(fake_zk_count(zk, 0, FAKE_ANY_OP), 40);
    locker_finish(&a);
}

/* --- names that are numbers alone ------------------------------------------------------------ */

static struct conclave_lock_options plain_options(const char *name)
{
    struct conclave_lock_options options = locker_options(name);
    options.naming = CONCLAVE_NAMING_PLAIN;
    return options;
}

static void E145_a_lost_reply_finds_the_own_number(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    struct conclave_contender **list;
    size_t count;
    char node[256];
    struct conclave_lock_options options = plain_options("a");
    make_lock_parent(zk);
    locker_connect(&a, zk, 0, "a");
    locker_create_with(&a, &options);
    acquire(&a);
    assert_true(locker_node(&a, node, sizeof node));
    assert_string_equal(node, LOCK_PATH "/0000000000");
    /* Of the same session: only the data tell them apart. */
    hook(zk, 0, WIRE_CREATE, LOCK_PATH "/", 1, FAKE_DROP_REPLY);
    options = plain_options("b");
    locker_share(&b, &a, "b");
    locker_create_with(&b, &options);
    locker_ask(&b, CONCLAVE_FOREVER);
    EVENTUALLY(fake_zk_hooks_left(zk) == 0);
    EVENTUALLY(locker_node(&b, node, sizeof node));
    assert_string_equal(node, LOCK_PATH "/0000000001");
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 2);
    assert_int_equal(conclave_lock_request_revoke(b.lock, PATIENCE_MS), CONCLAVE_EINVAL);
    assert_int_equal(conclave_lock_contenders(a.recipes, LOCK_PATH, PATIENCE_MS, &list, &count), 0);
    assert_int_equal(count, 2);
    assert_string_equal(list[0]->id, "a");
    assert_string_equal(list[1]->id, "b");
    conclave_contenders_free(list, count);
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    EVENTUALLY(ANSWER(&b) == 0);
    locker_let_go(&b);
    locker_finish(&b);
    locker_finish(&a);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

static void E145_numbers_of_others_are_before_it(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct conclave_lock_options options = plain_options("a");
    make_lock_parent(zk);
    fake_zk_create(zk, LOCK_PATH "/0000000000", "theirs", 0x99);
    locker_connect(&a, zk, 0, "a");
    options.kind = CONCLAVE_LOCK_READ;
    assert_int_equal(conclave_lock_open(a.recipes, &options, NULL, NULL, &a.lock), CONCLAVE_EINVAL);
    options.kind = CONCLAVE_LOCK_EXCLUSIVE;
    locker_create_with(&a, &options);
    hook(zk, 0, WIRE_CREATE, LOCK_PATH "/", 1,
         FAKE_CUT_BEFORE); /* none of these numbers is its own */
    locker_ask(&a, CONCLAVE_FOREVER);
    locker_settled(&a);
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 2);
    assert_int_equal(ANSWER(&a), UNTOLD);
    fake_zk_delete(zk, LOCK_PATH "/0000000000");
    EVENTUALLY(ANSWER(&a) == 0);
    locker_let_go(&a);
    locker_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E01_create_reply_lost_is_adopted),
        E_TEST(E145_a_lost_reply_finds_the_own_number),
        E_TEST(E145_numbers_of_others_are_before_it),
        E_TEST(E01_a_refused_lookup_is_asked_again),
        E_TEST(E02_lookup_syncs_with_a_lagging_server),
        E_TEST(E03_create_that_never_arrived_is_retried_once),
        E_TEST(E05_session_that_ended_during_the_create_leaves_nothing),
        E_TEST(E06_not_granted_before_the_node_of_the_last_session_is_gone),
        E_TEST(E08_parents_that_others_need_are_no_containers),
        E_TEST(E08_parents_are_made_as_containers_with_the_acl),
        E_TEST(E09_parent_reaped_before_the_create_is_made_again),
        E_TEST(E10_foreign_children_are_ignored),
        E_TEST(E12_numbers_that_wrap_keep_their_order),
        E_TEST(E13_equal_numbers_are_ordered_by_czxid),
        E_TEST(E15_delete_reply_lost_wakes_the_next_once),
        E_TEST(E16_release_without_a_link_is_told_later_and_ends_the_grant_at_once),
        E_TEST(E17_late_deletion_does_not_hit_the_next_node),
        E_TEST(E18_refused_parent_is_told_once),
        E_TEST(E19_bad_options_are_refused),
        E_TEST(E20_try_of_a_held_lock_leaves_no_contender),
        E_TEST(E20_link_lost_while_a_try_cleans_up),
        E_TEST(try_without_a_link_does_not_wait),
        E_TEST(acquire_and_release_cost_what_they_must),
    };
    return RUN_TESTS(tests);
}
