/* The ACLs that a new tree has, and how they are closed: COMMAND_CLOSE_ACLS. */
#ifndef STATE_INITIAL_ACLS_H
#define STATE_INITIAL_ACLS_H

struct write;

/* Closes those that nobody has changed. 0. */
int write_close_acls(struct write *w);

#endif
