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

/* What a start would make of Apache's files in the folder. */
enum apache_files {
    APACHE_FILES_NONE,     /* there are none, or ours have gone on from them */
    APACHE_FILES_DUE,      /* a server alone imports them, a member shows them to the others */
    APACHE_FILES_UNUSABLE, /* they are damaged, of a newer format, or empty: `text` */
    APACHE_FILES_BESIDE, /* there are data of ours as well, and the server asks which count: `text` */
};

struct apache_import_look {
    enum apache_files files;
    char *text;     /* whole sentence; else NULL */
    char *snapshot; /* its path; NULL: none, or not DUE; the rest is for DUE only */
    uint64_t transactions;
    int64_t epoch;
    int64_t zxid;
    int64_t time_ms;  /* of the last transaction; 0: no transaction follows the snapshot */
    char *unfinished; /* file whose last entry is not complete, or NULL */
    uint64_t unfinished_at;
};

/* Reads all that an import reads, and changes and logs nothing. What the data of ours have is not looked at: NONE if they
 * cannot be read. 0 or CONCLAVE_ENOMEM. */
int apache_import_look(const struct server_options *o,
                       struct apache_import_look *ret) CONCLAVE_MUST_USE;
void apache_import_look_finish(struct apache_import_look *look);

/* For replica_set_import. */
const struct import_source *apache_import_source(const struct apache_import *import);

#endif
