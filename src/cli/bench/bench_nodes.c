/*
 * The nodes of a run: one parent, which must not exist before, and everything below it. Removed at the end, also after a
 * signal, on a connection of its own. A window of requests is in flight, so a million nodes take a minute, not an hour.
 */
#include "cli/bench/bench.h"
#include "cli/common/connection.h"
#include "cli/common/node_output.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 512, REMOVE_ROUNDS = 5 };

/* Requests of the set-up in flight. */
struct node_window {
    struct conclave_client *client;
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    size_t in_flight;
    int error;    /* the first one */
    int harmless; /* an error that is none */
};

static void node_window_init(struct node_window *w, struct conclave_client *client, int harmless)
{
    *w = (struct node_window){.client = client, .harmless = harmless};
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->answered, NULL);
}

static void on_answer(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    struct node_window *w = ctx;
    pthread_mutex_lock(&w->mutex);
    assert(w->in_flight > 0);
    w->in_flight--;
    if (reply->error != 0 && reply->error != w->harmless && w->error == 0) {
        w->error = reply->error;
    }
    pthread_cond_signal(&w->answered);
    pthread_mutex_unlock(&w->mutex);
}

/* Waits until fewer than `most` are in flight. */
static int node_window_wait(struct node_window *w, size_t most)
{
    pthread_mutex_lock(&w->mutex);
    while (w->in_flight >= most) {
        pthread_cond_wait(&w->answered, &w->mutex); /* every request has an end: its timeout */
    }
    int error = w->error;
    pthread_mutex_unlock(&w->mutex);
    return error;
}

static int node_window_send(struct node_window *w, const struct conclave_op *op)
{
    int error = node_window_wait(w, WINDOW);
    if (error != 0) {
        return error;
    }
    pthread_mutex_lock(&w->mutex);
    w->in_flight++;
    pthread_mutex_unlock(&w->mutex);
    error = conclave_submit(w->client, op, on_answer, w);
    if (error != 0) {
        pthread_mutex_lock(&w->mutex);
        w->in_flight--;
        pthread_mutex_unlock(&w->mutex);
    }
    return error;
}

/* Waits for the rest. The first error. */
static int node_window_end(struct node_window *w, int error)
{
    int late = node_window_wait(w, 1);
    pthread_cond_destroy(&w->answered);
    pthread_mutex_destroy(&w->mutex);
    return error != 0 ? error : late;
}

static int make_numbered(struct bench *b, struct node_window *w, const char *below, size_t count,
                         const void *data, size_t len)
{
    char path[BENCH_PATH_MAX];
    int error = 0;
    for (size_t i = 0; error == 0 && i < count; i++) {
        snprintf(path, sizeof path, "%s/%s/%zu", b->parent, below, i);
        struct conclave_op op = conclave_op_create(path, data, len, CONCLAVE_PERSISTENT);
        error = node_window_send(w, &op);
        b->set_up_requests++;
    }
    return error;
}

static int make_below(struct bench *b, struct conclave_client *client)
{
    static const char *const FOLDERS[] = {"nodes", "made", "watched", "locks"};
    char path[BENCH_PATH_MAX];
    struct node_window w;
    size_t slots = (size_t)(b->options->sessions * b->options->outstanding);
    size_t len = (size_t)b->options->data_bytes;
    int error = 0;
    node_window_init(&w, client, 0);
    for (size_t i = 0; error == 0 && i < sizeof FOLDERS / sizeof FOLDERS[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", b->parent, FOLDERS[i]);
        struct conclave_op op = conclave_op_create(path, NULL, 0, CONCLAVE_PERSISTENT);
        error = node_window_send(&w, &op);
        b->set_up_requests++;
    }
    if (error == 0) {
        error = make_numbered(b, &w, "nodes", (size_t)b->options->nodes, b->data, len);
    }
    if (error == 0 && b->weights[BENCH_WATCH] > 0) {
        error = make_numbered(b, &w, "watched", slots, NULL, 0);
    }
    if (error == 0 && b->weights[BENCH_LOCK] > 0) {
        error = make_numbered(b, &w, "locks", slots, NULL, 0);
    }
    return node_window_end(&w, error);
}

int bench_make_nodes(struct bench *b)
{
    struct conclave_client *client;
    int code = connection_open_own("bench", &b->options->common, NULL, NULL, &client);
    if (code != 0) {
        b->parent[0] = '\0'; /* nothing was made */
        return code;
    }
    struct conclave_op op = conclave_op_create(b->parent, NULL, 0, CONCLAVE_PERSISTENT);
    int error = conclave_call(client, &op, NULL);
    b->set_up_requests++;
    if (error != 0) {
        code = fail("bench", b->parent, error);
        /* Only where the outcome is not known can it be ours. */
        if (error != CONCLAVE_CONNECTION_LOSS && error != CONCLAVE_OPERATION_TIMEOUT) {
            b->parent[0] = '\0';
        }
    } else {
        error = make_below(b, client);
        code = error == 0 ? 0 : fail("bench", b->parent, error);
    }
    connection_close(client);
    return code;
}

/* Children before their parents. */
static int remove_once(struct conclave_client *client, const char *parent)
{
    char **paths = NULL;
    size_t count = 0;
    struct node_window w;
    int error = branch_list(client, parent, true, &paths, &count);
    if (error == CONCLAVE_NO_NODE) {
        return 0;
    }
    if (error == 0) {
        /* In order on one session: a parent comes behind all its children, so it is empty then. */
        node_window_init(&w, client, CONCLAVE_NO_NODE);
        for (size_t i = count; error == 0 && i-- > 0;) {
            struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, paths[i], -1);
            error = node_window_send(&w, &op);
        }
        error = node_window_end(&w, error);
    }
    branch_free(paths, count);
    return error;
}

int bench_remove_nodes(struct bench *b)
{
    struct conclave_client *client;
    if (b->parent[0] == '\0') {
        return 0;
    }
    int code = connection_open_own("bench", &b->options->common, NULL, NULL, &client);
    if (code != 0) {
        fprintf(stderr, "conclave bench: %s is left: remove it with \"conclave rm --recursive\"\n",
                b->parent);
        return code;
    }
    int error = CONCLAVE_NOT_EMPTY;
    /* A session whose end was not heard of may still make a node, or leave one until it expires. */
    for (int i = 0; error != 0 && i < REMOVE_ROUNDS; i++) {
        error = remove_once(client, b->parent);
    }
    if (error != 0) {
        code = fail("bench", b->parent, error);
        fprintf(stderr, "conclave bench: %s is left: remove it with \"conclave rm --recursive\"\n",
                b->parent);
    }
    connection_close(client);
    return code;
}
