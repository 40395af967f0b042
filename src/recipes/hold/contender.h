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
 * So no caller sees a revoked grant; and a user that learned of a grant has stopped before the
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

    /* The user's options, copied. */
    char *path;
    char *id;
    struct conclave_acl *acl; /* of the nodes; one block with its strings, NULL: the default */
    size_t acl_count;
    struct conclave_lease_options lease;
    void *ctx; /* of the callbacks */

    enum contender_state state;
    struct machine machine;
    struct closing closing;
    int64_t not_before_ns; /* no new node before this */

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

/* Whose request it is: of those that belong to the contender's machine. */
static inline struct contender *contender_of_step(const struct step *step)
{
    return CONTAINER_OF(step->machine, struct contender, machine);
}

/* It has its node in the line and is not granted. */
static inline bool contender_is_queued(const struct contender *c)
{
    return c->state == CONTENDER_WAITING || c->state == CONTENDER_FIRST ||
           c->state == CONTENDER_PROVING;
}

/* The user learned of a grant that is not revoked. */
static inline bool contender_holds(const struct contender *c)
{
    return c->state == CONTENDER_STARTING || c->state == CONTENDER_HELD;
}

/* The same, or is about to learn it. */
static inline bool contender_is_granted(const struct contender *c)
{
    return c->state == CONTENDER_GRANTED || contender_holds(c);
}

/* Its lease has not ended, even if the timer comes late. Any thread, no lock needed. */
static inline bool contender_has_lease(const struct contender *c)
{
    return grant_until_ns(&c->grant, contender_rt(c)) != 0;
}

/* --- beginning */
/* The options that all recipes have; id may be NULL. */
struct contender_options {
    const char *path;
    const char *id;
    enum conclave_naming naming;
    const struct conclave_lease_options *lease;
    const struct conclave_acl *acl;
    size_t acl_count;
};

/* The body of all public functions that open a recipe: checks the options, makes a contender of class->size bytes,
 * copies the options (class->copy gets `own`, those of the recipe, which it has found valid; NULL: they are not), and
 * makes it a handle with a reference for the user, which closing_destroy gives back.
 * 0: the client's lock is held until contender_opened; before that the user gets the handle and its recipe begins.
 * CONCLAVE_EFORK, CONCLAVE_ENOMEM, CONCLAVE_ECLOSED, CONCLAVE_EINVAL (also: more grace than the session leaves). */
int contender_open(struct conclave_recipes *rt, const struct contender_class *class,
                   const struct contender_options *options, const void *own, void *ctx,
                   struct contender **ret) CONCLAVE_MUST_USE;
void contender_opened(struct contender *c);

/* --- the machine */
/* Looks at what is known and does what is next. After every change. */
static inline void contender_run(struct contender *c)
{
    machine_run(&c->machine);
}

/* The only way into another state. */
void contender_enter(struct contender *c, enum contender_state state);

/* Reacts to the error of a request: unknown outcomes wait for the next link, most others for
 * a while; those that will not get better end the handle, or what the recipe says. */
void contender_trouble(struct contender *c, int error);

/* Ends the handle, as soon as its callbacks and nodes allow. The first reason counts. */
void contender_end(struct contender *c, int why);

/* In OUT: whether a new node may be made now; wakes up when it may. */
bool contender_may_join(struct contender *c);

/* A node of the line with this data (borrowed) and the options' ACL; a node at this path. */
struct protected_node contender_node(const struct contender *c, enum name_kind kind,
                                     const void *data, size_t len);
struct conclave_op contender_create_op(const struct contender *c, const char *path,
                                       const void *data, size_t len,
                                       enum conclave_create_mode mode);

/* Makes the node of the line; or this one. */
void contender_join_as(struct contender *c, const struct protected_node *node);
void contender_join(struct contender *c, enum name_kind kind, const void *data, size_t len);

/* Sends a request that is about the node of now; whether a request was about the node of now. */
void contender_submit(struct contender *c, struct step *step, const struct conclave_op *op,
                      step_fn fn);
static inline bool contender_is_current(const struct contender *c, const struct step *step)
{
    return step->generation == c->generation;
}

/* In JOINING: the node was made, and is ours; enters WAITING. path is taken. sent_ns: when the creation was sent, 0: not
 * known. */
void contender_joined(struct contender *c, char *path, const struct conclave_stat *stat,
                      int64_t sent_ns);

/* This node is ours: path is taken. */
void contender_take(struct contender *c, char *path, const struct conclave_stat *stat);

/* Adds the lease of the node that is held. */
void contender_add_lease(struct contender *c);

/* In PROVING, proved: nothing prevents the grant any more. */
void contender_grant(struct contender *c);

/* Ends the grant that is_leader and similar calls see, and the lease: no caller sees it after the return. */
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

/* One after the other, each watches the one before it. */
extern const struct place_class contender_place_class;

/* --- what public functions of all recipes do; no lock held */

/* Begins and ends a function that changes something: with the lock held between them if 0, not if CONCLAVE_EFORK or
 * CONCLAVE_ECLOSED. The end has the contender look at what is new. */
int contender_begin_call(struct contender *c) CONCLAVE_MUST_USE;
void contender_end_call(struct contender *c);

/* Name of the node that exists, else "". */
void contender_node_name(const struct contender *c, char *buf, size_t len);

/* fenced_multi with the node that is held. */
int contender_fenced_multi(struct contender *c, const struct conclave_op *parts, size_t count,
                           struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

void contender_close(struct contender *c);
int contender_close_wait(struct contender *c, int64_t timeout_ms) CONCLAVE_MUST_USE;

#endif
