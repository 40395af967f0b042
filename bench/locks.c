/*
 * The recipes' cost, measured from a program that uses the library as its users do.
 *
 *     locks pairs    HOST:PORT CONTENDERS SECONDS WARM_UP_SECONDS
 *     locks handover HOST:PORT lock|semaphore|election WAITERS HAND_OVERS
 *     locks memory   HOST:PORT handles|clients COUNT
 *
 * pairs: so many threads, each with a session and a handle of its own, acquire and release one lock.
 * handover: so many handles of one session wait, of whom
 * 50 come at a time; then the holder leaves, and the next, ... . memory:
 * the resident memory of this process for each handle that waits for a lock, all in one client, or
 * each with a client (a session, two threads) of its own.
 *
 * Promise: one line of JSON on stdout. Requests are what the server says that it received (the word
 * srvr), pings and heartbeats included: sessions have a long timeout, so that there are few.
 */
#define _GNU_SOURCE
#include <conclave/client.h>
#include <conclave/election.h>
#include <conclave/lock.h>
#include <conclave/semaphore.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SESSION_MS = 40000, PATIENCE_MS = 600000, PERMITS = 4, JOINING = 50, CLOSE_MS = 5000 };

static const char *host;
static char path[64];
static long looks; /* requests of this program's own, not of the recipes */

static void die(const char *what, int error)
{
    fprintf(stderr, "locks: %s: %s\n", what, error == 0 ? "failed" : conclave_strerror(error));
    exit(1);
}

static void must(const char *what, int error)
{
    if (error != 0) {
        die(what, error);
    }
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void pause_ms(int ms)
{
    usleep((useconds_t)ms * 1000);
}

/* --- what the server counts ------------------------------------------------------------------- */

/* A word's answer. */
static void ask(const char *word, char *ret, size_t len)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    const char *colon = strchr(host, ':');
    char number[32];
    size_t at = 0;
    ssize_t n;
    snprintf(number, sizeof number, "%.*s", (int)(colon - host), host);
    to.sin_port = htons((uint16_t)atoi(colon + 1));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, number, &to.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&to, sizeof to) != 0 || write(fd, word, 4) != 4) {
        die("asking the server", 0);
    }
    while (at + 1 < len && (n = read(fd, ret + at, len - 1 - at)) > 0) {
        at += (size_t)n;
    }
    ret[at] = '\0';
    close(fd);
}

static long received(void)
{
    char text[4096];
    ask("srvr", text, sizeof text);
    const char *line = strstr(text, "Received: ");
    if (line == NULL) {
        die("the word srvr has no \"Received\"", 0);
    }
    return atol(line + strlen("Received: "));
}

/* Once nothing moves any more. A question counts as a request with some servers. */
static long received_at_rest(void)
{
    for (long last = -10;;) {
        long n = received();
        if (n - last <= 1) {
            return n - looks;
        }
        last = n;
        pause_ms(300);
    }
}

static long resident_kb(void)
{
    char line[128];
    long kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kb = atol(line + 6);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kb;
}

/* --- sessions --------------------------------------------------------------------------------- */

struct user {
    struct conclave_client *client;
    struct conclave_recipes *recipes;
};

static struct user user_open(void)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct user u;
    options.servers = host;
    options.session_timeout_ms = SESSION_MS;
    options.max_reply = 64u << 20; /* a list of many contenders */
    must("opening a client", conclave_client_open(&options, &u.client));
    must("starting a client", conclave_client_start(u.client));
    must("connecting", conclave_client_wait_connected(u.client, 30000));
    must("making a runtime", conclave_recipes_open(u.client, &u.recipes));
    return u;
}

static struct conclave_lock *lock_open(struct user *u)
{
    struct conclave_lock_options options = CONCLAVE_LOCK_OPTIONS_INIT;
    struct conclave_lock *lock;
    options.path = path;
    must("making a lock", conclave_lock_open(u->recipes, &options, NULL, NULL, &lock));
    return lock;
}

static void wait_for_children(struct user *u, long count)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    for (double end = now() + PATIENCE_MS / 1e3; now() < end; pause_ms(5)) {
        struct conclave_reply *reply = NULL;
        int error = conclave_call(u->client, &op, &reply);
        looks++;
        bool there = error == 0 && reply->stat.num_children == count;
        conclave_reply_free(reply);
        if (there) {
            return;
        }
    }
    die("waiting for the contenders", CONCLAVE_ETIMEDOUT);
}

/* --- pairs ------------------------------------------------------------------------------------ */

struct contender {
    pthread_t thread;
    struct user user;
    struct conclave_lock *lock;
    long pairs;
};

static atomic_bool counting;
static atomic_bool ending;

static void *contend(void *arg)
{
    struct contender *c = arg;
    while (!atomic_load(&ending)) {
        int error = conclave_lock_acquire(c->lock, CONCLAVE_FOREVER, NULL);
        if (error == CONCLAVE_ECANCELED) {
            break;
        }
        must("acquiring", error);
        must("releasing", conclave_lock_release(c->lock, CONCLAVE_FOREVER));
        c->pairs += atomic_load(&counting) ? 1 : 0;
    }
    return NULL;
}

static int run_pairs(int count, double seconds, double warm_up)
{
    struct contender *all = calloc((size_t)count, sizeof *all);
    long total = 0;
    long least = -1;
    long most = 0;
    for (int i = 0; i < count; i++) {
        all[i].user = user_open();
        all[i].lock = lock_open(&all[i].user);
    }
    for (int i = 0; i < count; i++) {
        if (pthread_create(&all[i].thread, NULL, contend, &all[i]) != 0) {
            die("making a thread", 0);
        }
    }
    usleep((useconds_t)(warm_up * 1e6));
    long before = received();
    double began = now();
    atomic_store(&counting, true);
    usleep((useconds_t)(seconds * 1e6));
    atomic_store(&counting, false);
    double took = now() - began;
    long requests = received() - before;
    atomic_store(&ending, true);
    for (int i = 0; i < count; i++) {
        must("canceling", conclave_lock_cancel(all[i].lock));
        pthread_join(all[i].thread, NULL);
        total += all[i].pairs;
        least = least < 0 || all[i].pairs < least ? all[i].pairs : least;
        most = all[i].pairs > most ? all[i].pairs : most;
    }
    printf(
        "{\"pairs\": %ld, \"seconds\": %.3f, \"pairs_per_s\": %.1f, \"requests_per_pair\": %.2f, "
        "\"least\": %ld, \"most\": %ld}\n",
        total, took, (double)total / took, total > 0 ? (double)requests / (double)total : 0, least,
        most);
    fflush(stdout);
    for (int i = 0; i < count; i++) {
        conclave_client_close(all[i].user.client, CLOSE_MS);
    }
    return 0;
}

/* --- hand-overs ------------------------------------------------------------------------------- */

enum recipe { LOCK, SEMAPHORE, ELECTION };

/* A handle of any of the three. */
struct handle {
    struct conclave_lock *lock;
    struct conclave_semaphore *semaphore;
    struct conclave_election *election;
    uint64_t owner;
};

static struct line {
    enum recipe recipe;
    struct user user;
    struct handle *handles;
    long begun;
    pthread_mutex_t mutex;
    pthread_cond_t change;
    struct handle **granted; /* in the order of their grants */
    long granted_count;
} line = {.mutex = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static void granted(struct handle *h)
{
    pthread_mutex_lock(&line.mutex);
    line.granted[line.granted_count++] = h;
    pthread_cond_signal(&line.change);
    pthread_mutex_unlock(&line.mutex);
}

/* The nth grant, from 0. */
static struct handle *grant_wait(long nth)
{
    pthread_mutex_lock(&line.mutex);
    while (line.granted_count <= nth) {
        pthread_cond_wait(&line.change, &line.mutex);
    }
    struct handle *h = line.granted[nth];
    pthread_mutex_unlock(&line.mutex);
    return h;
}

/* Those that wait at the end are told that the client was closed. */
static void answered(struct handle *h, int error)
{
    if (error != CONCLAVE_ECLOSED) {
        must("acquiring", error);
        granted(h);
    }
}

static void on_lock(struct conclave_lock *lock, int error, struct conclave_token token, void *ctx)
{
    (void)lock;
    (void)token;
    answered(ctx, error);
}

static void on_semaphore(struct conclave_semaphore *semaphore, int error,
                         struct conclave_token token, void *ctx)
{
    (void)semaphore;
    (void)token;
    answered(ctx, error);
}

static int on_elected(struct conclave_election *election, struct conclave_token token, bool regrant,
                      void *ctx)
{
    (void)election;
    (void)token;
    (void)regrant;
    granted(ctx);
    return 0;
}

static void handle_begin(struct handle *h)
{
    static const struct conclave_election_callbacks callbacks = {.size = sizeof callbacks,
                                                                 .on_elected = on_elected};
    struct conclave_semaphore_options semaphore = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
    struct conclave_election_options election = CONCLAVE_ELECTION_OPTIONS_INIT;
    h->owner = (uint64_t)++line.begun;
    switch (line.recipe) {
    case LOCK:
        h->lock = lock_open(&line.user);
        must("acquiring",
             conclave_lock_acquire_async(h->lock, h->owner, CONCLAVE_FOREVER, on_lock, h));
        break;
    case SEMAPHORE:
        semaphore.path = path;
        semaphore.permits = PERMITS;
        must("making a semaphore",
             conclave_semaphore_open(line.user.recipes, &semaphore, NULL, NULL, &h->semaphore));
        must("acquiring",
             conclave_semaphore_acquire_async(h->semaphore, CONCLAVE_FOREVER, on_semaphore, h));
        break;
    case ELECTION:
        election.path = path;
        must("standing for election",
             conclave_election_open(line.user.recipes, &election, &callbacks, h, &h->election));
        break;
    }
}

static void handle_leave(struct handle *h)
{
    switch (line.recipe) {
    case LOCK:
        must("releasing", conclave_lock_release_async(h->lock, h->owner, NULL, NULL));
        break;
    case SEMAPHORE:
        must("releasing", conclave_semaphore_release_async(h->semaphore, NULL, NULL));
        break;
    case ELECTION:
        must("resigning", conclave_election_resign(h->election, false));
        break;
    }
}

static int run_handover(enum recipe recipe, long waiters, long hand_overs)
{
    long holders = recipe == SEMAPHORE ? PERMITS : 1;
    hand_overs = hand_overs < waiters ? hand_overs : waiters;
    line.recipe = recipe;
    line.user = user_open();
    line.handles = calloc((size_t)(holders + waiters), sizeof *line.handles);
    line.granted = calloc((size_t)(holders + waiters), sizeof *line.granted);
    for (long i = 0; i < holders; i++) {
        handle_begin(&line.handles[i]);
        (void)grant_wait(i);
    }
    long before = received_at_rest();
    double began = now();
    for (long i = 0; i < waiters; i++) {
        handle_begin(&line.handles[holders + i]);
        if ((i + 1) % JOINING == 0 || i + 1 == waiters) {
            wait_for_children(&line.user, holders + i + 1);
        }
    }
    double join_s = now() - began;
    long joined = received_at_rest();
    began = now();
    for (long i = 0; i < hand_overs; i++) {
        handle_leave(grant_wait(i));
        (void)grant_wait(holders + i);
    }
    double took = now() - began;
    long after = received_at_rest();
    printf("{\"waiters\": %ld, \"hand_overs\": %ld, \"requests_per_join\": %.2f, "
           "\"requests_per_hand_over\": %.2f, \"join_us\": %.1f, \"hand_over_us\": %.1f}\n",
           waiters, hand_overs, (double)(joined - before) / (double)waiters,
           (double)(after - joined) / (double)hand_overs, join_s * 1e6 / (double)waiters,
           took * 1e6 / (double)hand_overs);
    fflush(stdout);
    conclave_client_close(line.user.client, CLOSE_MS);
    return 0;
}

/* --- memory ----------------------------------------------------------------------------------- */

static int run_memory(bool clients, long count)
{
    struct user own = user_open();
    struct user *users = calloc((size_t)count, sizeof *users);
    struct handle *handles = calloc((size_t)count, sizeof *handles);
    struct conclave_lock *first = lock_open(&own);
    must("acquiring", conclave_lock_acquire(first, CONCLAVE_FOREVER, NULL));
    long before = resident_kb();
    for (long i = 0; i < count; i++) {
        users[i] = clients ? user_open() : own;
        handles[i].lock = lock_open(&users[i]);
        must("acquiring", conclave_lock_acquire_async(handles[i].lock, 1, CONCLAVE_FOREVER, on_lock,
                                                      &handles[i]));
        if ((i + 1) % JOINING == 0 || i + 1 == count) {
            wait_for_children(&own, i + 2);
        }
    }
    (void)received_at_rest();
    long after = resident_kb();
    printf("{\"handles\": %ld, \"rss_kb\": %ld, \"bytes_per_handle\": %.0f}\n", count,
           after - before, (double)(after - before) * 1024 / (double)count);
    fflush(stdout);
    for (long i = 0; clients && i < count; i++) {
        conclave_client_close(users[i].client, CLOSE_MS);
    }
    conclave_client_close(own.client, CLOSE_MS);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 5 || strchr(argv[2], ':') == NULL) {
        fprintf(stderr, "usage: see the head of bench/locks.c\n");
        return 64;
    }
    host = argv[2];
    snprintf(path, sizeof path, "/bench-locks-%d", (int)getpid());
    if (strcmp(argv[1], "pairs") == 0 && argc == 6) {
        return run_pairs(atoi(argv[3]), atof(argv[4]), atof(argv[5]));
    }
    if (strcmp(argv[1], "handover") == 0 && argc == 6) {
        enum recipe recipe = strcmp(argv[3], "lock") == 0        ? LOCK
                             : strcmp(argv[3], "semaphore") == 0 ? SEMAPHORE
                                                                 : ELECTION;
        return run_handover(recipe, atol(argv[4]), atol(argv[5]));
    }
    if (strcmp(argv[1], "memory") == 0) {
        return run_memory(strcmp(argv[3], "clients") == 0, atol(argv[4]));
    }
    return 64;
}
