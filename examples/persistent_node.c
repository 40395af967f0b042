/*
 * A whole program that keeps a node with plain data: delete the node, or stop the server for a while, and it comes
 * back. MODE is ephemeral, sequential, persistent, or a TTL in milliseconds (the server must permit TTLs).
 *
 *     cc persistent_node.c -o persistent_node $(pkg-config --cflags --libs conclave)
 *     ./persistent_node /demo/address 10.0.0.1:8080 ephemeral 127.0.0.1:2181
 */
#include <conclave/persistent_node.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

static void on_presence(struct conclave_persistent_node *node, enum conclave_membership presence,
                        void *ctx)
{
    char path[256];
    (void)ctx;
    if (conclave_persistent_node_path(node, path, sizeof path) == 0) {
        printf("%s: %s\n", path, conclave_membership_name(presence));
    }
}

static int run(struct conclave_recipes *recipes, char **argv)
{
    struct conclave_persistent_node_callbacks callbacks = CONCLAVE_PERSISTENT_NODE_CALLBACKS_INIT;
    struct conclave_persistent_node_options options = CONCLAVE_PERSISTENT_NODE_OPTIONS_INIT;
    struct conclave_persistent_node *node;
    callbacks.on_presence = on_presence;
    options.path = argv[1];
    options.data = argv[2];
    options.data_len = strlen(argv[2]);
    if (strcmp(argv[3], "sequential") == 0) {
        options.mode = CONCLAVE_EPHEMERAL_SEQUENTIAL;
    } else if (strcmp(argv[3], "ephemeral") != 0) {
        options.mode = CONCLAVE_PERSISTENT;
        options.ttl_ms = strtol(argv[3], NULL, 10); /* "persistent": 0, no TTL */
        options.keep = true;
    }
    int error = conclave_persistent_node_open(recipes, &options, &callbacks, NULL, &node);
    if (error != 0) {
        return error;
    }
    while (stopping == 0) {
        (void)sleep(1);
    }
    error = conclave_persistent_node_close_wait(node, 5000); /* removes an ephemeral node first */
    if (error == 0) {
        conclave_persistent_node_destroy(node);
    }
    return error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: persistent_node PATH DATA MODE [HOST:PORT,...]\n");
        return 64;
    }
    options.servers = argc == 5 ? argv[4] : NULL;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    int error = conclave_client_open(&options, &client);
    if (error == 0 && (error = conclave_client_start(client)) == 0 &&
        (error = conclave_recipes_open(client, &recipes)) == 0 &&
        (error = run(recipes, argv)) == 0) {
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 2000);
        return 0;
    }
    fprintf(stderr, "persistent_node: %s\n", conclave_strerror(error));
    return 1; /* the session ends by itself: the process does */
}
