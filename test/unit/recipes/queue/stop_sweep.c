/*
 * The process stopped (SIGSTOP) at every single request of it in turn, until its session has expired,
 * then let go on (SIGCONT): every recipe, used by that process and by another at the same time. The one
 * that goes on does not know how long it was away. Whatever the moment: both come through in the end,
 * no two hold it at once, tokens grow, nothing is lost or counted twice, no ephemeral node is left,
 * and no callback comes after the end.
 *
 * The process is this program, started again; what it did is written to memory that both share. Times
 * are those of one clock of the machine.
 */
#include "support/sweep.h"

#include <conclave/barrier.h>
#include <conclave/config.h>
#include <conclave/counter.h>
#include <conclave/elector.h>
#include <conclave/group.h>
#include <conclave/lock.h>
#include <conclave/queue.h>
#include <conclave/registry.h>
#include <conclave/semaphore.h>

#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { STEPS = 12, BESIDE = 16, TRIES = 40, TURNS = 2 * TRIES, ADDITIONS = 3, WRONG_LEN = 64 };

extern char **environ;

/* Shared by the two processes. */
struct record {
    atomic_int turns;
    struct {
        int64_t from_ns;
        int64_t to_ns; /* held until then for sure */
        int64_t token;
    } turn[TURNS];
    atomic_int put;
    atomic_int maybe_put; /* its session ended, outcome unknown */
    atomic_int acked;
    atomic_int maybe_acked;
    atomic_int after_end; /* callbacks that came after on_closed */
    char wrong[2][WRONG_LEN];
};

struct side {
    int number; /* 0: the process that is stopped */
    struct record *record;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    _Atomic bool closed;
    _Atomic int seen;
};

static void told(struct side *s)
{
    s->record->after_end += s->closed ? 1 : 0;
}

static bool may_come(int error)
{
    return error == 0 || error == CONCLAVE_SESSION_EXPIRED || error == CONCLAVE_ETIMEDOUT ||
           error == CONCLAVE_ELOST;
}

/* Holds it for longer than a proof of the lease takes, so that a stop comes in the midst of it, too;
 * whether to the end. The clock is read before it is asked whether it is held: a stop between the two
 * does not lengthen the turn. */
static bool hold(struct side *s, bool (*held)(const void *handle), const void *handle,
                 int64_t token)
{
    int64_t from = now_ns();
    int64_t to = 0;
    for (int i = 0; i < SESSION_MS / 8 && held(handle); i++) {
        int64_t now = now_ns();
        to = held(handle) ? now : to;
        sleep_ms(2);
    }
    if (to == 0) {
        return false; /* stopped between the grant and here: over before anything was done with it */
    }
    bool whole = held(handle);
    int at = atomic_fetch_add(&s->record->turns, 1);
    if (at < TURNS) {
        s->record->turn[at].from_ns = from;
        s->record->turn[at].to_ns = to;
        s->record->turn[at].token = token;
    }
    return whole;
}

/* --- held items --------------------------------------------------------------------------------- */

static void on_lock_lost(struct conclave_lock *lock, int why, int64_t within_ms, void *ctx)
{
    told(ctx);
}

static void on_lock_closed(struct conclave_lock *lock, int why, void *ctx)
{
    struct side *s = ctx;
    told(s);
    s->closed = true;
}

static bool lock_held(const void *lock)
{
    return conclave_lock_is_held(lock);
}

static const char *lock_turns(struct side *s, struct conclave_lock *lock, bool downgrade)
{
    for (int i = 0; i < TRIES; i++) {
        struct conclave_token token;
        int error = conclave_lock_acquire(lock, 1000, &token);
        bool whole = false;
        if (!may_come(error)) {
            return "an acquire failed";
        }
        if (error != 0) {
            continue;
        }
        if (downgrade) {
            error = conclave_lock_downgrade(lock, 1000);
            (void)error; /* what became of it is seen by what is held */
        }
        whole = hold(s, lock_held, lock, token.czxid);
        error = conclave_lock_release(lock, 1000);
        if (!may_come(error)) {
            return "a release failed";
        }
        if (whole && error != CONCLAVE_ELOST) {
            return NULL;
        }
    }
    return "it never had a whole turn";
}

static const char *play_lock(struct side *s, enum conclave_lock_kind kind, bool downgrade)
{
    static const struct conclave_lock_callbacks callbacks = {sizeof callbacks, on_lock_lost, NULL,
                                                             on_lock_closed, NULL};
    struct conclave_lock_options options = CONCLAVE_LOCK_OPTIONS_INIT;
    struct conclave_lock *lock;
    options.path = "/app/lock";
    options.kind = kind;
    if (conclave_lock_open(s->recipes, &options, &callbacks, s, &lock) != 0) {
        return "no lock";
    }
    const char *wrong = lock_turns(s, lock, downgrade);
    if (conclave_lock_close_wait(lock, PATIENCE_MS) != 0) {
        return "did not close";
    }
    conclave_lock_destroy(lock);
    return wrong;
}

static const char *play_mutex(struct side *s)
{
    return play_lock(s, CONCLAVE_LOCK_EXCLUSIVE, false);
}

static const char *play_writer(struct side *s)
{
    return play_lock(s, CONCLAVE_LOCK_WRITE, s->number == 0);
}

static bool both_held(const void *locks)
{
    struct conclave_lock *const *both = locks;
    return conclave_lock_is_held(both[0]) && conclave_lock_is_held(both[1]);
}

static const char *play_several(struct side *s)
{
    struct conclave_lock_options options = CONCLAVE_LOCK_OPTIONS_INIT;
    struct conclave_lock *both[2];
    const char *wrong = "it never had a whole turn";
    for (int i = 0; i < 2; i++) { /* the two name them in different orders */
        options.path = (i == 0) == (s->number == 0) ? "/app/a" : "/app/b";
        if (conclave_lock_open(s->recipes, &options, NULL, NULL, &both[i]) != 0) {
            return "no lock";
        }
    }
    for (int i = 0; i < TRIES && wrong != NULL; i++) {
        int error = conclave_locks_acquire(both, 2, 1000);
        if (!may_come(error)) {
            return "an acquire failed";
        }
        if (error != 0) {
            continue;
        }
        int64_t token = conclave_lock_token(both[s->number == 0 ? 0 : 1]).czxid;
        bool whole = token != 0 && hold(s, both_held, both, token);
        error = conclave_locks_release(both, 2, 1000);
        wrong = whole && error != CONCLAVE_ELOST ? NULL : wrong;
    }
    for (int i = 0; i < 2; i++) {
        if (conclave_lock_close_wait(both[i], PATIENCE_MS) != 0) {
            return "did not close";
        }
        conclave_lock_destroy(both[i]);
    }
    return wrong;
}

static bool semaphore_held(const void *semaphore)
{
    return conclave_semaphore_is_held(semaphore);
}

static const char *play_semaphore(struct side *s)
{
    struct conclave_semaphore_options options = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
    struct conclave_semaphore *semaphore;
    const char *wrong = "it never had a whole turn";
    options.path = "/app/semaphore";
    options.permits = 1;
    if (conclave_semaphore_open(s->recipes, &options, NULL, NULL, &semaphore) != 0) {
        return "no semaphore";
    }
    for (int i = 0; i < TRIES && wrong != NULL; i++) {
        struct conclave_token token;
        int error = conclave_semaphore_acquire(semaphore, 1000, &token);
        if (!may_come(error)) {
            return "an acquire failed";
        }
        if (error == 0) {
            bool whole = hold(s, semaphore_held, semaphore, token.czxid);
            error = conclave_semaphore_release(semaphore, 1000);
            wrong = whole && error != CONCLAVE_ELOST ? NULL : wrong;
        }
    }
    if (conclave_semaphore_close_wait(semaphore, PATIENCE_MS) != 0) {
        return "did not close";
    }
    conclave_semaphore_destroy(semaphore);
    return wrong;
}

static bool leads(const void *election)
{
    return conclave_election_is_leader(election);
}

static const char *play_election(struct side *s)
{
    static struct candidate records[BESIDE]; /* of both processes; one is the rival's */
    static atomic_int next;
    struct candidate *c = &records[atomic_fetch_add(&next, 1) % BESIDE];
    struct conclave_election_options options = candidate_options("x");
    struct conclave_election *election;
    const char *wrong = "it never had a whole turn";
    memset(c, 0, sizeof *c);
    (void)pthread_mutex_init(&c->lock, NULL);
    if (conclave_election_open(s->recipes, &options, &candidate_callbacks, c, &election) != 0) {
        return "no election";
    }
    for (int i = 0; i < TRIES && wrong != NULL; i++) {
        struct conclave_token token;
        if (conclave_election_wait(election, 1000, &token) == 0 &&
            hold(s, leads, election, token.czxid)) {
            wrong = NULL;
        }
        sleep_ms(20);
    }
    if (conclave_election_close_wait(election, PATIENCE_MS) != 0) {
        return "did not close";
    }
    s->record->after_end += c->broken != 0;
    conclave_election_destroy(election);
    return wrong;
}

static int on_activate(struct conclave_elector *elector, struct conclave_token token, void *ctx)
{
    told(ctx);
    return 0;
}

static int on_deactivate(struct conclave_elector *elector, int why, int64_t within_ms, void *ctx)
{
    told(ctx);
    return 0;
}

static int on_fence(struct conclave_elector *elector, const struct conclave_breadcrumb *old,
                    struct conclave_token mine, void *ctx)
{
    told(ctx);
    return 0;
}

static void on_elector_closed(struct conclave_elector *elector, int why, void *ctx)
{
    struct side *s = ctx;
    told(s);
    s->closed = true;
}

static bool active(const void *elector)
{
    return conclave_elector_is_active(elector);
}

static const char *play_elector(struct side *s)
{
    static const struct conclave_elector_callbacks callbacks = {
        sizeof callbacks, on_activate, on_deactivate, on_fence, NULL, on_elector_closed};
    struct conclave_elector_options options = CONCLAVE_ELECTOR_OPTIONS_INIT;
    struct conclave_elector *elector;
    const char *wrong = "it never had a whole turn";
    options.dir = "/app/service";
    options.id = s->number == 0 ? "a" : "b";
    options.backoff_min_ms = 20;
    options.backoff_max_ms = 40;
    if (conclave_elector_open(s->recipes, &options, &callbacks, s, &elector) != 0) {
        return "no elector";
    }
    for (int i = 0; i < TRIES * 50 && wrong != NULL; i++) {
        int64_t token = conclave_elector_token(elector).czxid;
        if (token != 0 && hold(s, active, elector, token)) {
            wrong = NULL;
        }
        sleep_ms(10);
    }
    if (conclave_elector_close_wait(elector, PATIENCE_MS) != 0) {
        return "did not close";
    }
    conclave_elector_destroy(elector);
    return wrong;
}

/* --- handed-over items --------------------------------------------------------------------------- */

static void put_one(struct side *s, struct conclave_queue *queue)
{
    int error = conclave_queue_put(queue, 5, "x", 1, PATIENCE_MS, NULL);
    if (error == 0) {
        s->record->put++;
    } else if (error == CONCLAVE_SESSION_EXPIRED) {
        s->record->maybe_put++;
    }
}

/* Until what both have put is taken. */
static const char *play_queue(struct side *s)
{
    struct conclave_queue_options options = CONCLAVE_QUEUE_OPTIONS_INIT;
    struct conclave_queue *queue;
    options.path = "/app/queue";
    if (conclave_queue_open(s->recipes, &options, NULL, NULL, &queue) != 0) {
        return "no queue";
    }
    put_one(s, queue);
    for (int i = 0; i < TRIES; i++) {
        struct conclave_item *item;
        int64_t left = 0;
        int error = conclave_queue_take(queue, 300, &item);
        if (error == 0) {
            error = conclave_item_ack(item, PATIENCE_MS);
            s->record->acked += error == 0 ? 1 : 0;
            s->record->maybe_acked += error != 0 ? 1 : 0; /* its claim went with the session */
            conclave_item_free(item);
        } else if (!may_come(error)) {
            return "a take failed";
        }
        if (s->record->put + s->record->maybe_put == 2 &&
            conclave_queue_size(queue, PATIENCE_MS, &left) == 0 && left == 0) {
            break;
        }
    }
    if (conclave_queue_close_wait(queue, PATIENCE_MS) != 0) {
        return "did not close";
    }
    conclave_queue_destroy(queue);
    return NULL;
}

/* Who was away too long comes when the other has left. */
static const char *play_barrier(struct side *s)
{
    struct conclave_double_barrier_options options = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
    struct conclave_double_barrier *barrier;
    const char *wrong = NULL;
    int error = CONCLAVE_SESSION_EXPIRED;
    options.path = "/app/barrier";
    options.count = 2;
    options.late_pass = true;
    if (conclave_double_barrier_open(s->recipes, &options, NULL, NULL, &barrier) != 0) {
        return "no barrier";
    }
    for (int i = 0; i < TRIES && error == CONCLAVE_SESSION_EXPIRED; i++) {
        error = conclave_double_barrier_enter(barrier, 8000);
    }
    if (error == 0) {
        error = conclave_double_barrier_leave(barrier, PATIENCE_MS);
    }
    wrong = may_come(error) ? NULL : "did not pass";
    s->record->acked += error == 0 ? 1 : 0;
    if (conclave_double_barrier_close_wait(barrier, PATIENCE_MS) != 0) {
        return "did not close";
    }
    conclave_double_barrier_destroy(barrier);
    return wrong;
}

static const char *play_plain_barrier(struct side *s)
{
    struct conclave_barrier_options options = CONCLAVE_BARRIER_OPTIONS_INIT;
    struct conclave_barrier *barrier;
    options.path = "/app/plain";
    if (conclave_barrier_open(s->recipes, &options, NULL, NULL, &barrier) != 0) {
        return "no barrier";
    }
    int error = conclave_barrier_set(barrier, PATIENCE_MS);
    bool shut = error == 0 || error == CONCLAVE_NODE_EXISTS;
    error = conclave_barrier_remove(barrier, PATIENCE_MS);
    bool open = error == 0 || error == CONCLAVE_NO_NODE;
    error = conclave_barrier_wait(barrier, PATIENCE_MS);
    if (conclave_barrier_close_wait(barrier, PATIENCE_MS) != 0) {
        return "did not close";
    }
    conclave_barrier_destroy(barrier);
    return shut && open && error == 0 ? NULL : "did not pass";
}

/* --- what is shown ------------------------------------------------------------------------------- */

static void on_view(struct conclave_group *group, const struct conclave_group_view *view, void *ctx)
{
    struct side *s = ctx;
    told(s);
    for (size_t i = 0; i < view->count; i++) {
        if (view->members[i]->self && view->members[i]->data_len == 1) {
            s->seen = *(const char *)view->members[i]->data;
        }
    }
}

static void on_group_closed(struct conclave_group *group, int why, void *ctx)
{
    struct side *s = ctx;
    told(s);
    s->closed = true;
}

static bool soon(const struct side *s, int value)
{
    for (int i = 0; i < PATIENCE_MS && s->seen != value; i++) {
        sleep_ms(1);
    }
    return s->seen == value;
}

static const char *play_group(struct side *s)
{
    static const struct conclave_group_callbacks callbacks = {
        .size = sizeof callbacks, .on_view = on_view, .on_closed = on_group_closed};
    struct conclave_group_options options = CONCLAVE_GROUP_OPTIONS_INIT;
    struct conclave_group *group;
    options.path = "/app/group";
    options.id = s->number == 0 ? "a" : "b";
    if (conclave_group_open(s->recipes, &options, &callbacks, s, &group) != 0) {
        return "no group";
    }
    bool in = conclave_group_wait_joined(group, PATIENCE_MS) == 0;
    bool shown = conclave_group_set_data(group, "2", 1) == 0 && soon(s, '2');
    if (conclave_group_close_wait(group, PATIENCE_MS) != 0) {
        return "did not close";
    }
    conclave_group_destroy(group);
    return in && shown ? NULL : "was not seen with its data";
}

static int on_value(struct conclave_config *config, const struct conclave_config_state *state,
                    void *ctx)
{
    struct side *s = ctx;
    told(s);
    s->seen = state->count == 0 ? 0 : *(const char *)state->nodes[0]->data;
    return 0;
}

static void on_config_closed(struct conclave_config *config, int why, void *ctx)
{
    struct side *s = ctx;
    told(s);
    s->closed = true;
}

static const char *play_config(struct side *s)
{
    static const struct conclave_config_callbacks callbacks = {
        .size = sizeof callbacks, .on_change = on_value, .on_closed = on_config_closed};
    struct conclave_config_options options = CONCLAVE_CONFIG_OPTIONS_INIT;
    struct conclave_config_written written = CONCLAVE_CONFIG_WRITTEN_INIT;
    struct conclave_config *config;
    bool right = true;
    options.path = "/app/cfg";
    options.ack_id = s->number == 0 ? "a" : "b";
    if (conclave_config_open(s->recipes, &options, &callbacks, s, &config) != 0) {
        return "no configuration";
    }
    if (s->number == 0) {
        right = conclave_config_put(s->recipes, "/app/cfg", "2", 1, CONCLAVE_CONFIG_ANY,
                                    PATIENCE_MS, &written) == 0;
    }
    right = right && soon(s, '2');
    if (conclave_config_close_wait(config, PATIENCE_MS) != 0) {
        return "did not close";
    }
    conclave_config_destroy(config);
    return right ? NULL : "the value was not told";
}

static const char *play_counter(struct side *s)
{
    struct conclave_counter_options options = CONCLAVE_COUNTER_OPTIONS_INIT;
    struct conclave_counter *counter;
    const char *wrong = NULL;
    int64_t value = 0;
    options.path = "/app/count";
    if (conclave_counter_open(s->recipes, &options, NULL, NULL, &counter) != 0) {
        return "no counter";
    }
    for (int i = 0; i < ADDITIONS; i++) {
        if (conclave_counter_add(counter, 10, PATIENCE_MS, &value) != 0) {
            wrong = "an addition failed";
        }
    }
    if (conclave_counter_close_wait(counter, PATIENCE_MS) != 0) {
        return "did not close";
    }
    conclave_counter_destroy(counter);
    return wrong;
}

static const char *play_shared(struct side *s)
{
    struct conclave_shared_options options = CONCLAVE_SHARED_OPTIONS_INIT;
    struct conclave_shared *shared;
    const char *wrong = "was never faster than the other";
    options.path = "/app/shared";
    if (conclave_shared_open(s->recipes, &options, NULL, NULL, &shared) != 0) {
        return "no shared value";
    }
    for (int i = 0; i < TRIES && wrong != NULL; i++) {
        struct conclave_shared_value *value = NULL;
        int error = conclave_shared_get(shared, PATIENCE_MS, &value);
        if (error == 0) {
            error = conclave_shared_set(shared, "1", 1, value->version, PATIENCE_MS, NULL);
            conclave_shared_value_free(value);
            wrong = error == 0 ? NULL : wrong;
            s->record->put += error == 0 ? 1 : 0;
        }
    }
    if (conclave_shared_close_wait(shared, PATIENCE_MS) != 0) {
        return "did not close";
    }
    conclave_shared_destroy(shared);
    return wrong;
}

static const char *play_registry(struct side *s)
{
    struct conclave_registration_options shop = CONCLAVE_REGISTRATION_OPTIONS_INIT;
    struct conclave_registration *registration;
    shop.path = "/app";
    shop.name = "shop";
    shop.id = s->number == 0 ? "a" : "b";
    shop.address = "here";
    if (conclave_registration_open(s->recipes, &shop, NULL, NULL, &registration) != 0) {
        return "could not open";
    }
    bool right = conclave_registration_wait(registration, PATIENCE_MS) == 0 &&
                 conclave_registration_update(registration, NULL, true) == 0 &&
                 conclave_registration_wait(registration, PATIENCE_MS) == 0;
    if (conclave_registration_close_wait(registration, PATIENCE_MS) != 0) {
        return "did not close";
    }
    conclave_registration_destroy(registration);
    return right ? NULL : "was not registered";
}

/* --- the checks afterwards ----------------------------------------------------------------------- */

static const char *one_at_a_time(struct fake_zk *zk, const struct record *r)
{
    for (int i = 0; i < r->turns; i++) {
        for (int j = 0; j < r->turns; j++) {
            if (i == j || r->turn[j].from_ns < r->turn[i].from_ns) {
                continue;
            }
            if (r->turn[j].from_ns < r->turn[i].to_ns) {
                return "two held it at once";
            }
            /* the same grant may be seen again by its own side */
            if (r->turn[j].token < r->turn[i].token) {
                return "a token did not grow";
            }
        }
    }
    return NULL;
}

static const char *all_taken(struct fake_zk *zk, const struct record *r)
{
    if (r->put + r->maybe_put != 2 || r->acked + r->maybe_acked < r->put ||
        r->acked > r->put + r->maybe_put || fake_zk_child_count(zk, "/app/queue") != 0) {
        return "an item was lost, or taken twice";
    }
    return NULL;
}

static const char *passed(struct fake_zk *zk, const struct record *r)
{
    return r->acked >= 1 ? NULL : "neither passed";
}

static const char *counted_once(struct fake_zk *zk, const struct record *r)
{
    char data[32];
    return fake_zk_data(zk, "/app/count", data, sizeof data) &&
                   strtol(data, NULL, 10) == 2L * 10 * ADDITIONS
               ? NULL
               : "an addition was not counted once";
}

static const char *set_twice(struct fake_zk *zk, const struct record *r)
{
    return r->put == 2 && fake_zk_version(zk, "/app/shared") == 1 ? NULL : "not set twice";
}

struct scene {
    const char *name;
    const char *(*play)(struct side *s); /* NULL: all was right */
    const char *(*check)(struct fake_zk *zk, const struct record *r);
};

static const struct scene scenes[] = {
    {"election", play_election, one_at_a_time},
    {"mutex", play_mutex, one_at_a_time},
    {"writer that becomes a reader", play_writer, one_at_a_time},
    {"several locks", play_several, one_at_a_time},
    {"semaphore", play_semaphore, one_at_a_time},
    {"elector", play_elector, one_at_a_time},
    {"queue", play_queue, all_taken},
    {"barrier", play_plain_barrier, NULL},
    {"double barrier", play_barrier, passed},
    {"group", play_group, NULL},
    {"configuration", play_config, NULL},
    {"counter", play_counter, counted_once},
    {"shared value", play_shared, set_twice},
    {"registry", play_registry, NULL},
};

enum { SCENES = sizeof scenes / sizeof scenes[0] };

static const char *side_run(struct side *s, const char *servers, const struct scene *scene)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    options.servers = servers;
    options.session_timeout_ms = SESSION_MS;
    if (conclave_client_open(&options, &s->client) != 0 || conclave_client_start(s->client) != 0 ||
        conclave_recipes_open(s->client, &s->recipes) != 0) {
        return "could not start";
    }
    const char *wrong = scene->play(s);
    if (wrong == NULL) {
        conclave_recipes_destroy(s->recipes);
        conclave_client_close(s->client, 1000);
    }
    return wrong;
}

static void note_wrong(struct side *s, const char *wrong)
{
    if (wrong != NULL) {
        (void)snprintf(s->record->wrong[s->number], WRONG_LEN, "%s", wrong);
    }
}

/* --- one case ------------------------------------------------------------------------------------- */

struct stop_case {
    pthread_t waker;
    const struct scene *scene;
    int step;
    struct fake_zk *zk;
    struct record *record;
    _Atomic pid_t pid;
    _Atomic bool stopped;
    _Atomic bool over;
    bool reached;
    char wrong[2 * WRONG_LEN];
};

static void stop_process(struct fake_zk *zk, void *ctx)
{
    struct stop_case *c = ctx;
    c->stopped = kill(c->pid, SIGSTOP) == 0;
}

/* Lets it go on when its session has expired. */
static void *wake(void *arg)
{
    struct stop_case *c = arg;
    while (!c->over && !c->stopped) {
        sleep_ms(2);
    }
    for (int i = 0; i < SESSION_MS + 100 && c->stopped; i++) {
        sleep_ms(1);
    }
    if (c->stopped) {
        (void)kill(c->pid, SIGCONT);
    }
    return NULL;
}

static bool spawn(struct stop_case *c, int fd)
{
    char scene[16];
    char descriptor[16];
    char *argv[] = {"stop_sweep", (char *)fake_zk_address(c->zk, 0), scene, descriptor, NULL};
    pid_t pid;
    (void)snprintf(scene, sizeof scene, "%d", (int)(c->scene - scenes));
    (void)snprintf(descriptor, sizeof descriptor, "%d", fd);
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) != 0) {
        return false;
    }
    c->pid = pid;
    return true;
}

static const char *scenario(struct stop_case *c, int fd)
{
    struct side rival = {.number = 1, .record = c->record};
    int status = 0;
    struct fake_hook h = {.endpoint = 0,
                          .op = FAKE_ANY_OP,
                          .nth = c->step,
                          .action = FAKE_CALL,
                          .fn = stop_process,
                          .ctx = c};
    if (!spawn(c, fd)) {
        return "no process";
    }
    fake_zk_hook(c->zk, &h); /* before it can have connected: that takes longer than this */
    if (pthread_create(&c->waker, NULL, wake, c) != 0) {
        return "no thread";
    }
    const char *wrong = side_run(&rival, fake_zk_address(c->zk, 1), c->scene);
    (void)waitpid(c->pid, &status, 0);
    c->over = true;
    (void)pthread_join(c->waker, NULL);
    c->reached = c->stopped;
    fake_zk_hooks_clear(c->zk);
    if (c->record->wrong[0][0] != '\0') {
        return c->record->wrong[0];
    }
    if (wrong != NULL) {
        return wrong;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return "the process crashed";
    }
    for (int i = 0; i < PATIENCE_MS && fake_zk_ephemerals(c->zk) > 0; i++) {
        sleep_ms(1);
    }
    if (fake_zk_ephemerals(c->zk) > 0) {
        return "a node was left";
    }
    if (c->record->after_end > 0) {
        return "a callback came after the end";
    }
    return c->scene->check == NULL ? NULL : c->scene->check(c->zk, c->record);
}

static void *run_case(void *arg)
{
    struct stop_case *c = arg;
    char name[] = "/tmp/conclave-stop-XXXXXX";
    int fd = mkstemp(name);
    const char *wrong = "no memory to share";
    (void)unlink(name);
    c->zk = fake_zk_start();
    if (fd >= 0 && c->zk != NULL && ftruncate(fd, sizeof *c->record) == 0) {
        c->record = mmap(NULL, sizeof *c->record, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        wrong = c->record == MAP_FAILED ? wrong : scenario(c, fd);
    }
    if (wrong != NULL) {
        (void)snprintf(c->wrong, sizeof c->wrong, "%s", wrong);
        return NULL; /* what still runs may use it */
    }
    (void)munmap(c->record, sizeof *c->record);
    (void)close(fd);
    fake_zk_stop(c->zk);
    return NULL;
}

static void sweep(size_t first, size_t end)
{
    static struct stop_case cases[SCENES * STEPS];
    size_t count = 0;
    size_t reached = 0;
    int wrong = 0;
    memset(cases, 0, sizeof cases);
    for (int step = 1; step <= STEPS; step++) {
        for (size_t scene = first; scene < end; scene++) {
            cases[count].scene = &scenes[scene];
            cases[count++].step = step;
        }
    }
    sweep_beside(run_case, cases, sizeof cases[0], count, BESIDE);
    for (size_t i = 0; i < count; i++) {
        reached += cases[i].reached ? 1 : 0;
        if (cases[i].wrong[0] != '\0') {
            print_error("%s, request %d: %s\n", cases[i].scene->name, cases[i].step,
                        cases[i].wrong);
            wrong++;
        }
    }
    print_message("%zu of %zu stops were met\n", reached, count);
    assert_int_equal(wrong, 0);
    assert_true(reached >= (end - first) * 4);
}

static void stopped_at_every_request_of_what_is_held(void **state)
{
    sweep(0, 6);
}

static void stopped_at_every_request_of_what_is_handed_over(void **state)
{
    sweep(6, 9);
}

static void stopped_at_every_request_of_what_is_shown(void **state)
{
    sweep(9, SCENES);
}

/* The process that is stopped. */
static int be_the_process(char **argv)
{
    int fd = (int)strtol(argv[3], NULL, 10);
    struct side s = {.number = 0};
    s.record = mmap(NULL, sizeof *s.record, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s.record == MAP_FAILED) {
        return 1;
    }
    note_wrong(&s, side_run(&s, argv[1], &scenes[strtol(argv[2], NULL, 10)]));
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_at_every_request_of_what_is_held),
        cmocka_unit_test(stopped_at_every_request_of_what_is_handed_over),
        cmocka_unit_test(stopped_at_every_request_of_what_is_shown),
    };
    return argc == 4 ? be_the_process(argv) : RUN_TESTS(tests);
}
