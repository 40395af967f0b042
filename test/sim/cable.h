/*
 * The cable between a client and a server: bytes in both directions, in order, that take their time. A
 * cable may go silent: then nothing passes any more, and either end has to find out. Or it breaks, in the
 * middle of a frame most often, and both are told.
 */
#ifndef SIM_CABLE_H
#define SIM_CABLE_H

#include "sim/world.h"

struct sim;
struct client;
struct machine;

struct door;

struct cable {
    struct list node; /* of the run's */
    struct sim *sim;
    struct client *client; /* NULL: it has let go */
    struct machine *machine;
    unsigned incarnation;
    struct door *door; /* NULL: not made, or gone */
    bool silent;
    bool broken;        /* both ends know, or will */
    int64_t last_us[2]; /* arrival of the latest bytes, by direction */
    char peer[32];
};

/* A client connects: cable_up or cable_down of client.h follow. */
struct cable *cable_open(struct sim *s, struct client *c, struct machine *m);

/* The client's end: bytes to the server, and letting go. */
void cable_send(struct cable *k, struct slice bytes);
void cable_close(struct cable *k);

/* Later bytes of the client arrive after this time at the earliest. */
void cable_stall(struct cable *k, int64_t us);

/* The server's ends, at the end of a turn: replies leave, connections that are to be closed are. */
void doors_turn(struct machine *m);
/* Input that waited until there was room. Of a process that ends: `seen` as links_ended. */
void doors_end(struct machine *m, bool seen);

#endif
