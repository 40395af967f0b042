/*
 * A whole program that leads, or waits to: start it several times, stop the one that leads (also
 * with kill -9), and watch the next one take over.
 *
 *     cc election.c -o election $(pkg-config --cflags --libs conclave)
 *     ./election /demo/election alice 127.0.0.1:2181
 *
 * What a real program must do is here: begin work in on_elected, be done with it when on_revoked
 * returns, ask is_leader before each step in between, and give the token to whatever it writes to.
 */
#include <conclave/election.h>

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;
static atomic_bool working; /* between on_elected and on_revoked */
static atomic_bool closed;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

/* Make ready for the work and return 0; anything else passes the lead on. */
static int on_elected(struct conclave_election *election, struct conclave_token token, bool regrant,
                      void *ctx)
{
    (void)election;
    printf("%s leads%s, token %" PRId64 "\n", (const char *)ctx, regrant ? " again" : "",
           token.czxid);
    atomic_store(&working, true);
    return 0;
}

/* Nobody else is elected for stop_within_ms: return when the work has stopped, before that. */
static void on_revoked(struct conclave_election *election, int why, int64_t stop_within_ms,
                       void *ctx)
{
    (void)election;
    atomic_store(&working, false);
    printf("%s leads no more: %s; %" PRId64 " ms to stop in\n", (const char *)ctx,
           conclave_strerror(why), stop_within_ms);
}

static void on_leader(struct conclave_election *election, const struct conclave_participant *leader,
                      bool acked, void *ctx)
{
    (void)election;
    (void)ctx;
    if (leader == NULL) {
        printf("nobody leads\n");
    } else {
        printf("leader: %s%s\n", leader->id, acked ? ", at work" : ", not at work yet");
    }
}

static void on_closed(struct conclave_election *election, int why, void *ctx)
{
    (void)election;
    if (why != CONCLAVE_ECLOSED) {
        fprintf(stderr, "%s: the election ended: %s\n", (const char *)ctx, conclave_strerror(why));
    }
    atomic_store(&closed, true);
}

/* One step of the work: only while it leads at this very moment. A process can be stopped between
 * asking and writing, so whatever is written to has to compare the token, too. */
static void work(struct conclave_election *election)
{
    if (atomic_load(&working) && conclave_election_is_leader(election)) {
        printf("work, token %" PRId64 ", lease for %" PRId64 " ms\n",
               conclave_election_token(election).czxid, conclave_election_lease_left_ms(election));
    }
}

static int run(struct conclave_recipes *recipes, const char *path, const char *name)
{
    static const struct conclave_election_callbacks callbacks = {sizeof callbacks, on_elected,
                                                                 on_revoked, on_leader, on_closed};
    struct conclave_election_options options = CONCLAVE_ELECTION_OPTIONS_INIT;
    struct conclave_election *election;
    options.path = path;
    options.id = name;
    options.observe = true;
    int error = conclave_election_open(recipes, &options, &callbacks, (void *)name, &election);
    if (error != 0) {
        return error;
    }
    while (stopping == 0 && !atomic_load(&closed)) {
        work(election);
        (void)sleep(1);
    }
    error = conclave_election_close_wait(election, 5000); /* revokes and removes the node first */
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
        fprintf(stderr, "usage: election PATH NAME [HOST:PORT,...]\n");
        return 64;
    }
    options.servers = argc == 4 ? argv[3] : NULL;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);

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
        char why[256] = "";
        if (client != NULL) {
            conclave_client_last_error(client, why, sizeof why);
        }
        fprintf(stderr, "election: %s %s\n", conclave_strerror(error), why);
        return 1; /* the session ends by itself: the process does */
    }
    conclave_recipes_destroy(recipes);
    conclave_client_close(client, 2000);
    return 0;
}
