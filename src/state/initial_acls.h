/* The ACLs that a new tree has, and how they are closed: COMMAND_CLOSE_ACLS. */
#ifndef STATE_INITIAL_ACLS_H
#define STATE_INITIAL_ACLS_H

#include <stdbool.h>

struct state;
struct write;

/* Whether one that would be closed is as it was in a new tree. */
bool state_acls_are_open(const struct state *s);

/* Closes those that nobody has changed. 0. */
int write_close_acls(struct write *w);

#endif
