/*
 * One end of peer links for tests: `peers` on a separate loop, so that a test can run or
 * stop it, and a record of its callbacks' calls.
 */
#ifndef SUPPORT_PEER_NODE_H
#define SUPPORT_PEER_NODE_H

#include "cluster/links/peer.h"

#include <uv.h>

enum { NODE_PEERS = 128 };

struct replica {
    uv_loop_t loop;
    struct peers *peers;
    struct peer_options options;
    struct net_address address; /* its listening address */
    int reservation; /* a socket that keeps the port while the node is stopped; -1: none yet */
    uint64_t id;
    int links[NODE_PEERS];    /* by id: up 1, down 0 */
    unsigned ups[NODE_PEERS]; /* how often each came up */
    unsigned hellos[NODE_PEERS];
    struct peer_identity who[NODE_PEERS]; /* from the last hello */
    uint64_t frames;                      /* received */
    uint64_t bytes;
    uint64_t sent[NODE_PEERS]; /* numbered frames to each since the link came up */
    uint64_t next[NODE_PEERS]; /* the same, received */
    char refused[512];         /* the reason of the last refusal */
    uint64_t refusals;         /* number of reported refusals */
    void (*on_link)(struct replica *n, uint64_t id, bool up); /* NULL: nothing */
    void (*on_message)(struct replica *n, uint64_t from, uint8_t channel, struct slice bytes);
    bool closed;
};

/* All zero but the loop; options say loopback, no security, silence after 400 ms. */
void node_init(struct replica *n, uint64_t id);
void node_start(struct replica *n);
void node_stop(struct replica *n); /* like the end of a process; can be started again */
void node_finish(struct replica *n);

/* Each of the n nodes gets all of them as members. */
void nodes_introduce(struct replica *const nodes[], size_t n);

/* Runs all loops until done returns true (NULL: never) or the time is over; each turn
 * of a loop ends with peers_turn. Returns the result of done. */
/* Returns early when done says so. LIMIT_MS: for what must come, on a busy machine too. */
enum { LIMIT_MS = 30000 };
bool nodes_run(struct replica *const nodes[], size_t n, int ms, bool (*done)(void *ctx), void *ctx);

/* Whether each is linked with each other one. */
bool nodes_linked(struct replica *const nodes[], size_t n);

/* Sends a frame with the link's next number; the receiver checks the order. */
int node_send(struct replica *n, uint64_t to, size_t size);

#endif
