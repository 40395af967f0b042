/* The data folder: creates, recognises and locks it. */
#ifndef REPLICATION_DISK_DATA_FOLDER_H
#define REPLICATION_DISK_DATA_FOLDER_H

#include "replication/disk/error_text.h"
#include "replication/disk/file_ops.h"
#include "replication/disk/metadata.h"

struct data_folder {
    const struct file_ops *ops;
    char *dir;            /* path as given */
    int lock;             /* handle of the lock file, or -1 */
    struct marker marker; /* marker.ready false: a first start, and the folder has no data */
    bool healing; /* at a first start: damaged files were put aside, so this server may only join */
    /* set it before opening: the files of an Apache ZooKeeper may be there, as they may beside the file `imported` */
    bool beside_apache;
};

/*
 * Creates the folder if it is missing, locks it and reads its marker. For a first start it writes a marker that is not
 * ready, with the given cluster id, or (NULL) a random one; a marker
 * that is not ready gets the given one. In a folder under repair, only a server that joins may make
 * a first start. 0, CONCLAVE_ELOCKED, CONCLAVE_EFOREIGN, CONCLAVE_ECORRUPT, CONCLAVE_EIO, CONCLAVE_ENOSPACE,
 * CONCLAVE_ENOMEM.
 */
int data_folder_open(struct data_folder *f, const struct file_ops *ops, const char *dir,
                     uint64_t server_id, bool join, const uint8_t *cluster,
                     struct error_text *problem) CONCLAVE_MUST_USE;

/* Whether a first start would take the folder, which exists, by the names in it; those of an Apache ZooKeeper may be there.
 * 0, CONCLAVE_EFOREIGN, CONCLAVE_ECORRUPT or CONCLAVE_EIO. Changes nothing. */
int data_folder_recognise(const struct file_ops *ops, const char *dir,
                          struct error_text *problem) CONCLAVE_MUST_USE;

/* Marks the end of the first start: from now on missing files are damage. */
int data_folder_set_ready(struct data_folder *f, struct error_text *problem) CONCLAVE_MUST_USE;

/* Unlocks. Also accepts a folder that was never opened (zeroed, lock -1). */
void data_folder_close(struct data_folder *f);

#endif
