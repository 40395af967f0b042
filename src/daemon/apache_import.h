/*
 * Starts where an Apache ZooKeeper stopped: at the first start on its dataDir, what its newest snapshot and the
 * transactions behind it say becomes the data of this server, with all versions, times, counters and sessions. Apache's
 * files stay as they are, beside ours; a note (IMPORTED_FILE) says up to where they were read. If they have gone on
 * since, there are two kinds of data, and the server does not start.
 *
 * A server alone imports at once. A member of an ensemble reads its folder, and cluster/import_start.h decides which member's
 * folder the ensemble begins with.
 */
#ifndef DAEMON_APACHE_IMPORT_H
#define DAEMON_APACHE_IMPORT_H

#include "cluster/import_founding.h"
#include "cluster/server_options.h"

struct apache_import;

/* Imports once, or reads what a member's folder holds; nothing happens in a folder without files of Apache's. Blocks while
 * it reads and writes. *ret: what the replica decides about, NULL: nothing. Borrows the options. 0, or an error with
 * *ret_text (the caller frees it): CONCLAVE_ECORRUPT, CONCLAVE_EFOREIGN, CONCLAVE_EIO, CONCLAVE_ENOSPACE,
 * CONCLAVE_ENOMEM. After an error nothing of ours counts, and the next start tries again. A member whose files are damaged
 * is no error, because the others may have them. */
int apache_import_open(const struct server_options *o, struct apache_import **ret,
                       char **ret_text) CONCLAVE_MUST_USE;
void apache_import_close(struct apache_import *import);

/* For replica_set_import. */
const struct import_source *apache_import_source(const struct apache_import *import);

#endif
