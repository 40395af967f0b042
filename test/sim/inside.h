/*
 * The parts of a machine: the product's server, and its ends of the cables. Apart from
 * machine.h, because client and server each have their own names for some things.
 */
#ifndef SIM_INSIDE_H
#define SIM_INSIDE_H

#include "cluster/replica.h"

/* The server's end of a cable. */
struct door {
    struct list node; /* of the machine's */
    struct cable *cable;
    struct connection connection;
    struct buf in; /* received and not taken */
};

struct inside {
    struct server_line lines[MEMBERS_MAX]; /* the configured members */
    struct server_options options;
    struct service service;
    struct replica *node;
};

#endif
