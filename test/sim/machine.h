/*
 * A server of the simulation: what daemon/server.c does around node and service, on virtual time and
 * without sockets. Everything below it is the product's own code, but for what loop.h and links.h stand
 * in for. Differs from server.c in this: no TLS, no SASL, no audit log, no operators, and a socket takes
 * all that it is given.
 */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include "base/clock.h"
#include "sim/disk.h"
#include "sim/world.h"

#include <uv.h>

struct sim;
struct inside;
struct peers;
struct replication_loop;

enum machine_stage {
    MACHINE_STARTING,
    MACHINE_SERVING,
    MACHINE_RESIGNING,
    MACHINE_DRAINING,
    MACHINE_CLOSING,
};

enum machine_ending {
    MACHINE_KILLED,    /* kill -9: written data stay, others see it at once */
    MACHINE_POWER_CUT, /* unsynced data may be gone, others get no more messages */
};

struct machine {
    struct sim *sim;
    unsigned id;
    struct disk *disk;
    int64_t disk_us; /* a job takes so long at most */
    bool on;         /* its process runs */
    unsigned incarnation;
    enum machine_stage stage;
    bool failed; /* it reported that it cannot continue */
    int64_t stop_at;
    bool node_closed;
    struct inside *inside; /* the product's parts: see inside.h */
    struct replication_loop *loop;
    struct peers *peers;
    struct list doors; /* clients' connections */
    struct clock_source clock;
    int64_t clock_us; /* the monotonic clock at time 0 */
    int64_t drift_ppm;
    bool excused;    /* its disk was made to fail: a start may, too */
    int64_t wall_ms; /* by which its wall clock is wrong */
    int64_t paused_until_us;
    uint64_t early_ticket; /* planted: confirmed without a round; 0: none */
    int64_t wake_us;       /* when it wakes next; INT64_MAX: never */
};

/* A machine with an empty disk, off. */
void machine_init(struct machine *m, struct sim *s, unsigned id);
void machine_finish(struct machine *m);

void machine_start(struct machine *m);
void machine_end(struct machine *m, enum machine_ending how);

/* SIGTERM: hands over, answers what is on its way, ends by itself. */
void machine_stop(struct machine *m);

/* SIGSTOP for so long. */
void machine_pause(struct machine *m, int64_t us);
bool machine_is_paused(const struct machine *m);

/* Around everything that runs on it: the turn's end and the next wake-up are in leave. */
void machine_enter(struct machine *m);
void machine_leave(struct machine *m);

/* The uv_loop_t that its node was given is the machine. */
struct machine *machine_of_loop(uv_loop_t *loop);

/* A server's line in a configuration, "server.1=...": as one that votes or one that does not. */
void machine_line(unsigned id, bool votes, char *text, size_t size);

/* Clients are let in. */
bool machine_listens(const struct machine *m);

#endif
