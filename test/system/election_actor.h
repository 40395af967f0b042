/*
 * Common parts of the tests of elections on real servers: actors, which are candidates with a
 * client behind a fault proxy of their own, a record of what their callbacks were told, and waiting
 * for something to become true. Uses the public interface only.
 */
#ifndef SYSTEM_ELECTION_ACTOR_H
#define SYSTEM_ELECTION_ACTOR_H

#include "support/fault_proxy.h"

#include <conclave/election.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SESSION_MS = 2000, TICK_MS = 500, WAIT_MS = 30000, TERMS_MAX = 256 };

#define ROOT "/election_test"

extern uint16_t server_port;
extern atomic_int checks_failed;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("    %s line %d: %s\n", __func__, __LINE__, #condition);                        \
            atomic_fetch_add(&checks_failed, 1);                                                   \
        }                                                                                          \
    } while (0)

/* Waits for an expression to become true; a failed check when it does not within WAIT_MS. */
#define EVENTUALLY(expression)                                                                     \
    do {                                                                                           \
        int64_t end_ = boot_ms() + WAIT_MS;                                                        \
        while (!(expression) && boot_ms() < end_) {                                                \
            sleep_ms(2);                                                                           \
        }                                                                                          \
        CHECK(expression);                                                                         \
    } while (0)

/* CLOCK_BOOTTIME. */
int64_t boot_ns(void);
int64_t boot_ms(void);
void sleep_ms(int64_t ms);

/* A time of leading: from the start of on_elected to the end of on_revoked. */
struct term {
    int64_t from_ns;
    int64_t revoked_ns; /* start of on_revoked, 0: leads still */
    int64_t to_ns;      /* its end, 0 as above */
    int64_t token;
    int64_t stop_within_ms;
    int why;
    bool regrant;
    bool forced; /* the test deleted its node: no callback could come first */
};

enum broken { BROKEN_OVERLAP = 1, BROKEN_ALTERNATION = 2, BROKEN_AFTER_END = 4, BROKEN_LEADS = 8 };

struct actor {
    const char *name;
    struct fault_proxy *proxy; /* NULL: shares another's client */
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    struct conclave_election *election;
    char path[128]; /* of the election */

    pthread_mutex_t lock; /* guards what follows */
    struct term terms[TERMS_MAX];
    int elected; /* calls that have begun */
    int started; /* on_elected has returned */
    int revoked; /* calls that have begun */
    int closed;
    int closed_why;
    bool inside;
    bool force;      /* the test is about to delete the node of the term of now */
    unsigned broken; /* enum broken */
};

/* Connects through a proxy of its own, with this session timeout; path is that of its elections. */
void actor_open(struct actor *a, const char *name, const char *path, int64_t session_ms);
/* On the client of another one. */
void actor_share(struct actor *a, const struct actor *with, const char *name, const char *path);
/* The options of all the tests: small back-off. */
struct conclave_election_options actor_options(const struct actor *a);
void actor_join_with(struct actor *a, const struct conclave_election_options *options);
void actor_join(struct actor *a);
/* Its node exists, and it watches the one before it. */
void actor_settled(struct actor *a);
/* Closes the election, checks what must always hold of the callbacks, and frees it. */
void actor_leave(struct actor *a);
/* That, and the client and the proxy. */
void actor_close(struct actor *a);

int actor_count(struct actor *a, const int *field);
struct term actor_term(struct actor *a, int index);
bool actor_leads(struct actor *a);
/* Path of its node; false when it has none. */
bool actor_node(struct actor *a, char *buf, size_t len);
int64_t actor_session(struct actor *a);

#define ELECTED(a) actor_count((a), &(a)->elected)
#define STARTED(a) actor_count((a), &(a)->started)
#define REVOKED(a) actor_count((a), &(a)->revoked)
#define CLOSED(a) actor_count((a), &(a)->closed)

/* Tokens grow with time, and no two terms overlap, but for a forced one and those behind it. The
 * number of pairs that were compared. */
int actors_check(struct actor *const *all, size_t count);

/* --- the tree, by a client that is not in the way of faults ------------------------------- */

extern struct conclave_client *witness;

/* The path of a test's own election; made with all beside it, so that the first creation there is
 * that of a candidate's node. */
void make_election(const char *path);
size_t child_count(const char *path); /* 0: no node */
bool node_exists(const char *path);
int64_t node_owner(const char *path); /* -1: no node */
int64_t node_czxid(const char *path); /* -1: no node */
void node_delete(const char *path);
/* The acknowledgement of the path's leader exists, and is this one's. */
bool acknowledged(struct actor *a);
void remove_tree(struct conclave_client *client, const char *path);

/* --- the tests of election_storm.c -------------------------------------------------------- */

void sweep_link_cut_after_every_frame(void);
void sweep_every_frame_lost(void);
void two_hundred_hand_overs(void);
void server_killed_during_elections(void);
void a_thousand_candidates(void);

/* Asks whoever started this program to kill the server and start it again; waits for it. */
void restart_server(void);

#endif
