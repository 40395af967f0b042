/*
 * The double barrier's inside, shared by double_barrier.c (the handle), double_barrier_enter.c and
 * double_barrier_leave.c.
 *
 *   OUT --enter--> ENTERING --open--> IN --leave--> LEAVING --> OUT
 *    ^                |                |
 *    '-- withdrawn, --'--- lost -------'
 *        lost, refused
 *
 * Below <path>/<round> (data: the number of members) are the nodes m-<guid>, one per member, ephemeral,
 * and `ready` once the barrier is open. To join, to withdraw or to open, a member sends a
 * transaction that also checks the conditions of the others, so the server's order decides.
 *
 * In the layouts of Curator and kazoo the members are <guid> (all children but `ready`), and the number is nowhere. There
 * the creation of `ready` alone lets all in, so a withdrawal must not create it. Sources: Curator's
 * DistributedDoubleBarrier, kazoo's recipe/barrier.py.
 *
 * Everything is guarded by the client's lock.
 */
#ifndef RECIPES_GROUP_DOUBLE_BARRIER_H
#define RECIPES_GROUP_DOUBLE_BARRIER_H

#include "recipes/engine/handle_calls.h"

#include <conclave/barrier.h>

enum db_state {
    DB_OUT,
    DB_ENTERING,
    DB_IN,
    DB_LEAVING,
};

struct conclave_double_barrier {
    struct host host; /* first */
    struct conclave_double_barrier_callbacks callbacks;
    void *ctx;
    char *path;
    char *round; /* <path>/<round>; in other layouts without a name: path */
    char *ready; /* <round>/ready */
    char *id;
    uint32_t count;
    bool late_pass;
    enum conclave_barrier_layout layout;
    struct conclave_acl *acl;
    size_t acl_count;

    enum db_state state;
    struct call *call; /* enter or leave, while one is under way */

    /* The membership. */
    char *me;                 /* path of its node; NULL: none */
    struct deletion *removal; /* of that node, until it is under way */
    bool joined;              /* it is known to exist, or to have existed */
    int64_t session_id;       /* its owner */
    int gone;                 /* why it is not there any more; 0: it is */
    bool gone_due;            /* on_lost */
    struct step own_step;
    struct watch_slot own;
    struct client_timer own_retry;
};

/* What an enter (drawn in double_barrier_enter.c) or a leave (in double_barrier_leave.c) does next. */
enum db_phase {
    ENTER_ROUND,
    ENTER_MAKE_ROUND,
    ENTER_FIRST, /* whether it is open before we came */
    ENTER_JOIN,
    ENTER_JOIN_UNKNOWN,
    ENTER_LOOK, /* whether it is open */
    ENTER_COUNT,
    ENTER_OPEN,
    ENTER_WITHDRAW,
    ENTER_WITHDRAW_UNKNOWN,
    LEAVE_LIST,
    LEAVE_LAST,   /* alone: node and ready go together */
    LEAVE_REMOVE, /* my node, others stay */
    LEAVE_WATCH,
    LEAVE_READY, /* no member is left: the remaining nodes are removed; as kazoo leaves: first of all */
    LEAVE_ROUND,
};

struct db_call {
    struct call call; /* first */
    enum db_phase phase;
    struct watch_slot watch; /* entering: on ready; leaving: on the one it waits for */
    conclave_double_barrier_fn done;
    void *ctx;

    /* Entering. */
    bool counted;   /* once at least: then a try without waiting is over */
    bool opened;    /* an event said so, in a layout in which `ready` may be gone again */
    bool plain;     /* the server has no containers */
    char **members; /* paths of all members' nodes, for opening */
    size_t members_count;
    int64_t czxid; /* of our node */

    /* Leaving. */
    bool removed; /* my node, by me */
    bool maybe;   /* the answer to that was lost */
    char *other;  /* path of the one it waits for */
};

static inline struct db_call *db_call_of(struct call *call)
{
    return CONTAINER_OF(call, struct db_call, call);
}

static inline struct conclave_double_barrier *db_of(const struct db_call *c)
{
    return CONTAINER_OF(c->call.host, struct conclave_double_barrier, host);
}

/* Checked: see the drawings. */
void db_to(struct db_call *c, enum db_phase phase);

/* Whether the barrier is one of another library. */
static inline bool db_is_foreign(const struct conclave_double_barrier *db)
{
    return db->layout != CONCLAVE_BARRIER_LAYOUT_NATIVE;
}

/* Whether a child of the round is a member. */
bool db_is_member(const struct conclave_double_barrier *db, const char *name);

/* There is no membership any more, or none yet. */
void db_forget_me(struct conclave_double_barrier *db);

/* Has its node removed, whatever comes between; for want of memory, too. */
void db_remove_me(struct conclave_double_barrier *db);

/* Watches its own node, once it has joined. */
void db_own_run(struct conclave_double_barrier *db);

/* The call's last step. */
void db_call_end(struct db_call *c, int error, enum db_state state);

/* The two machines. */
void db_enter_run(struct call *call);
void db_enter_end(struct call *call, int error);
void db_members_clear(struct db_call *c);
void db_leave_run(struct call *call);
void db_leave_end(struct call *call, int error);

#endif
