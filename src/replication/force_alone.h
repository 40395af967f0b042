/*
 * Continues as the only member with the data of this server, because the others are lost for good and there will never
 * be a majority again. An operator asks for it, for one start, with the index of the log's last entry: so the request
 * is for this log, and if it stays in a configuration, it only prevents the next start.
 *
 * Entries that the others acknowledged and this server does not have are lost. With two voters there are none: each
 * acknowledged entry is on both. No other server may continue from another copy.
 */
#ifndef REPLICATION_FORCE_ALONE_H
#define REPLICATION_FORCE_ALONE_H

#include "replication/disk/error_text.h"
#include "replication/disk/journal.h"
#include "replication/disk/snapshot_file.h"

struct replication;

/* Appends a configuration with only this server to the recovered log, in a new term; does nothing if it has one
 * already. snapshot is the one before the log, or NULL. *ret_changed: the log must be read again. 0, CONCLAVE_EINVAL
 * (the log ends elsewhere, or this server is not a member), or as journal_append. */
int force_alone_begin(struct replication *r, const struct journal_contents *c,
                      const struct snapshot_meta *snapshot, bool *ret_changed,
                      struct error_text *problem) CONCLAVE_MUST_USE;

#endif
