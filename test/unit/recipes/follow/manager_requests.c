/* What a follower asks of the managers, of which there is none here: the ensemble itself answers on command. */
#include "support/candidate.h"

#include <conclave/redis.h>

#define ROOT "/redis_failover/default"
#define REQUEST ROOT "/requests/req-0000000000"
#define RESULT ROOT "/results/req-0000000000"
#define RECORD                                                                                     \
    "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:1\",\"replicas\":[\"b:1\"],\"unavailable\":[]}"
#define ANSWER "{\"ok\":true,\"text\":\"done\",\"master\":\"b:1\",\"epoch\":2,\"lost_bytes\":0}"

struct asker {
    struct candidate c;
    struct conclave_redis *redis;
};

static void asker_open(struct asker *a, struct fake_zk *zk, enum conclave_redis_layout layout)
{
    struct conclave_redis_options options = CONCLAVE_REDIS_OPTIONS_INIT;
    memset(a, 0, sizeof *a);
    options.layout = layout;
    candidate_connect(&a->c, zk, 0, "x");
    assert_int_equal(conclave_redis_open(a->c.recipes, &options, NULL, NULL, &a->redis), 0);
}

static void asker_finish(struct asker *a)
{
    assert_int_equal(conclave_redis_close_wait(a->redis, PATIENCE_MS), 0);
    conclave_redis_destroy(a->redis);
    candidate_finish(&a->c);
}

static void make_folders(struct fake_zk *zk)
{
    static const char *const folders[] = {"/redis_failover", ROOT, ROOT "/requests",
                                          ROOT "/results", ROOT "/managers"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        fake_zk_create(zk, folders[i], "", 0);
    }
    fake_zk_create(zk, ROOT "/current", RECORD, 0);
}

/* As the leading manager does it. */
static void answer(struct fake_zk *zk, void *ctx)
{
    fake_zk_create_locked(zk, RESULT, ctx, 0);
    fake_zk_delete_locked(zk, REQUEST);
}

static void answer_at(struct fake_zk *zk, int32_t op, const char *path, const char *text)
{
    struct fake_hook hook = {.endpoint = 0,
                             .op = op,
                             .path = path,
                             .nth = 1,
                             .action = FAKE_CALL,
                             .fn = answer,
                             .ctx = (void *)(uintptr_t)text};
    fake_zk_hook(zk, &hook);
}

static void E118_a_fail_over_is_asked_for_and_answered(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_redis_failover_options options = CONCLAVE_REDIS_FAILOVER_OPTIONS_INIT;
    struct conclave_redis_failover_result *result = NULL;
    struct asker a;
    make_folders(zk);
    asker_open(&a, zk, CONCLAVE_REDIS_LAYOUT_NATIVE);
    options.target = "b:1";
    options.timeout_ms = PATIENCE_MS;
    answer_at(zk, WIRE_GET_DATA, RESULT, ANSWER);
    assert_int_equal(conclave_redis_failover(a.redis, &options, &result), 0);
    assert_true(result->ok);
    assert_string_equal(result->text, "done");
    assert_string_equal(result->master, "b:1");
    assert_int_equal(result->epoch, 2);
    assert_int_equal(result->lost_bytes, 0);
    conclave_redis_failover_result_free(result);
    asker_finish(&a);
}

static char asked[512];

static void note(struct fake_zk *zk, void *ctx)
{
    fake_zk_create_locked(zk, RESULT, "{\"ok\":false,\"text\":\"no\"}", 0);
}

static void E118_a_refusal_is_an_answer_and_none_is_a_timeout(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_redis_failover_options options = CONCLAVE_REDIS_FAILOVER_OPTIONS_INIT;
    struct conclave_redis_failover_result *result = NULL;
    struct asker a;
    make_folders(zk);
    asker_open(&a, zk, CONCLAVE_REDIS_LAYOUT_NATIVE);
    struct fake_hook hook = {.endpoint = 0,
                             .op = WIRE_GET_DATA,
                             .path = RESULT,
                             .nth = 2,
                             .action = FAKE_CALL,
                             .fn = note};
    options.force = true;
    options.timeout_ms = PATIENCE_MS;
    fake_zk_hook(zk, &hook);
    assert_int_equal(conclave_redis_failover(a.redis, &options, &result), 0);
    assert_false(result->ok);
    assert_string_equal(result->text, "no");
    assert_string_equal(result->master, "");
    assert_int_equal(result->lost_bytes, -1);
    conclave_redis_failover_result_free(result);
    assert_true(fake_zk_data(zk, REQUEST, asked, sizeof asked));
    assert_non_null(strstr(asked, "\"kind\":\"failover\""));
    assert_non_null(strstr(asked, "\"target\":null"));
    assert_non_null(strstr(asked, "\"force\":true"));
    fake_zk_delete(zk, REQUEST);
    options.timeout_ms = 1; /* nobody answers: withdrawn */
    assert_int_equal(conclave_redis_failover(a.redis, &options, &result), CONCLAVE_ETIMEDOUT);
    assert_int_equal(fake_zk_child_count(zk, ROOT "/requests"), 0);
    asker_finish(&a);
}

/* The answer comes just when the request is withdrawn. */
static void E118_an_answer_in_the_last_moment_counts(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_redis_failover_options options = CONCLAVE_REDIS_FAILOVER_OPTIONS_INIT;
    struct conclave_redis_failover_result *result = NULL;
    struct asker a;
    make_folders(zk);
    asker_open(&a, zk, CONCLAVE_REDIS_LAYOUT_NATIVE);
    options.timeout_ms = 1;
    answer_at(zk, WIRE_DELETE, REQUEST, ANSWER);
    assert_int_equal(conclave_redis_failover(a.redis, &options, &result), 0);
    assert_true(result->ok);
    conclave_redis_failover_result_free(result);
    asker_finish(&a);
}

static void a_request_is_never_sent_twice(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_redis_failover_options options = CONCLAVE_REDIS_FAILOVER_OPTIONS_INIT;
    struct conclave_redis_failover_result *result = NULL;
    static const enum fake_action losses[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY};
    struct asker a;
    make_folders(zk);
    asker_open(&a, zk, CONCLAVE_REDIS_LAYOUT_NATIVE);
    options.timeout_ms = PATIENCE_MS;
    for (size_t i = 0; i < 2; i++) {
        struct fake_hook hook = {.endpoint = 0, .op = WIRE_CREATE2, .nth = 1, .action = losses[i]};
        struct fake_hook other = hook;
        other.op = WIRE_CREATE;
        fake_zk_hook(zk, &hook);
        fake_zk_hook(zk, &other);
        assert_int_equal(conclave_client_wait_connected(a.c.client, PATIENCE_MS), 0);
        assert_int_equal(conclave_redis_failover(a.redis, &options, &result),
                         CONCLAVE_CONNECTION_LOSS);
        assert_int_equal(fake_zk_hooks_left(zk), 1);
        fake_zk_hooks_clear(zk);
        assert_int_equal(fake_zk_child_count(zk, ROOT "/requests"), i);
    }
    /* A lost answer to a read is read again. */
    fake_zk_delete(zk, REQUEST);
    struct fake_hook lost = {.endpoint = 0,
                             .op = WIRE_GET_DATA,
                             .path = "/results/req-0000000001",
                             .nth = 1,
                             .action = FAKE_DROP_REPLY};
    fake_zk_create(zk, ROOT "/results/req-0000000001", ANSWER, 0);
    fake_zk_hook(zk, &lost);
    assert_int_equal(conclave_client_wait_connected(a.c.client, PATIENCE_MS), 0);
    assert_int_equal(conclave_redis_failover(a.redis, &options, &result), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    conclave_redis_failover_result_free(result);
    asker_finish(&a);
}

static void replicas_come_from_the_reports(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_redis_replicas *list = NULL;
    struct asker a;
    make_folders(zk);
    fake_zk_create(zk, ROOT "/managers/m1",
                   "conclave-member 0123\n"
                   "{\"id\":\"m1\",\"period_ms\":1000,\"nodes\":{\"a:1\":{\"state\":\"up\","
                   "\"age_ms\":1,\"role\":\"master\",\"offset\":9},\"b:1\":{\"state\":\"up\","
                   "\"age_ms\":1,\"role\":\"replica\",\"master\":\"a:1\",\"link\":\"up\","
                   "\"offset\":7}}}",
                   0);
    fake_zk_create(zk, ROOT "/managers/m2", "", 0);
    asker_open(&a, zk, CONCLAVE_REDIS_LAYOUT_NATIVE);
    struct fake_hook lost = {.endpoint = 0,
                             .op = WIRE_GET_DATA,
                             .path = "/managers/m1",
                             .nth = 1,
                             .action = FAKE_DROP_REPLY};
    fake_zk_hook(zk, &lost);
    assert_int_equal(conclave_redis_list_replicas(a.redis, PATIENCE_MS, &list), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(list->count, 1);
    assert_string_equal(conclave_redis_pick(list, 2, 5)->address, "b:1");
    assert_int_equal(list->list[0]->lag_bytes, 2);
    conclave_redis_replicas_free(list);
    fake_zk_link(zk, 0, FAKE_SILENT);
    assert_int_equal(conclave_redis_list_replicas(a.redis, 1, &list), CONCLAVE_ETIMEDOUT);
    fake_zk_link(zk, 0, FAKE_UP);
    asker_finish(&a);
}

static void wrong_use_is_refused(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_redis_failover_options options = CONCLAVE_REDIS_FAILOVER_OPTIONS_INIT;
    struct conclave_redis_failover_result *result = NULL;
    struct conclave_redis_replicas *list = NULL;
    struct asker a;
    asker_open(&a, zk, CONCLAVE_REDIS_LAYOUT_GEM);
    assert_int_equal(conclave_redis_failover(a.redis, &options, &result), CONCLAVE_EINVAL);
    assert_int_equal(conclave_redis_list_replicas(a.redis, 10, &list), CONCLAVE_EINVAL);
    asker_finish(&a);
    asker_open(&a, zk, CONCLAVE_REDIS_LAYOUT_NATIVE);
    options.target = "b";
    assert_int_equal(conclave_redis_failover(a.redis, &options, &result), CONCLAVE_EINVAL);
    options.target = NULL;
    options.timeout_ms = 0;
    assert_int_equal(conclave_redis_failover(a.redis, &options, &result), CONCLAVE_EINVAL);
    options.size = 1;
    assert_int_equal(conclave_redis_failover(a.redis, &options, &result), CONCLAVE_EINVAL);
    assert_int_equal(conclave_redis_failover(a.redis, NULL, &result), CONCLAVE_EINVAL);
    options = (struct conclave_redis_failover_options)CONCLAVE_REDIS_FAILOVER_OPTIONS_INIT;
    assert_int_equal(conclave_redis_failover(a.redis, &options, &result), CONCLAVE_NO_NODE);
    asker_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E118_a_fail_over_is_asked_for_and_answered),
        E_TEST(E118_a_refusal_is_an_answer_and_none_is_a_timeout),
        E_TEST(E118_an_answer_in_the_last_moment_counts),
        E_TEST(a_request_is_never_sent_twice),
        E_TEST(replicas_come_from_the_reports),
        E_TEST(wrong_use_is_refused),
    };
    return RUN_TESTS(tests);
}
