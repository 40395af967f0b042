/*
 * A whole program that puts items into a queue, or works on them: start the worker several times, and
 * end one of them (also with kill -9) to see its item handed to another.
 *
 *     cc queue.c -o queue $(pkg-config --cflags --libs conclave)
 *     ./queue put /demo/queue "some work" 127.0.0.1:2181
 *     ./queue work /demo/queue alice 127.0.0.1:2181
 *
 * What a real worker must do is here: acknowledge when the work is done, give back what it could not
 * do, and look whether the claim still stands before each step that others would see. Where the work's
 * effect is kept in the tree, conclave_item_ack_multi makes it happen exactly once.
 */
#include <conclave/queue.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

/* The claim is gone: what is still to be done is another worker's. */
static void on_lost(struct conclave_queue *queue, struct conclave_item *item, void *ctx)
{
    (void)queue;
    printf("%s lost %s\n", (const char *)ctx, conclave_item_name(item));
}

/* 0 when it is done. */
static int work_on(const struct conclave_item *item, const char *who)
{
    size_t len;
    const char *data = conclave_item_data(item, &len);
    if (!conclave_item_is_held(item)) {
        return -1;
    }
    printf("%s does %.*s, attempt %d\n", who, (int)len, data, conclave_item_attempt(item));
    return 0;
}

static int work(struct conclave_queue *queue, const char *who)
{
    int error = 0;
    while (!stopping && error == 0) {
        struct conclave_item *item;
        error = conclave_queue_take(queue, 200, &item); /* short, to look for signals */
        if (error == CONCLAVE_ETIMEDOUT) {
            error = 0;
            continue;
        }
        if (error != 0) {
            break;
        }
        int settled = work_on(item, who) == 0 ? conclave_item_ack(item, CONCLAVE_FOREVER)
                                              : conclave_item_nack(item, CONCLAVE_FOREVER);
        if (settled != 0) {
            printf("%s: %s\n", who, conclave_strerror(settled)); /* lost: it comes again */
        }
        conclave_item_free(item);
    }
    return error;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: %s put PATH DATA [SERVERS]\n       %s work PATH NAME [SERVERS]\n",
                argv[0], argv[0]);
        return 64;
    }
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);

    struct conclave_client_options client_options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_queue_options options = CONCLAVE_QUEUE_OPTIONS_INIT;
    struct conclave_queue_callbacks callbacks = {.size = sizeof callbacks, .on_lost = on_lost};
    struct conclave_client *client = NULL;
    struct conclave_recipes *recipes = NULL;
    struct conclave_queue *queue = NULL;
    char name[CONCLAVE_QUEUE_NAME_MAX];
    client_options.servers = argc > 4 ? argv[4] : NULL;
    options.path = argv[2];
    options.id = argv[3];
    options.max_attempts = 5; /* then it is a dead letter: see conclave_queue_list */

    int error = conclave_client_open(&client_options, &client);
    error = error != 0 ? error : conclave_client_start(client);
    error = error != 0 ? error : conclave_recipes_open(client, &recipes);
    error =
        error != 0 ? error : conclave_queue_open(recipes, &options, &callbacks, argv[3], &queue);
    if (error == 0 && strcmp(argv[1], "put") == 0) {
        error = conclave_queue_put(queue, CONCLAVE_QUEUE_PRIORITY_DEFAULT, argv[3], strlen(argv[3]),
                                   10000, name);
        if (error == 0) {
            printf("put %s\n", name);
        }
    } else if (error == 0) {
        error = work(queue, argv[3]);
    }
    if (queue != NULL && conclave_queue_close_wait(queue, CONCLAVE_FOREVER) == 0) {
        conclave_queue_destroy(queue);
    }
    conclave_recipes_destroy(recipes);
    conclave_client_close(client, 1000);
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", argv[0], conclave_strerror(error));
    }
    return error == 0 ? 0 : 1;
}
