/*
 * A machine: it looks at all that is known and does what is next. It is run after every answer, watch and pause of its
 * own, and by whoever has changed something it looks at. A wake-up never carries a decision, so one run more is
 * harmless. A run that is asked for inside a run comes after it.
 *
 * Lock of the client held for all functions.
 */
#ifndef RECIPES_ENGINE_MACHINE_H
#define RECIPES_ENGINE_MACHINE_H

#include "recipes/engine/recipe_runtime.h"

enum machine_state { MACHINE_RESTS, MACHINE_RUNS, MACHINE_RUNS_AGAIN };

struct machine {
    struct handle *owner; /* kept alive during a run and a request */
    void (*work)(struct machine *m);
    struct client_timer pause; /* nothing new is sent before it ends */
    enum machine_state state;
};

void machine_init(struct machine *m, struct handle *owner, void (*work)(struct machine *m));

/* Has it work, once more if it runs just now. */
void machine_run(struct machine *m);

/* Within a run: one more comes after it, as this one may have passed what has changed. Else nothing. */
void machine_run_again(struct machine *m);

/* Pauses, and runs it then. A pause that has begun is moved. */
void machine_pause_until(struct machine *m, int64_t at_ns);
void machine_pause(struct machine *m, int64_t ms);

/* recipes_retry_later, unless it pauses already. */
void machine_retry_later(struct machine *m);

/* Ends the pause: a new link came, or nothing is left to do. Does not run it. */
void machine_resume(struct machine *m);

/* After an error that leaves the outcome open: true when it is tried again, with the next link if the link was lost,
 * else after a pause; false when it will get no better. */
bool machine_tries_again(struct machine *m, int error);

static inline struct conclave_client *machine_client(const struct machine *m)
{
    return m->owner->rt->client;
}

static inline bool machine_pauses(const struct machine *m)
{
    return client_timer_active(&m->pause);
}

/* Linked, and no pause to be kept. */
static inline bool machine_can_send(const struct machine *m)
{
    return recipes_connected(m->owner->rt) && !machine_pauses(m);
}

/* A request and a watch of the machine, which is run after their news: a watch of it needs no function. */
void machine_step_init(struct machine *m, struct step *step);
void machine_watch_init(struct machine *m, struct watch_slot *slot);

#endif
