/*
 * The parts that a recipe adds to the contender (contender.h has the drawing): the arrows that not all recipes take,
 * and a table of functions. They are called with the lock held; NULL is allowed for all that have no star.
 */
#ifndef RECIPES_HOLD_CONTENDER_CLASS_H
#define RECIPES_HOLD_CONTENDER_CLASS_H

#include "base/transition.h"

#include <conclave/client.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum contender_state {
    CONTENDER_OUT,         /* no node; none is wanted, or not yet */
    CONTENDER_ASKING,      /* looks whether anybody is there, before a node is made */
    CONTENDER_JOINING,     /* the node is being made */
    CONTENDER_WAITING,     /* finds its place, or waits for others */
    CONTENDER_FIRST,       /* waits for no contender; reads its own node, for example */
    CONTENDER_PREPARING,   /* the recipe has work to do before it may be granted */
    CONTENDER_PROVING,     /* proves its lease */
    CONTENDER_GRANTED,     /* the callback that begins is due: the user does not know yet */
    CONTENDER_STARTING,    /* that callback runs */
    CONTENDER_HELD,        /* that callback has returned */
    CONTENDER_INTERRUPTED, /* revoked while that callback runs */
    CONTENDER_STOPPING,    /* revoked: the callback that ends is due, or the owner has to release */
    CONTENDER_ENDING,      /* that callback runs */
    CONTENDER_LEAVING,     /* the node is being removed */
    CONTENDER_CLOSED,      /* on_closed is due, runs or has run */
    CONTENDER_STATES,
};

struct contender;
struct place_class;

struct contender_class {
    uint16_t arrows[CONTENDER_STATES]; /* bits of CONTENDER_TO, beside the common ones */
    bool create_proves;                /* the answer to the creation of the node proves the lease */
    size_t size;                       /* of the recipe's struct, a contender first */
    const struct place_class *place;   /* the one it waits for */

    /* --- beginning */
    /* Copies the recipe's options. False: out of memory. */
    bool (*copy)(struct contender *c, const void *own);
    void (*init)(struct contender *c); /* * what belongs to the handle */

    /* --- the way to a grant */
    bool (*leaving)(const struct contender *c); /* * wants no grant (any more) */
    /* Does what is next in a state that the recipe handles itself. False: the common way. */
    bool (*run)(struct contender *c);
    void (*out)(struct contender *c);    /* * OUT, not ending: joins if it wants to */
    void (*joined)(struct contender *c); /* the node was made */
    void (*not_joined)(struct contender *c, int error); /* * it was not */
    void (*queued)(struct contender *c);                /* WAITING to PROVING, can send */
    /* FIRST: whether the lease may be proved; PROVING: whether it may be granted. Does what is
     * missing. */
    bool (*ready)(struct contender *c);

    /* --- a grant */
    void (*granted)(struct contender *c); /* without begin: it is HELD now */
    /* Calls the user, without the lock; its answer. NULL: the owner asks and releases. */
    int (*begin)(struct contender *c);
    void (*began)(struct contender *c, int answer); /* HELD, or STOPPING by now */
    void (*held)(struct contender *c);              /* GRANTED to HELD: other activities */
    void (*revoked)(struct contender *c); /* the grant is withdrawn, the state not left yet */
    /* As begin; needed with it. */
    void (*end)(struct contender *c, int why, int64_t stop_within_ms);
    /* In GRANTED (revoked before the user was told) or ENDING: enters WAITING or LEAVING. Needed with
     * begin. */
    void (*stopped)(struct contender *c);

    /* --- the end of node, session and handle */
    void (*gone)(struct contender *c, int why); /* the node was deleted, or its session ended */
    /* The lease ended; the default: the node is gone, or the contender waits in line again. */
    void (*lease_lost)(struct contender *c, int why);
    void (*leave)(struct contender *c); /* * LEAVING: removes the node, then enters OUT */
    /* Takes an error that will not get better; the default ends the handle. */
    bool (*fail)(struct contender *c, int error);
    void (*ending)(struct contender *c);   /* the handle was asked to end */
    bool (*is_clear)(struct contender *c); /* OUT, ending: nothing is under way */
    void (*session_ended)(struct contender *c);
    void (*on_state)(struct contender *c, enum conclave_state state); /* before the machine looks */
    void (*after_run)(struct contender *c);

    /* --- callbacks: each runs one that is due, if any; true when it did */
    bool (*tell_first)(struct contender *c); /* before those of the grant */
    bool (*tell_last)(struct contender *c);
    void (*closed)(void *self, int why);      /* * on_closed; self: the contender; no lock held */
    void (*finish)(struct contender *c);      /* * undoes init */
    void (*free_copies)(struct contender *c); /* undoes copy */
};

#define CONTENDER_TO(state) TRANSITION_TO(CONTENDER_##state)

#endif
