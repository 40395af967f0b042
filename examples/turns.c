/*
 * Leads in turn with the others, as Curator's LeaderSelector with autoRequeue: start it several times, and each one works
 * for a while, then lets the next one lead; end one, also with kill -9, and the others go on.
 *
 *     cc turns.c -o turns $(pkg-config --cflags --libs conclave)
 *     ./turns /demo/turns alice 127.0.0.1:2181
 *
 * The work of a turn is one function; when it returns, the turn is over.
 */
#include <conclave/election.h>

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { STEPS = 5 };

static sigset_t ends; /* the signals that end the program */

/* One turn, in the thread that called take_turn. It must end soon after the lead was lost. */
static void work(struct conclave_election *election, struct conclave_token token, void *ctx)
{
    printf("%s leads, token %" PRId64 "\n", (const char *)ctx, token.czxid);
    for (int step = 1; step <= STEPS && conclave_election_is_leader(election); step++) {
        printf("%s does step %d\n", (const char *)ctx, step);
        (void)usleep(50000);
    }
}

/* Closing the election ends the turn, or the wait for one. */
static void *wait_for_signal(void *ctx)
{
    int number;
    (void)sigwait(&ends, &number);
    conclave_election_close(ctx);
    return NULL;
}

static int run(struct conclave_recipes *recipes, const char *path, char *name)
{
    struct conclave_election_options options = CONCLAVE_ELECTION_OPTIONS_INIT;
    struct conclave_election *election;
    pthread_t thread;
    options.path = path;
    options.id = name;
    int error = conclave_election_open(recipes, &options, NULL, NULL, &election);
    if (error != 0) {
        return error;
    }
    if (pthread_create(&thread, NULL, wait_for_signal, election) != 0) {
        return CONCLAVE_ENOMEM;
    }
    while (error == 0 || error == CONCLAVE_ELOST) {
        error = conclave_election_take_turn(election, work, name, CONCLAVE_FOREVER);
    }
    if (error != CONCLAVE_ECLOSED) {
        return error; /* such as CONCLAVE_NO_AUTH; the process ends, and with it the session */
    }
    (void)pthread_join(thread, NULL);
    error = conclave_election_close_wait(election, 5000);
    if (error == 0) {
        conclave_election_destroy(election);
    }
    return error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client = NULL;
    struct conclave_recipes *recipes = NULL;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: turns PATH NAME [HOST:PORT,...]\n");
        return 64;
    }
    options.servers = argc == 4 ? argv[3] : NULL;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &ends, NULL); /* before there are other threads */

    int error = conclave_client_open(&options, &client);
    if (error == 0) {
        error = conclave_client_start(client);
    }
    if (error == 0) {
        error = conclave_recipes_open(client, &recipes);
    }
    if (error == 0) {
        error = run(recipes, argv[1], argv[2]);
    }
    if (error != 0) {
        fprintf(stderr, "turns: %s\n", conclave_strerror(error));
        return 1;
    }
    conclave_recipes_destroy(recipes);
    conclave_client_close(client, 2000);
    return 0;
}
