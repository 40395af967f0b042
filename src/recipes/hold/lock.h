/*
 * The lock's inside, shared by its files: lock.c (the lock's parts of the contender), lock_position.c
 * (the one it waits for), lock_change.c (downgrade, upgrade), lock_revoke.c, lock_api.c and lock_many.c (the
 * public functions), semaphore.c (a lock that N may hold), lease_pool.c (the same in other libraries' layouts).
 *
 * A lock is a contender (contender.h) that somebody asks for: acquires are requests in a list, the first
 * one is served, and the contender leaves when nobody is served. No callback begins or ends a hold:
 * HELD lasts until the owner releases it, STOPPING until the owner of a lost one does. A try looks whether
 * it would be free (ASKING) before it makes a node.
 *
 * LEAVING lasts no longer than it takes to put the node among the guaranteed deletions: the next
 * acquire makes another node, whose name differs, and does not wait.
 *
 * Cost at the server: to acquire and release a lock without contention takes 4 requests in three round
 * trips: create, our node and the list together, delete. Our node is read for its watch: without it the
 * client would not notice an operator's deletion or a request to release. A waiter needs 2 requests more:
 * it watches the node before it, and reads that node after the event. A waiter that is granted after
 * half of the lease of its create needs a transaction, too. Only the list grows with the number of
 * waiters.
 */
#ifndef RECIPES_HOLD_LOCK_H
#define RECIPES_HOLD_LOCK_H

#include "recipes/hold/contender.h"

#include <conclave/lock.h>

/* An acquire. On the heap with fn, else on the stack of the thread that waits for `done`. */
struct lock_request {
    struct list link; /* in conclave_lock.requests, then (fn) in .answers */
    struct conclave_lock *lock;
    uint64_t owner;
    bool try;     /* now or not at all */
    bool overdue; /* its time is up, but what would grant it is under way */
    struct client_timer timer;
    conclave_lock_fn fn;
    void *ctx;
    bool done;
    int error;
    struct conclave_token token;
};

/* A release that waits for its deletion. On heap or stack as above. */
struct lock_release {
    struct list link; /* in conclave_lock.releases while it waits, then (fn) in .released */
    conclave_lock_done_fn fn;
    void *ctx;
    bool done;
};

/* Changing a held lock's kind; each ends in NONE.
 *   NONE --down--> DOWN <--lost answer, not carried out--> DOWN_UNKNOWN     NONE --up--> UP --made--> UP_LIST */
enum lock_change {
    CHANGE_NONE,
    CHANGE_DOWN,         /* the transaction must be sent */
    CHANGE_DOWN_UNKNOWN, /* it may have been carried out */
    CHANGE_UP,           /* the writer's node is being made */
    CHANGE_UP_LIST,      /* it exists: are there other contenders? */
};

struct lock_change_result {
    bool done;
    int error;
};

struct conclave_lock {
    struct contender c; /* first: it is freed through it */

    /* The user's options. */
    struct conclave_lock_options options; /* its copied fields in c are not used */
    struct conclave_lock_callbacks callbacks;
    int32_t permits;         /* of a semaphore; 0: a lock */
    int32_t take;            /* of them, by each acquire */
    struct lease_pool *pool; /* of a semaphore in another library's layout, else NULL */

    /* Its requests. */
    struct list requests;         /* acquires, in their order */
    struct lock_request *serving; /* the first of them, once it is under way */
    struct list answers;          /* whose fn is to be called */
    uint64_t owner;               /* holds it, or held it until it was lost */
    unsigned depth;               /* acquires of the owner */

    /* The nodes. */
    enum name_kind kind;  /* of the node */
    unsigned deletions;   /* of nodes of ours, under way */
    struct list releases; /* waiting for them */
    struct list released; /* whose fn is to be called */
    struct step probe;    /* try's list; the semaphore's N; its mark */
    bool probed;          /* no contender is in the way of the try */

    /* Loss and revocation. */
    bool lost_due;        /* on_lost has to run */
    int64_t revoke_zxid;  /* of the last request that was seen */
    unsigned revokes_due; /* calls of on_revoke_request that are due */
    bool hand_over_due;   /* on_hand_over_request has to run */

    /* Changing the kind. */
    enum lock_change change;
    struct step change_step;
    struct protected_create change_create; /* makes change_node: the writer's */
    char *change_node;                     /* the node that remains then */
    char *change_data;
    int64_t change_czxid;
    struct lock_change_result *change_result; /* who waits for it, NULL: nobody any more */

    /* Semaphore. */
    bool limit_known;   /* of this node: N was compared */
    int64_t limit_zxid; /* of the last write of N */
    bool mark_due;      /* the one behind has to be woken */
};

static inline struct conclave_recipes *lock_rt(const struct conclave_lock *l)
{
    return contender_rt(&l->c);
}

static inline struct conclave_lock *lock_of(struct contender *c)
{
    return CONTAINER_OF(c, struct conclave_lock, c);
}

/* --- lock.c ---------------------------------------------------------------------- */

extern const struct contender_class lock_class;

/* Ends an acquire. error 0: it was granted, with this token. */
void lock_answer(struct conclave_lock *l, struct lock_request *request, int error);

void lock_answer_all(struct conclave_lock *l, int error);

/* Before the one who asked is told of a grant: what has ended meanwhile, though its timer comes
 * late, was none. It is let go then. */
void lock_confirm(struct conclave_lock *l, struct lock_request *request);

/* Makes the node. */
void lock_join(struct conclave_lock *l);

/* The acquire that is served has failed. */
void lock_fail(struct conclave_lock *l, int error);

/* Deletes a node of ours, however often the link breaks. 0 or CONCLAVE_ENOMEM. */
int lock_delete(struct conclave_lock *l, const char *path) CONCLAVE_MUST_USE;

/* Puts an acquire at the end of the list. timeout_ms: 0 is try. */
void lock_request_add(struct conclave_lock *l, struct lock_request *request, int64_t timeout_ms);

/* The owner's release; *ret_last: the node is being deleted. 0, CONCLAVE_ELOST,
 * CONCLAVE_ENOTOWNER. */
int lock_let_go(struct conclave_lock *l, uint64_t owner, bool *ret_last) CONCLAVE_MUST_USE;

/* --- lock_position.c, semaphore.c, lock_revoke.c ------------------------------------- */

extern const struct place_class lock_place_class;

/* In ASKING: makes the list; makes the node when it would be free, else ends the acquire. */
void lock_probe_run(struct conclave_lock *l);

/* A node was made: N has to be compared, unless the pool has done it. */
void semaphore_joined(struct conclave_lock *l);

/* N, as the semaphore's data were read. */
enum semaphore_limit { LIMIT_SAME, LIMIT_UNSET, LIMIT_OTHER };
enum semaphore_limit semaphore_compare(const struct conclave_lock *l,
                                       const struct conclave_reply *reply);

/* Writes N to data of this version; its text is in the caller's memory. */
enum { LIMIT_TEXT_MAX = 16 };
struct conclave_op semaphore_limit_op(const struct conclave_lock *l, char text[LIMIT_TEXT_MAX],
                                      int32_t version);

/* With a node, connected: compares N, wakes the one behind. */
void semaphore_run(struct conclave_lock *l);

/* Our node's data was read while it is held: is it a request? */
void lock_revoke_look(struct conclave_lock *l, const struct conclave_reply *reply);

/* --- lock_change.c --------------------------------------------------------------- */

void lock_change_init(struct conclave_lock *l);
void lock_change_finish(struct conclave_lock *l);

/* In HELD, none being under way: begins one. 0 or why not. */
int lock_change_down(struct conclave_lock *l) CONCLAVE_MUST_USE;
void lock_change_up(struct conclave_lock *l);

/* In HELD: goes on with a change. */
void lock_change_run(struct conclave_lock *l);

/* Held no more, or to be released: the change ends with error. Its node, if any, is deleted. */
void lock_change_end(struct conclave_lock *l, int error);

/* --- lock_api.c ------------------------------------------------------------------ */

/* For locks and semaphores: as the public functions. permits 0: a lock; take: of them, by each acquire. */
int lock_create(struct conclave_recipes *rt, const struct conclave_lock_options *options,
                const struct conclave_lock_callbacks *callbacks, void *ctx, int32_t permits,
                int32_t take, struct conclave_lock **ret) CONCLAVE_MUST_USE;
uint64_t lock_owner(uint64_t owner); /* 0: the calling thread */
int lock_acquire(struct conclave_lock *l, uint64_t owner, int64_t timeout_ms,
                 struct conclave_token *ret_token) CONCLAVE_MUST_USE;
int lock_release(struct conclave_lock *l, uint64_t owner, int64_t timeout_ms) CONCLAVE_MUST_USE;

#endif
