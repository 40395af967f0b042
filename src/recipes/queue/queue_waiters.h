/*
 * A line in which callers wait for something that only the first in it watches: a node of the
 * session's own among its parent's children, and a watch on the one before it. When the first
 * leaves, or dies, only the next one gets an event.
 *
 * Lock of the client held for all functions.
 */
#ifndef RECIPES_QUEUE_QUEUE_WAITERS_H
#define RECIPES_QUEUE_QUEUE_WAITERS_H

#include "recipes/engine/handle_calls.h"
#include "recipes/engine/line_position.h"
#include "recipes/engine/protected_create.h"

struct queue_line {
    struct call *call; /* that waits; run whenever something is new */
    struct protected_create create;
    struct place place;
    const struct conclave_acl *acl;
    size_t acl_count;
    char *node;
    bool joining;
    bool first;
    int error; /* that will not pass: the call is to end with it */
};

/* parent and acl are borrowed. */
void queue_line_init(struct queue_line *line, struct call *call, const char *parent,
                     const struct conclave_acl *acl, size_t acl_count);

/* Joins the line and goes on towards its front; to be called in every run while it waits, when it
 * can send. True: it is the first. False also when error was set. */
bool queue_line_run(struct queue_line *line);

/* Call it at each change of the client's state. */
void queue_line_on_state(struct queue_line *line);

/* Leaves it, if it is in it. False: its node is still being made or looked for, call it again in
 * the next run; else it is out. */
bool queue_line_leave(struct queue_line *line);

void queue_line_finish(struct queue_line *line);

#endif
