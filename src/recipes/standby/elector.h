/*
 * The elector's inside, shared by its files: elector.c (what an elector adds to the contender),
 * elector_lock.c (getting and leaving the lock), elector_breadcrumb.c (breadcrumb and override),
 * elector_fence.c (the thread that fences), elector_card.c (its node in the list of members), elector_handed.c (requests
 * to hand over), elector_api.c (the public functions).
 *
 * An elector is a contender (contender.h): begin is activate, end is deactivate. It contends for one lock
 * of a fixed name, or with herd_free for the first place in a line. When it has that it prepares; every
 * arrow is checked by elector_prepare:
 *
 *   READING --- nobody to be fenced ---> MARKING --- written ---> (PROVING)
 *     ^  |                                  |
 *     |  '--- to be fenced ---> FENCING     |
 *     |                            |        |
 *     |<------ it is dead ---------'        |
 *     '<------ failed, or unknown ----------'
 *
 * READING goes on to PROVING when it finds that its own mark, whose answer was lost, was written.
 * The lease is that of the breadcrumb's version: whoever writes it next ends the lease.
 */
#ifndef RECIPES_STANDBY_ELECTOR_H
#define RECIPES_STANDBY_ELECTOR_H

#include "recipes/engine/persistent_node.h"
#include "recipes/hold/contender.h"
#include "recipes/standby/member_card.h"

#include <conclave/elector.h>

/* In PREPARING: the lock is ours. */
enum elector_step {
    ELECTOR_READING, /* reads the breadcrumb, and whether an operator spoke */
    ELECTOR_FENCING,
    ELECTOR_MARKING, /* writes the breadcrumb */
};

enum { ELECTOR_DATA_MAX = 64 * 1024, ELECTOR_TEXT_MAX = ELECTOR_DATA_MAX + 4096 };

struct conclave_elector {
    struct contender c; /* first: it is freed through it */

    /* The user's options. */
    struct conclave_elector_options options; /* its copied fields, here and in c, are not used */
    struct conclave_elector_callbacks callbacks;
    char *lock_path;     /* the one lock of all */
    char *line_path;     /* parent of the line, herd_free */
    char *crumb_path;    /* the breadcrumb */
    char *override_path; /* an operator's answer */
    char *incarnation;
    void *data;
    size_t data_len;

    /* Its state. */
    enum elector_step step; /* in PREPARING */
    enum conclave_health health;
    bool ceding;    /* steps down, then stays out */
    bool giving_up; /* leaves after a failure, then stays out for a while */
    bool in_order; /* nothing of ours is active: deactivate said so, or activate was never called */
    bool untrusted; /* it was not healthy when it was to stop: what it says does not count */
    bool connected; /* it was, once */
    bool observer;
    bool ready;        /* reported in this time as active */
    unsigned failures; /* in a row */
    struct client_timer
        stay_out; /* the end of that, in OUT: meanwhile the machine goes on, it may be named */

    /* The lock. */
    char *text; /* of its node */
    size_t text_len;
    struct step lock_step;
    struct watch_slot lock_watch; /* on the one lock */
    struct ensure_path ensure;
    bool maybe;    /* a create was sent whose answer is unknown: the lock may be ours */
    bool doubt;    /* that was so before the last create */
    bool exists;   /* the one lock stood, when it was to be made */
    bool deleting; /* its node */

    /* The breadcrumb. */
    struct step mark_step;
    bool crumb_known; /* read since the lock became ours, or written */
    bool crumb_exists;
    int32_t crumb_version;
    char *old_text; /* of the breadcrumb that was read; `old` points to it */
    struct conclave_breadcrumb old;
    bool override_known; /* it was looked for */
    bool override_exists;
    bool overridden; /* an operator said that `old` is dead */
    int32_t override_version;
    bool fenced;     /* `old` is dead */
    bool marked;     /* the breadcrumb is ours, at crumb_version */
    bool mark_maybe; /* it was written, the answer is unknown */

    /* The node in the list of members. */
    char *members_path;
    char *card_path;
    struct member card;
    struct member_card card_told; /* what `card` was last told to write */

    /* The request to hand over. */
    char *handed_path;
    struct step handed_step;
    struct watch_slot handed_watch; /* armed: what follows is current, unless `handed_unread` */
    bool handed_unread;             /* there is one, and its data were not read */
    char *handed_to;                /* NULL: there is none */
    int64_t handed_from;            /* token of the member that it asks to step down */

    /* The thread that fences. */
    bool fence_running;
    pthread_t fence_thread; /* while it runs */
    uint32_t fence_generation;

    /* The last report to the user. */
    enum conclave_elector_state told;
    bool told_any;
    const char *reason; /* of the next change; static */
};

static inline struct conclave_recipes *elector_rt(const struct conclave_elector *e)
{
    return contender_rt(&e->c);
}

static inline struct conclave_elector *elector_of(struct contender *c)
{
    return CONTAINER_OF(c, struct conclave_elector, c);
}

/* --- elector.c -------------------------------------------------------------------- */

extern const struct contender_class elector_class;

/* From one step of PREPARING to another. */
void elector_prepare(struct conclave_elector *e, enum elector_step step);

static inline bool elector_prepares(const struct conclave_elector *e, enum elector_step step)
{
    return e->c.state == CONTENDER_PREPARING && e->step == step;
}

/* Leaves the lock and stays out for a while, longer each time. reason is static. */
void elector_give_up(struct conclave_elector *e, const char *reason);

/* Wants to be out of the race. */
bool elector_leaving(const struct contender *c);

enum conclave_elector_state elector_state(const struct conclave_elector *e);

/* --- elector_lock.c --------------------------------------------------------------- */

void elector_lock_init(struct conclave_elector *e);
void elector_lock_finish(struct conclave_elector *e);

/* In JOINING and WAITING: gets the lock; enters PREPARING when it is ours. */
void elector_lock_run(struct conclave_elector *e);

/* What contender_class wants. From PREPARING to HELD: keeps watching that it is; the node of the line was made, or not;
 * in LEAVING: removes it, enters OUT when nothing of ours is left. */
void elector_held(struct contender *c);
void elector_joined(struct contender *c);
void elector_not_joined(struct contender *c, int error);
void elector_leave(struct contender *c);

/* Whether it was read to be ours and nothing was heard since; doubt: read it again. */
bool elector_lock_verified(const struct conclave_elector *e);
void elector_lock_doubt(struct conclave_elector *e);

/* Nothing of ours is there any more, and nothing is under way that would be: why as for
 * contender_node_gone. */
void elector_lock_gone(struct conclave_elector *e, int why);

/* --- elector_breadcrumb.c --------------------------------------------------------------- */

void elector_mark_init(struct conclave_elector *e);
void elector_mark_finish(struct conclave_elector *e);

/* In READING: reads; goes on to FENCING or MARKING, or enters PROVING. */
void elector_read_run(struct conclave_elector *e);

/* In MARKING: writes; enters PROVING, or goes back to READING when it has to be read again. */
void elector_mark_run(struct conclave_elector *e);

/* In LEAVING, when the breadcrumb may be ours though we were never active: finds out. False: nothing to
 * find out. */
bool elector_mark_resolve(struct conclave_elector *e);

/* Forgets what was read. */
void elector_crumb_forget(struct conclave_elector *e);

/* The breadcrumb of this term. */
struct conclave_breadcrumb elector_crumb(const struct conclave_elector *e, bool clean);

/* --- elector_fence.c -------------------------------------------------------------- */

/* In FENCING: has the thread run; goes back to READING with `fenced`, or gives up. */
void elector_fence_run(struct conclave_elector *e);

/* Whether this thread runs the program's fence. No lock held. */
bool elector_in_fence(struct conclave_elector *e);

/* --- elector_card.c ---------------------------------------------------------------- */

/* Does nothing unless the member is listed. publish: after each run. leave: removes the node; true when it is gone. */
void elector_card_init(struct conclave_elector *e);
void elector_card_publish(struct conclave_elector *e);
void elector_card_on_state(struct conclave_elector *e, enum conclave_state state);
bool elector_card_leave(struct conclave_elector *e);

/* --- elector_handed.c -------------------------------------------------------------- */

void elector_handed_init(struct conclave_elector *e);
void elector_handed_finish(struct conclave_elector *e);

/* In each run: reads the request, and keeps a watch on it. */
void elector_handed_run(struct conclave_elector *e);

/* Whether all is known about requests that were made before the lock became ours: a client hears of the request before
 * it hears that the lock is free. */
bool elector_handed_verified(const struct conclave_elector *e);

/* Whether another member is to be active in place of this one. */
bool elector_handed_over(const struct conclave_elector *e);

/* --- elector_api.c ---------------------------------------------------------------- */

/* For the class: own is a struct conclave_elector_options. */
bool elector_copy(struct contender *c, const void *own);
void elector_free_copies(struct contender *c);

#endif
