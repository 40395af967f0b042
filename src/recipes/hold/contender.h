/*
 * The contender: the one machine under election, lock, semaphore and elector. It makes a node, finds
 * its place in the line, proves its lease, is granted, stops, and removes the node.
 *
 *                             .----< lease ran out, link lost >-----.
 *                             v             |                       |
 *   OUT ------> JOINING ---> WAITING ---> FIRST --ready--------> PROVING ---proved---> GRANTED
 *    ^             |          |             | |                   ^ |                   |   |
 *    |<--failed----'          |             | '-> PREPARING ------' |           revoked |   |
 *    |                        |             |          |            |                   |   v
 *    |     leaves, or the node is gone      |          |            |                   | STARTING
 *    |                        v             v          v            v                   |   |   |
 *    '---- removed ------- LEAVING <----------------------------------------------------'   |   |
 *                             ^                                                     revoked |   |
 *   OUT --ending--> CLOSED    |                                                             |   v
 *                             '--- ENDING <--- STOPPING <--- INTERRUPTED <------------------'  HELD
 *                                                  ^                                            |
 *                                                  '----------------- revoked ------------------'
 *
 * A recipe lists the arrows that not all take (contender_class.arrows). Beside those drawn:
 *   election         GRANTED and ENDING -> WAITING: the lease ran out, the node is still there
 *   lock, semaphore  OUT -> ASKING -> JOINING or OUT: a try looks before it makes a node;
 *                    PROVING -> HELD, HELD -> LEAVING, STOPPING -> LEAVING: its owner asks for it and
 *                    releases it, so no callback begins or ends it
 *   elector          JOINING -> PREPARING or LEAVING, WAITING -> PREPARING or JOINING: its lock has one
 *                    name for all; in PREPARING it fences the one before and writes its breadcrumb
 *
 * contender_enter makes every transition: it checks the arrow, and what must be true in the new state.
 * So nobody sees a grant once it is revoked; and a user who was told of a grant has stopped before the
 * node is removed, thus before another is granted.
 *
 * Everything is guarded by the client's lock, but for the grant that is_leader and its kin read.
 */
#ifndef RECIPES_HOLD_CONTENDER_H
#define RECIPES_HOLD_CONTENDER_H

#include "recipes/engine/grant.h"
#include "recipes/engine/handle_shutdown.h"
#include "recipes/engine/line_position.h"
#include "recipes/engine/protected_create.h"
#include "recipes/hold/contender_class.h"

struct contender {
    struct handle handle; /* first: it is freed through it */
    const struct contender_class *class;
    struct conclave_lease_options lease;

    enum contender_state state;
    enum contender_run { CONTENDER_AT_REST, CONTENDER_RUNS, CONTENDER_RUNS_AGAIN } run;
    struct closing closing;
    struct client_timer wake; /* a pause before the next try */
    int64_t not_before_ns;    /* no new node before this */

    /* The node. */
    struct protected_create create;
    char *node;           /* path, NULL: none */
    int64_t node_session; /* its owner */
    int64_t czxid;        /* of the node */
    uint32_t generation;  /* of the node: answers about an earlier one are dropped */
    bool session_ended;   /* the session of the last node is known to have ended */
    struct place place;

    /* The lease and the grant. */
    /* when the creation was sent, as a proof of the lease; 0: not known, or used */
    int64_t sent_ns;
    struct lease_holder holder;
    struct grant grant;
    int64_t token;         /* of the last grant */
    int stop_why;          /* of the last revocation */
    int64_t stop_until_ns; /* end of the lease then; 0: somebody else may have it already */
};

static inline struct conclave_recipes *contender_rt(const struct contender *c)
{
    return c->handle.rt;
}

static inline struct conclave_client *contender_client(const struct contender *c)
{
    return c->handle.rt->client;
}

/* It has its node in the line and is not granted. */
static inline bool contender_is_queued(const struct contender *c)
{
    return c->state == CONTENDER_WAITING || c->state == CONTENDER_FIRST ||
           c->state == CONTENDER_PROVING;
}

/* The user was told of a grant that is not revoked. */
static inline bool contender_holds(const struct contender *c)
{
    return c->state == CONTENDER_STARTING || c->state == CONTENDER_HELD;
}

/* The same, or is about to be told. */
static inline bool contender_is_granted(const struct contender *c)
{
    return c->state == CONTENDER_GRANTED || contender_holds(c);
}

/* Linked, and no pause to be kept. */
static inline bool contender_can_send(const struct contender *c)
{
    return recipes_connected(contender_rt(c)) && !client_timer_active(&c->wake);
}

/* Before a handle is made: 0, CONCLAVE_ECLOSED, CONCLAVE_EINVAL (more grace than the session leaves). */
int contender_may_start(const struct conclave_recipes *rt,
                        const struct conclave_lease_options *lease) CONCLAVE_MUST_USE;

/* c is zeroed. Takes a reference for the user, which closing_destroy gives back. */
void contender_init(struct contender *c, struct conclave_recipes *rt,
                    const struct contender_class *class,
                    const struct conclave_lease_options *lease);
void contender_init_place(struct contender *c, const struct place_class *class, const char *parent,
                          enum conclave_naming naming);

/* --- the machine */
/* Looks at what is known and does what is next. After every change. */
void contender_run(struct contender *c);

/* The only way into another state. */
void contender_enter(struct contender *c, enum contender_state state);

/* Has contender_run called at a time, or in a while: something could not be done now. */
void contender_wake_at(struct contender *c, int64_t at_ns);
void contender_retry_later(struct contender *c);

/* What to do about an error that a request got: unknown outcomes wait for the next link, most others for
 * a while; those that will not get better end the handle, or what the recipe says. */
void contender_trouble(struct contender *c, int error);

/* Ends the handle, as soon as its callbacks and nodes allow. The first reason counts. */
void contender_end(struct contender *c, int why);

/* In OUT: whether a new node may be made now; wakes up when it may. */
bool contender_may_join(struct contender *c);

/* Makes the node. */
void contender_join(struct contender *c, const struct protected_node *node);

/* This node is ours: path is taken. */
void contender_take(struct contender *c, char *path, const struct conclave_stat *stat);

/* Adds the lease of the node that is held. */
void contender_add_lease(struct contender *c);

/* In PROVING, proved: nothing stands against it any more. */
void contender_grant(struct contender *c);

/* Ends what is_leader and its kin see, and the lease: nobody sees a grant once this has returned. */
void contender_withdraw(struct contender *c);

/* Ends a grant. until_ns: the end of its lease; 0: somebody else may have it already. */
void contender_revoke(struct contender *c, int why, int64_t until_ns);

/* Our node, if any, is gone: CONCLAVE_SESSION_EXPIRED, CONCLAVE_ELOST (deleted), or why the client ended. */
void contender_node_gone(struct contender *c, int why);

/* Forgets the node, without a word to the recipe. */
void contender_forget_node(struct contender *c);

/* --- functions of a struct place_class */
void contender_place_free(struct place *place);
void contender_place_gone(struct place *place);
void contender_place_trouble(struct place *place, int error);
void contender_place_wake(struct place *place);

/* --- what public functions of all recipes do; no lock held */

/* Name of the node that stands, else "". */
void contender_node_name(const struct contender *c, char *buf, size_t len);

/* fenced_multi with the node that is held. */
int contender_fenced_multi(struct contender *c, const struct conclave_op *parts, size_t count,
                           struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

void contender_close(struct contender *c);
int contender_close_wait(struct contender *c, int64_t timeout_ms) CONCLAVE_MUST_USE;

#endif
