/*
 * The promises, each in its own file, and their common data. They learn what servers
 * apply and what clients are answered, and end the run by world_violation.
 *
 *   check_writes     acknowledged writes are in the end in the state of all, exactly once
 *   check_replicas   equal index, equal entry, equal state; one leader per term
 *   check_order      what a session sees never goes back
 *   check_fresh      what is synced or linearizable shows all that was acknowledged before
 *   check_sessions   ephemerals are there as long as their session, sessions live as long as promised
 *   check_modes      who may only read sees no write succeed, local sessions own no node
 *   check_watches    a watch gets one event, before the change is seen otherwise
 *   check_lasting    the same of persistent and recursive ones, which say when they may have missed something
 */
#ifndef SIM_CHECKS_H
#define SIM_CHECKS_H

#include "replication/replication.h"
#include "sim/client.h"

struct sim;
struct machine;
struct client;
struct deed;

struct replica_record {
    uint64_t entry; /* digest; 0: nobody has applied it */
    uint64_t state; /* digest after it; 0: not looked at */
    unsigned first; /* server that applied it first */
};

/* The deed that made each version of a key, 0: unknown. */
struct versions {
    uint64_t *deeds;
    size_t n;
};

/* The messages of servers to the client of a session. */
struct session_record {
    int64_t id;
    int64_t timeout_us;
    int64_t answered_us; /* the last answer; 0: none */
    int64_t expired_us;  /* a server applied its end, which no client had asked for; 0: not yet */
};

struct checks {
    struct deed **deeds; /* by id, from 1 */
    size_t n_deeds;
    int64_t acked_zxid; /* newest write that was acknowledged, by anybody */
    uint64_t acknowledged;
    uint64_t reads;
    struct replica_record *replicas; /* by index */
    size_t n_replicas;
    unsigned *leaders; /* by term */
    size_t n_terms;
    struct versions versions[KEYS];
    struct session_record *sessions;
    size_t n_sessions;
};

void checks_init(struct checks *c);
void checks_finish(struct checks *c);

/* A server applied an entry, took a role. */
void checks_applied(struct sim *s, struct machine *m, uint64_t index, struct slice payload);
void checks_role(struct sim *s, struct machine *m, enum replication_role role, uint64_t term);

/* A client was answered; its error, zxid, version and data are in the deed and here. */
void checks_answered(struct sim *s, struct client *c, struct deed *d,
                     const struct conclave_reply *reply);

/* A new deed, which checks owns. */
struct deed *checks_deed(struct checks *c, struct client *client, enum deed_kind kind);

/* A client's one-shot watch on a key got its event, or its session is lost. */
void checks_event(struct sim *s, struct client *c, unsigned key, enum conclave_event_type type);

/* The run is over and all is quiet: everything is there, everywhere. */
void checks_end(struct sim *s);

#endif
