/* Snapshots to and from other servers: what snapshot_install.c keeps in the running log, and its calls. */
#ifndef REPLICATION_SNAPSHOT_INSTALL_H
#define REPLICATION_SNAPSHOT_INSTALL_H

#include "replication/disk/journal.h"
#include "replication/disk/snapshot_file.h"
#include "replication/raft/log_messages.h"
#include "replication/snapshot/snapshot_receive.h"
#include "replication/snapshot/snapshot_send.h"

struct replication;

/* What takes the place of the log: someone else's snapshot. */
enum snapshot_install_state {
    INSTALL_IDLE,
    INSTALL_WAITING, /* the file is whole; writes and an own snapshot come to their end */
    INSTALL_BEGUN,   /* the engine wants it: no entry comes in and none is applied */
};

struct snapshot_install {
    struct snapshot_sender sender;
    struct snapshot_receiver receiver;
    uint64_t damage_noted; /* sender.damaged that was passed on */
    enum snapshot_install_state state;
    uint64_t from;
    struct log_message_offer offer;

    struct worker_job job;
    int rv;                           /* the job's */
    struct journal_segment *segments; /* to be disposed of */
    size_t n_segments;
    struct snapshot_reader reader;
    struct error_text problem;
};

void snapshot_install_init(struct replication *r);
void snapshot_install_finish(struct replication *r);
void snapshot_install_send(struct replication *r, const struct engine_message *install);
int snapshot_install_receive(struct replication *r, uint64_t from, const struct log_message *m);
void snapshot_install_link(struct replication *r, uint64_t peer, bool up);
void snapshot_install_turn(struct replication *r);
void snapshot_install_close(struct replication *r);
int64_t snapshot_install_deadline(const struct replication *r);
void snapshot_install_tick(struct replication *r);

#endif
