/*
 * A client that prints its spans, for traces_test.py: a JSON object per line, then "over". It makes a node, looks for it
 * with a parent, looks for one that is missing, and makes a transaction. With "once", exactly_once is on as well.
 *
 * usage: span_client SERVERS [once]
 */
#include <conclave/conclave.h>

#include <stdio.h>
#include <string.h>

static const char PARENT[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

static void print_hex(const char *name, const uint8_t *bytes, size_t len)
{
    printf("\"%s\": \"", name);
    for (size_t i = 0; i < len; i++) {
        printf("%02x", bytes[i]);
    }
    printf("\", ");
}

static void on_span(struct conclave_client *client, const struct conclave_span *span, void *ctx)
{
    printf("{");
    print_hex("trace", span->trace_id, sizeof span->trace_id);
    print_hex("span", span->span_id, sizeof span->span_id);
    print_hex("parent_trace", span->parent_trace_id, sizeof span->parent_trace_id);
    print_hex("parent_span", span->parent_span_id, sizeof span->parent_span_id);
    printf(
        "\"name\": \"%s\", \"path\": \"%s\", \"start_ns\": %lld, \"end_ns\": %lld, \"error\": %d, "
        "\"session\": %lld, \"xid\": %d, \"dropped\": %llu, \"ctx\": \"%s\"}\n",
        span->name, span->path, (long long)span->start_ns, (long long)span->end_ns, span->error,
        (long long)span->session_id, (int)span->xid, (unsigned long long)span->dropped,
        (const char *)ctx);
}

static int work(struct conclave_client *client)
{
    const struct conclave_op parts[] = {conclave_op_create("/m", "", 0, CONCLAVE_PERSISTENT),
                                        conclave_op_path(CONCLAVE_OP_DELETE, "/m", -1)};
    struct conclave_op multi = conclave_op_multi(parts, 2);
    struct conclave_reply *reply = NULL;
    int rc = conclave_create(client, "/span", "x", 1, CONCLAVE_PERSISTENT, NULL);
    if (rc == 0 && conclave_span_parent("00-x") == CONCLAVE_EINVAL &&
        conclave_span_parent(PARENT) == 0) {
        rc = conclave_exists(client, "/span", NULL);
    }
    if (conclave_span_parent(NULL) != 0 || conclave_exists(client, "/missing", NULL) == 0) {
        return CONCLAVE_EIO;
    }
    if (rc == 0) {
        rc = conclave_call(client, &multi, &reply);
        conclave_reply_free(reply);
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    char ctx[] = "mine";
    if (argc < 2) {
        return 64;
    }
    options.servers = argv[1];
    options.exactly_once = argc > 2 && strcmp(argv[2], "once") == 0;
    options.on_span = on_span;
    options.span_ctx = ctx;
    if (conclave_client_open(&options, &client) != 0 || conclave_client_start(client) != 0) {
        return 70;
    }
    int rc = conclave_client_wait_connected(client, 60000);
    rc = rc == 0 ? work(client) : rc;
    conclave_client_close(client, 10000);
    printf("over %s\n", conclave_errname(rc));
    return rc == 0 ? 0 : 70;
}
