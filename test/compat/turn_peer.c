/* Ours beside Curator's LeaderSelector, for mixed_election_test.py: turn_peer HOST:PORT PATH NAME FILE.
 * Leads for a moment in each turn and queues again, until its input ends. Appends one line to FILE at the begin of each turn, and
 * several while it lasts: name, "begin" or "lasts", nanoseconds of CLOCK_MONOTONIC. */
#include <conclave/client.h>
#include <conclave/election.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SESSION_MS = 3000, PATIENCE_MS = 10000, STEPS = 15, STEP_MS = 10 };

static atomic_bool ending;
static const char *my_name;
static int file;

/* One write: lines of several programs do not mix. */
static void note(const char *what)
{
    struct timespec now;
    char line[128];
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int count = snprintf(line, sizeof line, "%s %s %lld\n", my_name, what,
                         (long long)now.tv_sec * 1000000000 + now.tv_nsec);
    if (count < 0 || write(file, line, (size_t)count) != count) {
        exit(1);
    }
}

static void lead(struct conclave_election *election, struct conclave_token token, void *ctx)
{
    (void)token;
    (void)ctx;
    if (!conclave_election_is_leader(election)) {
        return;
    }
    note("begin");
    for (int i = 0; i < STEPS && conclave_election_is_leader(election); i++) {
        note("lasts");
        nanosleep(&(struct timespec){0, STEP_MS * 1000000L}, NULL);
    }
}

static void *wait_for_end(void *ctx)
{
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {}
    ending = true;
    conclave_election_close(ctx); /* ends the wait for a turn */
    return NULL;
}

int main(int argc, char **argv)
{
    struct conclave_client_options client_options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_election_options options = CONCLAVE_ELECTION_OPTIONS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    struct conclave_election *election;
    pthread_t thread;
    if (argc != 5) {
        return 64;
    }
    my_name = argv[3];
    file = open(argv[4], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    client_options.servers = argv[1];
    client_options.session_timeout_ms = SESSION_MS;
    options.path = argv[2];
    options.id = my_name;
    options.naming = CONCLAVE_NAMING_CURATOR_LOCK;
    if (file < 0 || conclave_client_open(&client_options, &client) != 0 ||
        conclave_recipes_open(client, &recipes) != 0 ||
        conclave_election_open(recipes, &options, NULL, NULL, &election) != 0 ||
        pthread_create(&thread, NULL, wait_for_end, election) != 0) {
        return 1;
    }
    int error = 0;
    while (error == 0 || error == CONCLAVE_ELOST) {
        error = conclave_election_take_turn(election, lead, NULL, CONCLAVE_FOREVER);
    }
    if (!ending || pthread_join(thread, NULL) != 0 ||
        conclave_election_close_wait(election, PATIENCE_MS) != 0) {
        return 1;
    }
    conclave_election_destroy(election);
    conclave_recipes_destroy(recipes);
    conclave_client_close(client, PATIENCE_MS);
    return 0;
}
