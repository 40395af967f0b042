/*
 * Shared parts of the recipes' tests: candidates that record the calls of their callbacks, and
 * macros that wait until a condition is true. In most tests (E_TEST) sessions outlast every pause of
 * a busy machine; they are short in tests of sessions and leases that end in time (EXPIRY_TEST).
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

enum {
    SESSION_MS = 600, /* of clients that survive the end of their session at any time */
    EXPIRY_SESSION_MS = 2000,
    LONG_SESSION_MS = 30000,
    PATIENCE_MS = 30000,
    TERMS_MAX = 512,
};

/* The session timeout of clients that are not given another one: EXPIRY_SESSION_MS in an EXPIRY_TEST,
 * else LONG_SESSION_MS. */
extern int64_t usual_session_ms;

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

/* Waits until an expression is true; fails the test after PATIENCE_MS. */
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

/* The time between on_elected and on_revoked. It ends earlier when a test saw is_leader turn
 * false. */
struct term {
    int64_t from_ns;
    int64_t to_ns; /* start of on_revoked; 0: still leads */
    /* to_ns or the end of the lease, whichever was first: is_leader is false from then on */
    int64_t over_ns;
    int64_t token;
    int why;
    bool regrant;
    int64_t stop_within_ms;
};

/* Faults in the calls of a handle's callbacks: none of them may happen. */
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
    bool shares; /* client and recipes belong to another candidate */

    pthread_mutex_t lock; /* guards the members below */
    struct term terms[TERMS_MAX];
    int elected; /* calls of on_elected that have begun */
    int started; /* calls of on_elected that have returned */
    int revoked; /* calls of on_revoked that have begun */
    int closed;
    int closed_why;
    bool inside;          /* a callback runs */
    unsigned broken;      /* enum broken: must stay 0 */
    int leaders;          /* calls of on_leader */
    char leader_log[512]; /* ids in order, '*' after an acknowledged one, "-" for none */
    int64_t leader_token;

    /* Behaviour of the callbacks. */
    int fail_elected;   /* on_elected fails this often, counted down */
    int64_t elected_ms; /* duration of on_elected */
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

/* Connects the client only; the caller starts the election. servers NULL: the endpoint's address. */
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

/* It has noticed that its link is lost. */
bool candidate_suspended(struct candidate *c);

/* Waits until no request has come to the endpoint for a while. */
void requests_settled(struct fake_zk *zk, int endpoint);

/* Waits until it leads or waits for another candidate: its node exists and no request is pending. */
void candidate_settled(struct candidate *c);

/* Closes the election and checks that no fault (enum broken) happened. */
void candidate_close_election(struct candidate *c);

void candidate_finish(struct candidate *c);

/* Whether the lease was over before the late thread called on_elected: is_leader was never true. */
bool term_was_void(const struct term *t);

/* Checks that tokens grow with time and, with `apart`, that no two terms overlap. */
void check_history(struct candidate *const *all, size_t count, bool apart);

void check_terms(struct candidate *const *all, size_t count);

void check_tokens(struct candidate *const *all, size_t count);

/* Makes all permanent nodes, so that the first create request is for the candidate's node. */
void make_parent(struct fake_zk *zk);

/* setup and teardown of a test: one server each. */
int server_setup(void **state);
int server_setup_expiry(void **state);

int server_teardown(void **state);

/* One test alone: RECIPES_TEST='E05*'. */
#define RUN_TESTS(tests)                                                                           \
    (cmocka_set_test_filter(getenv("RECIPES_TEST")), cmocka_run_group_tests(tests, NULL, NULL))

#define E_TEST(name) cmocka_unit_test_setup_teardown(name, server_setup, server_teardown)
#define EXPIRY_TEST(name)                                                                          \
    cmocka_unit_test_setup_teardown(name, server_setup_expiry, server_teardown)

void hook(struct fake_zk *zk, int endpoint, int32_t op, const char *path, int nth,
          enum fake_action action);

#endif
