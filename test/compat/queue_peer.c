/* Ours beside other programs' queues, for mixed_queue_test.py: queue_peer put|take HOST:PORT NAME FILE KIND...
 * Puts into the queue of each kind, or takes from it, until its input ends. Appends one line to FILE for each step: name, kind,
 * what, item, nanoseconds since 1970. An item is NAME.PID.NUMBER, of a delayed one with a dot and the milliseconds of its time. */
#include <conclave/client.h>
#include <conclave/queue.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SESSION_MS = 3000,
    PATIENCE_MS = 20000,
    TAKE_MS = 200,
    PAUSE_MS = 100,
    DELAY_MS = 400,
    REMOVED_EACH = 4
};

static const struct kind {
    const char *name;
    enum conclave_queue_layout layout;
    const char *claims;
    bool claimed; /* its other consumers respect claims: at least once */
} kinds[] = {
    {"kazoo", CONCLAVE_QUEUE_LAYOUT_KAZOO, NULL, false},
    {"kazoo-locking", CONCLAVE_QUEUE_LAYOUT_KAZOO_LOCKING, NULL, true},
    {"simple", CONCLAVE_QUEUE_LAYOUT_PLAIN, NULL, false},
    {"curator", CONCLAVE_QUEUE_LAYOUT_CURATOR, NULL, false},
    {"curator-locks", CONCLAVE_QUEUE_LAYOUT_CURATOR, "/mixed/locks", true},
    {"curator-id", CONCLAVE_QUEUE_LAYOUT_CURATOR, NULL, false},
    {"curator-priority", CONCLAVE_QUEUE_LAYOUT_CURATOR_PRIORITY, NULL, false},
    {"curator-delay", CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY, NULL, false},
};

static atomic_bool ending;
static const char *my_name;
static int file;
static struct conclave_recipes *recipes;

static int64_t wall_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* One write: lines of several programs do not mix. */
static void note(const struct kind *kind, const char *what, const char *item, size_t len)
{
    char line[256];
    int count = snprintf(line, sizeof line, "%s %s %s %.*s %lld\n", my_name, kind->name, what,
                         (int)len, item, (long long)wall_ns());
    if (count < 0 || write(file, line, (size_t)count) != count) {
        exit(1);
    }
}

static void must(int error, const char *what)
{
    if (error != 0) {
        fprintf(stderr, "%s: %s: %s\n", my_name, what, conclave_errname(error));
        exit(1);
    }
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static struct conclave_queue *queue_open(const struct kind *kind)
{
    struct conclave_queue_options options = CONCLAVE_QUEUE_OPTIONS_INIT;
    struct conclave_queue *queue;
    char path[64];
    (void)snprintf(path, sizeof path, "/mixed/%s", kind->name);
    options.path = path;
    options.layout = kind->layout;
    options.claims_path = kind->claims;
    options.at_most_once = !kind->claimed;
    must(conclave_queue_open(recipes, &options, NULL, NULL, &queue), "open");
    return queue;
}

static void remove_item(struct conclave_queue *queue, const struct kind *kind, const char *item)
{
    size_t count = 0;
    must(conclave_queue_remove(queue, item, PATIENCE_MS, &count), "remove");
    if (count > 0) {
        note(kind, "removed", item, strlen(item));
    }
}

static void *put_all(void *ctx)
{
    const struct kind *kind = ctx;
    struct conclave_queue *queue = queue_open(kind);
    bool priorities = kind->layout == CONCLAVE_QUEUE_LAYOUT_CURATOR_PRIORITY ||
                      kind->layout == CONCLAVE_QUEUE_LAYOUT_KAZOO ||
                      kind->layout == CONCLAVE_QUEUE_LAYOUT_KAZOO_LOCKING;
    bool with_id = strcmp(kind->name, "curator-id") == 0;
    for (int i = 0; !atomic_load(&ending); i++) {
        struct conclave_put_options options = CONCLAVE_PUT_OPTIONS_INIT;
        char item[128];
        int len = snprintf(item, sizeof item, "%s.%d.%d", my_name, (int)getpid(), i);
        if (kind->layout == CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY) {
            options.not_before_ms = wall_ns() / 1000000 + DELAY_MS;
            len += snprintf(item + len, sizeof item - (size_t)len, ".%lld",
                            (long long)options.not_before_ms);
        }
        if (priorities) {
            options.priority =
                i % 3; /* as theirs: larger ones would have to wait for all of theirs */
        }
        options.id = with_id ? item : NULL;
        note(kind, "try", item, (size_t)len);
        int error = conclave_queue_put_with(queue, &options, item, (size_t)len, PATIENCE_MS, NULL);
        if (error == 0) {
            note(kind, "put", item, (size_t)len);
        } else if (error != CONCLAVE_SESSION_EXPIRED) {
            must(error, "put");
        }
        if (with_id && error == 0 && i % REMOVED_EACH == 0) {
            remove_item(queue, kind, item);
        }
        pause_ms(PAUSE_MS);
    }
    must(conclave_queue_close_wait(queue, PATIENCE_MS), "close");
    conclave_queue_destroy(queue);
    return NULL;
}

static void *take_all(void *ctx)
{
    const struct kind *kind = ctx;
    struct conclave_queue *queue = queue_open(kind);
    while (!atomic_load(&ending)) {
        struct conclave_item *item;
        int error = conclave_queue_take(queue, TAKE_MS, &item);
        if (error == CONCLAVE_ETIMEDOUT) {
            continue;
        }
        must(error, "take");
        size_t len;
        const char *text = conclave_item_data(item, &len);
        note(kind, "take", text, len);
        pause_ms(2);
        note(kind, "acks", text, len);
        error = conclave_item_ack(item, PATIENCE_MS);
        note(kind, error == 0 ? "done" : "lost", text, len);
        if (error != CONCLAVE_ELOST && error != CONCLAVE_SESSION_EXPIRED) {
            must(error, "ack");
        }
        conclave_item_free(item);
    }
    must(conclave_queue_close_wait(queue, PATIENCE_MS), "close");
    conclave_queue_destroy(queue);
    return NULL;
}

int main(int argc, char **argv)
{
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    pthread_t threads[KINDS];
    size_t count = 0;
    char byte;
    if (argc < 6) {
        return 64;
    }
    my_name = argv[3];
    file = open(argv[4], O_WRONLY | O_APPEND | O_CREAT, 0600);
    options.servers = argv[2];
    options.session_timeout_ms = SESSION_MS;
    must(conclave_client_open(&options, &client), "client");
    must(conclave_client_start(client), "start");
    must(conclave_recipes_open(client, &recipes), "recipes");
    for (size_t k = 0; k < KINDS; k++) {
        for (int i = 5; i < argc; i++) {
            if (strcmp(argv[i], kinds[k].name) == 0) {
                must(pthread_create(&threads[count++], NULL,
                                    strcmp(argv[1], "put") == 0 ? put_all : take_all,
                                    (void *)&kinds[k]),
                     "thread");
            }
        }
    }
    while (read(0, &byte, 1) > 0) {}
    atomic_store(&ending, true);
    for (size_t i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    conclave_recipes_destroy(recipes);
    conclave_client_close(client, PATIENCE_MS);
    return 0;
}
