/*
 * The deeds of the simulation's clients: each deed is a request of the client core, written down before it is
 * sent.
 */
#ifndef SIM_DEEDS_H
#define SIM_DEEDS_H

#include "sim/client.h"

/* Asks for something; the deed, which the run owns. */
struct deed *client_do(struct client *c, enum deed_kind kind);

/* Asks for a server to be a member that votes. */
void client_join(struct client *c, unsigned id);

/* Which of the client's persistent watches this is. */
unsigned lasting_index(const char *path);

#endif
