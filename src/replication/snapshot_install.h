/* Snapshots to and from other servers: the state that snapshot_install.c keeps in the running log, and its
 * functions. */
#ifndef REPLICATION_SNAPSHOT_INSTALL_H
#define REPLICATION_SNAPSHOT_INSTALL_H

#include "replication/disk/journal.h"
#include "replication/disk/snapshot_file.h"
#include "replication/raft/log_messages.h"
#include "replication/snapshot/snapshot_receive.h"
#include "replication/snapshot/snapshot_send.h"

struct replication;

/* The installation of a snapshot from another server. */
enum snapshot_install_state {
    INSTALL_IDLE,
    INSTALL_WAITING, /* the file is complete; waits for writes and an own snapshot to end */
    INSTALL_BEGUN,   /* the engine wants it: entries are neither accepted nor applied */
};

struct snapshot_install {
    struct snapshot_sender sender;
    struct snapshot_receiver receiver;
    uint64_t damage_noted; /* value of sender.damaged that was handled */
    enum snapshot_install_state state;
    uint64_t from;
    struct log_message_offer offer;

    struct worker_job job;
    int rv;                           /* result of the job */
    struct journal_segment *segments; /* to be removed */
    size_t n_segments;
    struct snapshot_reader reader;
    struct error_text problem;
};

void snapshot_install_init(struct replication *r);
void snapshot_install_finish(struct replication *r);
void snapshot_install_send(struct replication *r, const struct engine_message *install);
int snapshot_install_receive(struct replication *r, uint64_t from, const struct log_message *m);
void snapshot_install_turn(struct replication *r);
void snapshot_install_tick(struct replication *r);

#endif
