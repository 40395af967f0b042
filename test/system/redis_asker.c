/*
 * Uses what conclave/redis.h offers beside following, for redis_clients_test.py:
 *
 *     redis_asker SERVERS ROOT failover TARGET|-     ok, master, epoch, text
 *     redis_asker SERVERS ROOT replicas              a line for each replica, and the picks of two turns
 */
#include <conclave/redis.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TIMEOUT_MS = 30000 };

static int asker_failover(struct conclave_redis *redis, const char *target)
{
    struct conclave_redis_failover_options options = CONCLAVE_REDIS_FAILOVER_OPTIONS_INIT;
    struct conclave_redis_failover_result *result = NULL;
    options.target = strcmp(target, "-") == 0 ? NULL : target;
    options.timeout_ms = TIMEOUT_MS;
    int error = conclave_redis_failover(redis, &options, &result);
    if (error == 0) {
        printf("%d\t%s\t%" PRId64 "\t%s\n", result->ok, result->master, result->epoch,
               result->text);
    }
    conclave_redis_failover_result_free(result);
    return error;
}

static int asker_replicas(struct conclave_redis *redis)
{
    struct conclave_redis_replicas *found = NULL;
    int error = conclave_redis_list_replicas(redis, TIMEOUT_MS, &found);
    for (size_t i = 0; error == 0 && i < found->count; i++) {
        const struct conclave_redis_replica *r = found->list[i];
        printf("replica\t%s\t%d\t%" PRId64 "\t%" PRId64 "\n", r->address, r->usable, r->lag_bytes,
               r->link_down_ms);
    }
    for (uint64_t turn = 0; error == 0 && turn < 2; turn++) {
        const struct conclave_redis_replica *picked = conclave_redis_pick(found, -1, turn);
        printf("pick\t%s\n", picked == NULL ? "-" : picked->address);
    }
    conclave_redis_replicas_free(found);
    return error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options client_options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_redis_options options = CONCLAVE_REDIS_OPTIONS_INIT;
    struct conclave_client *client = NULL;
    struct conclave_recipes *recipes = NULL;
    struct conclave_redis *redis = NULL;
    if (argc < 4) {
        return 64;
    }
    client_options.servers = argv[1];
    options.path = argv[2];
    int error = conclave_client_open(&client_options, &client);
    error = error == 0 ? conclave_client_start(client) : error;
    error = error == 0 ? conclave_recipes_open(client, &recipes) : error;
    error = error == 0 ? conclave_redis_open(recipes, &options, NULL, NULL, &redis) : error;
    if (error == 0) {
        error = argc > 4 ? asker_failover(redis, argv[4]) : asker_replicas(redis);
        (void)conclave_redis_close_wait(redis, CONCLAVE_FOREVER);
        conclave_redis_destroy(redis);
    }
    conclave_recipes_destroy(recipes);
    if (client != NULL) {
        conclave_client_close(client, TIMEOUT_MS);
    }
    if (error != 0) {
        fprintf(stderr, "%s\n", conclave_errname(error));
    }
    return error == 0 ? 0 : 1;
}
