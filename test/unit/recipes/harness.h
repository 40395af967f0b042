/*
 * What the tests of the recipes share: candidates as records of what their callbacks were told, and waiting for
 * something to become true. Session timeouts are short, so that expiry costs a test little.
 */
#ifndef RECIPES_HARNESS_H
#define RECIPES_HARNESS_H

#include "base/clock.h"
#include "client/client.h"
#include "recipes/election.h"
#include "support/fake_zk.h"
#include "wire/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SESSION_MS = 600, PATIENCE_MS = 8000, TERMS_MAX = 512 };

#define ELECTION_PATH "/app/election"
#define LEADER_DIR "/app/election.leader"

static inline int64_t now_ns(void)
{
    return clock_monotonic_ns(clock_system());
}

static inline void sleep_ms(int64_t ms)
{
    (void)usleep((useconds_t)(ms * 1000));
}

/* Waits for an expression to become true; fails the test when it does not within PATIENCE_MS. */
#define EVENTUALLY(expression)                                                                     \
    do {                                                                                           \
        int64_t end_ = now_ns() + (int64_t)PATIENCE_MS * 1000000;                                  \
        while (!(expression) && now_ns() < end_) {                                                 \
            sleep_ms(1);                                                                           \
        }                                                                                          \
        if (!(expression)) {                                                                       \
            fail_msg("never came true: %s", #expression);                                          \
        }                                                                                          \
    } while (0)

/* Checks that an expression stays true for a while. */
#define STAYS(expression, ms)                                                                      \
    do {                                                                                           \
        int64_t end_ = now_ns() + (int64_t)(ms)*1000000;                                           \
        while (now_ns() < end_) {                                                                  \
            assert_true(expression);                                                               \
            sleep_ms(2);                                                                           \
        }                                                                                          \
    } while (0)

/* A time between on_elected and on_revoked (or until it was seen that is_leader had turned false). */
struct term {
    int64_t from_ns;
    int64_t to_ns; /* start of on_revoked; 0: still leads */
    int64_t token;
    int why;
    bool regrant;
    int64_t stop_within_ms;
};

/* What must never happen to a handle's callbacks. */
enum broken {
    BROKEN_OVERLAP = 1,
    BROKEN_ALTERNATION = 2,
    BROKEN_AFTER_END = 4,
    BROKEN_LEADS = 8, /* is_leader was true in on_revoked */
};

/* One client with one election (more: see candidate_more). */
struct candidate {
    const char *name;
    struct fake_zk *zk;
    int endpoint;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    struct conclave_election *election;
    bool shares; /* client and recipes are another's */

    pthread_mutex_t lock; /* guards what follows */
    struct term terms[TERMS_MAX];
    int elected;   /* calls of on_elected that have begun */
    int started;   /* that have returned */
    int revoked;   /* calls of on_revoked that have begun */
    int closed;
    int closed_why;
    bool inside;   /* a callback runs */
    unsigned broken; /* enum broken: must stay 0 */
    int leaders;   /* calls of on_leader */
    char leader_log[512]; /* ids in order, '*' behind one that has acknowledged, "-" for none */
    int64_t leader_token;

    /* What the callbacks do. */
    int fail_elected; /* answers of on_elected that are failures, counted down */
    int64_t elected_ms; /* on_elected takes so long */
    int64_t revoked_ms;
    void (*in_elected)(struct candidate *c);
    void (*in_revoked)(struct candidate *c);
    void (*in_closed)(struct candidate *c);
};

static inline void candidate_enter(struct candidate *c)
{
    (void)pthread_mutex_lock(&c->lock);
    c->broken |= (c->inside ? BROKEN_OVERLAP : 0) | (c->closed > 0 ? BROKEN_AFTER_END : 0);
    c->inside = true;
}

static inline void candidate_leave(struct candidate *c)
{
    (void)pthread_mutex_lock(&c->lock);
    c->inside = false;
    (void)pthread_mutex_unlock(&c->lock);
}

static inline int candidate_elected(struct conclave_election *election, struct conclave_token token,
                                    bool regrant, void *ctx)
{
    struct candidate *c = ctx;
    int64_t from = now_ns();
    int result = 0;
    (void)election;
    candidate_enter(c);
    c->broken |= c->elected != c->revoked ? BROKEN_ALTERNATION : 0;
    if (c->elected < TERMS_MAX) {
        c->terms[c->elected] = (struct term){from, 0, token.czxid, 0, regrant, 0};
    }
    c->elected++;
    if (c->fail_elected > 0) {
        c->fail_elected--;
        result = -1;
    }
    int64_t ms = c->elected_ms;
    (void)pthread_mutex_unlock(&c->lock);
    sleep_ms(ms);
    if (c->in_elected != NULL) {
        c->in_elected(c);
    }
    candidate_leave(c);
    (void)pthread_mutex_lock(&c->lock);
    c->started++;
    (void)pthread_mutex_unlock(&c->lock);
    return result;
}

static inline void candidate_revoked(struct conclave_election *election, int why,
                                     int64_t stop_within_ms, void *ctx)
{
    struct candidate *c = ctx;
    int64_t to = now_ns();
    bool leads = conclave_election_is_leader(election);
    candidate_enter(c);
    c->broken |= (leads ? BROKEN_LEADS : 0) |
                 (c->elected != c->revoked + 1 ? BROKEN_ALTERNATION : 0);
    if (c->revoked < TERMS_MAX) {
        c->terms[c->revoked].to_ns = to;
        c->terms[c->revoked].why = why;
        c->terms[c->revoked].stop_within_ms = stop_within_ms;
    }
    c->revoked++;
    int64_t ms = c->revoked_ms;
    (void)pthread_mutex_unlock(&c->lock);
    sleep_ms(ms);
    if (c->in_revoked != NULL) {
        c->in_revoked(c);
    }
    candidate_leave(c);
}

static inline void candidate_leader(struct conclave_election *election,
                                    const struct conclave_participant *leader, bool acked, void *ctx)
{
    struct candidate *c = ctx;
    (void)election;
    candidate_enter(c);
    c->leaders++;
    size_t len = strlen(c->leader_log);
    (void)snprintf(c->leader_log + len, sizeof c->leader_log - len, "%s%s%s", len == 0 ? "" : " ",
                   leader == NULL ? "-" : leader->id, acked ? "*" : "");
    c->leader_token = leader == NULL ? 0 : leader->token.czxid;
    (void)pthread_mutex_unlock(&c->lock);
    candidate_leave(c);
}

static inline void candidate_closed(struct conclave_election *election, int why, void *ctx)
{
    struct candidate *c = ctx;
    (void)election;
    candidate_enter(c);
    (void)pthread_mutex_unlock(&c->lock);
    if (c->in_closed != NULL) {
        c->in_closed(c);
    }
    candidate_leave(c);
    (void)pthread_mutex_lock(&c->lock);
    c->closed_why = why;
    c->closed++;
    (void)pthread_mutex_unlock(&c->lock);
}

static const struct conclave_election_callbacks candidate_callbacks = {
    candidate_elected,
    candidate_revoked,
    candidate_leader,
    candidate_closed,
};

static inline int candidate_get(struct candidate *c, const int *field)
{
    (void)pthread_mutex_lock(&c->lock);
    int value = *field;
    (void)pthread_mutex_unlock(&c->lock);
    return value;
}

#define ELECTED(c) candidate_get((c), &(c)->elected)
#define STARTED(c) candidate_get((c), &(c)->started)
#define REVOKED(c) candidate_get((c), &(c)->revoked)
#define CLOSED(c) candidate_get((c), &(c)->closed)
#define LEADS(c) conclave_election_is_leader((c)->election)

static inline struct term candidate_term(struct candidate *c, int index)
{
    (void)pthread_mutex_lock(&c->lock);
    struct term term = c->terms[index];
    (void)pthread_mutex_unlock(&c->lock);
    return term;
}

static inline bool candidate_log_is(struct candidate *c, const char *log)
{
    (void)pthread_mutex_lock(&c->lock);
    bool same = strcmp(c->leader_log, log) == 0;
    (void)pthread_mutex_unlock(&c->lock);
    return same;
}

static inline struct conclave_election_options candidate_options(const char *name)
{
    struct conclave_election_options options = CONCLAVE_ELECTION_OPTIONS_INIT;
    options.path = ELECTION_PATH;
    options.id = name;
    options.backoff_min_ms = 20;
    options.backoff_max_ms = 200;
    return options;
}

/* The client alone; the caller starts the election. servers NULL: the endpoint's address. */
static inline void candidate_connect_to(struct candidate *c, struct fake_zk *zk, int endpoint,
                                        const char *name, const char *servers, int64_t session_ms)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    memset(c, 0, sizeof *c);
    c->name = name;
    c->zk = zk;
    c->endpoint = endpoint;
    (void)pthread_mutex_init(&c->lock, NULL);
    options.servers = servers != NULL ? servers : fake_zk_address(zk, endpoint);
    options.session_timeout_ms = session_ms;
    assert_int_equal(conclave_client_open(&options, &c->client), 0);
    assert_int_equal(conclave_client_start(c->client), 0);
    assert_int_equal(conclave_recipes_create(c->client, &c->recipes), 0);
}

static inline void candidate_connect(struct candidate *c, struct fake_zk *zk, int endpoint,
                                     const char *name)
{
    candidate_connect_to(c, zk, endpoint, name, NULL, SESSION_MS);
}

static inline void candidate_join_with(struct candidate *c,
                                       const struct conclave_election_options *options)
{
    assert_int_equal(
        conclave_election_start(c->recipes, options, &candidate_callbacks, c, &c->election), 0);
}

static inline void candidate_join(struct candidate *c)
{
    struct conclave_election_options options = candidate_options(c->name);
    candidate_join_with(c, &options);
}

/* Another election on the same client and recipes. */
static inline void candidate_share(struct candidate *c, const struct candidate *with,
                                   const char *name)
{
    memset(c, 0, sizeof *c);
    c->name = name;
    c->zk = with->zk;
    c->endpoint = with->endpoint;
    c->client = with->client;
    c->recipes = with->recipes;
    c->shares = true;
    (void)pthread_mutex_init(&c->lock, NULL);
}

static inline void candidate_node(struct candidate *c, char *buf, size_t len)
{
    char name[128];
    conclave_election_node(c->election, name, sizeof name);
    (void)snprintf(buf, len, "%s/%s", ELECTION_PATH, name);
}

static inline bool candidate_has_node(struct candidate *c)
{
    char name[128];
    conclave_election_node(c->election, name, sizeof name);
    return name[0] != '\0';
}

static inline int64_t candidate_session(struct candidate *c)
{
    struct conclave_session session;
    conclave_client_session(c->client, &session);
    return session.id;
}

/* Waits until it waits behind somebody (or leads): its node stands and its requests are done. */
static inline void candidate_settled(struct candidate *c)
{
    EVENTUALLY(candidate_has_node(c));
    for (int quiet = 0, last = -1; quiet < 15;) {
        int now = (int)fake_zk_count(c->zk, c->endpoint, WIRE_GET_DATA);
        quiet = now == last ? quiet + 1 : 0;
        last = now;
        sleep_ms(1);
    }
}

/* Closes the election and checks what must always hold. */
static inline void candidate_close_election(struct candidate *c)
{
    if (c->election == NULL) {
        return;
    }
    assert_int_equal(conclave_election_close_wait(c->election, PATIENCE_MS), 0);
    assert_int_equal((int)c->broken, 0);
    assert_int_equal(c->closed, 1);
    assert_int_equal(c->elected, c->revoked);
    conclave_election_destroy(c->election);
    c->election = NULL;
}

static inline void candidate_finish(struct candidate *c)
{
    candidate_close_election(c);
    if (!c->shares) {
        conclave_recipes_destroy(c->recipes);
        conclave_client_close(c->client, 1000);
    }
    assert_int_equal((int)c->broken, 0);
    (void)pthread_mutex_destroy(&c->lock);
}

/* Tokens grow with time; with `apart`, no two terms overlap. */
static inline void check_history(struct candidate *const *all, size_t count, bool apart)
{
    for (size_t a = 0; a < count; a++) {
        for (int i = 0; i < all[a]->elected && i < TERMS_MAX; i++) {
            const struct term *x = &all[a]->terms[i];
            for (size_t b = 0; b < count; b++) {
                for (int j = 0; j < all[b]->elected && j < TERMS_MAX; j++) {
                    const struct term *y = &all[b]->terms[j];
                    if (x == y || y->from_ns < x->from_ns) {
                        continue;
                    }
                    assert_true(!apart || (x->to_ns != 0 && x->to_ns <= y->from_ns));
                    assert_true(x->token < y->token || (x->token == y->token && y->regrant));
                }
            }
        }
    }
}

static inline void check_terms(struct candidate *const *all, size_t count)
{
    check_history(all, count, true);
}

static inline void check_tokens(struct candidate *const *all, size_t count)
{
    check_history(all, count, false);
}

/* All that lasts, so that the first creation is that of the candidate's node. */
static inline void make_parent(struct fake_zk *zk)
{
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, ELECTION_PATH, "", 0);
    fake_zk_create(zk, LEADER_DIR, "", 0);
    fake_zk_create(zk, LEADER_DIR "/last", "", 0);
}

/* setup and teardown of a test: one server each. */
static inline int server_setup(void **state)
{
    *state = fake_zk_start();
    return *state == NULL ? -1 : 0;
}

static inline int server_teardown(void **state)
{
    fake_zk_stop(*state);
    return 0;
}

/* One test alone: RECIPES_TEST='E05*'. */
#define RUN_TESTS(tests)                                                                           \
    (cmocka_set_test_filter(getenv("RECIPES_TEST")), cmocka_run_group_tests(tests, NULL, NULL))

#define E_TEST(name) cmocka_unit_test_setup_teardown(name, server_setup, server_teardown)

static inline void hook(struct fake_zk *zk, int endpoint, int32_t op, const char *path, int nth,
                        enum fake_action action)
{
    struct fake_hook h = {
        .endpoint = endpoint, .op = op, .path = path, .nth = nth, .action = action};
    fake_zk_hook(zk, &h);
}

#endif
