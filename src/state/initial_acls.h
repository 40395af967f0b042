/* The ACLs of a new tree, and how they are closed: COMMAND_CLOSE_ACLS. */
#ifndef STATE_INITIAL_ACLS_H
#define STATE_INITIAL_ACLS_H

#include <stdbool.h>

struct state;
struct write;

/* Whether an ACL that would be closed is still as in a new tree. */
bool state_acls_are_open(const struct state *s);

/* Closes the ACLs that no client has changed. Returns 0. */
int write_close_acls(struct write *w);

#endif
