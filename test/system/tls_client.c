/*
 * The library over TLS, for tls_test.py: with its threads, or in a loop of the program's own. Writes and
 * reads 700 KB, sets a watch and hears of it.
 *
 * usage: tls_client threads|loop HOST:PORT CA CERT KEY
 */
#include <conclave/client.h>

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 700 * 1000 };

struct run {
    struct conclave_client *client;
    bool loop;
    char *data;
    atomic_int steps; /* create, get, set, watch */
    atomic_int error;
};

static void on_answer(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    struct run *r = ctx;
    if (reply->error != 0) {
        atomic_store(&r->error, reply->error);
    }
    if (reply->data != NULL &&
        (reply->data_len != BYTES || memcmp(reply->data, r->data, BYTES) != 0)) {
        atomic_store(&r->error, CONCLAVE_ECORRUPT);
    }
    atomic_fetch_add(&r->steps, 1);
}

static void on_watch(struct conclave_client *client, enum conclave_event_type type,
                     const char *path, void *ctx)
{
    struct run *r = ctx;
    if (type == CONCLAVE_EVENT_DATA_CHANGED) {
        atomic_fetch_add(&r->steps, 1);
    }
}

static void turn(struct run *r)
{
    if (!r->loop) {
        poll(NULL, 0, 5); /* without a look at the client, whose lock its threads need */
        return;
    }
    struct pollfd fd = {.fd = conclave_client_fd(r->client), .events = POLLIN};
    int64_t timeout = conclave_client_timeout_ms(r->client);
    poll(&fd, 1, timeout >= 0 && timeout < 20 ? (int)timeout : 20);
    conclave_client_dispatch(r->client);
}

static int finish(struct run *r, int error, const char *what)
{
    char why[1024] = "";
    conclave_client_last_error(r->client, why, sizeof why);
    conclave_client_close(r->client, 2000);
    free(r->data);
    if (error != 0) {
        fprintf(stderr, "%s: %s (%s)\n", what, conclave_strerror(error), why);
        return 1;
    }
    puts("ok");
    return 0;
}

/* All at once: the node, its data with a watch, and the change that fires it. */
static int submit_all(struct run *r)
{
    const struct conclave_op ops[] = {
        conclave_op_create(r->loop ? "/in-loop" : "/in-threads", r->data, BYTES,
                           CONCLAVE_PERSISTENT),
        conclave_op_watch(CONCLAVE_OP_GET, r->loop ? "/in-loop" : "/in-threads", on_watch, r),
        conclave_op_set(r->loop ? "/in-loop" : "/in-threads", "short", 5, -1),
    };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        int error = conclave_submit(r->client, &ops[i], on_answer, r);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_tls_options tls = CONCLAVE_TLS_OPTIONS_INIT;
    struct run r = {.loop = argc == 6 && strcmp(argv[1], "loop") == 0};
    char why[512] = "";
    if (argc != 6) {
        fprintf(stderr, "usage: tls_client threads|loop HOST:PORT CA CERT KEY\n");
        return 64;
    }
    tls.ca_file = argv[3];
    tls.cert_file = argv[4];
    tls.key_file = argv[5];
    tls.error = why;
    tls.error_len = sizeof why;
    options.servers = argv[2];
    options.tls = &tls;
    int error = conclave_client_open(&options, &r.client);
    if (error != 0) {
        fprintf(stderr, "open: %s (%s)\n", conclave_strerror(error), why);
        return 1;
    }
    r.data = malloc(BYTES);
    if (r.data == NULL) {
        return finish(&r, CONCLAVE_ENOMEM, "data");
    }
    for (size_t i = 0; i < BYTES; i++) {
        r.data[i] = (char)(i * 7 + i / 1000);
    }
    error = r.loop ? 0 : conclave_client_start(r.client);
    if (error == 0) {
        error = submit_all(&r);
    }
    for (int i = 0; i < 6000 && error == 0 && atomic_load(&r.steps) < 4; i++) {
        turn(&r);
        error = atomic_load(&r.error);
    }
    if (error == 0 && atomic_load(&r.steps) < 4) {
        error = CONCLAVE_ETIMEDOUT;
    }
    return finish(&r, error, "requests");
}
