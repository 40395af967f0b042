/*
 * What a server for tests (conclave server --test) does to its clients on request, and what it counts for them. It
 * exists only in such a server: everywhere else service.faults is NULL, and each hook is one comparison.
 *
 *   a drop     the next request of a session that matches: the connection ends before the request is carried out, or
 *              after it was carried out (a write: committed), so that its answer is lost
 *   a hold     a session, or all: answers leave some time later, or nothing is read or sent until a time
 *   a refusal  new connections are closed at once
 *   the clock  of sessions: frozen, or some time passes at once
 *
 * While all are held, and while the clock is frozen, no session ends. A session that is held alone is silent for the
 * server, and ends like one behind a cut network.
 * Limits: FAULTS_DROPS_MAX drops and FAULTS_HOLDS_MAX holds at once; times up to FAULTS_MS_MAX.
 */
#ifndef FRONT_FAULTS_H
#define FRONT_FAULTS_H

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct connection;
struct service;

enum {
    FAULTS_DROPS_MAX = 64,
    FAULTS_HOLDS_MAX = 64,
    FAULTS_OPS_MAX = 48, /* kinds of requests that are counted apart */
};

#define FAULTS_MS_MAX ((int64_t)86400000)
#define FAULTS_FOREVER INT64_MAX
#define FAULTS_ALL 0 /* as the id of a session: every session */

enum fault_drop { FAULT_DROP_BEFORE, FAULT_DROP_AFTER };

/* A connection's part. */
struct connection_faults {
    bool held;         /* it was held at the last look: visit it again when faults_due */
    bool loses;        /* the answer with lost_xid is lost */
    int32_t lost_xid;  /* of the request that a drop matched */
    int64_t out_at_ms; /* monotonic: when its delayed output may leave; 0: nothing is delayed */
};

/* Counted since faults_mark. */
struct faults_counts {
    int64_t since_ms; /* monotonic */
    uint64_t connections;
    uint64_t refused; /* connections */
    uint64_t dropped; /* connections */
    uint64_t created; /* sessions */
    uint64_t expired; /* sessions, also by faults_expire */
    uint64_t closed;  /* sessions, by their clients or by operators */
    uint64_t told;    /* watch events */
    uint64_t requests[FAULTS_OPS_MAX];
};

struct faults;

/* NULL: out of memory. */
struct faults *faults_create(int64_t now_ms);
void faults_destroy(struct faults *f);

/* Orders. Each returns 0 or CONCLAVE_NO_NODE: there is no such session, or (faults_cut) it has no connection;
 * CONCLAVE_EBUSY: too many orders at once. */

/* Ends the connection of a session at once. */
int faults_cut(struct service *s, int64_t session_id) CONCLAVE_MUST_USE;

/* what: a request that faults_what_is_known; NULL: any but those with which clients keep or resume their session. */
int faults_drop(struct service *s, int64_t session_id, enum fault_drop when,
                const char *what) CONCLAVE_MUST_USE;

/* Delays answers by at least delay_ms, 0: no longer. Requests of the connection wait meanwhile. */
int faults_delay(struct service *s, int64_t session_id, int64_t delay_ms) CONCLAVE_MUST_USE;

/* Reads and sends nothing for ms, or FAULTS_FOREVER: until faults_resume. */
int faults_pause(struct service *s, int64_t session_id, int64_t ms) CONCLAVE_MUST_USE;
int faults_resume(struct service *s, int64_t session_id) CONCLAVE_MUST_USE;

/* Refuses connections for ms, or FAULTS_FOREVER; 0: no longer. */
void faults_refuse(struct service *s, int64_t ms);

/* The clock of sessions stops, or goes on. */
void faults_freeze(struct service *s, bool frozen);

/* Lets ms pass for sessions: those that were silent for their timeout end. A session is silent unless its connection is
 * open, not held, and has sent something within two thirds of its timeout, as clients that live do. Returns how many
 * sessions were told to end; they have when that many more are `expired`. */
uint64_t faults_advance(struct service *s, int64_t ms);

/* Ends a session as if its timeout had passed. 0, CONCLAVE_NO_NODE, or the log's error. */
int faults_expire(struct service *s, int64_t session_id) CONCLAVE_MUST_USE;

/* Drops all orders. */
void faults_clear(struct service *s);

/* Begins to delete all nodes but those of /zookeeper itself, after all sessions were told to end. 0 or CONCLAVE_ENOMEM
 * or the log's error. faults_is_empty says when that is done. */
int faults_reset(struct service *s) CONCLAVE_MUST_USE;
bool faults_is_empty(struct service *s);

/* Counts anew. */
void faults_mark(struct service *s);
const struct faults_counts *faults_counts(const struct faults *f);

/* The kinds of requests, in the order of faults_counts.requests; NULL: no more. */
const char *faults_op_name(size_t at);

/* Whether faults_drop takes this name: an operation of the protocol ("create" stands for create2, createContainer and
 * createTTL, too, and "getChildren" for getChildren2), or "write" for any write. */
bool faults_what_is_known(const char *what);

struct faults_state {
    size_t drops;
    size_t holds;
    bool refusing;
    bool frozen;
};
void faults_state(const struct service *s, struct faults_state *ret);

/* Hooks; only while service.faults is not NULL. */

/* A request came: counts it. True: the connection was dropped, and nothing else must be done. */
bool faults_on_request(struct connection *c, int32_t type, int32_t xid);

/* An answer was made. If it is one to lose, the connection is dropped. */
void faults_on_reply(struct connection *c, int32_t xid);

/* A connection came. True: close it. */
bool faults_on_accept(struct service *s);

void faults_on_event(struct faults *f);
void faults_on_session(struct faults *f, bool created, bool expired);

/* Whether the connection may neither be read nor sent to now. */
bool faults_hold(struct connection *c);

/* Whether connections that are held must be looked at again. */
bool faults_due(struct faults *f, int64_t now_ms);
int64_t faults_deadline(const struct faults *f); /* INT64_MAX: never */

/* Before sessions are judged. */
void faults_tick(struct service *s, int64_t now_ms);

#endif
