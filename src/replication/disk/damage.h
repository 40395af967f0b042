/*
 * A damaged data folder whose data other servers have: what can be learned from it, and how its content is put aside so
 * that this server can join with an empty folder (join.h).
 *
 * Nothing is deleted. Marker, metadata, log and snapshots move into `damaged-<time>` inside the folder. The file
 * `healing` is durable before the first of them moves, and is removed when the following first start is complete: a
 * server that starts in between may only join, never found an ensemble. Once that start has begun, nothing moves any
 * more. Files that lie aside are never overwritten.
 */
#ifndef REPLICATION_DISK_DAMAGE_H
#define REPLICATION_DISK_DAMAGE_H

#include "replication/disk/file_ops.h"
#include "replication/disk/folder_format.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stdint.h>

#define DAMAGE_ASIDE "damaged-" /* prefix of these folders */

/* The format's argument is the folder. */
#define DAMAGE_NO_MARKER                                                                           \
    "%s/conclave.format is missing, but there are files of a Conclave server. Restore the folder " \
    "from a backup"

struct damage_look {
    bool fresh;         /* a start would be a first one */
    bool healing;       /* putting aside has begun: complete it, then join */
    bool cluster_known; /* from a file with a correct checksum */
    uint8_t cluster[FORMAT_CLUSTER_SIZE];
};

/*
 * Examines the folder. It only reads, and not everything: a start may still find damage. ops NULL: the system's files.
 * 0, or CONCLAVE_ECORRUPT (the marker is damaged or missing), CONCLAVE_EFOREIGN, CONCLAVE_EIO, CONCLAVE_ENOMEM with
 * *ret_text (free it). *ret is always filled.
 */
int damage_look(const char *dir, const struct file_ops *ops, struct damage_look *ret,
                char **ret_text) CONCLAVE_MUST_USE;

/*
 * Puts the folder's content aside, or continues an interrupted move. The folder must not be open. wall_ms is the time
 * for the new folder's name. 0 with that name in *ret_name (free it); or CONCLAVE_ELOCKED, CONCLAVE_EIO,
 * CONCLAVE_ENOSPACE, CONCLAVE_ENOMEM with *ret_text (free it): then try again.
 */
int damage_put_aside(const char *dir, const struct file_ops *ops, int64_t wall_ms,
                     const uint8_t cluster[FORMAT_CLUSTER_SIZE], char **ret_name,
                     char **ret_text) CONCLAVE_MUST_USE;

/* Whether metadata or log in a folder without a marker are Conclave's. */
bool damage_is_ours(const struct file_ops *ops, const char *dir);

/* The following first start is complete: removes `healing`. A failure does no harm, because a start with a ready marker
 * ignores the file. */
void damage_is_over(const struct file_ops *ops, const char *dir);

#endif
