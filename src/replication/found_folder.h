/*
 * Writes a data folder from which a server starts with a given state: alone, or as the first member of an ensemble whose
 * other members begin with empty folders and receive everything from it. For a restored backup, or data of another
 * program.
 *
 * The folder has a snapshot of the state, a log without entries behind it, and a cluster id of its own: it can never be
 * taken for a member of the ensemble that the state comes from. It is durable on return; the marker that makes it a
 * folder of Conclave comes last.
 */
#ifndef REPLICATION_FOUND_FOLDER_H
#define REPLICATION_FOUND_FOLDER_H

#include "base/buf.h"
#include "replication/disk/error_text.h"

#include <stdint.h>

struct found_folder {
    const char
        *dir; /* created if it is missing; must be empty, but for the file myid and such, or left
                      * by a call that did not end */
    uint64_t server_id; /* the server that may start with it: 1 to 256 */
    uint64_t index;     /* of the last entry that the state contains, at least 2 */
    uint64_t term;      /* of that entry, at least 1 */

    /* The folder has the files of an Apache ZooKeeper, up to this zxid and of this epoch, from which the state comes;
     * zxid -1: it has none. */
    int64_t imported_zxid;
    int64_t imported_epoch;

    /* The state, in pieces, as state_snapshot_step: appends about max_bytes; 1: more, 0: done, or an error. */
    int (*step)(void *ctx, size_t max_bytes, struct buf *out);
    void *ctx;
};

/* 0; CONCLAVE_EFOREIGN: the folder is not empty; CONCLAVE_ELOCKED, CONCLAVE_EIO, CONCLAVE_ENOSPACE, CONCLAVE_ENOMEM, or
 * what step returned. After an error the folder is no data folder, and files may be left in it. */
int found_folder_make(const struct found_folder *f, struct error_text *problem) CONCLAVE_MUST_USE;

/* Removes what a call that did not end left, so that the server can join others instead, and notes that the files of an
 * Apache ZooKeeper in the folder count up to this zxid only (imported_zxid as above, at least 0). Nothing happens to a folder
 * with data. 0, CONCLAVE_EIO, CONCLAVE_ENOSPACE or CONCLAVE_ENOMEM. */
int found_folder_leave(const char *dir, int64_t imported_zxid,
                       struct error_text *problem) CONCLAVE_MUST_USE;

/* What a folder is, for a program that may make one of it. */
struct found_look {
    bool ready;            /* a server can start with it: it has data of ours */
    int64_t imported_zxid; /* as above; -1: there is no note of an import */
};

/* Also for a folder that is missing or empty. 0, or CONCLAVE_ECORRUPT, CONCLAVE_EFOREIGN (an unknown version), CONCLAVE_EIO,
 * CONCLAVE_ENOMEM. */
int found_folder_look(const char *dir, struct found_look *ret,
                      struct error_text *problem) CONCLAVE_MUST_USE;

#endif
