/*
 * Starts where an Apache ZooKeeper stopped: at the first start on its dataDir, what its newest snapshot and the
 * transactions behind it say becomes the data of this server, with all versions, times, counters and sessions. Apache's
 * files stay as they are, beside ours; a note (IMPORTED_FILE) says up to where they were read. If they have gone on
 * since, there are two kinds of data, and the server does not start.
 */
#ifndef DAEMON_APACHE_IMPORT_H
#define DAEMON_APACHE_IMPORT_H

#include "cluster/server_options.h"

/* Imports once; nothing happens in a folder without files of Apache's. Blocks while it reads and writes. 0, or an error
 * with *ret_text (the caller frees it): CONCLAVE_ECORRUPT, CONCLAVE_EFOREIGN, CONCLAVE_EIO, CONCLAVE_ENOSPACE,
 * CONCLAVE_ENOMEM. After an error nothing of ours counts, and the next start tries again. */
int apache_import(const struct server_options *o, char **ret_text) CONCLAVE_MUST_USE;

#endif
