#include "system/election_actor.h"

#include <stdlib.h>
#include <time.h>

uint16_t server_port;
atomic_int checks_failed;
struct conclave_client *witness;

int64_t boot_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t boot_ms(void)
{
    return boot_ns() / 1000000;
}

void sleep_ms(int64_t ms)
{
    struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&ts, NULL);
}

/* --- callbacks -------------------------------------------------------------------------------- */

static void enter(struct actor *a)
{
    pthread_mutex_lock(&a->lock);
    a->broken |= (a->inside ? BROKEN_OVERLAP : 0) | (a->closed > 0 ? BROKEN_AFTER_END : 0);
    a->inside = true;
}

static void leave(struct actor *a)
{
    a->inside = false;
    pthread_mutex_unlock(&a->lock);
}

static int on_elected(struct conclave_election *election, struct conclave_token token, bool regrant,
                      void *ctx)
{
    struct actor *a = ctx;
    int64_t from = boot_ns();
    enter(a);
    a->broken |= a->elected != a->revoked ? BROKEN_ALTERNATION : 0;
    a->terms[a->elected % TERMS_MAX] =
        (struct term){.from_ns = from, .token = token.czxid, .regrant = regrant};
    a->elected++;
    a->started++;
    leave(a);
    return 0;
}

static void on_revoked(struct conclave_election *election, int why, int64_t stop_within_ms,
                       void *ctx)
{
    struct actor *a = ctx;
    int64_t at = boot_ns();
    bool leads = conclave_election_is_leader(election);
    enter(a);
    a->broken |=
        (leads ? BROKEN_LEADS : 0) | (a->elected != a->revoked + 1 ? BROKEN_ALTERNATION : 0);
    struct term *term = &a->terms[a->revoked % TERMS_MAX];
    term->revoked_ns = at;
    term->why = why;
    term->stop_within_ms = stop_within_ms;
    term->forced = a->force && stop_within_ms == 0;
    a->force = false;
    a->revoked++;
    term->to_ns = boot_ns();
    leave(a);
}

static void on_closed(struct conclave_election *election, int why, void *ctx)
{
    struct actor *a = ctx;
    enter(a);
    a->closed_why = why;
    a->closed++;
    leave(a);
}

static const struct conclave_election_callbacks callbacks = {
    .size = sizeof callbacks,
    .on_elected = on_elected,
    .on_revoked = on_revoked,
    .on_closed = on_closed,
};

/* --- actors ----------------------------------------------------------------------------------- */

static void must(int rc, const char *what)
{
    if (rc != 0) {
        printf("%s: %s\n", what, conclave_strerror(rc));
        exit(1);
    }
}

static void actor_init(struct actor *a, const char *name, const char *path)
{
    memset(a, 0, sizeof *a);
    a->name = name;
    snprintf(a->path, sizeof a->path, "%s", path);
    pthread_mutex_init(&a->lock, NULL);
}

void actor_open(struct actor *a, const char *name, const char *path, int64_t session_ms)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    char servers[64];
    actor_init(a, name, path);
    a->proxy = fault_proxy_start(0, server_port);
    if (a->proxy == NULL) {
        perror("fault_proxy_start");
        exit(1);
    }
    snprintf(servers, sizeof servers, "127.0.0.1:%u", fault_proxy_port(a->proxy));
    options.servers = servers;
    options.session_timeout_ms = session_ms;
    must(conclave_client_open(&options, &a->client), "open");
    must(conclave_client_start(a->client), "start");
    must(conclave_recipes_open(a->client, &a->recipes), "recipes");
    CHECK(conclave_client_wait_connected(a->client, WAIT_MS) == 0);
}

void actor_share(struct actor *a, const struct actor *with, const char *name, const char *path)
{
    actor_init(a, name, path);
    a->client = with->client;
    a->recipes = with->recipes;
}

struct conclave_election_options actor_options(const struct actor *a)
{
    struct conclave_election_options options = CONCLAVE_ELECTION_OPTIONS_INIT;
    options.path = a->path;
    options.id = a->name;
    options.backoff_min_ms = 20;
    options.backoff_max_ms = 200;
    return options;
}

void actor_join_with(struct actor *a, const struct conclave_election_options *options)
{
    must(conclave_election_open(a->recipes, options, &callbacks, a, &a->election), "join");
}

void actor_join(struct actor *a)
{
    struct conclave_election_options options = actor_options(a);
    actor_join_with(a, &options);
}

void actor_settled(struct actor *a)
{
    char node[256];
    char before[256];
    char now[256];
    EVENTUALLY(actor_node(a, node, sizeof node));
    /* Its watches are set within a few round trips; the traffic of its proxy tells when. */
    fault_proxy_command(a->proxy, "stats", before, sizeof before);
    for (int quiet = 0; quiet < 10; quiet++) {
        sleep_ms(10);
        fault_proxy_command(a->proxy, "stats", now, sizeof now);
        quiet = strcmp(now, before) == 0 ? quiet : 0;
        memcpy(before, now, sizeof before);
    }
}

void actor_leave(struct actor *a)
{
    if (a->election == NULL) {
        return;
    }
    int rc = conclave_election_close_wait(a->election, WAIT_MS);
    CHECK(rc == 0);
    if (rc != 0) {
        exit(1); /* running callbacks use the actor */
    }
    CHECK(a->broken == 0);
    CHECK(a->closed == 1);
    CHECK(a->elected == a->revoked);
    conclave_election_destroy(a->election);
    a->election = NULL;
    a->closed = 0;
}

void actor_close(struct actor *a)
{
    actor_leave(a);
    if (a->proxy != NULL) {
        conclave_recipes_destroy(a->recipes);
        conclave_client_close(a->client, 2000);
        fault_proxy_stop(a->proxy);
    }
    CHECK(a->broken == 0);
    pthread_mutex_destroy(&a->lock);
}

int actor_count(struct actor *a, const int *field)
{
    pthread_mutex_lock(&a->lock);
    int value = *field;
    pthread_mutex_unlock(&a->lock);
    return value;
}

struct term actor_term(struct actor *a, int index)
{
    pthread_mutex_lock(&a->lock);
    struct term term = a->terms[index % TERMS_MAX];
    pthread_mutex_unlock(&a->lock);
    return term;
}

bool actor_leads(struct actor *a)
{
    return conclave_election_is_leader(a->election);
}

bool actor_node(struct actor *a, char *buf, size_t len)
{
    char name[128];
    conclave_election_node(a->election, name, sizeof name);
    snprintf(buf, len, "%s/%s", a->path, name);
    return name[0] != '\0';
}

int64_t actor_session(struct actor *a)
{
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    conclave_client_session(a->client, &session);
    return session.id;
}

int actors_check(struct actor *const *all, size_t count)
{
    int compared = 0;
    for (size_t a = 0; a < count; a++) {
        for (int i = 0; i < all[a]->elected && i < TERMS_MAX; i++) {
            const struct term *x = &all[a]->terms[i];
            for (size_t b = 0; b < count; b++) {
                for (int j = 0; j < all[b]->elected && j < TERMS_MAX; j++) {
                    const struct term *y = &all[b]->terms[j];
                    if (x == y || y->from_ns < x->from_ns) {
                        continue;
                    }
                    CHECK(x->forced || (x->to_ns != 0 && x->to_ns <= y->from_ns));
                    CHECK(x->token < y->token || (x->token == y->token && y->regrant));
                    compared++;
                }
            }
        }
    }
    return compared;
}

/* --- the tree --------------------------------------------------------------------------------- */

static void create(const char *path)
{
    struct conclave_op op = conclave_op_create(path, "", 0, CONCLAVE_PERSISTENT);
    int rc = conclave_call(witness, &op, NULL);
    CHECK(rc == 0 || rc == CONCLAVE_NODE_EXISTS);
}

void make_election(const char *path)
{
    char other[256];
    create(path);
    snprintf(other, sizeof other, "%s.leader", path);
    create(other);
    snprintf(other, sizeof other, "%s.leader/last", path);
    create(other);
}

/* The stat of a node, also while the server is away; false: no node. */
static bool look(const char *path, struct conclave_stat *ret)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    struct conclave_reply *reply = NULL;
    int rc = conclave_call(witness, &op, &reply);
    for (int64_t end = boot_ms() + WAIT_MS; rc != 0 && rc != CONCLAVE_NO_NODE && boot_ms() < end;) {
        conclave_reply_free(reply);
        reply = NULL;
        sleep_ms(10);
        rc = conclave_call(witness, &op, &reply);
    }
    CHECK(rc == 0 || rc == CONCLAVE_NO_NODE);
    if (rc == 0) {
        *ret = reply->stat;
    }
    conclave_reply_free(reply);
    return rc == 0;
}

size_t child_count(const char *path)
{
    struct conclave_stat stat;
    return look(path, &stat) ? (size_t)stat.num_children : 0;
}

bool node_exists(const char *path)
{
    struct conclave_stat stat;
    return look(path, &stat);
}

int64_t node_owner(const char *path)
{
    struct conclave_stat stat;
    return look(path, &stat) ? stat.ephemeral_owner : -1;
}

int64_t node_czxid(const char *path)
{
    struct conclave_stat stat;
    return look(path, &stat) ? stat.czxid : -1;
}

void node_delete(const char *path)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, path, -1);
    int rc = conclave_call(witness, &op, NULL);
    CHECK(rc == 0 || rc == CONCLAVE_NO_NODE);
}

bool acknowledged(struct actor *a)
{
    char current[256];
    snprintf(current, sizeof current, "%s.leader/current", a->path);
    return node_owner(current) == actor_session(a);
}

void remove_tree(struct conclave_client *client, const char *path)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, path, 0);
    struct conclave_op gone = conclave_op_path(CONCLAVE_OP_DELETE, path, -1);
    struct conclave_reply *reply = NULL;
    if (conclave_call(client, &op, &reply) == 0) {
        for (size_t i = 0; i < reply->children_count; i++) {
            char child[512];
            snprintf(child, sizeof child, "%s/%s", path, reply->children[i]);
            remove_tree(client, child);
        }
        int rc = conclave_call(client, &gone, NULL);
        CHECK(rc == 0 || rc == CONCLAVE_NO_NODE || rc == CONCLAVE_NOT_EMPTY);
    }
    conclave_reply_free(reply);
}
