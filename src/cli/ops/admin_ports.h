/* The HTTP ports of all servers of an ensemble, for the commands that ask each of them. */
#ifndef CLI_OPS_ADMIN_PORTS_H
#define CLI_OPS_ADMIN_PORTS_H

#include "cli/common/ensemble_view.h"

enum { ADMIN_PORTS_MAX = 32 };

struct admin_port {
    char address[ROSTER_ADDRESS_MAX]; /* HOST:PORT, as this machine reaches it */
    int64_t server;                   /* its number; -1: unknown */
    char *why;                        /* why there is no answer; NULL: none is known */
};

struct admin_ports {
    struct admin_port items[ADMIN_PORTS_MAX];
    size_t count;
};

/* Those in `list`, separated by commas; NULL: those that the servers of --server name. 0, or the exit code of a printed error.
 * Finish ret in any case. */
int admin_ports_find(const char *command, const struct common_options *options, const char *list,
                     struct admin_ports *ret);
void admin_ports_finish(struct admin_ports *p);

/* An answer of p: body is borrowed. On a fault, set p->why. */
typedef void (*admin_ports_fn)(void *ctx, struct admin_port *p, unsigned status, struct buf *body);

/* Asks all ports without a fault in parallel, as admin_request does, and calls fn for each answer, in the order of the ports.
 * Sets `why` of those that do not answer. 0, or the exit code of a printed error. */
int admin_ports_ask(const char *command, const struct common_options *options,
                    struct admin_ports *ports, const char *method, const char *target,
                    const char *authorization, admin_ports_fn fn, void *ctx);

#endif
