/*
 * A client in a loop of the program's own, without a thread: follows the data of one node.
 *
 *     cc poll_loop.c -o poll_loop $(pkg-config --cflags --libs conclave)
 *     ./poll_loop /config/greeting
 *
 * Three calls are all that a loop needs: poll conclave_client_fd for reading, for at most
 * conclave_client_timeout_ms, then call conclave_client_dispatch. All callbacks run inside it. Other
 * descriptors, and other clients, go into the same poll. Recipes work the same way.
 */
#include <conclave/client.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

static int follow(struct conclave_client *client, const char *path);

/* Once for each read: what it told is old now, or nothing more will come of it. */
static void on_watch(struct conclave_client *client, enum conclave_event_type type,
                     const char *path, void *ctx)
{
    (void)path;
    if (type != CONCLAVE_EVENT_LOST || stopping == 0) {
        (void)follow(client, ctx);
    }
}

/* A read's watch stands when the node is there; where it is not, exists is asked, whose watch tells
 * of the creation. */
static void on_value(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    (void)client;
    if (reply->error == 0) {
        printf("%s: %.*s\n", (const char *)ctx, (int)reply->data_len, (const char *)reply->data);
    } else {
        printf("%s: %s\n", (const char *)ctx, conclave_strerror(reply->error));
    }
}

static void on_exists(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    if (reply->error == 0) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, ctx, 0);
        if (conclave_submit(client, &op, on_value, ctx) == 0) {
            return;
        }
    }
    on_value(client, reply, ctx);
}

/* Asks for the watch and then for the value, in that order: no change is missed. */
static int follow(struct conclave_client *client, const char *path)
{
    struct conclave_op op = conclave_op_watch(CONCLAVE_OP_EXISTS, path, on_watch, (void *)path);
    return conclave_submit(client, &op, on_exists, (void *)path);
}

static void loop(struct conclave_client *client)
{
    struct pollfd polled = {.fd = conclave_client_fd(client), .events = POLLIN};
    while (stopping == 0) {
        int64_t timeout_ms = conclave_client_timeout_ms(client);
        (void)poll(&polled, 1, timeout_ms < 0 || timeout_ms > 1000 ? 1000 : (int)timeout_ms);
        if (conclave_client_dispatch(client) != 0) {
            break;
        }
    }
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client = NULL;
    if (argc != 2) {
        fprintf(stderr, "usage: poll_loop PATH\n");
        return 64;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    int error = conclave_client_open(&options, &client);
    if (error == 0) {
        error = follow(client, argv[1]); /* waits for a connection by itself */
    }
    if (error != 0) {
        fprintf(stderr, "poll_loop: %s\n", conclave_strerror(error));
        return 1;
    }
    loop(client);
    conclave_client_close(client, 2000);
    return 0;
}
