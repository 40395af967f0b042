/*
 * What a value written through one member is when it is read through another at once:
 * linearizable_test WRITER READER ROUNDS, both HOST:PORT.
 *
 * Each round writes once and reads twice behind its acknowledgement: plainly, which may be stale, and
 * linearizably, which may not; one before the other by turns, as a linearizable read makes the plain
 * one behind it new. Each kind of read has its turn. It prints "N stale of N, N stale of N", the
 * linearizable ones first; the exit code is 1 when a call failed.
 */
#include <conclave/client.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { KINDS = 5, WAIT_MS = 20000 };

/* The last acknowledged value. */
struct written {
    int32_t version; /* of /v, whose data is this number */
    int32_t nodes;   /* below /c */
};

static struct conclave_client *open_client(const char *server)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    options.servers = server;
    int rc = conclave_client_open(&options, &client);
    rc = rc == 0 ? conclave_client_start(client) : rc;
    rc = rc == 0 ? conclave_client_wait_connected(client, WAIT_MS) : rc;
    if (rc != 0) {
        fprintf(stderr, "%s: %s\n", server, conclave_strerror(rc));
        exit(1);
    }
    return client;
}

/* The answer, to be freed; a failure ends the test. */
static struct conclave_reply *call(struct conclave_client *client, const struct conclave_op *op)
{
    struct conclave_reply *reply = NULL;
    int rc = conclave_call(client, op, &reply);
    if (rc != 0) {
        fprintf(stderr, "operation %d: %s\n", (int)op->type, conclave_strerror(rc));
        exit(1);
    }
    return reply;
}

static void write_once(struct conclave_client *client, bool node, struct written *w)
{
    char text[32];
    if (node) {
        snprintf(text, sizeof text, "/c/n%" PRId32, w->nodes);
        struct conclave_op op = conclave_op_create(text, NULL, 0, CONCLAVE_PERSISTENT);
        conclave_reply_free(call(client, &op));
        w->nodes++;
        return;
    }
    int len = snprintf(text, sizeof text, "%" PRId32, w->version + 1);
    struct conclave_op op = conclave_op_set("/v", text, (size_t)len, w->version);
    conclave_reply_free(call(client, &op));
    w->version++;
}

static bool shows_data(const struct conclave_reply *reply, const struct written *w)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%" PRId32, w->version);
    return reply->data_len == (size_t)len && memcmp(reply->data, text, (size_t)len) == 0;
}

/* Whether a read of this kind shows what was written. */
static bool read_is_new(struct conclave_client *client, int kind, bool linearizable,
                        const struct written *w)
{
    static const enum conclave_op_type types[KINDS] = {
        CONCLAVE_OP_GET, CONCLAVE_OP_EXISTS, CONCLAVE_OP_MULTI_READ, CONCLAVE_OP_GET_CHILDREN,
        CONCLAVE_OP_GET_ALL_CHILDREN_NUMBER};
    struct conclave_op part = conclave_op_path(CONCLAVE_OP_GET, "/v", 0);
    struct conclave_op op = conclave_op_path(types[kind], kind >= 3 ? "/c" : "/v", 0);
    op.linearizable = linearizable;
    if (types[kind] == CONCLAVE_OP_MULTI_READ) {
        op.path = NULL;
        op.parts = &part;
        op.parts_count = 1;
    }
    struct conclave_reply *reply = call(client, &op);
    bool is_new = kind == 0   ? shows_data(reply, w)
                  : kind == 1 ? reply->stat.version == w->version
                  : kind == 2 ? reply->results_count == 1 && shows_data(reply->results[0], w)
                  : kind == 3 ? reply->children_count == (size_t)w->nodes
                              : reply->total_number == w->nodes;
    conclave_reply_free(reply);
    return is_new;
}

/* Goes on from what earlier runs left. */
static struct written begin(struct conclave_client *client)
{
    const char *const paths[] = {"/v", "/c"};
    struct written w = {0, 0};
    for (int i = 0; i < 2; i++) {
        struct conclave_op op = conclave_op_create(paths[i], "0", 1, CONCLAVE_PERSISTENT);
        int rc = conclave_call(client, &op, NULL);
        if (rc != 0 && rc != CONCLAVE_NODE_EXISTS) {
            fprintf(stderr, "%s: %s\n", paths[i], conclave_strerror(rc));
            exit(1);
        }
        op = conclave_op_path(CONCLAVE_OP_EXISTS, paths[i], 0);
        op.linearizable = true;
        struct conclave_reply *reply = call(client, &op);
        w.version = i == 0 ? reply->stat.version : w.version;
        w.nodes = i == 1 ? reply->stat.num_children : w.nodes;
        conclave_reply_free(reply);
    }
    return w;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: linearizable_test WRITER READER ROUNDS\n");
        return 64;
    }
    struct conclave_client *writer = open_client(argv[1]);
    struct conclave_client *reader = open_client(argv[2]);
    struct written w = begin(writer);
    int rounds = atoi(argv[3]);
    int stale[2] = {0, 0};
    for (int i = 0; i < rounds; i++) {
        int kind = i / 2 % KINDS;
        write_once(writer, kind >= 3, &w);
        for (int turn = 0; turn < 2; turn++) {
            bool linearizable = (i + turn) % 2 == 0;
            stale[linearizable] += !read_is_new(reader, kind, linearizable, &w);
        }
    }
    conclave_client_close(writer, WAIT_MS);
    conclave_client_close(reader, WAIT_MS);
    printf("%d stale of %d, %d stale of %d\n", stale[1], rounds, stale[0], rounds);
    return 0;
}
