/* A persistent node with a TTL, beside Curator's: ttl_node_peer HOST:PORT PATH TTL_MS DATA keeps it, prints "ready" when it
 * is there, and closes it at the end of its input. */
#include <conclave/client.h>
#include <conclave/persistent_node.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 60000 };

static int keep(struct conclave_recipes *recipes,
                const struct conclave_persistent_node_options *options)
{
    struct conclave_persistent_node *node;
    int error = conclave_persistent_node_open(recipes, options, NULL, NULL, &node);
    if (error != 0) {
        return error;
    }
    error = conclave_persistent_node_wait(node, PATIENCE_MS);
    if (error == 0) {
        puts("ready");
        (void)fflush(stdout);
        while (getchar() != EOF) {}
    }
    int closed = conclave_persistent_node_close_wait(node, PATIENCE_MS);
    conclave_persistent_node_destroy(node);
    return error != 0 ? error : closed;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_persistent_node_options node = CONCLAVE_PERSISTENT_NODE_OPTIONS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    if (argc != 5) {
        return 64;
    }
    options.servers = argv[1];
    node.path = argv[2];
    node.mode = CONCLAVE_PERSISTENT;
    node.ttl_ms = strtol(argv[3], NULL, 10);
    node.data = argv[4];
    node.data_len = strlen(argv[4]);
    int error = conclave_client_open(&options, &client);
    if (error == 0 && (error = conclave_client_start(client)) == 0 &&
        (error = conclave_recipes_open(client, &recipes)) == 0) {
        error = keep(recipes, &node);
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 2000);
    }
    if (error != 0) {
        fprintf(stderr, "ttl_node_peer: %s\n", conclave_strerror(error));
    }
    return error == 0 ? 0 : 1;
}
