/*
 * The double barrier's inside, shared by double_barrier.c (the handle), double_barrier_enter.c and
 * double_barrier_leave.c.
 *
 *   OUT --enter--> ENTERING --open--> IN --leave--> LEAVING --> OUT
 *    ^                |                |
 *    '-- withdrawn, --'--- lost -------'
 *        lost, refused
 *
 * Below <path>/<round> (data: the number of members) stand m-<guid>, one per member, ephemeral,
 * and `ready` once the barrier is open. Who joins, who withdraws and who opens does so by a
 * transaction that has the other's condition in it, so that the order of the server decides.
 *
 * Everything is guarded by the client's lock.
 */
#ifndef RECIPES_GROUP_DOUBLE_BARRIER_H
#define RECIPES_GROUP_DOUBLE_BARRIER_H

#include "recipes/engine/handle_calls.h"
#include "recipes/engine/protected_create.h"

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
    char *round; /* <path>/<round> */
    char *ready; /* <path>/<round>/ready */
    char *id;
    uint32_t count;
    bool late_pass;
    struct conclave_acl *acl;
    size_t acl_count;

    enum db_state state;
    struct call *call; /* enter or leave, while one is under way */

    /* The membership. */
    char *me;                 /* path of its node; NULL: none */
    struct deletion *removal; /* of that node, until it is under way */
    bool joined;              /* it is known to stand, or to have stood */
    int64_t session_id;       /* its owner */
    int gone;                 /* why it is not there any more; 0: it is */
    bool gone_due;            /* on_lost */
    struct step own_step;
    struct watch_slot own;
    struct client_timer own_retry;
};

static inline struct conclave_double_barrier *db_of(struct host *host)
{
    return CONTAINER_OF(host, struct conclave_double_barrier, host);
}

/* Whether a child of the round is a member. */
bool db_is_member(const char *name);

/* There is no membership any more, or none yet. */
void db_forget_me(struct conclave_double_barrier *db);

/* Has its node removed, whatever comes between; for want of memory, too. */
void db_remove_me(struct conclave_double_barrier *db);

/* Watches its own node, once it has joined. */
void db_own_run(struct conclave_double_barrier *db);

/* An ended call's last step: its state. */
void db_call_over(struct conclave_double_barrier *db, enum db_state state);

/* Begins a call; lock held. 0, CONCLAVE_ENOMEM. */
int db_enter_create(struct conclave_double_barrier *db, conclave_double_barrier_fn done, void *ctx,
                    bool now, struct call **ret) CONCLAVE_MUST_USE;
int db_leave_create(struct conclave_double_barrier *db, conclave_double_barrier_fn done, void *ctx,
                    struct call **ret) CONCLAVE_MUST_USE;

#endif
