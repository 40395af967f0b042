/*
 * Guaranteed deletions: a request to delete a node is repeated, even if the link breaks often, until
 * the server says that it is gone or the session that owned it has ended. A late retry must not delete a
 * node that is not ours: so the name is one that no other client can have (it contains a guid), or the node's
 * data end with a mark that no other has, and are read before each try.
 *
 * Lock of the client held for all functions.
 */
#ifndef RECIPES_ENGINE_GUARANTEED_DELETE_H
#define RECIPES_ENGINE_GUARANTEED_DELETE_H

#include "client/client.h"

struct conclave_recipes;

struct deletes {
    struct conclave_recipes *rt;
    struct list pending; /* struct deletion */
    struct client_timer retry;
};

void deletes_init(struct deletes *deletes, struct conclave_recipes *rt);

/* Deletes an ephemeral node of the present session. done (may be NULL) is called once: when it
 * is gone, or with the end of session or client. 0 or CONCLAVE_ENOMEM. */
int deletes_add(struct deletes *deletes, const char *path, void (*done)(void *ctx),
                void *ctx) CONCLAVE_MUST_USE;

/* Deletes a persistent node, in later sessions of the client, too, until it is gone, the server refuses for good, or the
 * client ends. 0 or CONCLAVE_ENOMEM. */
int deletes_add_persistent(struct deletes *deletes, const char *path) CONCLAVE_MUST_USE;

/* The same in two steps, for a node that must not stay for want of memory: made before the node is,
 * started (then it is taken over) or freed (NULL is allowed) later. NULL without memory. */
struct deletion;
struct deletion *deletion_create(const char *path);
void deletes_start(struct deletes *deletes, struct deletion *d_take, void (*done)(void *ctx),
                   void *ctx);
void deletion_free(struct deletion *d);

/* For a node of a fixed name, whose data end with mark. It may be started while it is not known whether the node was
 * made: the creation was sent before. */
struct deletion *deletion_create_marked(const char *path, const char *mark);

/* Whether a node's data end with the mark. */
bool data_has_mark(const struct conclave_reply *reply, const char *mark);

/* Starts it and waits until it has ended, at most until deadline_ns (or CONCLAVE_FOREVER). 0: it is gone.
 * CONCLAVE_ETIMEDOUT: this goes on. Of a deletion that the server refuses for good, the error; it is not tried again then. */
int deletes_run(struct deletes *deletes, struct deletion *d_take,
                int64_t deadline_ns) CONCLAVE_MUST_USE;

/* Of one that was started and whose done was not called: it is not called any more. */
void deletion_forget(struct deletion *d);

/* Call it at each change of the client's state. */
void deletes_on_state(struct deletes *deletes, enum conclave_state state);

#endif
