/* The set partitioner: one member has all, two have a half each, never one item twice. E18, E26, E35, E59, E61, E64. */
#include "support/candidate.h"

#include <conclave/partitioner.h>

#include <sys/wait.h>

#define SET "/app/set"

enum { SETTLE_MS = 20 };

static const char *const items[] = {"d", "a", "c", "b"};

struct taker {
    struct candidate c; /* client and recipes; no election */
    struct conclave_partitioner *partitioner;
    pthread_mutex_t lock; /* guards what follows */
    char has[64];         /* its items, "-" for none, "" before on_acquired and after on_release */
    int releases;
    int why;
    size_t nodes; /* ephemeral ones in the last on_release */
    int closed;
    int closed_why;
    int after_end;
    bool holds_on;      /* it does not release by itself */
    _Atomic bool delay; /* on_acquired waits until this is false */
};

static void on_acquired(struct conclave_partitioner *partitioner, const char *const *list,
                        size_t count, void *ctx)
{
    struct taker *t = ctx;
    while (t->delay) {
        sleep_ms(1);
    }
    (void)pthread_mutex_lock(&t->lock);
    t->after_end += t->closed;
    (void)strcpy(t->has, count == 0 ? "-" : "");
    for (size_t i = 0; i < count; i++) {
        (void)strcat(t->has, list[i]);
    }
    (void)pthread_mutex_unlock(&t->lock);
}

static void on_release(struct conclave_partitioner *partitioner, int why, int64_t stop_within_ms,
                       void *ctx)
{
    struct taker *t = ctx;
    (void)pthread_mutex_lock(&t->lock);
    t->after_end += t->closed;
    t->has[0] = '\0';
    t->releases++;
    t->why = why;
    t->nodes = fake_zk_ephemerals(t->c.zk);
    bool release = !t->holds_on;
    (void)pthread_mutex_unlock(&t->lock);
    if (release) {
        int error = conclave_partitioner_release(partitioner);
        assert_true(error == 0 || error == CONCLAVE_ECLOSED);
        assert_int_equal(conclave_partitioner_wait(partitioner, 10), CONCLAVE_EDEADLK);
    }
}

static void on_closed(struct conclave_partitioner *partitioner, int why, void *ctx)
{
    struct taker *t = ctx;
    (void)pthread_mutex_lock(&t->lock);
    t->closed++;
    t->closed_why = why;
    (void)pthread_mutex_unlock(&t->lock);
}

static bool has(struct taker *t, const char *text)
{
    (void)pthread_mutex_lock(&t->lock);
    bool same = strcmp(t->has, text) == 0;
    (void)pthread_mutex_unlock(&t->lock);
    return same;
}

static int taker_get(struct taker *t, const int *field)
{
    (void)pthread_mutex_lock(&t->lock);
    int value = *field;
    (void)pthread_mutex_unlock(&t->lock);
    return value;
}

static struct conclave_partitioner_options options_of(const char *id)
{
    struct conclave_partitioner_options options = CONCLAVE_PARTITIONER_OPTIONS_INIT;
    options.path = SET;
    options.items = items;
    options.items_count = sizeof items / sizeof items[0];
    options.id = id;
    options.settle_ms = SETTLE_MS;
    return options;
}

static void taker_connect_for(struct taker *t, struct fake_zk *zk, int endpoint, int64_t session_ms)
{
    memset(t, 0, sizeof *t);
    (void)pthread_mutex_init(&t->lock, NULL);
    candidate_connect_to(&t->c, zk, endpoint, "taker", NULL, session_ms);
}

static void taker_connect(struct taker *t, struct fake_zk *zk, int endpoint)
{
    taker_connect_for(t, zk, endpoint, usual_session_ms);
}

static void taker_open(struct taker *t, const struct conclave_partitioner_options *options)
{
    struct conclave_partitioner_callbacks callbacks = CONCLAVE_PARTITIONER_CALLBACKS_INIT;
    callbacks.on_acquired = on_acquired;
    callbacks.on_release = on_release;
    callbacks.on_closed = on_closed;
    assert_int_equal(
        conclave_partitioner_open(t->c.recipes, options, &callbacks, t, &t->partitioner), 0);
}

static void taker_join(struct taker *t, struct fake_zk *zk, int endpoint, const char *id)
{
    struct conclave_partitioner_options options = options_of(id);
    taker_connect(t, zk, endpoint);
    taker_open(t, &options);
}

/* In a session that does not end by itself. */
static void taker_join_for_long(struct taker *t, struct fake_zk *zk, int endpoint, const char *id)
{
    struct conclave_partitioner_options options = options_of(id);
    taker_connect_for(t, zk, endpoint, PATIENCE_MS);
    taker_open(t, &options);
}

static void taker_finish(struct taker *t)
{
    assert_int_equal(conclave_partitioner_close_wait(t->partitioner, PATIENCE_MS), 0);
    assert_int_equal(t->closed, 1);
    conclave_partitioner_destroy(t->partitioner);
    candidate_finish(&t->c);
    assert_int_equal(t->after_end, 0);
    (void)pthread_mutex_destroy(&t->lock);
}

static void set_is_divided_as_kazoo_does(void **state)
{
    struct fake_zk *zk = *state;
    struct taker a;
    struct taker b;
    char name[256];
    taker_join(&a, zk, 0, "a");
    EVENTUALLY(has(&a, "abcd"));
    assert_int_equal(conclave_partitioner_state(a.partitioner), CONCLAVE_PARTITION_ACQUIRED);
    assert_true(fake_zk_child(zk, SET "/party", 0, name));
    assert_int_equal(strlen(name), 34);
    assert_string_equal(name + 32, "-a");
    assert_int_equal(fake_zk_child_count(zk, SET "/locks"), 4);
    assert_true(fake_zk_child(zk, SET "/locks/a", 0, name));
    assert_string_equal(name + 32, "__lock__0000000000");
    taker_join(&b, zk, 1, "b");
    EVENTUALLY(has(&a, "ac") && has(&b, "bd"));
    assert_int_equal(a.why, 0);
    taker_finish(&a);
    EVENTUALLY(has(&b, "abcd"));
    taker_finish(&b);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

static void others_wait_until_the_items_are_released(void **state)
{
    struct fake_zk *zk = *state;
    struct taker a;
    struct taker b;
    taker_join(&a, zk, 0, "a");
    EVENTUALLY(has(&a, "abcd"));
    a.holds_on = true;
    taker_join(&b, zk, 1, "b");
    EVENTUALLY(taker_get(&a, &a.releases) == 1);
    STAYS(has(&b, ""), 10 * SETTLE_MS);
    assert_int_equal(conclave_partitioner_state(a.partitioner), CONCLAVE_PARTITION_RELEASE);
    assert_int_equal(conclave_partitioner_wait(b.partitioner, 0), CONCLAVE_ETIMEDOUT);
    assert_int_equal(conclave_partitioner_release(b.partitioner), CONCLAVE_ENOTOWNER);
    assert_int_equal(conclave_partitioner_release(a.partitioner), 0);
    assert_int_equal(conclave_partitioner_wait(a.partitioner, PATIENCE_MS), 0);
    assert_int_equal(conclave_partitioner_wait(b.partitioner, PATIENCE_MS), 0);
    EVENTUALLY(has(&a, "ac") && has(&b, "bd"));
    a.holds_on = false;
    taker_finish(&b);
    EVENTUALLY(has(&a, "abcd"));
    assert_int_equal(conclave_partitioner_release(a.partitioner), 0); /* by its own wish */
    assert_int_equal(conclave_partitioner_wait(a.partitioner, PATIENCE_MS), 0);
    taker_finish(&a);
}

static void more_members_than_items(void **state)
{
    struct fake_zk *zk = *state;
    struct taker t[3];
    static const char *const names[] = {"a", "b", "c"};
    static const char *const one[] = {"only"};
    for (int i = 0; i < 3; i++) {
        struct conclave_partitioner_options options = options_of(names[i]);
        options.items = one;
        options.items_count = 1;
        taker_connect(&t[i], zk, i);
        taker_open(&t[i], &options);
    }
    EVENTUALLY(has(&t[0], "only") && has(&t[1], "-") && has(&t[2], "-"));
    taker_finish(&t[0]);
    EVENTUALLY(has(&t[1], "only") && has(&t[2], "-"));
    taker_finish(&t[1]);
    taker_finish(&t[2]);
}

static void last_takes_all(struct conclave_partitioner *partitioner, const char *self,
                           const char *const *members, size_t members_count,
                           const char *const *list, size_t count, bool *ret_mine, void *ctx)
{
    for (size_t i = 0; i < count; i++) {
        ret_mine[i] = strcmp(self, members[members_count - 1]) == 0 && strcmp(list[i], "b") != 0;
    }
}

static void program_divides(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_partitioner_callbacks callbacks = CONCLAVE_PARTITIONER_CALLBACKS_INIT;
    struct conclave_partitioner_options options = options_of("a");
    struct taker t;
    callbacks.on_acquired = on_acquired;
    callbacks.on_closed = on_closed;
    callbacks.partition = last_takes_all;
    taker_connect(&t, zk, 0);
    assert_int_equal(
        conclave_partitioner_open(t.c.recipes, &options, &callbacks, &t, &t.partitioner), 0);
    EVENTUALLY(has(&t, "acd"));
    taker_finish(&t);
}

static void E26_lost_session_and_deleted_lock_are_told(void **state)
{
    struct fake_zk *zk = *state;
    struct taker a;
    char path[512];
    char name[256];
    taker_join_for_long(&a, zk, 0, "a");
    EVENTUALLY(has(&a, "abcd"));
    fake_zk_expire(zk, 0);
    EVENTUALLY(taker_get(&a, &a.releases) >= 1);
    EVENTUALLY(has(&a, "abcd"));
    int releases = taker_get(&a, &a.releases);
    assert_int_equal(releases, 1); /* nothing was acquired by a party of the lost session */
    assert_true(fake_zk_child(zk, SET "/locks/c", 0, name));
    (void)snprintf(path, sizeof path, SET "/locks/c/%s", name);
    fake_zk_delete(zk, path);
    EVENTUALLY(taker_get(&a, &a.releases) > releases);
    assert_int_not_equal(taker_get(&a, &a.why), 0);
    EVENTUALLY(has(&a, "abcd"));
    taker_finish(&a);
}

/* The party changed, and the program has time; then the session ends, and it has none. */
static void E26_a_loss_during_a_release_is_told(void **state)
{
    struct fake_zk *zk = *state;
    struct taker a;
    struct taker b;
    taker_join_for_long(&a, zk, 0, "a");
    EVENTUALLY(has(&a, "abcd"));
    a.holds_on = true;
    taker_join_for_long(&b, zk, 1, "b");
    EVENTUALLY(taker_get(&a, &a.releases) == 1);
    assert_int_equal(taker_get(&a, &a.why), 0);
    fake_zk_expire(zk, candidate_session(&a.c));
    EVENTUALLY(taker_get(&a, &a.releases) == 2);
    assert_int_equal(taker_get(&a, &a.why), CONCLAVE_SESSION_EXPIRED);
    EVENTUALLY(has(&b, "abcd") || has(&b, "bd"));    /* as long as a's new node is not there yet */
    assert_int_equal(taker_get(&a, &a.releases), 2); /* once for all locks */
    a.holds_on = false;
    assert_int_equal(conclave_partitioner_release(a.partitioner), 0);
    EVENTUALLY(has(&a, "ac") && has(&b, "bd"));
    taker_finish(&a);
    taker_finish(&b);
}

/* It ends by itself, while the program works on the items: the program is told before the locks are given up. */
static void E18_an_end_takes_the_items_away_in_order(void **state)
{
    struct fake_zk *zk = *state;
    struct taker a;
    struct fake_hook h = {.op = WIRE_GET_DATA,
                          .path = "/party",
                          .nth = 1,
                          .action = FAKE_ERROR,
                          .error = CONCLAVE_NO_AUTH};
    taker_join_for_long(&a, zk, 0, "a");
    EVENTUALLY(has(&a, "abcd"));
    fake_zk_hook(zk, &h);
    fake_zk_cut(zk, 0);
    EVENTUALLY(taker_get(&a, &a.closed) == 1);
    assert_int_equal(a.closed_why, CONCLAVE_NO_AUTH);
    assert_int_equal(a.releases, 1);
    assert_int_equal(a.why, CONCLAVE_NO_AUTH);
    assert_true(a.nodes >= 4);
    taker_finish(&a);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

/* Locks that cannot be opened, in no session of this length, are not tried for ever. */
static void a_grace_that_does_not_fit_ends_it(void **state)
{
    struct fake_zk *zk = *state;
    struct taker a;
    struct conclave_partitioner_options options = options_of("a");
    options.settle_ms = 0;
    options.lease.grace_ms = LONG_SESSION_MS;
    taker_connect(&a, zk, 0);
    taker_open(&a, &options);
    EVENTUALLY(taker_get(&a, &a.closed) == 1);
    assert_int_equal(a.closed_why, CONCLAVE_EINVAL);
    taker_finish(&a);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

static void a_set_may_never_settle(void **state)
{
    struct taker a;
    struct conclave_partitioner_options options = options_of("a");
    options.settle_ms = INT64_MAX;
    taker_connect(&a, *state, 0);
    taker_open(&a, &options);
    assert_int_equal(conclave_partitioner_wait(a.partitioner, 100), CONCLAVE_ETIMEDOUT);
    taker_finish(&a);
}

/* So nobody releases the items before the program was told that it has them. */
static void a_wait_ends_behind_on_acquired(void **state)
{
    struct taker a;
    taker_connect_for(&a, *state, 0, PATIENCE_MS);
    a.delay = true;
    struct conclave_partitioner_options options = options_of("a");
    taker_open(&a, &options);
    EVENTUALLY(conclave_partitioner_state(a.partitioner) == CONCLAVE_PARTITION_ACQUIRED);
    assert_int_equal(conclave_partitioner_wait(a.partitioner, 20), CONCLAVE_ETIMEDOUT);
    a.delay = false;
    assert_int_equal(conclave_partitioner_wait(a.partitioner, PATIENCE_MS), 0);
    assert_true(has(&a, "abcd"));
    taker_finish(&a);
}

static void silence_takes_the_items_away(void **state)
{
    struct fake_zk *zk = *state;
    struct taker a;
    struct taker b;
    taker_join(&a, zk, 0, "a");
    taker_join_for_long(&b, zk, 1, "b");
    EVENTUALLY(has(&a, "ac") && has(&b, "bd"));
    fake_zk_link(zk, 0, FAKE_SILENT);
    EVENTUALLY(has(&b, "abcd"));
    EVENTUALLY(has(&a, "")); /* that it is told before is shown of the locks (E38) */
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(has(&a, "ac") && has(&b, "bd"));
    taker_finish(&a);
    taker_finish(&b);
}

static void E18_no_permission_ends_it(void **state)
{
    struct fake_zk *zk = *state;
    struct taker a;
    struct fake_hook h = {.op = WIRE_CREATE,
                          .path = "__lock__",
                          .nth = 1,
                          .action = FAKE_ERROR,
                          .error = CONCLAVE_NO_AUTH};
    fake_zk_hook(zk, &h);
    taker_join(&a, zk, 0, "a");
    EVENTUALLY(taker_get(&a, &a.closed) == 1);
    assert_int_equal(a.closed_why, CONCLAVE_NO_AUTH);
    taker_finish(&a);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

static void E35_close_at_every_request_leaves_nothing(void **state)
{
    struct fake_zk *zk = *state;
    static const enum fake_action actions[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY, FAKE_EXPIRE_AFTER};
    for (int step = 1; step <= 12; step++) {
        for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
            struct taker a;
            hook(zk, 0, FAKE_ANY_OP, NULL, step, actions[i]);
            taker_join(&a, zk, 0, "a");
            sleep_ms(3 * step); /* anywhere */
            taker_finish(&a);
            EVENTUALLY(fake_zk_ephemerals(zk) == 0);
            fake_zk_hooks_clear(zk);
        }
    }
}

static void E64_fault_at_every_request_is_overcome(void **state)
{
    struct fake_zk *zk = *state;
    static const enum fake_action actions[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY, FAKE_EXPIRE_BEFORE,
                                               FAKE_EXPIRE_AFTER};
    for (int step = 1; step <= 24; step++) {
        for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
            struct taker a;
            hook(zk, 0, FAKE_ANY_OP, NULL, step, actions[i]);
            taker_join(&a, zk, 0, "a");
            assert_int_equal(conclave_partitioner_wait(a.partitioner, PATIENCE_MS), 0);
            EVENTUALLY(has(&a, "abcd"));
            taker_finish(&a);
            EVENTUALLY(fake_zk_ephemerals(zk) == 0);
            fake_zk_hooks_clear(zk);
        }
    }
}

static void E59_client_closed_under_it(void **state)
{
    struct taker a;
    taker_join(&a, *state, 0, "a");
    EVENTUALLY(has(&a, "abcd"));
    conclave_client_close(a.c.client, 1000);
    assert_int_equal(conclave_partitioner_wait(a.partitioner, PATIENCE_MS), CONCLAVE_ECLOSED);
    assert_int_equal(conclave_partitioner_close_wait(a.partitioner, PATIENCE_MS), 0);
    conclave_partitioner_destroy(a.partitioner);
    conclave_recipes_destroy(a.c.recipes);
    assert_int_equal(a.after_end, 0);
    assert_int_equal(a.releases, 1);
    assert_int_equal(a.why, CONCLAVE_ECLOSED);
}

static void E61_a_child_of_fork_may_not_use_it(void **state)
{
    struct taker a;
    int status;
    taker_join(&a, *state, 0, "a");
    EVENTUALLY(has(&a, "abcd"));
    pid_t pid = fork();
    if (pid == 0) {
        bool right = conclave_partitioner_wait(a.partitioner, 10) == CONCLAVE_EFORK &&
                     conclave_partitioner_release(a.partitioner) == CONCLAVE_EFORK;
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    taker_finish(&a);
}

static void wrong_options_are_refused(void **state)
{
    struct taker t;
    static const char *const bad[] = {"", "a/b", "..", "a\nb", NULL};
    static const char *const twice[] = {"x", "x"};
    taker_connect(&t, *state, 0);
#define REFUSED(o)                                                                                 \
    assert_int_equal(conclave_partitioner_open(t.c.recipes, o, NULL, NULL, &t.partitioner),        \
                     CONCLAVE_EINVAL)
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct conclave_partitioner_options options = options_of(bad[i]);
        if (bad[i] != NULL) {
            REFUSED(&options);
        }
        options = options_of("a");
        options.items = &bad[i];
        options.items_count = 1;
        REFUSED(&options);
    }
    struct conclave_partitioner_options options = options_of("a");
    options.items = twice;
    options.items_count = 2;
    REFUSED(&options);
    options = options_of("a");
    options.path = "/";
    REFUSED(&options);
    options = options_of("a");
    options.settle_ms = -1;
    REFUSED(&options);
    options = options_of("a");
    options.lease.grace_ms = -1;
    REFUSED(&options);
    candidate_finish(&t.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(set_is_divided_as_kazoo_does),
        E_TEST(others_wait_until_the_items_are_released),
        E_TEST(more_members_than_items),
        E_TEST(program_divides),
        E_TEST(E26_lost_session_and_deleted_lock_are_told),
        E_TEST(E26_a_loss_during_a_release_is_told),
        E_TEST(E18_an_end_takes_the_items_away_in_order),
        E_TEST(a_grace_that_does_not_fit_ends_it),
        E_TEST(a_set_may_never_settle),
        E_TEST(a_wait_ends_behind_on_acquired),
        EXPIRY_TEST(silence_takes_the_items_away),
        E_TEST(E18_no_permission_ends_it),
        E_TEST(E35_close_at_every_request_leaves_nothing),
        E_TEST(E64_fault_at_every_request_is_overcome),
        E_TEST(E59_client_closed_under_it),
        E_TEST(E61_a_child_of_fork_may_not_use_it),
        E_TEST(wrong_options_are_refused),
    };
    return RUN_TESTS(tests);
}
