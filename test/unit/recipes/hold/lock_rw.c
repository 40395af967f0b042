/* Readers and writers: the order of waiters, downgrade, upgrade, names. E68 to E72. */
#include "support/locker.h"

#define READER CONCLAVE_LOCK_READ
#define WRITER CONCLAVE_LOCK_WRITE

static void ask(struct locker *l, struct fake_zk *zk, int endpoint, const char *name,
                enum conclave_lock_kind kind)
{
    locker_open_kind(l, zk, endpoint, name, kind);
    locker_ask(l, CONCLAVE_FOREVER);
    locker_settled(l);
}

static void hold(struct locker *l, struct fake_zk *zk, int endpoint, const char *name,
                 enum conclave_lock_kind kind)
{
    locker_open_kind(l, zk, endpoint, name, kind);
    assert_int_equal(conclave_lock_acquire(l->lock, PATIENCE_MS, NULL), 0);
}

static void readers_share_and_a_writer_waits_for_all(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    struct locker w;
    hold(&a, zk, 0, "a", READER);
    hold(&b, zk, 1, "b", READER);
    ask(&w, zk, 2, "w", WRITER);
    assert_true(HELD(&a) && HELD(&b));
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    STAYS(ANSWER(&w) == UNTOLD, 50);
    assert_int_equal(conclave_lock_release(b.lock, PATIENCE_MS), 0);
    EVENTUALLY(ANSWER(&w) == 0);
    assert_int_equal(conclave_lock_try(a.lock, NULL), CONCLAVE_EBUSY);
    locker_finish(&a);
    locker_finish(&b);
    locker_finish(&w);
}

static void E68_a_reader_waits_for_the_writer_before_it(void **state)
{
    struct fake_zk *zk = *state;
    struct locker r1;
    struct locker w2;
    struct locker r3;
    hold(&r1, zk, 0, "r1", READER);
    ask(&w2, zk, 1, "w2", WRITER);
    ask(&r3, zk, 2, "r3", READER);
    STAYS(ANSWER(&r3) == UNTOLD, 50);
    fake_zk_expire(zk, locker_session(&w2));
    EVENTUALLY(ANSWER(&r3) == 0);
    assert_true(HELD(&r1) && HELD(&r3));
    locker_finish(&r1);
    locker_finish(&w2);
    locker_finish(&r3);
}

static void E69_a_reader_waits_for_all_writers_before_it(void **state)
{
    struct fake_zk *zk = *state;
    struct locker w1;
    struct locker w2;
    struct locker r3;
    hold(&w1, zk, 0, "w1", WRITER);
    ask(&w2, zk, 1, "w2", WRITER);
    ask(&r3, zk, 2, "r3", READER);
    fake_zk_expire(zk, locker_session(&w2));
    EVENTUALLY(ANSWER(&w2) == CONCLAVE_SESSION_EXPIRED);
    STAYS(ANSWER(&r3) == UNTOLD, 100);
    assert_int_equal(conclave_lock_release(w1.lock, PATIENCE_MS), 0);
    EVENTUALLY(ANSWER(&r3) == 0);
    locker_finish(&w1);
    locker_finish(&w2);
    locker_finish(&r3);
}

/* What is the same after every downgrade; w holds, a writer and a reader wait behind it. */
static void downgraded(struct fake_zk *zk, struct locker *w, struct locker *next,
                       struct locker *reader, int64_t token)
{
    char node[256];
    assert_true(HELD(w));
    assert_int_equal(conclave_lock_token(w->lock).czxid, token);
    STAYS(ANSWER(next) == UNTOLD && !HELD(next), 100);
    assert_int_equal(ANSWER(reader), UNTOLD); /* behind the writer that waits */
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 3);
    assert_true(locker_node(w, node, sizeof node));
    assert_non_null(strstr(node, "-__READ__0000000000"));
    assert_int_equal(fake_zk_owner(zk, node), locker_session(w));
    assert_int_equal(LOST(w), 0);
    assert_int_equal(conclave_lock_release(w->lock, PATIENCE_MS), 0);
    EVENTUALLY(ANSWER(next) == 0);
    assert_true(next->token > token);
    locker_let_go(next);
    EVENTUALLY(ANSWER(reader) == 0);
    locker_finish(w);
    locker_finish(next);
    locker_finish(reader);
    all_gone(zk, LOCK_PATH);
}

static void E70_downgrade_keeps_the_writers_out(void **state)
{
    struct fake_zk *zk = *state;
    struct locker w;
    struct locker next;
    struct locker reader;
    hold(&w, zk, 0, "w", WRITER);
    int64_t token = conclave_lock_token(w.lock).czxid;
    ask(&next, zk, 1, "next", WRITER);
    ask(&reader, zk, 2, "reader", READER);
    assert_int_equal(conclave_lock_downgrade(w.lock, PATIENCE_MS), 0);
    sleep_ms(EXPIRY_SESSION_MS); /* heartbeats go to the new node */
    downgraded(zk, &w, &next, &reader, token);
}

static void E70_downgrade_lets_the_readers_in(void **state)
{
    struct fake_zk *zk = *state;
    struct locker w;
    struct locker reader;
    hold(&w, zk, 0, "w", WRITER);
    ask(&reader, zk, 2, "reader", READER);
    assert_int_equal(conclave_lock_downgrade(w.lock, PATIENCE_MS), 0);
    EVENTUALLY(ANSWER(&reader) == 0);
    assert_true(HELD(&w));
    assert_int_equal(conclave_lock_downgrade(w.lock, PATIENCE_MS), CONCLAVE_EINVAL);
    locker_finish(&w);
    locker_finish(&reader);
}

static void downgrade_with(struct fake_zk *zk, enum fake_action action)
{
    struct locker w;
    struct locker next;
    struct locker reader;
    locker_connect_to(&w, zk, 0, "w", NULL, 5000);
    assert_int_equal(conclave_client_wait_connected(w.client, PATIENCE_MS), 0);
    struct conclave_lock_options options = locker_options("w");
    options.kind = WRITER;
    locker_create_with(&w, &options);
    assert_int_equal(conclave_lock_acquire(w.lock, PATIENCE_MS, NULL), 0);
    int64_t token = conclave_lock_token(w.lock).czxid;
    ask(&next, zk, 1, "next", WRITER);
    ask(&reader, zk, 2, "reader", READER);
    hook(zk, 0, WIRE_MULTI, "-__READ__0000000000", 1, action);
    assert_int_equal(conclave_lock_downgrade(w.lock, PATIENCE_MS), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    downgraded(zk, &w, &next, &reader, token);
}

static void E70_downgrade_whose_answer_is_lost(void **state)
{
    downgrade_with(*state, FAKE_DROP_REPLY);
}

static void E70_downgrade_that_never_arrived(void **state)
{
    downgrade_with(*state, FAKE_CUT_BEFORE);
}

static void downgrade_of_a_node_that_was_deleted(void **state)
{
    struct fake_zk *zk = *state;
    struct locker w;
    char node[256];
    hold(&w, zk, 0, "w", WRITER);
    assert_true(locker_node(&w, node, sizeof node));
    fake_zk_delete(zk, node);
    assert_int_equal(conclave_lock_downgrade(w.lock, PATIENCE_MS), CONCLAVE_ELOST);
    EVENTUALLY(LOST(&w) == 1);
    all_gone(zk, LOCK_PATH);
    locker_finish(&w);
}

/* Numbers do not show the order any more: the downgraded one keeps its place. */
static void E70_downgraded_keeps_its_place_when_czxids_order(void **state)
{
    struct fake_zk *zk = *state;
    struct locker w;
    struct locker next;
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, LOCK_PATH, "", 0);
    fake_zk_set_sequence(zk, LOCK_PATH, 2147483647);
    fake_zk_stick_sequence(zk, true);
    hold(&w, zk, 0, "w", WRITER);
    ask(&next, zk, 1, "next", WRITER);
    assert_int_equal(conclave_lock_downgrade(w.lock, PATIENCE_MS), 0);
    STAYS(ANSWER(&next) == UNTOLD, 150);
    assert_int_equal(conclave_lock_release(w.lock, PATIENCE_MS), 0);
    EVENTUALLY(ANSWER(&next) == 0);
    locker_finish(&w);
    locker_finish(&next);
}

static void E71_a_sole_reader_becomes_a_writer(void **state)
{
    struct fake_zk *zk = *state;
    struct locker r;
    struct locker w;
    hold(&r, zk, 0, "r", READER);
    int64_t token = conclave_lock_token(r.lock).czxid;
    assert_int_equal(conclave_lock_try_upgrade(r.lock, PATIENCE_MS), 0);
    assert_true(HELD(&r));
    assert_true(conclave_lock_token(r.lock).czxid > token);
    EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == 1);
    locker_open_kind(&w, zk, 1, "w", READER);
    assert_int_equal(conclave_lock_try(w.lock, NULL), CONCLAVE_EBUSY);
    sleep_ms(EXPIRY_SESSION_MS);
    assert_true(HELD(&r));
    assert_int_equal(conclave_lock_downgrade(r.lock, PATIENCE_MS), 0);
    assert_int_equal(conclave_lock_try(w.lock, NULL), 0);
    locker_finish(&r);
    locker_finish(&w);
    all_gone(zk, LOCK_PATH);
}

static void *upgrade_in_thread(void *arg)
{
    struct locker *l = arg;
    intptr_t error = conclave_lock_acquire(l->lock, PATIENCE_MS, NULL);
    (void)__atomic_add_fetch(&l->inside_error, 1, __ATOMIC_SEQ_CST);
    while (error == 0 && __atomic_load_n(&l->inside_error, __ATOMIC_SEQ_CST) < 2) {
        sleep_ms(1);
    }
    return (void *)(error != 0 ? error : (intptr_t)conclave_lock_try_upgrade(l->lock, PATIENCE_MS));
}

static void E71_of_two_readers_at_most_one_becomes_a_writer(void **state)
{
    struct fake_zk *zk = *state;
    for (int round = 0; round < 10; round++) {
        struct locker r[2];
        pthread_t threads[2];
        void *results[2];
        for (int i = 0; i < 2; i++) {
            locker_open_kind(&r[i], zk, i, "r", READER);
            assert_int_equal(pthread_create(&threads[i], NULL, upgrade_in_thread, &r[i]), 0);
        }
        EVENTUALLY(HELD(&r[0]) && HELD(&r[1]));
        for (int i = 0; i < 2; i++) {
            (void)__atomic_add_fetch(&r[i].inside_error, 1, __ATOMIC_SEQ_CST);
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_join(threads[i], &results[i]), 0);
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal((intptr_t)results[i], CONCLAVE_EBUSY); /* the other still reads */
            assert_true(HELD(&r[i]));
        }
        EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == 2);
        locker_finish(&r[0]);
        locker_finish(&r[1]);
        all_gone(zk, LOCK_PATH);
    }
}

static void E71_upgrade_does_not_pass_a_writer_that_waits(void **state)
{
    struct fake_zk *zk = *state;
    struct locker r;
    struct locker w;
    hold(&r, zk, 0, "r", READER);
    ask(&w, zk, 1, "w", WRITER);
    assert_int_equal(conclave_lock_try_upgrade(r.lock, PATIENCE_MS), CONCLAVE_EBUSY);
    assert_true(HELD(&r));
    assert_int_equal(conclave_lock_release(r.lock, PATIENCE_MS), 0);
    EVENTUALLY(ANSWER(&w) == 0);
    assert_int_equal(conclave_lock_try_upgrade(w.lock, PATIENCE_MS), CONCLAVE_ENOTOWNER);
    locker_finish(&r);
    locker_finish(&w);
}

static void upgrade_survives_a_lost_link(void **state)
{
    struct fake_zk *zk = *state;
    struct locker r;
    locker_connect_to(&r, zk, 0, "r", NULL, 5000);
    assert_int_equal(conclave_client_wait_connected(r.client, PATIENCE_MS), 0);
    struct conclave_lock_options options = locker_options("r");
    options.kind = READER;
    locker_create_with(&r, &options);
    assert_int_equal(conclave_lock_acquire(r.lock, PATIENCE_MS, NULL), 0);
    hook(zk, 0, WIRE_CREATE, "-__WRIT__", 1, FAKE_DROP_REPLY);
    assert_int_equal(conclave_lock_try_upgrade(r.lock, PATIENCE_MS), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == 1);
    assert_true(HELD(&r));
    locker_finish(&r);
    all_gone(zk, LOCK_PATH);
}

static void E72_a_writer_behind_many_readers(void **state)
{
    enum { MANY = 50 };
    struct fake_zk *zk = *state;
    static struct locker r[MANY];
    struct locker w;
    locker_connect_to(&r[0], zk, 0, "r", NULL, 30000);
    assert_int_equal(conclave_client_wait_connected(r[0].client, PATIENCE_MS), 0);
    for (int i = 0; i < MANY; i++) {
        struct conclave_lock_options options = locker_options("r");
        options.kind = READER;
        if (i > 0) {
            locker_share(&r[i], &r[0], "r");
        }
        locker_create_with(&r[i], &options);
        assert_int_equal(conclave_lock_acquire(r[i].lock, PATIENCE_MS, NULL), 0);
    }
    locker_connect_to(&w, zk, 1, "w", NULL, 30000);
    assert_int_equal(conclave_client_wait_connected(w.client, PATIENCE_MS), 0);
    struct conclave_lock_options options = locker_options("w");
    options.kind = WRITER;
    locker_create_with(&w, &options);
    locker_ask(&w, CONCLAVE_FOREVER);
    locker_settled(&w);
    fake_zk_count_reset(zk);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(ANSWER(&w), UNTOLD);
        assert_int_equal(conclave_lock_release(r[i].lock, PATIENCE_MS), 0);
    }
    EVENTUALLY(ANSWER(&w) == 0);
    /* It waited for the last one: the others left without waking it. */
    assert_true(fake_zk_count(zk, 1, FAKE_ANY_OP) <= 5);
    for (int i = MANY - 1; i >= 0; i--) {
        locker_finish(&r[i]);
    }
    locker_finish(&w);
}

static void E72_readers_leave_from_the_last_on(void **state)
{
    enum { MANY = 10 };
    struct fake_zk *zk = *state;
    static struct locker r[MANY];
    struct locker w;
    hold(&r[0], zk, 0, "r", READER);
    for (int i = 1; i < MANY; i++) {
        struct conclave_lock_options options = locker_options("r");
        options.kind = READER;
        locker_share(&r[i], &r[0], "r");
        locker_create_with(&r[i], &options);
        assert_int_equal(conclave_lock_acquire(r[i].lock, PATIENCE_MS, NULL), 0);
    }
    ask(&w, zk, 1, "w", WRITER);
    for (int i = MANY - 1; i >= 0; i--) {
        assert_int_equal(ANSWER(&w), UNTOLD);
        assert_int_equal(conclave_lock_release(r[i].lock, PATIENCE_MS), 0);
    }
    EVENTUALLY(ANSWER(&w) == 0);
    for (int i = MANY - 1; i >= 0; i--) {
        locker_finish(&r[i]);
    }
    locker_finish(&w);
}

/* Names as other clients read and write them. */
static void names_of_every_naming(void **state)
{
    struct fake_zk *zk = *state;
    static const struct {
        enum conclave_naming naming;
        enum conclave_lock_kind kind;
        const char *part;
    } rows[] = {
        {CONCLAVE_NAMING_NATIVE, CONCLAVE_LOCK_EXCLUSIVE, "-n_00"},
        {CONCLAVE_NAMING_NATIVE, READER, "-__READ__00"},
        {CONCLAVE_NAMING_NATIVE, WRITER, "-__WRIT__00"},
        {CONCLAVE_NAMING_CURATOR_LOCK, CONCLAVE_LOCK_EXCLUSIVE, "-lock-00"},
        {CONCLAVE_NAMING_CURATOR_LOCK, READER, "-__READ__00"},
        {CONCLAVE_NAMING_CURATOR_LOCK, WRITER, "-__WRIT__00"},
        {CONCLAVE_NAMING_KAZOO, CONCLAVE_LOCK_EXCLUSIVE, "__lock__00"},
        {CONCLAVE_NAMING_KAZOO, READER, "__rlock__00"},
        {CONCLAVE_NAMING_KAZOO, WRITER, "__lock__00"},
    };
    struct locker l;
    locker_connect(&l, zk, 0, "l");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char node[256];
        struct locker x;
        struct conclave_lock_options options = locker_options("l");
        options.naming = rows[i].naming;
        options.kind = rows[i].kind;
        locker_share(&x, &l, "l");
        locker_create_with(&x, &options);
        assert_int_equal(conclave_lock_acquire(x.lock, PATIENCE_MS, NULL), 0);
        assert_true(locker_node(&x, node, sizeof node));
        assert_non_null(strstr(node, rows[i].part));
        bool curator = rows[i].naming == CONCLAVE_NAMING_CURATOR_LOCK;
        assert_int_equal(strncmp(node, LOCK_PATH "/_c_", strlen(LOCK_PATH) + 4) == 0, curator);
        locker_finish(&x);
    }
    locker_finish(&l);
}

/* A mutex on a path of readers and writers is a writer among them. */
static void a_mutex_and_readers_exclude_each_other(void **state)
{
    struct fake_zk *zk = *state;
    struct locker m;
    struct locker r;
    locker_open(&m, zk, 0, "m");
    locker_open_kind(&r, zk, 1, "r", READER);
    assert_int_equal(conclave_lock_acquire(m.lock, PATIENCE_MS, NULL), 0);
    assert_int_equal(conclave_lock_try(r.lock, NULL), CONCLAVE_EBUSY);
    assert_int_equal(conclave_lock_release(m.lock, PATIENCE_MS), 0);
    assert_int_equal(conclave_lock_try(r.lock, NULL), 0);
    assert_int_equal(conclave_lock_try(m.lock, NULL), CONCLAVE_EBUSY);
    locker_finish(&m);
    locker_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(readers_share_and_a_writer_waits_for_all),
        E_TEST(E68_a_reader_waits_for_the_writer_before_it),
        E_TEST(E69_a_reader_waits_for_all_writers_before_it),
        EXPIRY_TEST(E70_downgrade_keeps_the_writers_out),
        E_TEST(E70_downgrade_lets_the_readers_in),
        E_TEST(E70_downgrade_whose_answer_is_lost),
        E_TEST(E70_downgrade_that_never_arrived),
        E_TEST(E70_downgraded_keeps_its_place_when_czxids_order),
        E_TEST(downgrade_of_a_node_that_was_deleted),
        EXPIRY_TEST(E71_a_sole_reader_becomes_a_writer),
        E_TEST(E71_of_two_readers_at_most_one_becomes_a_writer),
        E_TEST(E71_upgrade_does_not_pass_a_writer_that_waits),
        E_TEST(upgrade_survives_a_lost_link),
        E_TEST(E72_a_writer_behind_many_readers),
        E_TEST(E72_readers_leave_from_the_last_on),
        E_TEST(names_of_every_naming),
        E_TEST(a_mutex_and_readers_exclude_each_other),
    };
    return RUN_TESTS(tests);
}
