/*
 * One run: servers, clients, what lies between them, what goes wrong and what is promised, under one
 * seed.
 *
 *   main ── run ── nemesis            what goes wrong, and when
 *            ├── client ── cable ──> machine     an application's session (client/core/core.c) and its link
 *            ├── machine ── loop, links, disk     a server without sockets; threads, peers, files
 *            └── check_*            what must hold
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "sim/cable.h"
#include "sim/checks.h"
#include "sim/client.h"
#include "sim/links.h"
#include "sim/machine.h"
#include "sim/plant.h"
#include "sim/world.h"

enum { BUSY_CLIENTS = 3, SITTERS = 3, CLIENTS_MAX = BUSY_CLIENTS + SITTERS + MACHINES_MAX };

struct sim_options {
    uint64_t seed;
    unsigned members; /* 0: the seed decides, 1 to 5 */
    int64_t seconds;  /* of faults; 0: 12 */
    bool verbose;
    enum plant plant; /* the rule that is broken */
};

struct sim {
    struct sim_options options;
    struct world world;
    size_t n_machines;
    struct machine machines[MACHINES_MAX + 1]; /* by id, from 1 */
    struct links links;
    size_t n_clients;
    struct client *clients[CLIENTS_MAX];
    struct list cables;
    bool cut[CLIENTS_MAX][MACHINES_MAX + 1]; /* between a client and a server */
    struct checks checks;
    unsigned breaks; /* arrivals at which a cable breaks, of 1,000 */
    bool faults;     /* the time of faults lasts */
    /* servers become voters and observers, go and come; then no folder is lost, as that takes a majority of the others */
    bool reconfigures;
    bool linearizable; /* the servers' option, as are the next three */
    bool read_only;    /* clients that accept read-only servers may read without a quorum */
    bool local;        /* sessions are local */
    bool upgrading;    /* and become sessions of all servers for an ephemeral node */
    int64_t tick_ms;
    struct machine *current; /* whose code runs */
};

struct sim_result {
    char violation[1024]; /* "": all promises were kept */
    uint64_t trace;
    uint64_t events;
    uint64_t acknowledged; /* writes */
    uint64_t reads;
    int64_t end_us;
};

/* Runs one seed. */
void sim_run(const struct sim_options *options, struct sim_result *ret);

/* The run that is under way: for what has no other way to know (log lines, chance). */
struct sim *sim_now(void);

#endif
