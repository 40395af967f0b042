/* Every allocation of a follower fails once, in turn, with those of its requests to the managers. */
#include "support/starving.h"

#include <conclave/redis.h>

#define ROOT "/redis_failover/default"

static const char RECORD[] =
    "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:1\",\"replicas\":[\"b:1\"],\"unavailable\":[]}";
static const char REPORT[] =
    "{\"id\":\"m\",\"period_ms\":1000,\"nodes\":{\"b:1\":{\"state\":\"up\",\"age_ms\":1,"
    "\"role\":\"replica\",\"master\":\"a:1\",\"link\":\"up\",\"offset\":7}}}";

/* The answer is there before it is asked for, under the number that the next request gets. */
static void make_answer(struct fake_zk *zk)
{
    fake_zk_create(zk, ROOT "/results", "", 0);
    for (int number = 0; number < 400; number++) {
        char path[128];
        (void)snprintf(path, sizeof path, ROOT "/results/req-%010d", number);
        fake_zk_create(zk, path, "{\"ok\":true,\"text\":\"done\",\"master\":\"b:1\"}", 0);
    }
}

static void make_tree(struct fake_zk *zk)
{
    if (fake_zk_exists(zk, ROOT)) {
        return;
    }
    fake_zk_create(zk, "/redis_failover", "", 0);
    fake_zk_create(zk, ROOT, "", 0);
    fake_zk_create(zk, ROOT "/current", RECORD, 0);
    fake_zk_create(zk, ROOT "/requests", "", 0);
    fake_zk_create(zk, ROOT "/managers", "", 0);
    fake_zk_create(zk, ROOT "/managers/m", REPORT, 0);
    make_answer(zk);
}

static int follow_scene(struct starving *s)
{
    struct conclave_redis_options options = CONCLAVE_REDIS_OPTIONS_INIT;
    struct conclave_redis_failover_options wish = CONCLAVE_REDIS_FAILOVER_OPTIONS_INIT;
    struct conclave_redis *redis;
    struct conclave_redis_view *view = NULL;
    struct conclave_redis_replicas *list = NULL;
    struct conclave_redis_failover_result *result = NULL;
    int error;
    FED(s, make_tree(s->zk));
    TWICE(error, conclave_redis_open(s->recipes, &options, NULL, NULL, &redis));
    MUST(s, error, "open");
    if (error != 0) {
        return error;
    }
    TWICE(error, conclave_redis_wait_master(redis, PATIENCE_MS, &view));
    MUST(s, error, "wait");
    CHECK(s, error == 0, "no view");
    conclave_redis_view_free(view);
    TWICE(error, conclave_redis_list_replicas(redis, PATIENCE_MS, &list));
    MUST(s, error, "replicas");
    CHECK(s, error != 0 || (list->count == 1 && list->list[0]->usable), "another list");
    conclave_redis_replicas_free(list);
    TWICE(error, conclave_redis_failover(redis, &wish, &result));
    MUST(s, error, "fail-over");
    CHECK(s, error != 0 || result->ok, "another result");
    conclave_redis_failover_result_free(result);
    CHECK(s, conclave_redis_close_wait(redis, PATIENCE_MS) == 0, "did not close");
    conclave_redis_destroy(redis);
    return 0;
}

static void every_allocation_of_a_follower_fails_once(void **state)
{
    (void)state;
    starving_sweep(follow_scene, false, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_of_a_follower_fails_once)};
    return RUN_TESTS(tests);
}
