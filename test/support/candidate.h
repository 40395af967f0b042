/*
 * What the tests of the recipes share: candidates as records of what their callbacks were
 * told, and waiting for something to become true. Session timeouts are short, so that expiry
 * costs a test little.
 */
#ifndef SUPPORT_CANDIDATE_H
#define SUPPORT_CANDIDATE_H

#include "base/clock.h"
#include "client/client.h"
#include "recipes/hold/election.h"
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

enum { SESSION_MS = 600, PATIENCE_MS = 30000, TERMS_MAX = 512 };

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

/* A time between on_elected and on_revoked (or until it was seen that is_leader had turned
 * false). */
struct term {
    int64_t from_ns;
    int64_t to_ns; /* start of on_revoked; 0: still leads */
    /* that, or the end of the lease where it came first: is_leader is false since */
    int64_t over_ns;
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

/* One client with one election (more on the same client: candidate_share). */
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
    int elected; /* calls of on_elected that have begun */
    int started; /* that have returned */
    int revoked; /* calls of on_revoked that have begun */
    int closed;
    int closed_why;
    bool inside;          /* a callback runs */
    unsigned broken;      /* enum broken: must stay 0 */
    int leaders;          /* calls of on_leader */
    char leader_log[512]; /* ids in order, '*' behind one that has acknowledged, "-" for none */
    int64_t leader_token;

    /* What the callbacks do. */
    int fail_elected;   /* answers of on_elected that are failures, counted down */
    int64_t elected_ms; /* on_elected takes so long */
    int64_t revoked_ms;
    void (*in_elected)(struct candidate *c);
    void (*in_revoked)(struct candidate *c);
    void (*in_closed)(struct candidate *c);
};

extern const struct conclave_election_callbacks candidate_callbacks;

int candidate_get(struct candidate *c, const int *field);

#define ELECTED(c) candidate_get((c), &(c)->elected)
#define STARTED(c) candidate_get((c), &(c)->started)
#define REVOKED(c) candidate_get((c), &(c)->revoked)
#define CLOSED(c) candidate_get((c), &(c)->closed)
#define LEADS(c) conclave_election_is_leader((c)->election)

struct term candidate_term(struct candidate *c, int index);

bool candidate_log_is(struct candidate *c, const char *log);

bool candidate_log_has(struct candidate *c, const char *part);

bool candidate_log_ends(struct candidate *c, const char *end);

int64_t candidate_leader_token(struct candidate *c);

struct conclave_election_options candidate_options(const char *name);

/* The client alone; the caller starts the election. servers NULL: the endpoint's address. */
void candidate_connect_to(struct candidate *c, struct fake_zk *zk, int endpoint, const char *name,
                          const char *servers, int64_t session_ms);

void candidate_connect(struct candidate *c, struct fake_zk *zk, int endpoint, const char *name);

void candidate_join_with(struct candidate *c, const struct conclave_election_options *options);

void candidate_join(struct candidate *c);

/* Another election on the same client and recipes. */
void candidate_share(struct candidate *c, const struct candidate *with, const char *name);

void candidate_node(struct candidate *c, char *buf, size_t len);

bool candidate_has_node(struct candidate *c);

int64_t candidate_session(struct candidate *c);

/* Waits until it waits behind somebody (or leads): its node stands and its requests are done. */
void candidate_settled(struct candidate *c);

/* Closes the election and checks what must always hold. */
void candidate_close_election(struct candidate *c);

void candidate_finish(struct candidate *c);

/* Whether its lease was over before on_elected could begin, as the thread was late: is_leader was never
 * true. */
bool term_was_void(const struct term *t);

/* Tokens grow with time; with `apart`, no two terms overlap. */
void check_history(struct candidate *const *all, size_t count, bool apart);

void check_terms(struct candidate *const *all, size_t count);

void check_tokens(struct candidate *const *all, size_t count);

/* All that lasts, so that the first creation is that of the candidate's node. */
void make_parent(struct fake_zk *zk);

/* setup and teardown of a test: one server each. */
int server_setup(void **state);

int server_teardown(void **state);

/* One test alone: RECIPES_TEST='E05*'. */
#define RUN_TESTS(tests)                                                                           \
    (cmocka_set_test_filter(getenv("RECIPES_TEST")), cmocka_run_group_tests(tests, NULL, NULL))

#define E_TEST(name) cmocka_unit_test_setup_teardown(name, server_setup, server_teardown)

void hook(struct fake_zk *zk, int endpoint, int32_t op, const char *path, int nth,
          enum fake_action action);

#endif
