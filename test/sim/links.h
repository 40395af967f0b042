/*
 * The links between servers: cluster/links/peer.h without sockets. Frames of one link arrive in order, or not at
 * all when the link breaks; where the run says so some are lost or come twice, as both channels' readers
 * must bear. A link on which nothing passes is found out after the silence that a real one allows.
 */
#ifndef SIM_LINKS_H
#define SIM_LINKS_H

#include "cluster/links/peer.h"
#include "sim/world.h"

struct sim;
struct machine;

enum { MACHINES_MAX = 5 };

/* Between two servers, the one with the smaller id first. */
struct pair {
    bool up;
    uint64_t generation; /* grows whenever the link breaks */
    int64_t fine_us;     /* when it last could carry both ways */
};

struct links {
    struct pair pairs[MACHINES_MAX + 1][MACHINES_MAX + 1];
    bool cut[MACHINES_MAX + 1][MACHINES_MAX + 1];        /* from, to: nothing passes */
    int64_t last_us[MACHINES_MAX + 1][MACHINES_MAX + 1]; /* arrival of the latest frame */
    unsigned loss;                                       /* frames lost, of 1,000 */
    unsigned twice;                                      /* frames that come twice, of 1,000 */
    int64_t delay_us;                                    /* of a frame, at most */
    int64_t silence_us;
    uint64_t frames;
};

/* Begins to make links. */
void links_begin(struct sim *s);

/* A server's process has ended: the others see it at once (closed by its kernel), or find out. */
void links_ended(struct sim *s, unsigned id, bool seen);

#endif
