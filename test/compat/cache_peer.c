/* Our cache beside Curator's: cache_peer HOST:PORT,... PATH; after each line read, a zxid, waits until the cache shows it,
 * and prints one line "PATH MZXID DATA;..." by path: the lookups' content. The events, applied in order, must give the same
 * and be a tree at every moment: otherwise the line says what is wrong. */
#include <conclave/cache.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NODES = 4096, PATIENCE_MS = 60000 };

struct copy {
    char *path;
    int64_t mzxid;
};

static struct copy nodes[NODES];
static size_t count;
static const char *broken;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct copy *find(const char *path, size_t len)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(nodes[i].path) == len && strncmp(nodes[i].path, path, len) == 0) {
            return &nodes[i];
        }
    }
    return NULL;
}

static bool has_child(const char *path)
{
    size_t len = strlen(path);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(nodes[i].path, path, len) == 0 && nodes[i].path[len] == '/') {
            return true;
        }
    }
    return false;
}

static void on_event(struct conclave_cache *cache, const struct conclave_cache_event *event,
                     void *ctx)
{
    const struct conclave_cache_node *after = event->after;
    const char *path = after != NULL ? after->path : event->before->path;
    (void)cache;
    (void)ctx;
    (void)pthread_mutex_lock(&lock);
    struct copy *known = find(path, strlen(path));
    if ((known != NULL) != (event->before != NULL) ||
        (known != NULL && known->mzxid != event->before->stat->mzxid)) {
        broken = "an event does not follow the one before it";
    } else if (after == NULL && has_child(path)) {
        broken = "a node was deleted before its children";
    } else if (known == NULL && count > 0 &&
               find(path, (size_t)(strrchr(path, '/') - path)) == NULL) {
        broken = "a node was created before its parent";
    } else if (known != NULL && after != NULL && after->stat->mzxid <= known->mzxid) {
        broken = "a node went back";
    } else if (after == NULL) {
        free(known->path);
        *known = nodes[--count];
    } else if (known != NULL) {
        known->mzxid = after->stat->mzxid;
    } else if (count < NODES) {
        nodes[count++] = (struct copy){strdup(path), after->stat->mzxid};
    }
    (void)pthread_mutex_unlock(&lock);
}

/* Whether the events have led to the same. */
static bool same(const struct conclave_cache_view *view)
{
    (void)pthread_mutex_lock(&lock);
    bool equal = view == NULL ? count == 0 : view->count == count;
    for (size_t i = 0; view != NULL && i < view->count && equal; i++) {
        const struct copy *known = find(view->nodes[i]->path, strlen(view->nodes[i]->path));
        equal = known != NULL && known->mzxid == view->nodes[i]->stat->mzxid;
    }
    (void)pthread_mutex_unlock(&lock);
    return equal;
}

static void show(struct conclave_cache *cache, const char *path, int64_t zxid)
{
    int error = conclave_cache_wait(cache, zxid, PATIENCE_MS);
    struct conclave_cache_view *view = NULL;
    bool equal = false;
    for (int i = 0; i < PATIENCE_MS / 10 && error == 0 && !equal && broken == NULL; i++) {
        conclave_cache_view_free(view);
        view = NULL;
        int found = conclave_cache_subtree(cache, path, &view);
        error = found == CONCLAVE_NO_NODE ? 0 : found;
        equal = error == 0 && same(view);
        if (!equal) {
            (void)usleep(10000);
        }
    }
    if (error != 0 || !equal) {
        printf("%s\n", error != 0       ? conclave_strerror(error)
                       : broken != NULL ? broken
                                        : "the events give another tree");
        return;
    }
    for (size_t i = 0; view != NULL && i < view->count; i++) {
        const struct conclave_cache_node *node = view->nodes[i];
        printf("%s%s %" PRId64 " %.*s", i > 0 ? ";" : "", node->path, node->stat->mzxid,
               (int)node->data_len, node->data == NULL ? "" : (const char *)node->data);
    }
    printf("\n");
    conclave_cache_view_free(view);
}

int main(int argc, char **argv)
{
    struct conclave_client_options client_options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_cache_options options = CONCLAVE_CACHE_OPTIONS_INIT;
    struct conclave_cache_callbacks callbacks = CONCLAVE_CACHE_CALLBACKS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    struct conclave_cache *cache;
    char line[64];
    if (argc != 3) {
        return 64;
    }
    client_options.servers = argv[1];
    options.path = argv[2];
    callbacks.on_event = on_event;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    int error = conclave_client_open(&client_options, &client);
    if (error == 0 && (error = conclave_client_start(client)) == 0 &&
        (error = conclave_recipes_open(client, &recipes)) == 0 &&
        (error = conclave_cache_open(recipes, &options, &callbacks, NULL, &cache)) == 0) {
        printf("ready\n");
        while (fgets(line, sizeof line, stdin) != NULL) {
            show(cache, argv[2], strtoll(line, NULL, 10));
        }
        error = conclave_cache_close_wait(cache, 5000);
        conclave_cache_destroy(cache);
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 2000);
    }
    if (error != 0) {
        fprintf(stderr, "cache_peer: %s\n", conclave_strerror(error));
    }
    return error == 0 ? 0 : 1;
}
