/*
 * The elector's inside, shared by its files: elector.c (the machine and its callbacks),
 * elector_lock.c (getting and leaving the lock), elector_breadcrumb.c (breadcrumb and override),
 * elector_fence.c (the thread that fences), elector_api.c (the public functions).
 *
 * The machine (every arrow is checked by elector_enter):
 *
 *   OUT --join--> JOINING --ours--> READING <------------- mark failed, or unknown ----.
 *    ^              |  ^               |   \                                           |
 *    |     another's|  |free           |    '- to be fenced -> FENCING -- it is dead --|
 *    |              v  |               |                          | cannot be          |
 *    |            WAITING              '- nobody to be fenced --> MARKING -- written --+
 *    |                |                                           |                    v
 *    |                |                                           |                 PROVING
 *    |                v                                           v                    | proved
 *    '---- gone --- LEAVING <----------- lock lost, or leaves ----+                    v
 *                     ^                                                             ACTIVE
 *                     '------------------------- STOPPING <--- lost, leaves -----------'
 *   OUT --ending--> CLOSED
 *
 * activate is due in ACTIVE, deactivate in STOPPING, as with an election: TERM_DUE -> TERM_STARTING
 * -> TERM_READY -> TERM_ENDING -> TERM_NONE.
 *
 * Everything is guarded by the client's lock, but for the grant.
 */
#ifndef RECIPES_HOLD_ELECTOR_H
#define RECIPES_HOLD_ELECTOR_H

#include "recipes/engine/grant.h"
#include "recipes/engine/handle_shutdown.h"
#include "recipes/engine/line_position.h"
#include "recipes/engine/protected_create.h"

#include <conclave/elector.h>

enum elector_phase {
    PHASE_OUT,     /* no node of ours, none wanted or not yet */
    PHASE_JOINING, /* making a node, or finding out whose the lock is */
    PHASE_WAITING, /* another has the lock */
    PHASE_READING, /* the lock is ours: reads the breadcrumb, and whether an operator spoke */
    PHASE_FENCING,
    PHASE_MARKING, /* writes the breadcrumb */
    PHASE_PROVING, /* first proof of the lease */
    PHASE_ACTIVE,
    PHASE_STOPPING,
    PHASE_LEAVING, /* removes the node */
    PHASE_CLOSED,
};

enum { ELECTOR_DATA_MAX = 64 * 1024, ELECTOR_TEXT_MAX = ELECTOR_DATA_MAX + 4096 };

struct conclave_elector {
    struct handle handle; /* first: it is freed through it */

    /* What the user gave. */
    struct conclave_elector_options options; /* dir, id, incarnation and data of it: below */
    struct conclave_elector_callbacks callbacks;
    void *ctx;
    char *dir;
    char *lock_path;     /* the one lock of all */
    char *line_path;     /* parent of the line, herd_free */
    char *crumb_path;    /* the breadcrumb */
    char *override_path; /* what an operator says */
    char *id;
    char *incarnation;
    void *data;
    size_t data_len;
    struct conclave_acl *acl; /* one block with its strings */

    /* Where it stands. */
    enum elector_phase phase;
    enum grant_term term;
    enum conclave_health health;
    struct closing closing; /* ending: on the way to CLOSED */
    bool ceding;            /* steps down, then stays out */
    bool giving_up;         /* leaves after a failure, then stays out for a while */
    bool in_order; /* nothing of ours is active: deactivate said so, or activate was never called */
    bool untrusted;        /* it was not healthy when it was to stop: what it says does not count */
    bool running;          /* elector_run is at work further up */
    bool again;            /* and has to look once more */
    bool connected;        /* it was, once */
    unsigned failures;     /* in a row */
    int64_t not_before_ns; /* out of the race until then */
    struct client_timer wake;

    /* The lock. */
    char *text; /* of its node */
    size_t text_len;
    char *node;           /* path of our node, NULL: none */
    int64_t node_session; /* its owner */
    int64_t czxid;        /* the token */
    uint32_t generation;  /* of the node: answers about an earlier one are dropped */
    struct step lock_step;
    struct watch_slot lock_watch; /* on the one lock */
    struct ensure_path ensure;
    bool ensuring;
    bool maybe;  /* a create was sent whose answer is unknown: the lock may be ours */
    bool exists; /* the one lock stood, when it was to be made */
    struct protected_create create; /* herd_free */
    struct place place;
    bool place_free; /* first in line */
    bool deleting;   /* its node */

    /* The breadcrumb. */
    struct step mark_step;
    uint32_t mark_generation;
    bool crumb_known; /* read since the lock became ours, or written */
    bool crumb_exists;
    int32_t crumb_version;
    char *old_text; /* of the breadcrumb that was read; what `old` points to */
    struct conclave_breadcrumb old;
    bool override_known; /* it was looked for */
    bool override_exists;
    bool overridden; /* an operator said that `old` is dead */
    int32_t override_version;
    bool fenced;     /* `old` is dead */
    bool marked;     /* the breadcrumb is ours, at crumb_version */
    bool mark_maybe; /* it was written, the answer is unknown */

    /* The thread that fences. */
    bool fence_running;
    uint32_t fence_generation;

    /* The lease and the term. */
    struct lease_holder holder;
    struct grant grant;
    int stop_why;
    int64_t stop_until_ns;

    /* What is told. */
    enum conclave_elector_state told;
    bool told_any;
    const char *reason; /* of the next change; static */
};

static inline struct conclave_recipes *elector_rt(const struct conclave_elector *e)
{
    return e->handle.rt;
}

/* --- elector.c -------------------------------------------------------------------- */

void elector_init(struct conclave_elector *e, struct conclave_recipes *rt);

/* Frees what elector_start copied, and e. */
void elector_free_copies(struct conclave_elector *e);

/* Looks at what is known and does what is next. After every change; lock held. */
void elector_run(struct conclave_elector *e);

/* Checked against the drawing above. */
void elector_enter(struct conclave_elector *e, enum elector_phase phase);

void elector_end(struct conclave_elector *e, int why);

/* What to do about an error that a request got: unknown outcomes wait for the next link, most others
 * for a while, some will never be better: they end the handle. */
void elector_trouble(struct conclave_elector *e, int error);

/* Has elector_run called in a while: something could not be done now. */
void elector_retry_later(struct conclave_elector *e);

/* Leaves the lock and stays out for a while, longer each time. reason is static. */
void elector_give_up(struct conclave_elector *e, const char *reason);

/* Wants to be out of the race. */
bool elector_leaving(const struct conclave_elector *e);

enum conclave_elector_state elector_state(const struct conclave_elector *e);

/* --- elector_lock.c --------------------------------------------------------------- */

void elector_lock_init(struct conclave_elector *e);
void elector_lock_finish(struct conclave_elector *e);

/* In JOINING and WAITING: gets the lock; enters READING when it is ours. */
void elector_lock_run(struct conclave_elector *e);

/* From READING to ACTIVE: keeps watching that it is. */
void elector_lock_watch(struct conclave_elector *e);

/* Whether it was read to be ours and nothing was heard since; doubt: read it again. */
bool elector_lock_verified(const struct conclave_elector *e);
void elector_lock_doubt(struct conclave_elector *e);

/* Our node is gone: CONCLAVE_SESSION_EXPIRED, CONCLAVE_ELOST, or why the client ended. */
void elector_lock_gone(struct conclave_elector *e, int why);

/* In LEAVING: removes it; enters OUT when nothing of ours is left. */
void elector_leave_run(struct conclave_elector *e);

/* --- elector_breadcrumb.c --------------------------------------------------------------- */

void elector_mark_init(struct conclave_elector *e);
void elector_mark_finish(struct conclave_elector *e);

/* In READING: reads; enters FENCING or MARKING. */
void elector_read_run(struct conclave_elector *e);

/* In MARKING: writes; enters PROVING, or READING when it has to be read again. */
void elector_mark_run(struct conclave_elector *e);

/* In LEAVING, when the breadcrumb may be ours though we were never active: finds out. False: nothing to
 * find out. */
bool elector_mark_resolve(struct conclave_elector *e);

/* Forgets what was read. */
void elector_crumb_forget(struct conclave_elector *e);

/* --- elector_fence.c -------------------------------------------------------------- */

/* In FENCING: has the thread run; enters READING with `fenced`, or gives up. */
void elector_fence_run(struct conclave_elector *e);

#endif
