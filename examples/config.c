/*
 * A whole program that takes its configuration from a node: checks it, applies it, acknowledges it, and goes on
 * with the last good one while the ensemble is away, also from its start.
 *
 *     cc config.c -o config $(pkg-config --cflags --libs conclave)
 *     ./config /demo/config web1 /tmp/web1.conf 127.0.0.1:2181
 *     conclave config put /demo/config "workers 4"      # what is not "workers N" is refused
 *     conclave config status /demo/config
 */
#include <conclave/config.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

/* "workers N": the number, or -1. */
static int workers_of(const struct conclave_config_state *state)
{
    char text[32] = "";
    int workers = -1;
    char more;
    if (state->count == 1 && state->nodes[0]->data_len < sizeof text) {
        memcpy(text, state->nodes[0]->data, state->nodes[0]->data_len);
    }
    return sscanf(text, "workers %d%c", &workers, &more) == 1 && workers > 0 ? workers : -1;
}

/* That there is no node is all right here: the default holds. */
static int validate(struct conclave_config *config, const struct conclave_config_state *state,
                    char *why, size_t why_len, void *ctx)
{
    (void)config;
    (void)ctx;
    if (state->count == 0 || workers_of(state) > 0) {
        return 0;
    }
    (void)snprintf(why, why_len, "not of the form \"workers N\"");
    return 1;
}

static int on_change(struct conclave_config *config, const struct conclave_config_state *state,
                     void *ctx)
{
    (void)config;
    (void)ctx;
    printf("%d workers, change %" PRId64 "%s\n", state->count == 0 ? 1 : workers_of(state),
           state->mzxid, state->stale ? ", from the file" : "");
    return 0; /* applied: it is acknowledged, and kept in the file */
}

static void on_stale(struct conclave_config *config, bool stale, void *ctx)
{
    (void)config;
    (void)ctx;
    printf("%s\n", stale ? "the ensemble is away" : "the ensemble is back");
}

static int run(struct conclave_recipes *recipes, char **argv)
{
    static const struct conclave_config_callbacks callbacks = {
        sizeof callbacks, validate, on_change, on_stale, NULL, NULL};
    struct conclave_config_options options = CONCLAVE_CONFIG_OPTIONS_INIT;
    struct conclave_config *config;
    options.path = argv[1];
    options.ack_id = argv[2];
    options.cache_file = argv[3];
    int error = conclave_config_open(recipes, &options, &callbacks, NULL, &config);
    if (error != 0) {
        return error;
    }
    while (stopping == 0) {
        (void)sleep(1);
    }
    error = conclave_config_close_wait(config, 5000);
    if (error == 0) {
        conclave_config_destroy(config);
    }
    return error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: config PATH NAME FILE [HOST:PORT,...]\n");
        return 64;
    }
    options.servers = argc == 5 ? argv[4] : NULL;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    int error = conclave_client_open(&options, &client);
    if (error == 0 && (error = conclave_client_start(client)) == 0 &&
        (error = conclave_recipes_open(client, &recipes)) == 0 &&
        (error = run(recipes, argv)) == 0) {
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 2000);
        return 0;
    }
    fprintf(stderr, "config: %s\n", conclave_strerror(error));
    return 1; /* the session ends by itself: the process does */
}
