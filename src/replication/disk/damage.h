/*
 * A data folder that cannot be believed, while other servers have what it held: what can be told of it, and how it is
 * put aside so that this server can begin anew as one that joins (join.h).
 *
 * Nothing is deleted. Marker, metadata, log and snapshots move into `damaged-<time>` inside the folder. The file
 * `healing` is durable before the first of them moves and goes when the first start that follows has come to its end:
 * whoever opens the folder in between may only join, never found. Once that start has begun nothing moves any more, and nothing
 * that lies aside is written over.
 */
#ifndef REPLICATION_DISK_DAMAGE_H
#define REPLICATION_DISK_DAMAGE_H

#include "replication/disk/file_ops.h"
#include "replication/disk/folder_format.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stdint.h>

#define DAMAGE_ASIDE "damaged-" /* how the names of the folders begin */

/* Takes the folder's name. */
#define DAMAGE_NO_MARKER                                                                           \
    "%s/conclave.format is missing, but there are files of a Conclave server. Restore the folder " \
    "from a backup"

struct damage_look {
    bool fresh;         /* a start would be a first one */
    bool healing;       /* putting aside was begun: finish it, then join */
    bool cluster_known; /* by something whose checksum fits */
    uint8_t cluster[FORMAT_CLUSTER_SIZE];
};

/*
 * What the folder is; it is only read, and not as a whole: a start may still find damage. ops NULL: the machine's file
 * system. 0, or CONCLAVE_ECORRUPT (the marker is damaged or gone), CONCLAVE_EFOREIGN, CONCLAVE_EIO, CONCLAVE_ENOMEM with
 * *ret_text (free it). *ret is filled in any case.
 */
int damage_look(const char *dir, const struct file_ops *ops, struct damage_look *ret,
                char **ret_text) CONCLAVE_MUST_USE;

/*
 * Puts the folder's content aside, or goes on where that was interrupted. The folder must not be open. wall_ms is the time
 * that names the new folder. 0 with *ret_name (free it), that folder's name; or CONCLAVE_ELOCKED, CONCLAVE_EIO,
 * CONCLAVE_ENOSPACE, CONCLAVE_ENOMEM with *ret_text (free it): then it can be tried again.
 */
int damage_put_aside(const char *dir, const struct file_ops *ops, int64_t wall_ms,
                     const uint8_t cluster[FORMAT_CLUSTER_SIZE], char **ret_name,
                     char **ret_text) CONCLAVE_MUST_USE;

/* Whether metadata or log are ours, in a folder that has no marker. */
bool damage_is_ours(const struct file_ops *ops, const char *dir);

/* The first start after it has come to its end. A failure does no harm: a start on a folder with a marker takes no notice
 * of `healing`. */
void damage_is_over(const struct file_ops *ops, const char *dir);

#endif
