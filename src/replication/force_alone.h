/*
 * Going on as the only member with what this server has, because the others are lost for good and no majority will
 * ever be there again. Asked for by an operator, for one start, with the index of the log's last entry: so it is
 * about this log, and left in a configuration it does nothing the next time but refuse.
 *
 * What the others had acknowledged and this server does not have is lost. With two voters there is no such thing: each
 * entry that was acknowledged is on both. Nobody else may go on from another copy.
 */
#ifndef REPLICATION_FORCE_ALONE_H
#define REPLICATION_FORCE_ALONE_H

#include "replication/disk/error_text.h"
#include "replication/disk/journal.h"
#include "replication/disk/snapshot_file.h"

struct replication;

/* The log that was recovered gets a configuration with only this server, in a new term; nothing when it has one
 * already. snapshot is the one that the log goes on from, or NULL. *ret_changed: the log must be read again. 0,
 * CONCLAVE_EINVAL (it ends elsewhere, or this server is no member), or as journal_append. */
int force_alone_begin(struct replication *r, const struct journal_contents *c,
                      const struct snapshot_meta *snapshot, bool *ret_changed,
                      struct error_text *problem) CONCLAVE_MUST_USE;

#endif
