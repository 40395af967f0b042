/*
 * How a handle ends: asked for (by its user, or by an error that will not get better), done when
 * nothing of it is left at the server, reported by on_closed, destroyed. The first reason counts.
 *
 * Lock of the client held for all functions but closing_wait, closing_ask and closing_destroy.
 */
#ifndef RECIPES_ENGINE_HANDLE_SHUTDOWN_H
#define RECIPES_ENGINE_HANDLE_SHUTDOWN_H

#include "recipes/engine/recipe_runtime.h"

struct closing {
    struct handle *handle;
    bool ending;        /* asked for */
    int why;            /* for on_closed */
    bool due;           /* nothing is left: on_closed may be called */
    bool told;          /* on_closed runs or has run */
    bool returned;      /* on_closed has returned */
    bool destroy_later; /* destroyed inside on_closed */
};

void closing_init(struct closing *c, struct handle *handle);

/* Asks for the end; wakes all waiting threads. */
void closing_begin(struct closing *c, int why);

/* Nothing is left: on_closed is due. Any number of times. */
void closing_done(struct closing *c);

/* In run_due: calls call(self, why) with no lock held if it is due. True when it did. */
bool closing_tell(struct closing *c, void (*call)(void *self, int why), void *self);

/* Asks for the end and has `run` look at it (NULL: none), with the lock held. No lock held, as for
 * the next two. Harmless in a child of fork. */
void closing_ask(struct closing *c, void (*run)(void *self), void *self);

/* Waits until on_closed has returned. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK, CONCLAVE_EFORK. */
int closing_wait(struct closing *c, int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Gives the user's share back: on_closed was called, or is being called; otherwise aborts, with the name of the public
 * function on stderr. */
void closing_destroy_by(struct closing *c, const char *function);
#define closing_destroy(c) closing_destroy_by(c, __func__)

#endif
