/*
 * An election in a libuv loop: every callback runs in the loop's thread, nothing blocks. It leads
 * for a second, then leaves and ends.
 *
 *     cc uv_loop.c -o uv_loop $(pkg-config --cflags --libs conclave libuv)
 *     ./uv_loop /demo/election
 *
 * The end goes in steps, each begun by the callback of the one before: the election is closed
 * (on_closed), then the client with its session (on_client_closed), then the loop has nothing left.
 */
#include <conclave/election.h>
#include <conclave/uv.h>

#include <inttypes.h>
#include <stdio.h>
#include <uv.h>

enum { LEAD_MS = 1000, CLOSE_MS = 2000 };

struct program {
    uv_loop_t *loop;
    uv_timer_t timer; /* of the time for which it leads */
    struct conclave_client *client;
    struct conclave_uv *uv;
    struct conclave_recipes *recipes;
    struct conclave_election *election;
};

static void on_client_closed(void *ctx)
{
    (void)ctx;
    printf("closed\n");
}

static void on_timer(uv_timer_t *timer)
{
    struct program *p = timer->data;
    conclave_election_close(p->election); /* tells on_revoked first, then on_closed */
}

static int on_elected(struct conclave_election *election, struct conclave_token token, bool regrant,
                      void *ctx)
{
    struct program *p = ctx;
    (void)election;
    (void)regrant;
    printf("leads, token %" PRId64 "\n", token.czxid);
    return uv_timer_start(&p->timer, on_timer, LEAD_MS, 0);
}

static void on_revoked(struct conclave_election *election, int why, int64_t stop_within_ms,
                       void *ctx)
{
    struct program *p = ctx;
    (void)election;
    (void)stop_within_ms;
    printf("leads no more: %s\n", conclave_strerror(why));
    (void)uv_timer_stop(&p->timer);
}

static void on_closed(struct conclave_election *election, int why, void *ctx)
{
    struct program *p = ctx;
    (void)why;
    conclave_election_destroy(election);
    conclave_recipes_destroy(p->recipes);
    uv_close((uv_handle_t *)&p->timer, NULL);
    conclave_uv_close(p->uv, CLOSE_MS, on_client_closed, NULL);
}

static int start(struct program *p, const char *path)
{
    static const struct conclave_election_callbacks callbacks = {.size = sizeof callbacks,
                                                                 .on_elected = on_elected,
                                                                 .on_revoked = on_revoked,
                                                                 .on_closed = on_closed};
    struct conclave_client_options client = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_election_options options = CONCLAVE_ELECTION_OPTIONS_INIT;
    options.path = path;
    int error = conclave_client_open(&client, &p->client);
    if (error == 0) {
        error = conclave_uv_open(p->loop, p->client, &p->uv);
    }
    if (error == 0) {
        error = conclave_recipes_open(p->client, &p->recipes);
    }
    if (error == 0) {
        error = conclave_election_open(p->recipes, &options, &callbacks, p, &p->election);
    }
    return error;
}

int main(int argc, char **argv)
{
    struct program p = {.loop = uv_default_loop()};
    if (argc != 2) {
        fprintf(stderr, "usage: uv_loop PATH\n");
        return 64;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    p.timer.data = &p;
    if (uv_timer_init(p.loop, &p.timer) != 0) {
        return 1;
    }
    int error = start(&p, argv[1]);
    if (error != 0) {
        fprintf(stderr, "uv_loop: %s\n", conclave_strerror(error));
        return 1;
    }
    (void)uv_run(p.loop, UV_RUN_DEFAULT);
    return uv_loop_close(p.loop) == 0 ? 0 : 1;
}
