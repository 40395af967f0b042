/* Semaphores in the layouts of Curator and kazoo, and several permits at once in every layout. E136 to E138. */
#include "support/locker.h"

#include "recipes/hold/lease_pool.h"

#include <conclave/semaphore.h>

#define SEMAPHORE_PATH "/app/semaphore"
#define LEASES SEMAPHORE_PATH "/leases"
#define LOCKS SEMAPHORE_PATH "/locks"
#define GATE SEMAPHORE_PATH "-__lock__"

enum { OTHER = 0x99, BLINK_MS = 60 };

struct user {
    struct locker base; /* client and recipes; its lock is not used */
    struct conclave_semaphore *semaphore;
    _Atomic int answer;
    _Atomic int lost;
};

static void on_lost(struct conclave_semaphore *semaphore, int why, int64_t within, void *ctx)
{
    ((struct user *)ctx)->lost++;
}

static int user_create(struct user *u, enum conclave_naming naming, int32_t permits, int32_t take)
{
    static const struct conclave_semaphore_callbacks callbacks = {.size = sizeof callbacks,
                                                                  .on_lost = on_lost};
    struct conclave_semaphore_options options = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
    options.path = SEMAPHORE_PATH;
    options.id = "user";
    options.permits = permits;
    options.naming = naming;
    options.take = take;
    u->answer = UNTOLD;
    u->lost = 0;
    return conclave_semaphore_open(u->base.recipes, &options, &callbacks, u, &u->semaphore);
}

static void user_open(struct user *u, struct fake_zk *zk, int endpoint, enum conclave_naming naming,
                      int32_t permits, int32_t take)
{
    locker_connect_to(&u->base, zk, endpoint, "user", NULL, PATIENCE_MS);
    assert_int_equal(conclave_client_wait_connected(u->base.client, PATIENCE_MS), 0);
    assert_int_equal(user_create(u, naming, permits, take), 0);
}

static void user_finish(struct user *u)
{
    assert_int_equal(conclave_semaphore_close_wait(u->semaphore, PATIENCE_MS), 0);
    conclave_semaphore_destroy(u->semaphore);
    locker_finish(&u->base);
}

static int take(struct user *u, int64_t timeout_ms)
{
    return conclave_semaphore_acquire(u->semaphore, timeout_ms, NULL);
}

static void on_answer(struct conclave_semaphore *semaphore, int error, struct conclave_token token,
                      void *ctx)
{
    ((struct user *)ctx)->answer = error;
}

static void ask(struct user *u)
{
    assert_int_equal(conclave_semaphore_acquire_async(u->semaphore, CONCLAVE_FOREVER, on_answer, u),
                     0);
}

static void give_back(struct user *u)
{
    assert_int_equal(conclave_semaphore_release(u->semaphore, PATIENCE_MS), 0);
}

static void E136_curators_layout(void **state)
{
    struct fake_zk *zk = *state;
    struct user a;
    struct user b;
    char name[256];
    user_open(&a, zk, 0, CONCLAVE_NAMING_CURATOR_LOCK, 2, 1);
    user_open(&b, zk, 1, CONCLAVE_NAMING_CURATOR_LOCK, 2, 1);
    assert_int_equal(take(&a, PATIENCE_MS), 0);
    assert_true(fake_zk_child(zk, LEASES, 0, name));
    assert_int_equal(strncmp(name, "_c_", 3), 0);
    assert_non_null(strstr(name, "-lease-00"));
    assert_true(conclave_semaphore_token(a.semaphore).czxid > 0);
    EVENTUALLY(fake_zk_child_count(zk, LOCKS) == 0); /* the gate is open again */
    fake_zk_create(zk, LEASES "/_c_x-lease-0000000007", "", OTHER);
    assert_int_equal(take(&b, 0), CONCLAVE_EBUSY);
    assert_int_equal(take(&b, BLINK_MS), CONCLAVE_ETIMEDOUT);
    EVENTUALLY(fake_zk_child_count(zk, LOCKS) == 0);
    ask(&b);
    EVENTUALLY(fake_zk_child_count(zk, LOCKS) == 1);
    STAYS(b.answer == UNTOLD, BLINK_MS);
    assert_int_equal(fake_zk_child_count(zk, LEASES), 2);
    fake_zk_delete(zk, LEASES "/_c_x-lease-0000000007"); /* Curator's user gives it back */
    EVENTUALLY(b.answer == 0);
    give_back(&a);
    assert_int_equal(fake_zk_child_count(zk, LEASES), 1);
    user_finish(&a);
    user_finish(&b);
    all_gone(zk, LEASES);
    all_gone(zk, LOCKS);
}

static void E136_kazoos_layout(void **state)
{
    struct fake_zk *zk = *state;
    struct user a;
    struct user b;
    char text[64];
    user_open(&a, zk, 0, CONCLAVE_NAMING_KAZOO, 1, 1);
    user_open(&b, zk, 1, CONCLAVE_NAMING_KAZOO, 2, 1);
    assert_int_equal(take(&a, PATIENCE_MS), 0);
    assert_true(fake_zk_data(zk, SEMAPHORE_PATH, text, sizeof text));
    assert_string_equal(text, "1");
    assert_int_equal(fake_zk_child_count(zk, SEMAPHORE_PATH), 1);
    /* kazoo's contenders do not make it again if the servers take it away, empty as it may be */
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE_CONTAINER), 0);
    assert_int_equal(take(&b, PATIENCE_MS), CONCLAVE_ECONFLICT);
    EVENTUALLY(fake_zk_child_count(zk, SEMAPHORE_PATH) == 1);
    fake_zk_write(zk, SEMAPHORE_PATH, "words"); /* kazoo does not mind them */
    assert_int_equal(take(&b, PATIENCE_MS), 0);
    conclave_semaphore_node(b.semaphore, text, sizeof text);
    assert_int_equal(strlen(text), 32);
    user_finish(&a);
    user_finish(&b);
    all_gone(zk, SEMAPHORE_PATH);
    all_gone(zk, GATE);
}

static void all_or_none(struct fake_zk *zk, enum conclave_naming naming, const char *folder)
{
    bool native = naming == CONCLAVE_NAMING_NATIVE;
    struct user u[3];
    for (int i = 0; i < 3; i++) {
        user_open(&u[i], zk, i, naming, 3, i < 2 ? 2 : 1);
    }
    assert_int_equal(take(&u[0], PATIENCE_MS), 0);
    assert_int_equal(fake_zk_child_count(zk, folder), native ? 1 : 2);
    assert_int_equal(take(&u[1], 0), CONCLAVE_EBUSY);
    ask(&u[1]);
    STAYS(u[1].answer == UNTOLD, BLINK_MS);
    assert_int_equal(fake_zk_child_count(zk, folder), 2); /* in its line; or none of them */
    ask(&u[2]);
    STAYS(u[2].answer == UNTOLD, BLINK_MS); /* one is free, but for the one before it */
    give_back(&u[0]);
    EVENTUALLY(u[1].answer == 0);
    EVENTUALLY(u[2].answer == 0);
    assert_int_equal(fake_zk_child_count(zk, folder), native ? 2 : 3);
    assert_int_equal(take(&u[0], 0), CONCLAVE_EBUSY);
    give_back(&u[1]);
    assert_int_equal(take(&u[0], PATIENCE_MS), 0);
    for (int i = 0; i < 3; i++) {
        user_finish(&u[i]);
    }
    all_gone(zk, folder);
}

static void E137_several_permits_all_or_none(void **state)
{
    all_or_none(*state, CONCLAVE_NAMING_NATIVE, SEMAPHORE_PATH);
}

static void E137_several_of_curators(void **state)
{
    all_or_none(*state, CONCLAVE_NAMING_CURATOR_LOCK, LEASES);
}

static void E137_several_of_kazoos(void **state)
{
    all_or_none(*state, CONCLAVE_NAMING_KAZOO, SEMAPHORE_PATH);
}

static void answer_slowly(struct fake_zk *zk, void *ctx)
{
    sleep_ms(50);
}

static void E137_the_list_counts_them(void **state)
{
    const struct fake_hook slow = {.op = WIRE_GET_DATA,
                                   .path = SEMAPHORE_PATH,
                                   .nth = 1,
                                   .action = FAKE_CALL,
                                   .fn = answer_slowly};
    struct fake_zk *zk = *state;
    struct user a;
    struct user b;
    struct conclave_contender **list;
    size_t count;
    int32_t permits;
    user_open(&a, zk, 0, CONCLAVE_NAMING_NATIVE, 3, 2);
    user_open(&b, zk, 1, CONCLAVE_NAMING_NATIVE, 3, 2);
    assert_int_equal(take(&a, PATIENCE_MS), 0);
    ask(&b);
    EVENTUALLY(fake_zk_child_count(zk, SEMAPHORE_PATH) == 2);
    fake_zk_hook(zk, &slow);
    assert_int_equal(conclave_semaphore_contenders(a.base.recipes, SEMAPHORE_PATH, CONCLAVE_FOREVER,
                                                   &list, &count, &permits),
                     0);
    assert_int_equal(count, 2);
    assert_true(list[0]->holds);
    assert_false(list[1]->holds);
    conclave_contenders_free(list, count);
    user_finish(&b);
    user_finish(&a);
}

/* Several nodes are held, and nothing can be sent any more: it ends all the same. */
static void ends_with_its_client(struct fake_zk *zk, enum conclave_naming naming, bool refused)
{
    struct user a;
    user_open(&a, zk, 0, naming, 3, 3);
    assert_int_equal(take(&a, PATIENCE_MS), 0);
    if (refused) {
        fake_zk_refuse_auth(zk, true);
        assert_int_equal(conclave_client_add_auth(a.base.client, "digest", "u:p", 3), 0);
        EVENTUALLY(!conclave_semaphore_is_held(a.semaphore));
    } else {
        conclave_client_close(a.base.client, PATIENCE_MS);
    }
    assert_int_equal(conclave_semaphore_close_wait(a.semaphore, PATIENCE_MS), 0);
    conclave_semaphore_destroy(a.semaphore);
    if (refused) {
        locker_finish(&a.base);
        fake_zk_refuse_auth(zk, false);
    } else {
        conclave_recipes_destroy(a.base.recipes);
        (void)pthread_mutex_destroy(&a.base.mutex);
    }
}

static void E137_several_permits_end_with_their_client(void **state)
{
    ends_with_its_client(*state, CONCLAVE_NAMING_CURATOR_LOCK, false);
    ends_with_its_client(*state, CONCLAVE_NAMING_CURATOR_LOCK, true);
}

static void E137_several_of_kazoos_end_with_their_client(void **state)
{
    ends_with_its_client(*state, CONCLAVE_NAMING_KAZOO, false);
    ends_with_its_client(*state, CONCLAVE_NAMING_KAZOO, true);
}

static bool gate_is_closed(struct conclave_client *client, const struct lease_pool *pool)
{
    client_lock(client);
    bool closed = pool->gate == NULL;
    client_unlock(client);
    return closed;
}

/* The client ends while the semaphore is being opened. */
static void a_gate_that_closes_first_leaves_the_pool(void **state)
{
    struct locker base;
    struct lease_pool *pool;
    struct conclave_lock_options options = CONCLAVE_LOCK_OPTIONS_INIT;
    options.path = SEMAPHORE_PATH;
    options.naming = CONCLAVE_NAMING_KAZOO;
    locker_connect_to(&base, *state, 0, "user", NULL, PATIENCE_MS);
    assert_int_equal(conclave_client_wait_connected(base.client, PATIENCE_MS), 0);
    assert_int_equal(pool_create(base.recipes, &options, 1, &pool), 0);
    pool_discard(pool); /* open: ends with the gate */
    assert_int_equal(pool_create(base.recipes, &options, 1, &pool), 0);
    client_lock(base.client);
    assert_false(pool_close(pool));
    client_unlock(base.client);
    EVENTUALLY(gate_is_closed(base.client, pool));
    assert_string_equal(pool->leases, SEMAPHORE_PATH);
    pool_discard(pool);
    locker_finish(&base);
}

static void E136_kazoos_number_is_compared_before_the_gate(void **state)
{
    struct fake_zk *zk = *state;
    struct user a;
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, SEMAPHORE_PATH, "5", 0);
    fake_zk_create(zk, GATE, "", 0);
    fake_zk_create(zk, GATE "/x__lock__0000000000", "", OTHER); /* a gate that nobody opens */
    user_open(&a, zk, 0, CONCLAVE_NAMING_KAZOO, 2, 1);
    assert_int_equal(take(&a, PATIENCE_MS), CONCLAVE_ECONFLICT);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_MULTI), 0); /* it had no node for a moment */
    assert_int_equal(fake_zk_child_count(zk, SEMAPHORE_PATH), 0);
    user_finish(&a);
}

/* The number changes while one waits for room. */
static void E136_kazoos_number_that_has_changed_is_a_conflict(void **state)
{
    struct fake_zk *zk = *state;
    struct user a;
    struct user b;
    user_open(&a, zk, 0, CONCLAVE_NAMING_KAZOO, 2, 2);
    user_open(&b, zk, 1, CONCLAVE_NAMING_KAZOO, 2, 1);
    assert_int_equal(take(&a, PATIENCE_MS), 0);
    ask(&b);
    STAYS(b.answer == UNTOLD, BLINK_MS);
    fake_zk_write(zk, SEMAPHORE_PATH, "1");
    give_back(&a);
    EVENTUALLY(b.answer == CONCLAVE_ECONFLICT);
    assert_int_equal(fake_zk_child_count(zk, SEMAPHORE_PATH), 0);
    user_finish(&b);
    user_finish(&a);
    all_gone(zk, GATE);
}

static void E138_a_gate_that_was_lost_adds_none(void **state)
{
    struct fake_zk *zk = *state;
    struct user a;
    char name[256];
    char path[320];
    user_open(&a, zk, 0, CONCLAVE_NAMING_CURATOR_LOCK, 1, 1);
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, SEMAPHORE_PATH, "", 0);
    fake_zk_create(zk, LEASES, "", 0);
    fake_zk_create(zk, LEASES "/x", "", OTHER);
    ask(&a);
    EVENTUALLY(fake_zk_child(zk, LOCKS, 0, name));
    STAYS(a.answer == UNTOLD, BLINK_MS);
    (void)snprintf(path, sizeof path, "%s/%s", LOCKS, name);
    fake_zk_delete(zk, path);
    fake_zk_create(zk, LOCKS "/_c_x-lock-0000000000", "", OTHER); /* another is let in */
    fake_zk_delete(zk, LEASES "/x");
    STAYS(a.answer == UNTOLD && fake_zk_child_count(zk, LEASES) == 0, 2 * BLINK_MS);
    fake_zk_delete(zk, LOCKS "/_c_x-lock-0000000000");
    EVENTUALLY(a.answer == 0);
    user_finish(&a);
    all_gone(zk, LEASES);
}

static void delete_gate(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_children_locked(zk, GATE);
}

/* The gate is lost while one that has it compares the number again. */
static void loses_gate_in_comparison(struct fake_zk *zk, enum fake_action action, int expected)
{
    struct fake_hook h = {
        .endpoint = 1, .op = WIRE_GET_DATA, .path = SEMAPHORE_PATH, .nth = 1, .action = action};
    struct user a;
    struct user b;
    user_open(&a, zk, 0, CONCLAVE_NAMING_KAZOO, 2, 2);
    user_open(&b, zk, 1, CONCLAVE_NAMING_KAZOO, 2, 1);
    h.fn = delete_gate;
    assert_int_equal(take(&a, PATIENCE_MS), 0);
    EVENTUALLY(fake_zk_child_count(zk, GATE) == 0);
    ask(&b);
    EVENTUALLY(fake_zk_child_count(zk, GATE) == 1); /* it has compared it once */
    fake_zk_write(zk, SEMAPHORE_PATH, "2");         /* another version */
    fake_zk_hook(zk, &h);
    give_back(&a);
    EVENTUALLY(b.answer != UNTOLD);
    assert_int_equal(b.answer, expected);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(fake_zk_child_count(zk, SEMAPHORE_PATH), expected == 0 ? 1 : 0);
    user_finish(&b);
    user_finish(&a);
    all_gone(zk, GATE);
}

static void E138_a_gate_that_is_lost_in_a_comparison_is_asked_for_again(void **state)
{
    loses_gate_in_comparison(*state, FAKE_CALL, 0);
}

static void E138_a_session_that_ends_in_a_comparison_is_told(void **state)
{
    loses_gate_in_comparison(*state, FAKE_EXPIRE_BEFORE, CONCLAVE_SESSION_EXPIRED);
}

static void lost_answer(struct fake_zk *zk, enum conclave_naming naming, const char *folder)
{
    struct user a;
    user_open(&a, zk, 0, naming, 3, 2);
    /* The gate's node is the first: its number is the first of the folder. */
    hook(zk, 0, WIRE_MULTI, "0000000000", 1, FAKE_DROP_REPLY);
    assert_int_equal(take(&a, PATIENCE_MS), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(fake_zk_child_count(zk, folder), 2);
    give_back(&a);
    all_gone(zk, folder);
    user_finish(&a);
}

static void E138_a_lost_answer_is_looked_up(void **state)
{
    lost_answer(*state, CONCLAVE_NAMING_CURATOR_LOCK, LEASES);
}

static void E138_a_lost_answer_is_looked_up_in_kazoos(void **state)
{
    lost_answer(*state, CONCLAVE_NAMING_KAZOO, SEMAPHORE_PATH);
}

static void E137_what_cannot_be_taken_is_refused(void **state)
{
    struct user a;
    locker_connect_to(&a.base, *state, 0, "user", NULL, PATIENCE_MS);
    assert_int_equal(user_create(&a, CONCLAVE_NAMING_NATIVE, 2, 3), CONCLAVE_EINVAL);
    assert_int_equal(user_create(&a, CONCLAVE_NAMING_NATIVE, 2, -1), CONCLAVE_EINVAL);
    assert_int_equal(user_create(&a, CONCLAVE_NAMING_CURATOR_LATCH, 2, 1), CONCLAVE_EINVAL);
    assert_int_equal(user_create(&a, CONCLAVE_NAMING_FIXED, 2, 1), CONCLAVE_EINVAL);
    assert_int_equal(user_create(&a, CONCLAVE_NAMING_KAZOO, 2000, 1001), CONCLAVE_EINVAL);
    locker_finish(&a.base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E136_curators_layout),
        E_TEST(E136_kazoos_layout),
        E_TEST(E137_several_permits_all_or_none),
        E_TEST(E137_several_of_curators),
        E_TEST(E137_several_of_kazoos),
        E_TEST(E137_the_list_counts_them),
        E_TEST(E137_what_cannot_be_taken_is_refused),
        E_TEST(E137_several_permits_end_with_their_client),
        E_TEST(E137_several_of_kazoos_end_with_their_client),
        E_TEST(a_gate_that_closes_first_leaves_the_pool),
        E_TEST(E136_kazoos_number_is_compared_before_the_gate),
        E_TEST(E136_kazoos_number_that_has_changed_is_a_conflict),
        E_TEST(E138_a_gate_that_was_lost_adds_none),
        E_TEST(E138_a_gate_that_is_lost_in_a_comparison_is_asked_for_again),
        E_TEST(E138_a_session_that_ends_in_a_comparison_is_told),
        E_TEST(E138_a_lost_answer_is_looked_up),
        E_TEST(E138_a_lost_answer_is_looked_up_in_kazoos),
    };
    return RUN_TESTS(tests);
}
