/*
 * A whole program that adds to a number under a lock, and writes only while it holds it: start it
 * several times at once, also kill -9 one, and no addition is lost.
 *
 *     cc lock.c -o lock $(pkg-config --cflags --libs conclave)
 *     ./lock /demo/lock /demo/number 10 127.0.0.1:2181
 *
 * What a real program must do is here: wait with a time limit, let the write go through only with
 * the lock (a transaction that checks it), look at what the release says.
 */
#include <conclave/easy.h>
#include <conclave/lock.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 60000, STOP_MS = 5000 };

static void on_lost(struct conclave_lock *lock, int why, int64_t stop_within_ms, void *ctx)
{
    (void)lock;
    (void)ctx;
    fprintf(stderr, "lock: lost: %s; %" PRId64 " ms to stop in\n", conclave_strerror(why),
            stop_within_ms);
}

/* Reads the number; it need not be there yet. */
static int number_get(struct conclave_client *client, const char *path, long long *ret)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, path, 0);
    struct conclave_reply *reply = NULL;
    op.linearizable = true; /* what the holder before us wrote, whichever server we are at */
    int error = conclave_call(client, &op, &reply);
    *ret = error == 0 && reply->data != NULL ? strtoll(reply->data, NULL, 10) : 0;
    conclave_reply_free(reply);
    return error == CONCLAVE_NO_NODE
               ? conclave_create(client, path, "0", 1, CONCLAVE_PERSISTENT, NULL)
               : error;
}

/* One addition. Without the lock nothing is written: the transaction checks its node. */
static int add_one(struct conclave_client *client, struct conclave_lock *lock, const char *path)
{
    char text[32];
    long long number;
    int error = number_get(client, path, &number);
    if (error != 0) {
        return error;
    }
    (void)snprintf(text, sizeof text, "%lld", number + 1);
    struct conclave_op write = conclave_op_set(path, text, strlen(text), -1);
    error = conclave_lock_fenced_multi(lock, &write, 1, NULL);
    if (error == 0) {
        printf("%s, token %" PRId64 "\n", text, conclave_lock_token(lock).czxid);
    }
    return error;
}

static int run(struct conclave_client *client, struct conclave_recipes *recipes, char **argv)
{
    static const struct conclave_lock_callbacks callbacks = {.size = sizeof callbacks,
                                                             .on_lost = on_lost};
    struct conclave_lock_options options = CONCLAVE_LOCK_OPTIONS_INIT;
    struct conclave_lock *lock;
    options.path = argv[1];
    int error = conclave_lock_open(recipes, &options, &callbacks, NULL, &lock);
    if (error != 0) {
        return error;
    }
    for (int left = atoi(argv[3]); left > 0 && error == 0; left--) {
        error = conclave_lock_acquire(lock, WAIT_MS, NULL);
        if (error != 0) {
            break;
        }
        error = add_one(client, lock, argv[2]);
        int released = conclave_lock_release(lock, STOP_MS);
        error = error == 0 ? released : error; /* CONCLAVE_ELOST: what was not fenced is unsafe */
    }
    int closed = conclave_lock_close_wait(lock, STOP_MS);
    if (closed == 0) {
        conclave_lock_destroy(lock);
    }
    return error == 0 ? closed : error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client = NULL;
    struct conclave_recipes *recipes = NULL;
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: lock LOCK NUMBER TIMES [HOST:PORT,...]\n");
        return 64;
    }
    options.servers = argc == 5 ? argv[4] : NULL;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    int error = conclave_client_open(&options, &client);
    error = error == 0 ? conclave_client_start(client) : error;
    error = error == 0 ? conclave_recipes_open(client, &recipes) : error;
    error = error == 0 ? run(client, recipes, argv) : error;
    if (error != 0) {
        fprintf(stderr, "lock: %s\n", conclave_strerror(error));
        return 1; /* the session ends by itself: the process does */
    }
    conclave_recipes_destroy(recipes);
    conclave_client_close(client, 2000);
    return 0;
}
