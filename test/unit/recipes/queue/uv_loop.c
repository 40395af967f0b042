/*
 * The recipes in a libuv loop (conclave/uv.h): nothing blocks, every callback runs in the loop's
 * thread, and the loop has nothing left once the client is closed.
 */
#include "support/candidate.h"

#include <conclave/barrier.h>
#include <conclave/config.h>
#include <conclave/group.h>
#include <conclave/lock.h>
#include <conclave/queue.h>
#include <conclave/uv.h>

#include <uv.h>

struct program {
    uv_loop_t loop;
    uv_timer_t limit; /* fails the test when something never comes */
    struct conclave_client *client;
    struct conclave_uv *uv;
    struct conclave_recipes *recipes;
    uv_thread_t thread; /* of the loop */
    int elsewhere;      /* callbacks that ran in another thread */
    int reached;        /* what the case waits for */
    int closed;
    bool ended;
};

static void in_loop(struct program *p)
{
    uv_thread_t self = uv_thread_self();
    p->elsewhere += uv_thread_equal(&p->thread, &self) ? 0 : 1;
}

static void reached(struct program *p)
{
    in_loop(p);
    p->reached++;
}

static void on_limit(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void program_begin(struct program *p, struct fake_zk *zk)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    memset(p, 0, sizeof *p);
    p->thread = uv_thread_self();
    options.servers = fake_zk_address(zk, 0);
    assert_int_equal(uv_loop_init(&p->loop), 0);
    assert_int_equal(uv_timer_init(&p->loop, &p->limit), 0);
    assert_int_equal(uv_timer_start(&p->limit, on_limit, PATIENCE_MS, 0), 0);
    uv_unref((uv_handle_t *)&p->limit);
    assert_int_equal(conclave_client_open(&options, &p->client), 0);
    assert_int_equal(conclave_recipes_open(p->client, &p->recipes), 0);
    assert_int_equal(conclave_uv_open(&p->loop, p->client, &p->uv), 0);
}

/* Runs the loop until so much was reached. */
static void run_until(struct program *p, const int *value, int wanted)
{
    int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (*value < wanted && now_ns() < end) {
        (void)uv_run(&p->loop, UV_RUN_ONCE);
    }
    assert_true(*value >= wanted);
}

static void on_client_closed(void *ctx)
{
    struct program *p = ctx;
    in_loop(p);
    p->ended = true;
}

/* The handles are closed: the client, and then nothing keeps the loop. */
static void program_end(struct program *p)
{
    conclave_recipes_destroy(p->recipes);
    conclave_uv_close(p->uv, 1000, on_client_closed, p);
    (void)uv_run(&p->loop, UV_RUN_DEFAULT);
    assert_true(p->ended);
    assert_int_equal(p->elsewhere, 0);
    uv_close((uv_handle_t *)&p->limit, NULL);
    (void)uv_run(&p->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&p->loop), 0);
}

/* --- queue -------------------------------------------------------------------------------- */

static void on_queue_closed(struct conclave_queue *queue, int why, void *ctx)
{
    struct program *p = ctx;
    in_loop(p);
    p->closed++;
    conclave_queue_destroy(queue);
}

static void on_put(struct conclave_queue *queue, int error, const char *name, void *ctx)
{
    assert_int_equal(error, 0);
    in_loop(ctx);
}

static void on_acked(struct conclave_item *item, int error, void *ctx)
{
    assert_int_equal(error, 0);
    conclave_item_free(item);
    reached(ctx);
}

static void on_taken(struct conclave_queue *queue, int error, struct conclave_item *item, void *ctx)
{
    assert_int_equal(error, 0);
    assert_true(conclave_item_is_held(item));
    in_loop(ctx);
    assert_int_equal(conclave_item_ack_async(item, on_acked, ctx), 0);
}

static void a_queue(void **state)
{
    struct fake_zk *zk = *state;
    struct program p;
    struct conclave_queue *queue;
    struct conclave_queue_options options = CONCLAVE_QUEUE_OPTIONS_INIT;
    struct conclave_queue_callbacks callbacks = {.size = sizeof callbacks,
                                                 .on_closed = on_queue_closed};
    options.path = "/app/queue";
    program_begin(&p, zk);
    assert_int_equal(conclave_queue_open(p.recipes, &options, &callbacks, &p, &queue), 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(conclave_queue_take_async(queue, CONCLAVE_FOREVER, on_taken, &p), 0);
        assert_int_equal(conclave_queue_put_async(queue, 5, "a", 1, PATIENCE_MS, on_put, &p), 0);
    }
    run_until(&p, &p.reached, 5);
    conclave_queue_close(queue);
    run_until(&p, &p.closed, 1);
    program_end(&p);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

/* --- barriers ------------------------------------------------------------------------------ */

static void on_barrier_closed(struct conclave_barrier *barrier, int why, void *ctx)
{
    struct program *p = ctx;
    in_loop(p);
    p->closed++;
    conclave_barrier_destroy(barrier);
}

static void on_passed(struct conclave_barrier *barrier, int error, void *ctx)
{
    assert_int_equal(error, 0);
    reached(ctx);
}

static void a_barrier(void **state)
{
    struct program p;
    struct conclave_barrier *barrier;
    struct conclave_barrier_options options = CONCLAVE_BARRIER_OPTIONS_INIT;
    struct conclave_barrier_callbacks callbacks = {.size = sizeof callbacks,
                                                   .on_closed = on_barrier_closed};
    options.path = "/app/gate";
    program_begin(&p, *state);
    assert_int_equal(conclave_barrier_open(p.recipes, &options, &callbacks, &p, &barrier), 0);
    assert_int_equal(conclave_barrier_set_async(barrier, PATIENCE_MS, on_passed, &p), 0);
    run_until(&p, &p.reached, 1);
    assert_int_equal(conclave_barrier_wait_async(barrier, PATIENCE_MS, on_passed, &p), 0);
    assert_int_equal(conclave_barrier_remove_async(barrier, PATIENCE_MS, on_passed, &p), 0);
    run_until(&p, &p.reached, 3);
    conclave_barrier_close(barrier);
    run_until(&p, &p.closed, 1);
    program_end(&p);
}

static void on_double_closed(struct conclave_double_barrier *barrier, int why, void *ctx)
{
    struct program *p = ctx;
    in_loop(p);
    p->closed++;
    conclave_double_barrier_destroy(barrier);
}

static void on_double(struct conclave_double_barrier *barrier, int error, void *ctx)
{
    assert_int_equal(error, 0);
    reached(ctx);
}

static void a_double_barrier(void **state)
{
    struct fake_zk *zk = *state;
    struct program p;
    struct conclave_double_barrier *b[2];
    struct conclave_double_barrier_options options = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
    struct conclave_double_barrier_callbacks callbacks = {.size = sizeof callbacks,
                                                          .on_closed = on_double_closed};
    options.path = "/app/barrier";
    options.count = 2;
    program_begin(&p, zk);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(conclave_double_barrier_open(p.recipes, &options, &callbacks, &p, &b[i]),
                         0);
        assert_int_equal(conclave_double_barrier_enter_async(b[i], PATIENCE_MS, on_double, &p), 0);
    }
    run_until(&p, &p.reached, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(conclave_double_barrier_leave_async(b[i], PATIENCE_MS, on_double, &p), 0);
    }
    run_until(&p, &p.reached, 4);
    for (int i = 0; i < 2; i++) {
        conclave_double_barrier_close(b[i]);
    }
    run_until(&p, &p.closed, 2);
    program_end(&p);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

/* --- lock ------------------------------------------------------------------------------------ */

static void on_lock_closed(struct conclave_lock *lock, int why, void *ctx)
{
    struct program *p = ctx;
    in_loop(p);
    p->closed++;
    conclave_lock_destroy(lock);
}

static void on_acquired(struct conclave_lock *lock, int error, struct conclave_token token,
                        void *ctx)
{
    assert_int_equal(error, 0);
    assert_true(token.czxid > 0 && conclave_lock_is_held(lock));
    reached(ctx);
}

static void a_lock(void **state)
{
    struct fake_zk *zk = *state;
    struct program p;
    struct conclave_lock *locks[2];
    struct conclave_lock_options options = CONCLAVE_LOCK_OPTIONS_INIT;
    struct conclave_lock_callbacks callbacks = {.size = sizeof callbacks,
                                                .on_closed = on_lock_closed};
    options.path = "/app/lock";
    program_begin(&p, zk);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(conclave_lock_open(p.recipes, &options, &callbacks, &p, &locks[i]), 0);
        assert_int_equal(
            conclave_lock_acquire_async(locks[i], 1, CONCLAVE_FOREVER, on_acquired, &p), 0);
    }
    run_until(&p, &p.reached, 1);
    int first = conclave_lock_is_held(locks[0]) ? 0 : 1;
    conclave_lock_close(locks[first]); /* the other gets it */
    run_until(&p, &p.reached, 2);
    assert_true(conclave_lock_is_held(locks[1 - first]));
    conclave_lock_close(locks[1 - first]);
    run_until(&p, &p.closed, 2);
    program_end(&p);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

/* --- group and configuration ------------------------------------------------------------------- */

static void on_view(struct conclave_group *group, const struct conclave_group_view *view, void *ctx)
{
    struct program *p = ctx;
    in_loop(p);
    p->reached = !view->stale ? (int)view->count : p->reached;
}

static void on_group_closed(struct conclave_group *group, int why, void *ctx)
{
    struct program *p = ctx;
    in_loop(p);
    p->closed++;
    conclave_group_destroy(group);
}

static void a_group(void **state)
{
    struct fake_zk *zk = *state;
    struct program p;
    struct conclave_group *groups[2];
    struct conclave_group_options options = CONCLAVE_GROUP_OPTIONS_INIT;
    struct conclave_group_callbacks callbacks = {
        .size = sizeof callbacks, .on_view = on_view, .on_closed = on_group_closed};
    options.path = "/app/group";
    program_begin(&p, zk);
    for (int i = 0; i < 2; i++) {
        options.id = i == 0 ? "one" : "two";
        assert_int_equal(conclave_group_open(p.recipes, &options, &callbacks, &p, &groups[i]), 0);
    }
    run_until(&p, &p.reached, 2);
    conclave_group_close(groups[0]);
    conclave_group_close(groups[1]);
    run_until(&p, &p.closed, 2);
    program_end(&p);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

static int on_config(struct conclave_config *config, const struct conclave_config_state *state,
                     void *ctx)
{
    reached(ctx);
    return 0;
}

static void on_config_closed(struct conclave_config *config, int why, void *ctx)
{
    struct program *p = ctx;
    in_loop(p);
    p->closed++;
    conclave_config_destroy(config);
}

static void a_configuration(void **state)
{
    struct fake_zk *zk = *state;
    struct program p;
    struct conclave_config *config;
    struct conclave_config_options options = CONCLAVE_CONFIG_OPTIONS_INIT;
    struct conclave_config_callbacks callbacks = {
        .size = sizeof callbacks, .on_change = on_config, .on_closed = on_config_closed};
    options.path = "/app/config";
    options.ack_id = "me";
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, "/app/config", "one", 0);
    program_begin(&p, zk);
    assert_int_equal(conclave_config_open(p.recipes, &options, &callbacks, &p, &config), 0);
    run_until(&p, &p.reached, 1);
    fake_zk_write(zk, "/app/config", "two");
    run_until(&p, &p.reached, 2);
    conclave_config_close(config);
    run_until(&p, &p.closed, 1);
    program_end(&p);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(a_queue), E_TEST(a_barrier), E_TEST(a_double_barrier),
        E_TEST(a_lock),  E_TEST(a_group),   E_TEST(a_configuration),
    };
    return RUN_TESTS(tests);
}
