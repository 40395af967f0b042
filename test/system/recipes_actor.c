/*
 * One process of recipes_nemesis_test.py: takes part in an election, a mutex, a read/write lock, a semaphore of two, two
 * queues (at least once, at most once), a double barrier of three, a group, a configuration, a counter and a registry,
 * all on one session, and notes in a file what it was told.
 *
 *   recipes_actor SERVERS FILE NAME LIFE SESSION_MS [writer]
 *
 * LIFE numbers the processes that have had NAME; the writer also writes the configuration. Lines of FILE begin with
 * nanoseconds of CLOCK_MONOTONIC; what follows stands at each note() below. Commands, one line each: "calm" (produce and
 * change nothing more, answered by "calm"), "quit" (close all, answered by "ended").
 */
#include <conclave/barrier.h>
#include <conclave/config.h>
#include <conclave/counter.h>
#include <conclave/election.h>
#include <conclave/group.h>
#include <conclave/lock.h>
#include <conclave/queue.h>
#include <conclave/registry.h>
#include <conclave/semaphore.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ROOT "/n"

enum {
    NS_PER_MS = 1000000,
    WAIT_MS = 2000,
    END_MS = 30000,
    SLOT_MS = 1000, /* of a round of the barrier */
    ENTER_MS = 700,
    PARTIES = 3,
    PERMITS = 2,
    QUEUES = 2,
    ITEMS_MAX = 100, /* puts wait: takers may be slower for a while */
    GRIPS = 4,
    THREADS_MAX = 24,
    PRIORITIES = 3,
};

struct grip {
    char tag; /* m: mutex, r: reader, w: writer, s: semaphore */
    struct conclave_lock *lock;
    struct conclave_semaphore *semaphore;
};

static FILE *notes;
static const char *name;
static long life;
static atomic_bool calm;
static atomic_bool ending;
static struct conclave_recipes *recipes;
static struct grip grips[GRIPS];
static struct conclave_election *election;
static struct conclave_queue *queues[QUEUES];
static struct conclave_group *group;
static struct conclave_config *config;
static struct conclave_counter *counter;
static struct conclave_registration *registration;
static struct conclave_discovery *discovery;

static void must(int rc, const char *what)
{
    if (rc != 0) {
        fprintf(stderr, "recipes_actor %s: %s: %s\n", name, what, conclave_strerror(rc));
        exit(70);
    }
}

static int64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

__attribute__((format(printf, 2, 3))) static void note(int64_t at, const char *fmt, ...)
{
    char line[4096];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    fprintf(notes, "%" PRId64 " %s\n", at, line);
}

static void pause_ms(unsigned *seed, int least, int most)
{
    usleep((useconds_t)(least * 1000 + rand_r(seed) % ((most - least) * 1000)));
}

/* --- a held grant ----------------------------------------------------------------------------- */

static int grip_acquire(struct grip *g, struct conclave_token *ret)
{
    return g->lock != NULL ? conclave_lock_acquire(g->lock, WAIT_MS, ret)
                           : conclave_semaphore_acquire(g->semaphore, WAIT_MS, ret);
}

static bool grip_held(const struct grip *g)
{
    return g->lock != NULL ? conclave_lock_is_held(g->lock)
                           : conclave_semaphore_is_held(g->semaphore);
}

/* "H TAG TOKEN": held at that moment. "E TAG CODE": an answer that was no grant. */
static void *grip_main(void *arg)
{
    struct grip *g = arg;
    unsigned seed = (unsigned)g->tag + (unsigned)getpid();
    while (!atomic_load(&ending)) {
        struct conclave_token token;
        int rc = grip_acquire(g, &token);
        if (rc != 0) {
            note(now_ns(), "E %c %d", g->tag, rc);
            pause_ms(&seed, 5, 10);
            continue;
        }
        int64_t end = now_ns() + (5 + rand_r(&seed) % 40) * (int64_t)NS_PER_MS;
        for (int64_t at = now_ns(); at < end && grip_held(g); at = now_ns()) {
            note(at, "H %c %" PRId64, g->tag, token.czxid);
            usleep(2000);
        }
        rc = g->lock != NULL ? conclave_lock_release(g->lock, END_MS)
                             : conclave_semaphore_release(g->semaphore, END_MS);
        if (rc != 0) {
            note(now_ns(), "E %c %d", g->tag, rc);
        }
        pause_ms(&seed, 1, 20);
    }
    return NULL;
}

/* As above, with TAG e. */
static void *election_main(void *arg)
{
    unsigned seed = (unsigned)getpid();
    while (!atomic_load(&ending)) {
        struct conclave_token token;
        int rc = conclave_election_wait(election, WAIT_MS, &token);
        if (rc != 0) {
            note(now_ns(), "E e %d", rc);
            continue;
        }
        int64_t end = now_ns() + (20 + rand_r(&seed) % 200) * (int64_t)NS_PER_MS;
        for (int64_t at = now_ns(); at < end && conclave_election_is_leader(election);
             at = now_ns()) {
            note(at, "H e %" PRId64, token.czxid);
            usleep(2000);
        }
        must(conclave_election_resign(election, true), "resign");
        pause_ms(&seed, 2, 20);
    }
    return NULL;
}

/* --- queues ----------------------------------------------------------------------------------- */

/* "P QUEUE ITEM" before a put, "p QUEUE ITEM CODE NODE" after it. */
static void *produce_main(void *arg)
{
    int q = (int)(intptr_t)arg;
    unsigned seed = (unsigned)getpid() + (unsigned)q;
    for (int n = 0; !atomic_load(&calm); n++) {
        char item[64];
        int len = snprintf(item, sizeof item, "%s.%ld.%d", name, life, n);
        note(now_ns(), "P %d %s", q, item);
        char node[CONCLAVE_QUEUE_NAME_MAX] = "";
        int rc = conclave_queue_put(queues[q], 500 + rand_r(&seed) % PRIORITIES, item, (size_t)len,
                                    WAIT_MS, node);
        note(now_ns(), "p %d %s %d %s", q, item, rc, node);
        pause_ms(&seed, 5, 30);
    }
    return NULL;
}

/* "G QUEUE ITEM ATTEMPT NODE" when it was handed out, "A ITEM CODE" when it was acknowledged. */
static void *consume_main(void *arg)
{
    int q = (int)(intptr_t)arg;
    unsigned seed = (unsigned)getpid() + (unsigned)q;
    while (!atomic_load(&ending)) {
        struct conclave_item *item;
        int rc = conclave_queue_take(queues[q], WAIT_MS, &item);
        if (rc != 0) {
            note(now_ns(), "E q %d", rc);
            continue;
        }
        size_t len;
        const char *data = conclave_item_data(item, &len);
        note(now_ns(), "G %d %.*s %d %s", q, (int)len, data, conclave_item_attempt(item),
             conclave_item_name(item));
        pause_ms(&seed, 1, 4);
        if (q == 0 && rand_r(&seed) % 16 == 0) {
            rc = conclave_item_nack(item, END_MS);
        } else if (q == 0) {
            rc = conclave_item_ack(item, END_MS);
            note(now_ns(), "A %.*s %d", (int)len, data, rc);
        }
        conclave_item_free(item);
    }
    return NULL;
}

/* --- double barrier --------------------------------------------------------------------------- */

/* A round of its own in each slot of time. "B ROUND" before enter, "b ROUND CODE" after it, "L ROUND" before leave,
 * "l ROUND CODE" after it. */
static void barrier_round(int64_t round)
{
    struct conclave_double_barrier_options options = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
    struct conclave_double_barrier *barrier;
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, round);
    options.path = ROOT "/barrier";
    options.round = text;
    options.count = PARTIES;
    must(conclave_double_barrier_open(recipes, &options, NULL, NULL, &barrier), "barrier");
    note(now_ns(), "B %" PRId64, round);
    int rc = conclave_double_barrier_enter(barrier, ENTER_MS);
    note(now_ns(), "b %" PRId64 " %d", round, rc);
    if (rc == 0) {
        usleep(2000);
        note(now_ns(), "L %" PRId64, round);
        rc = conclave_double_barrier_leave(barrier, END_MS);
        note(now_ns(), "l %" PRId64 " %d", round, rc);
    }
    conclave_double_barrier_close(barrier);
    must(conclave_double_barrier_close_wait(barrier, END_MS), "barrier's close");
    conclave_double_barrier_destroy(barrier);
}

static void *barrier_main(void *arg)
{
    int64_t last = 0;
    while (!atomic_load(&calm)) {
        int64_t round = now_ns() / NS_PER_MS / SLOT_MS;
        if (round > last) {
            barrier_round(round);
            last = round;
        }
        usleep(3000);
    }
    return NULL;
}

/* --- counter and configuration ---------------------------------------------------------------- */

/* "+ CODE VALUE": one was added. */
static void *count_main(void *arg)
{
    unsigned seed = (unsigned)getpid();
    while (!atomic_load(&calm)) {
        int64_t value = 0;
        int rc = conclave_counter_add(counter, 1, WAIT_MS, &value);
        note(now_ns(), "+ %d %" PRId64, rc, value);
        pause_ms(&seed, 5, 30);
    }
    return NULL;
}

/* "W VALUE CODE MZXID": written. */
static void *write_main(void *arg)
{
    unsigned seed = (unsigned)getpid();
    for (long n = life * 1000000; !atomic_load(&calm); n++) {
        char text[32];
        struct conclave_config_written written = CONCLAVE_CONFIG_WRITTEN_INIT;
        int len = snprintf(text, sizeof text, "%ld", n);
        int rc = conclave_config_put(recipes, ROOT "/config", text, (size_t)len,
                                     CONCLAVE_CONFIG_ANY, WAIT_MS, &written);
        note(now_ns(), "W %ld %d %" PRId64, n, rc, written.mzxid);
        pause_ms(&seed, 5, 40);
    }
    return NULL;
}

/* "C MZXID ZXID VALUE": the reported configuration. */
static int on_config(struct conclave_config *c, const struct conclave_config_state *state,
                     void *ctx)
{
    if (!state->stale && state->count == 1) {
        note(now_ns(), "C %" PRId64 " %" PRId64 " %.*s", state->mzxid, state->zxid,
             (int)state->nodes[0]->data_len, (const char *)state->nodes[0]->data);
    }
    return 0;
}

/* --- who is there ----------------------------------------------------------------------------- */

/* "V ZXID STALE ID,ID,": a view of the group. */
static void on_view(struct conclave_group *g, const struct conclave_group_view *view, void *ctx)
{
    char ids[512] = "";
    for (size_t i = 0; i < view->count; i++) {
        size_t used = strlen(ids);
        snprintf(ids + used, sizeof ids - used, "%s,", view->members[i]->id);
    }
    note(now_ns(), "V %" PRId64 " %d %s", view->zxid, view->stale, ids);
}

/* "S STALE ID,ID,": the registry's instances. */
static void on_instances(struct conclave_discovery *d,
                         const struct conclave_instance *const *instances, size_t count, bool stale,
                         void *ctx)
{
    char ids[512] = "";
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(ids);
        snprintf(ids + used, sizeof ids - used, "%s,", instances[i]->id);
    }
    note(now_ns(), "S %d %s", stale, ids);
}

/* --- all of it -------------------------------------------------------------------------------- */

static void open_grips(void)
{
    static const enum conclave_lock_kind kinds[] = {CONCLAVE_LOCK_EXCLUSIVE, CONCLAVE_LOCK_READ,
                                                    CONCLAVE_LOCK_WRITE};
    static const char *const paths[] = {ROOT "/mutex", ROOT "/rw", ROOT "/rw"};
    struct conclave_semaphore_options semaphore = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
    struct conclave_election_options candidate = CONCLAVE_ELECTION_OPTIONS_INIT;
    for (int i = 0; i < GRIPS - 1; i++) {
        struct conclave_lock_options lock = CONCLAVE_LOCK_OPTIONS_INIT;
        lock.path = paths[i];
        lock.id = name;
        lock.kind = kinds[i];
        grips[i].tag = "mrw"[i];
        must(conclave_lock_open(recipes, &lock, NULL, NULL, &grips[i].lock), "lock");
    }
    semaphore.path = ROOT "/semaphore";
    semaphore.permits = PERMITS;
    grips[GRIPS - 1].tag = 's';
    must(conclave_semaphore_open(recipes, &semaphore, NULL, NULL, &grips[GRIPS - 1].semaphore),
         "semaphore");
    candidate.path = ROOT "/election";
    candidate.id = name;
    must(conclave_election_open(recipes, &candidate, NULL, NULL, &election), "election");
}

static void open_others(void)
{
    struct conclave_queue_options queue = CONCLAVE_QUEUE_OPTIONS_INIT;
    struct conclave_group_options member = CONCLAVE_GROUP_OPTIONS_INIT;
    struct conclave_group_callbacks views = {.size = sizeof views, .on_view = on_view};
    struct conclave_config_options reader = CONCLAVE_CONFIG_OPTIONS_INIT;
    struct conclave_config_callbacks changes = {.size = sizeof changes, .on_change = on_config};
    struct conclave_counter_options count = CONCLAVE_COUNTER_OPTIONS_INIT;
    struct conclave_registration_options instance = CONCLAVE_REGISTRATION_OPTIONS_INIT;
    struct conclave_discovery_options services = CONCLAVE_DISCOVERY_OPTIONS_INIT;
    struct conclave_discovery_callbacks found = {.size = sizeof found, .on_change = on_instances};
    queue.path = ROOT "/queue0";
    queue.max_items = ITEMS_MAX;
    must(conclave_queue_open(recipes, &queue, NULL, NULL, &queues[0]), "queue");
    queue.path = ROOT "/queue1";
    queue.at_most_once = true;
    must(conclave_queue_open(recipes, &queue, NULL, NULL, &queues[1]), "queue");
    member.path = ROOT "/group";
    member.id = name;
    must(conclave_group_open(recipes, &member, &views, NULL, &group), "group");
    reader.path = ROOT "/config";
    reader.ack_id = name;
    must(conclave_config_open(recipes, &reader, &changes, NULL, &config), "config");
    count.path = ROOT "/counter";
    must(conclave_counter_open(recipes, &count, NULL, NULL, &counter), "counter");
    instance.path = services.path = ROOT "/services";
    instance.name = services.name = "app";
    instance.id = name;
    instance.address = "127.0.0.1";
    instance.port = 1;
    must(conclave_registration_open(recipes, &instance, NULL, NULL, &registration), "registration");
    must(conclave_discovery_open(recipes, &services, &found, NULL, &discovery), "discovery");
}

static void close_all(void)
{
    for (int i = 0; i < GRIPS - 1; i++) {
        conclave_lock_close(grips[i].lock);
        must(conclave_lock_close_wait(grips[i].lock, END_MS), "lock's close");
        conclave_lock_destroy(grips[i].lock);
    }
    conclave_semaphore_close(grips[GRIPS - 1].semaphore);
    must(conclave_semaphore_close_wait(grips[GRIPS - 1].semaphore, END_MS), "semaphore's close");
    conclave_semaphore_destroy(grips[GRIPS - 1].semaphore);
    must(conclave_election_close_wait(election, END_MS), "election's close");
    conclave_election_destroy(election);
    for (int i = 0; i < QUEUES; i++) {
        must(conclave_queue_close_wait(queues[i], END_MS), "queue's close");
        conclave_queue_destroy(queues[i]);
    }
    must(conclave_group_close_wait(group, END_MS), "group's close");
    conclave_group_destroy(group);
    must(conclave_config_close_wait(config, END_MS), "config's close");
    conclave_config_destroy(config);
    must(conclave_counter_close_wait(counter, END_MS), "counter's close");
    conclave_counter_destroy(counter);
    must(conclave_registration_close_wait(registration, END_MS), "registration's close");
    conclave_registration_destroy(registration);
    must(conclave_discovery_close_wait(discovery, END_MS), "discovery's close");
    conclave_discovery_destroy(discovery);
}

static int start_threads(pthread_t *threads, bool writer)
{
    int count = 0;
    int rc = 0;
    for (int i = 0; i < GRIPS; i++) {
        rc |= pthread_create(&threads[count++], NULL, grip_main, &grips[i]);
    }
    for (intptr_t q = 0; q < QUEUES; q++) {
        rc |= pthread_create(&threads[count++], NULL, produce_main, (void *)q);
        rc |= pthread_create(&threads[count++], NULL, consume_main, (void *)q);
    }
    rc |= pthread_create(&threads[count++], NULL, election_main, NULL);
    rc |= pthread_create(&threads[count++], NULL, barrier_main, NULL);
    rc |= pthread_create(&threads[count++], NULL, count_main, NULL);
    if (writer) {
        rc |= pthread_create(&threads[count++], NULL, write_main, NULL);
    }
    must(rc == 0 ? 0 : CONCLAVE_ENOMEM, "threads");
    return count;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    pthread_t threads[THREADS_MAX];
    char line[64];
    if (argc < 6) {
        fprintf(stderr, "usage: recipes_actor SERVERS FILE NAME LIFE SESSION_MS [writer]\n");
        return 64;
    }
    name = argv[3];
    life = strtol(argv[4], NULL, 10);
    notes = fopen(argv[2], "w");
    must(notes != NULL ? 0 : CONCLAVE_EIO, argv[2]);
    (void)setvbuf(notes, NULL, _IOLBF, 0);
    options.servers = argv[1];
    options.session_timeout_ms = strtoll(argv[5], NULL, 10);
    must(conclave_client_open(&options, &client), "open");
    must(conclave_client_start(client), "start");
    must(conclave_recipes_open(client, &recipes), "recipes");
    open_grips();
    open_others();
    int count = start_threads(threads, argc > 6);
    printf("ready\n");
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL && strcmp(line, "quit\n") != 0) {
        atomic_store(&calm, true);
        printf("calm\n");
        (void)fflush(stdout);
    }
    atomic_store(&calm, true);
    atomic_store(&ending, true);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    close_all();
    conclave_recipes_destroy(recipes);
    conclave_client_close(client, END_MS);
    printf("ended\n");
    return 0;
}
