/*
 * Uses conclave/redis_client.h from four threads through fail-overs, for redis_clients_test.py:
 *
 *     redis_load SERVERS ROOT TAG [USER PASSWORD CA CERT KEY]
 *
 *     incr VALUE REPLICAS SERVER EPOCH       INCR TAG:count, not idempotent, with WAIT 1
 *     incr lost | refused ERROR              not known whether executed | certainly not executed
 *     add NUMBER REPLICAS SERVER EPOCH       SADD TAG:set NUMBER, declared idempotent, with WAIT 1
 *     add lost | refused ERROR
 *     read SERVER EPOCH                      GET TAG:count, at a replica if there is a fit one
 *     read refused ERROR
 * SIGTERM ends it, with exit code 0.
 */
#include <conclave/redis_client.h>

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SESSION_MS = 4000, PAUSE_US = 3000, CLOSE_MS = 10000 };

static atomic_bool stopping;

struct user {
    struct conclave_redis_client *redis;
    const char *tag;
};

static void tell_error(const char *what, int error)
{
    if (error == CONCLAVE_CONNECTION_LOSS) {
        printf("%s lost\n", what);
    } else {
        printf("%s refused %s\n", what, conclave_errname(error));
    }
}

static void *increment(void *arg)
{
    const struct user *user = arg;
    char key[64];
    const char *argv[] = {"INCR", key};
    snprintf(key, sizeof key, "%s:count", user->tag);
    while (!atomic_load(&stopping)) {
        struct conclave_redis_reply *reply = NULL;
        int error =
            conclave_redis_command(user->redis, CONCLAVE_REDIS_WRITE, 2, argv, NULL, &reply);
        if (error != 0) {
            tell_error("incr", error);
        } else if (reply->type != CONCLAVE_REDIS_REPLY_INTEGER) {
            printf("incr wrong %s\n", reply->text);
        } else {
            printf("incr %" PRId64 " %" PRId64 " %s %" PRId64 "\n", reply->integer, reply->replicas,
                   reply->server, reply->epoch);
        }
        conclave_redis_reply_free(reply);
        (void)usleep(PAUSE_US);
    }
    return NULL;
}

static void *add(void *arg)
{
    const struct user *user = arg;
    char key[64];
    char member[24];
    const char *argv[] = {"SADD", key, member};
    snprintf(key, sizeof key, "%s:set", user->tag);
    for (long number = 1; !atomic_load(&stopping); number++) {
        struct conclave_redis_reply *reply = NULL;
        snprintf(member, sizeof member, "%ld", number);
        int error = conclave_redis_command(user->redis, CONCLAVE_REDIS_WRITE_IDEMPOTENT, 3, argv,
                                           NULL, &reply);
        if (error != 0) {
            tell_error("add", error);
        } else if (reply->type != CONCLAVE_REDIS_REPLY_INTEGER) {
            printf("add wrong %s\n", reply->text);
        } else {
            printf("add %ld %" PRId64 " %s %" PRId64 "\n", number, reply->replicas, reply->server,
                   reply->epoch);
        }
        conclave_redis_reply_free(reply);
        (void)usleep(PAUSE_US);
    }
    return NULL;
}

static void *look(void *arg)
{
    const struct user *user = arg;
    char key[64];
    const char *argv[] = {"GET", key};
    snprintf(key, sizeof key, "%s:count", user->tag);
    while (!atomic_load(&stopping)) {
        struct conclave_redis_reply *reply = NULL;
        int error = conclave_redis_command(user->redis, CONCLAVE_REDIS_READ, 2, argv, NULL, &reply);
        if (error != 0) {
            tell_error("read", error);
        } else {
            printf("read %s %" PRId64 "\n", reply->server, reply->epoch);
        }
        conclave_redis_reply_free(reply);
        (void)usleep(PAUSE_US);
    }
    return NULL;
}

static int run(struct conclave_recipes *recipes, char **argv, bool secured)
{
    struct conclave_redis_client_options options = CONCLAVE_REDIS_CLIENT_OPTIONS_INIT;
    struct user user = {.tag = argv[3]};
    pthread_t threads[4];
    options.path = argv[2];
    options.stale_ms = 2000;
    options.reads = CONCLAVE_REDIS_READS_REPLICA_OR_MASTER;
    options.wait_replicas = 1;
    options.wait_ms = 500;
    options.timeout_ms = 60000;
    options.connect_timeout_ms = 5000;
    options.answer_timeout_ms = 20000; /* a frozen master's epoch ends earlier */
    options.retries = 1000;
    if (secured) {
        options.user = argv[4];
        options.password = argv[5];
        options.ca_file = argv[6];
        options.cert_file = argv[7];
        options.key_file = argv[8];
    }
    int error = conclave_redis_client_open(recipes, &options, &user.redis);
    if (error != 0) {
        return error;
    }
    void *(*const what[])(void *) = {increment, increment, add, look};
    for (int i = 0; i < 4; i++) {
        if (pthread_create(&threads[i], NULL, what[i], &user) != 0) {
            return CONCLAVE_ENOMEM;
        }
    }
    sigset_t ends;
    int number;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigwait(&ends, &number);
    atomic_store(&stopping, true);
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    char problem[256];
    conclave_redis_client_problem(user.redis, problem, sizeof problem);
    fprintf(stderr, "last problem: %s\n", problem);
    error = conclave_redis_client_close_wait(user.redis, CLOSE_MS);
    if (error == 0) {
        conclave_redis_client_destroy(user.redis);
    }
    return error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    sigset_t ends;
    if (argc != 4 && argc != 9) {
        fprintf(stderr, "usage: redis_load SERVERS ROOT TAG [USER PASSWORD CA CERT KEY]\n");
        return 64;
    }
    options.servers = argv[1];
    options.session_timeout_ms = SESSION_MS;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &ends, NULL); /* for all threads: main waits for it */
    int error = conclave_client_open(&options, &client);
    if (error == 0 && (error = conclave_client_start(client)) == 0 &&
        (error = conclave_recipes_open(client, &recipes)) == 0 &&
        (error = run(recipes, argv, argc == 9)) == 0) {
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 2000);
        return 0;
    }
    fprintf(stderr, "redis_load: %s\n", conclave_strerror(error));
    return 1;
}
