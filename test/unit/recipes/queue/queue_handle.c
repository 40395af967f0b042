/*
 * The queue's and the barrier's handles: leases, loops without threads, fork, refused credentials,
 * names.
 */
#include "support/queue_user.h"

#include "recipes/queue/queue_names.h"

#include <conclave/barrier.h>

#include <poll.h>
#include <sys/wait.h>

static void E39_a_claim_is_not_taken_for_held_when_its_lease_has_ended(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_user_begin(&u, zk);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    STAYS(conclave_item_is_held(item), 2 * EXPIRY_SESSION_MS); /* proved again and again */
    fake_zk_hold(zk, 0, WIRE_MULTI); /* pings are answered: the link is up, the quorum is away */
    EVENTUALLY(!conclave_item_is_held(item));
    EVENTUALLY(queue_user_get(&u, &u.lost) == 1);
    fake_zk_release(zk, 0);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), 0); /* the claim stood all the time */
    assert_int_equal(queue_user_get(&u, &u.lost), 1);
    conclave_item_free(item);
    queue_user_finish(&u);
}

static void E60_proofs_of_many_claims_wake_nobody(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user waiting;
    struct conclave_item *items[3];
    queue_make(zk);
    queue_user_open_for(&u, zk, 0, NULL,
                        10 * SESSION_MS); /* no lease ends for want of a processor */
    queue_user_open(&waiting, zk, 1, NULL);
    for (int i = 0; i < 3; i++) {
        put_text(&u, 500, "a");
        items[i] = take_one(&u);
    }
    assert_int_equal(conclave_queue_take_async(waiting.queue, CONCLAVE_FOREVER, NULL, NULL), 0);
    EVENTUALLY(items_in(zk, LINE_PATH) == 1);
    sleep_ms(100);
    fake_zk_count_reset(zk);
    STAYS(conclave_item_is_held(items[0]), 5 * SESSION_MS);
    EVENTUALLY(fake_zk_count(zk, 0, WIRE_MULTI) >= 2);
    assert_int_equal(fake_zk_count_events(zk), 0);
    /* One is taken away: only that one is reported, at once. */
    fake_zk_delete(zk, conclave_item_claim(items[1]));
    EVENTUALLY(queue_user_get(&u, &u.lost) == 1);
    assert_false(conclave_item_is_held(items[1]));
    assert_true(conclave_item_is_held(items[0]) && conclave_item_is_held(items[2]));
    for (int i = 0; i < 3; i++) {
        conclave_item_free(items[i]);
    }
    queue_user_finish(&u);
    queue_user_finish(&waiting);
}

static void E61_a_child_after_fork_is_refused(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    int status;
    queue_user_begin(&u, zk);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct conclave_item *more;
        bool refused = conclave_queue_take(u.queue, 100, &more) == CONCLAVE_EFORK &&
                       conclave_queue_put(u.queue, 500, "b", 1, 100, NULL) == CONCLAVE_EFORK &&
                       conclave_item_ack(item, 100) == CONCLAVE_EFORK &&
                       !conclave_item_is_held(item);
        conclave_item_free(item);
        conclave_queue_close(u.queue);
        _exit(refused ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(conclave_item_is_held(item));
    ack_one(item);
    queue_user_finish(&u);
}

static _Atomic int told;
static _Atomic int told_error;

static void on_taken(struct conclave_queue *queue, int error, struct conclave_item *item, void *ctx)
{
    told_error = error;
    told++;
    conclave_item_free(item);
}

static void on_put(struct conclave_queue *queue, int error, const char *name, void *ctx)
{
    told_error = error;
    told++;
}

static void E58_refused_credentials_end_everything(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_user_begin(&u, zk);
    put_text(&u, 500, "a");
    take_text(&u, "a");
    told = 0;
    assert_int_equal(conclave_queue_take_async(u.queue, CONCLAVE_FOREVER, on_taken, NULL), 0);
    EVENTUALLY(items_in(zk, LINE_PATH) == 1);
    fake_zk_refuse_auth(zk, true);
    assert_int_equal(conclave_client_add_auth(u.link.client, "digest", "a:b", 3), 0);
    EVENTUALLY(told == 1);
    assert_int_equal(told_error, CONCLAVE_AUTH_FAILED);
    EVENTUALLY(queue_user_get(&u, &u.closed) == 1);
    queue_user_finish(&u);
}

/* Closed later and later in what a take, a put and an enter do. */
static void E35_closing_at_any_moment_leaves_nothing(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user holder;
    struct conclave_double_barrier_options options = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
    options.path = "/app/barrier";
    options.count = 2;
    queue_make(zk);
    queue_user_open(&holder, zk, 0, NULL);
    assert_int_equal(conclave_client_wait_connected(holder.link.client, PATIENCE_MS), 0);
    told = 0;
    for (int i = 0; i < 60; i++) {
        struct conclave_double_barrier *barrier;
        queue_user_share(&u, &holder, NULL);
        assert_int_equal(
            conclave_double_barrier_open(holder.link.recipes, &options, NULL, NULL, &barrier), 0);
        assert_int_equal(conclave_queue_take_async(u.queue, CONCLAVE_FOREVER, on_taken, NULL), 0);
        assert_int_equal(conclave_queue_take_async(u.queue, 2, on_taken, NULL), 0);
        assert_int_equal(
            conclave_queue_put_async(u.queue, 5, "a", 1, CONCLAVE_FOREVER, on_put, NULL), 0);
        assert_int_equal(conclave_double_barrier_enter_async(barrier, CONCLAVE_FOREVER, NULL, NULL),
                         0);
        (void)usleep((useconds_t)(i * 70));
        conclave_double_barrier_close(barrier);
        queue_user_close(&u);
        assert_int_equal(conclave_double_barrier_close_wait(barrier, PATIENCE_MS), 0);
        conclave_double_barrier_destroy(barrier);
        assert_int_equal(told, 3 * (i + 1)); /* each reported once, and before on_closed */
        (void)pthread_mutex_destroy(&u.lock);
    }
    EVENTUALLY(items_in(zk, CLAIMS_PATH) == 0);
    EVENTUALLY(items_in(zk, LINE_PATH) == 0);
    EVENTUALLY(items_in(zk, PUTS_PATH) == 0);
    EVENTUALLY(fake_zk_ephemerals(zk) == 0);
    queue_user_finish(&holder);
}

/* --- without threads ---------------------------------------------------------------------------- */

static void pump(struct conclave_client *client, const _Atomic int *until, int count)
{
    int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (*until < count && now_ns() < end) {
        struct pollfd fd = {.fd = conclave_client_fd(client), .events = POLLIN};
        int64_t wait = conclave_client_timeout_ms(client);
        (void)poll(&fd, 1, wait < 0 || wait > 50 ? 50 : (int)wait);
        (void)conclave_client_dispatch(client);
    }
    assert_true(*until >= count);
}

static _Atomic int acked;
static _Atomic int passed;

static void on_acked(struct conclave_item *item, int error, void *ctx)
{
    assert_int_equal(error, 0);
    conclave_item_free(item);
    acked++;
}

static void on_loop_taken(struct conclave_queue *queue, int error, struct conclave_item *item,
                          void *ctx)
{
    assert_int_equal(error, 0);
    assert_int_equal(conclave_item_ack_async(item, on_acked, NULL), 0);
    struct conclave_item *more;
    assert_int_equal(conclave_queue_take(queue, 10, &more), CONCLAVE_EDEADLK);
}

static void on_passed(struct conclave_double_barrier *barrier, int error, void *ctx)
{
    assert_int_equal(error, 0);
    passed++;
}

static _Atomic int closed;

static void on_queue_closed(struct conclave_queue *queue, int why, void *ctx)
{
    conclave_queue_destroy(queue);
    closed++;
}

static void on_barrier_closed(struct conclave_double_barrier *barrier, int why, void *ctx)
{
    conclave_double_barrier_destroy(barrier);
    closed++;
}

static void all_runs_in_a_loop_of_the_program_s_own(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_queue_options queue_opts = queue_options();
    struct conclave_queue_callbacks queue_calls = {.size = sizeof queue_calls,
                                                   .on_closed = on_queue_closed};
    struct conclave_double_barrier_options barrier_opts = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
    struct conclave_double_barrier_callbacks barrier_calls = {.size = sizeof barrier_calls,
                                                              .on_closed = on_barrier_closed};
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    struct conclave_queue *queue;
    struct conclave_double_barrier *barrier;
    acked = passed = closed = told = 0;
    options.servers = fake_zk_address(zk, 0);
    barrier_opts.path = "/app/barrier";
    barrier_opts.count = 1;
    assert_int_equal(conclave_client_open(&options, &client), 0);
    assert_int_equal(conclave_recipes_open(client, &recipes), 0);
    assert_int_equal(conclave_queue_open(recipes, &queue_opts, &queue_calls, NULL, &queue), 0);
    assert_int_equal(
        conclave_double_barrier_open(recipes, &barrier_opts, &barrier_calls, NULL, &barrier), 0);
    assert_int_equal(conclave_queue_take_async(queue, CONCLAVE_FOREVER, on_loop_taken, NULL), 0);
    assert_int_equal(conclave_queue_put_async(queue, 5, "a", 1, PATIENCE_MS, on_put, NULL), 0);
    pump(client, &told, 1);
    pump(client, &acked, 1);
    assert_int_equal(items_in(zk, QUEUE_PATH), 0);
    assert_int_equal(conclave_double_barrier_enter_async(barrier, PATIENCE_MS, on_passed, NULL), 0);
    pump(client, &passed, 1);
    assert_int_equal(conclave_double_barrier_leave_async(barrier, PATIENCE_MS, on_passed, NULL), 0);
    pump(client, &passed, 2);
    conclave_queue_close(queue);
    conclave_double_barrier_close(barrier);
    pump(client, &closed, 2);
    conclave_recipes_destroy(recipes);
    conclave_client_close(client, 1000);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

/* --- names -------------------------------------------------------------------------------------------- */

static void E14_names_are_read_as_they_were_made(void **state)
{
    static const struct queue_naming naming = {CONCLAVE_QUEUE_LAYOUT_NATIVE, NULL, false};
    char name[CONCLAVE_QUEUE_NAME_MAX + 16];
    char prefix[CONCLAVE_QUEUE_NAME_MAX];
    struct queue_name parsed;
    static const int32_t numbers[] = {0, 1, INT32_MAX, -1, INT32_MIN};
    for (int priority = 0; priority <= 999; priority += 111) {
        struct queue_label label = {.priority = priority};
        queue_name_make_prefix(&naming, &label, prefix);
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            (void)snprintf(name, sizeof name, "%s%010d", prefix, numbers[i]);
            assert_true(strlen(name) < CONCLAVE_QUEUE_NAME_MAX);
            assert_true(queue_name_parse(&naming, name, &parsed));
            assert_int_equal(parsed.priority, priority);
            assert_int_equal(parsed.sequence, numbers[i]);
        }
    }
}

static void E11_order_is_by_priority_then_number_not_by_guid(void **state)
{
    static const char *const children[] = {
        "500-aa-q_0000000007", "foreign",
        "500-zz-q_0000000002", "001-zz-q_0000000009",
        "999-aa-q_0000000000", "500-aa-q_-000000001",
    };
    static const char *const order[] = {
        "001-zz-q_0000000009", "500-aa-q_-000000001", "500-zz-q_0000000002",
        "500-aa-q_0000000007", "999-aa-q_0000000000",
    };
    static const struct queue_naming naming = {CONCLAVE_QUEUE_LAYOUT_NATIVE, NULL, false};
    struct queue_name *list;
    size_t count;
    size_t due;
    assert_int_equal(queue_names_order(&naming, children, sizeof children / sizeof children[0], 0,
                                       &list, &count, &due),
                     0);
    assert_int_equal(due, count);
    assert_int_equal(count, sizeof order / sizeof order[0]);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(list[i].name, order[i]);
    }
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EXPIRY_TEST(E39_a_claim_is_not_taken_for_held_when_its_lease_has_ended),
        E_TEST(E60_proofs_of_many_claims_wake_nobody),
        E_TEST(E61_a_child_after_fork_is_refused),
        E_TEST(E35_closing_at_any_moment_leaves_nothing),
        E_TEST(E58_refused_credentials_end_everything),
        E_TEST(all_runs_in_a_loop_of_the_program_s_own),
        cmocka_unit_test(E14_names_are_read_as_they_were_made),
        cmocka_unit_test(E11_order_is_by_priority_then_number_not_by_guid),
    };
    return RUN_TESTS(tests);
}
