/*
 * A contender's place among its parent's children: its own node watched and verified, the list
 * in order, a watch on the one it waits for. Elections, locks and semaphores differ only in the
 * contender that another one waits for (judge). After a departure, the waiter checks the node that
 * left. If another contender was in its way, it also reads the list and sets a watch. No other
 * contender sends a request. So a hand-over does not read the list, even if the list is long.
 *
 * An operator's request to hand over to a contender is a child that names it (hand_over_parse). Every list shows it, and
 * who makes it also writes to the nodes of the contenders that hold, and of the next one, which would read no list: their
 * watches on their own nodes make them read it. All before the named one let it pass (pass).
 *
 * Lock of the client held for all functions.
 */
#ifndef RECIPES_ENGINE_LINE_POSITION_H
#define RECIPES_ENGINE_LINE_POSITION_H

#include "recipes/engine/contender_names.h"
#include "recipes/engine/machine.h"

struct place;

/* The meaning of a list of contenders for one of them. */
enum place_verdict {
    PLACE_FREE,   /* it waits for no contender */
    PLACE_BEHIND, /* it waits for one of them */
    PLACE_CROWD,  /* it waits for any change among them: for one contender at a time, else a herd */
};

struct place_class {
    /* list is in order, at is our own position in it; PLACE_BEHIND: *ret_before is the one to wait
     * for. Pure. */
    enum place_verdict (*judge)(const struct place *place, const struct line_entry *list,
                                size_t count, size_t at, size_t *ret_before);
    /* No contender is in the way any more. */
    void (*free)(struct place *place);
    /* Our node is not there, or is not the one that was created. */
    void (*gone)(struct place *place);
    /* The one to wait for was read: it may be in the way no longer and report nothing, so all children are watched
     * from then on. NULL: never. */
    bool (*doubts)(const struct place *place, const struct conclave_stat *before);
    /* A request got this error (CONCLAVE_ENOMEM: nothing could be asked). */
    void (*trouble)(struct place *place, int error);
    /* Our node was read; may be NULL. */
    void (*own)(struct place *place, const struct conclave_reply *reply);
    /* It would have to wait: whether to. NULL: always. */
    bool (*wait)(struct place *place);
    /* An operator wants one behind ours in its place: ours stops being in the way, or is about to. False: it does not,
     * and the request is of no meaning here. NULL: never. */
    bool (*pass)(struct place *place);
    bool kinds;    /* the contenders include readers and writers */
    bool together; /* our node is read and the list made at once, not one after the other: free may
                      come before our node was verified (place_verified) */
};

struct place {
    const struct place_class *class;
    enum conclave_naming naming;
    const char *parent; /* borrowed */
    const char *node;   /* our own, borrowed; NULL: none */
    int64_t session_id; /* its owner */
    int64_t czxid;
    uint32_t generation; /* of the node: answers about an earlier one are dropped */
    struct step step;
    struct step own_step;     /* reads our own node */
    struct watch_slot own;    /* on the node itself */
    struct watch_slot before; /* on the one it waits for, or on all children */
    bool crowd;               /* on all children */
    bool herd;                /* not on a single one any more: see doubts */
    bool last;                /* only the one it waits for is in the way */
    bool look;        /* our node was written to: is it because of a request to hand over? */
    bool looking;     /* the list is being read for this alone */
    int64_t own_zxid; /* of the last such write */
    char handed_to[NAME_MAX_LEN]; /* the contender that a request in the last list names, or "" */
    size_t behind;                /* contenders behind it in the last list */
    int64_t list_zxid;            /* of the last list */
    struct line_entry *list;      /* while czxids are fetched; names on the heap in list_names */
    char **list_names;
    size_t list_count;
    size_t list_next;
};

/* machine: is run when something is known or has changed, and calls place_run. parent is borrowed as long as the place
 * is. */
void place_init(struct place *place, struct machine *machine, const struct place_class *class,
                const char *parent, enum conclave_naming naming);
void place_finish(struct place *place);

/* The node to look after, as it was created; its path is borrowed until place_leave. */
void place_enter(struct place *place, const char *node, int64_t session_id, int64_t czxid);

/* Our node was read and is watched. */
static inline bool place_verified(const struct place *place)
{
    return place->node != NULL && place->own.armed;
}

/* There is no node any more: forgets its watches. Harmless without one. */
void place_leave(struct place *place);

/* Connected, with a node: asks for what is not known. queued: also the one it waits for; free is
 * called when there is none. */
void place_run(struct place *place, bool queued);

/* Stops watching the one it waited for. */
void place_forget_before(struct place *place);

/* The list of contenders of this naming in order, by an answer to GET_CHILDREN; what their
 * sequence numbers do not decide stays undecided. 0 and *ret (free with free), CONCLAVE_ENOMEM. */
int place_contenders(const struct place *place, const struct conclave_reply *reply,
                     struct line_entry **ret, size_t *ret_count) CONCLAVE_MUST_USE;

/* Where a node that took another's place in the queue says whose, in its data. */
#define PLACE_INHERITED "\ninherited="

/* By a contender's node and its data: the czxid that tells its place; a reader that was a writer
 * has the writer's place. */
int64_t place_inherited_czxid(const struct conclave_reply *reply);

/* One at a time, in order: each waits for the one right before it. */
enum place_verdict place_judge_first(const struct place *place, const struct line_entry *list,
                                     size_t count, size_t at, size_t *ret_before);

#endif
