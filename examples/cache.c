/*
 * A whole program that keeps a subtree in memory: prints each change, and answers each path that it reads from standard
 * input without asking a server. Ends with its input, or by SIGTERM.
 *
 *     cc cache.c -o cache $(pkg-config --cflags --libs conclave)
 *     ./cache /demo 127.0.0.1:2181
 *     conclave create /demo/a 1                # in another terminal: the program prints it
 *     /demo/a                                  # typed into the program: prints "/demo/a = 1"
 */
#include <conclave/cache.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_node(const char *what, const struct conclave_cache_node *node)
{
    printf("%s %s = %.*s\n", what, node->path, (int)node->data_len,
           node->data == NULL ? "" : (const char *)node->data);
}

static void on_event(struct conclave_cache *cache, const struct conclave_cache_event *event,
                     void *ctx)
{
    (void)cache;
    (void)ctx;
    print_node(conclave_cache_change_name(event->change),
               event->after != NULL ? event->after : event->before);
}

static void on_loaded(struct conclave_cache *cache, void *ctx)
{
    (void)cache;
    (void)ctx;
    printf("loaded\n");
}

static void on_status(struct conclave_cache *cache, const struct conclave_cache_status *status,
                      void *ctx)
{
    (void)cache;
    (void)ctx;
    if (status->error != 0) {
        printf("stopped: %s\n", conclave_strerror(status->error));
    } else {
        printf("%s, %zu nodes, all changes up to %" PRId64 "\n", status->fresh ? "fresh" : "stale",
               status->nodes, status->zxid);
    }
}

static void look_up(struct conclave_cache *cache, const char *path)
{
    const struct conclave_cache_node *node;
    int error = conclave_cache_get(cache, path, &node);
    if (error == 0) {
        print_node("found", node);
        conclave_cache_node_free(node);
    } else {
        printf("%s: %s\n", path, conclave_strerror(error));
    }
}

static int run(struct conclave_recipes *recipes, const char *path)
{
    struct conclave_cache_options options = CONCLAVE_CACHE_OPTIONS_INIT;
    struct conclave_cache_callbacks callbacks = CONCLAVE_CACHE_CALLBACKS_INIT;
    struct conclave_cache *cache;
    char line[1024];
    options.path = path;
    callbacks.on_event = on_event;
    callbacks.on_loaded = on_loaded;
    callbacks.on_status = on_status;
    int error = conclave_cache_open(recipes, &options, &callbacks, NULL, &cache);
    if (error != 0) {
        return error;
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        look_up(cache, line);
    }
    error = conclave_cache_close_wait(cache, 5000);
    if (error == 0) {
        conclave_cache_destroy(cache);
    }
    return error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: cache PATH [HOST:PORT,...]\n");
        return 64;
    }
    options.servers = argc == 3 ? argv[2] : NULL;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    int error = conclave_client_open(&options, &client);
    if (error == 0 && (error = conclave_client_start(client)) == 0 &&
        (error = conclave_recipes_open(client, &recipes)) == 0 &&
        (error = run(recipes, argv[1])) == 0) {
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 2000);
        return 0;
    }
    fprintf(stderr, "cache: %s\n", conclave_strerror(error));
    return 1; /* the session ends by itself: the process does */
}
