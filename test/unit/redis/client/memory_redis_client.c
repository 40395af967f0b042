/* Every allocation of a client of Redis servers fails once, in turn. */
#include "support/fake_redis.h"
#include "support/starving.h"

#include <conclave/redis_client.h>

#define ROOT "/redis_failover/default"

/* The record and the report of one master and one replica. */
static void make_set(struct fake_zk *zk, struct fake_redis *master, struct fake_redis *replica)
{
    char text[1024];
    if (!fake_zk_exists(zk, ROOT)) {
        fake_zk_create(zk, "/redis_failover", "", 0);
        fake_zk_create(zk, ROOT, "", 0);
        fake_zk_create(zk, ROOT "/managers", "", 0);
        fake_zk_create(zk, ROOT "/current", "", 0);
        fake_zk_create(zk, ROOT "/managers/m", "", 0);
    }
    (void)snprintf(text, sizeof text,
                   "{\"epoch\":1,\"state\":\"ok\",\"master\":\"%s\",\"run_id\":\"a\",\"replicas\":"
                   "[\"%s\"],\"unavailable\":[]}",
                   fake_redis_address(master), fake_redis_address(replica));
    fake_zk_write(zk, ROOT "/current", text);
    (void)snprintf(
        text, sizeof text,
        "{\"id\":\"m\",\"period_ms\":1000,\"nodes\":{\"%s\":{\"state\":\"up\",\"age_ms\":"
        "1,\"role\":\"replica\",\"master\":\"%s\",\"link\":\"up\",\"offset\":7}}}",
        fake_redis_address(replica), fake_redis_address(master));
    fake_zk_write(zk, ROOT "/managers/m", text);
}

/* Each kind of command once, and a write that is sent without memory for its answer. */
static void use(struct starving *s, struct conclave_redis_client *redis, struct fake_redis *master)
{
    static const char *const INCR[] = {"INCR", "key"};
    static const char *const GET[] = {"GET", "key"};
    struct conclave_redis_reply *reply = NULL;
    int error;
    TWICE(error, conclave_redis_command(redis, CONCLAVE_REDIS_WRITE, 2, INCR, NULL, &reply));
    if (error != CONCLAVE_CONNECTION_LOSS) {
        MUST(s, error, "a write");
    }
    CHECK(s, fake_redis_value(master) == 1 || (error != 0 && fake_redis_value(master) == 0),
          "executed twice, or not");
    CHECK(s, error != 0 || reply->integer == 1, "another answer");
    conclave_redis_reply_free(reply);
    reply = NULL;
    TWICE(error, conclave_redis_command(redis, CONCLAVE_REDIS_READ, 2, GET, NULL, &reply));
    MUST(s, error, "a read");
    CHECK(s, error != 0 || reply->epoch == 0, "not from the replica");
    conclave_redis_reply_free(reply);
}

static int client_scene(struct starving *s)
{
    struct conclave_redis_client_options options = CONCLAVE_REDIS_CLIENT_OPTIONS_INIT;
    struct conclave_redis_client *redis;
    struct fake_redis *master;
    struct fake_redis *replica;
    int error;
    FED(s, (master = fake_redis_start(true, "a"), replica = fake_redis_start(false, "b")));
    FED(s, make_set(s->zk, master, replica));
    options.reads = CONCLAVE_REDIS_READS_REPLICA;
    options.timeout_ms = PATIENCE_MS;
    options.answer_timeout_ms = PATIENCE_MS;
    options.connect_timeout_ms = PATIENCE_MS;
    options.stale_ms = PATIENCE_MS;
    options.wait_replicas = 1;
    options.user = "app";
    options.password = "secret";
    TWICE(error, conclave_redis_client_open(s->recipes, &options, &redis));
    MUST(s, error, "open");
    if (error == 0) {
        use(s, redis, master);
        CHECK(s, conclave_redis_client_close_wait(redis, PATIENCE_MS) == 0, "did not close");
        conclave_redis_client_destroy(redis);
    }
    FED(s, (fake_redis_stop(master), fake_redis_stop(replica)));
    return error;
}

static void every_allocation_of_a_redis_client_fails_once(void **state)
{
    (void)state;
    starving_sweep(client_scene, false, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_of_a_redis_client_fails_once)};
    return RUN_TESTS(tests);
}
