/*
 * A folder of backups, which holds series: a full backup each, and the incremental ones that continue it. Names do not
 * matter, but for their end: the headers tell what belongs together. A series goes as a whole, the oldest first, and the
 * newest one never.
 *
 * Limits: reading a folder checks headers only; backup_check_files checks the rest of a series.
 */
#ifndef BACKUP_BACKUP_FOLDER_H
#define BACKUP_BACKUP_FOLDER_H

#include "backup/backup_load.h"

#define BACKUP_FILE_END ".backup" /* other files of the folder are not looked at */

struct backup_folder_file {
    char *path;
    uint64_t bytes;
    struct backup_header header;
};

struct backup_series {
    const char **files; /* in their order; the paths are the folder's */
    size_t count;
    struct backup_header header; /* of all files as one, but made_ms: when the last one was made */
    int64_t full_ms;             /* when the full one was made */
    int64_t full_zxid;           /* at its end */
    uint64_t bytes;
};

struct backup_folder {
    struct backup_folder_file *files;
    size_t count;
    size_t cap;
    struct backup_series *series; /* oldest first */
    size_t series_count;
    struct buf problems; /* a line for each file that is damaged, or continues none of the others */
};

/* What to keep; 0: no limit. */
struct backup_retention {
    int64_t age_ms;
    uint64_t bytes;
};

/* 0; CONCLAVE_EIO or CONCLAVE_ENOMEM with *ret_text (free it). Finish *ret in any case. */
int backup_folder_read(const char *dir, struct backup_folder *ret,
                       char **ret_text) CONCLAVE_MUST_USE;
void backup_folder_finish(struct backup_folder *f);

/* The series that has this moment: the last one whose full backup ends before it, or the next one if that one's files end
 * before it; all zero: the newest. NULL: there is none at all. */
const struct backup_series *backup_folder_find(const struct backup_folder *f,
                                               const struct backup_moment *moment);

/* How many of the oldest series may go: everything in them is older than age_ms, or the files have more than `bytes`
 * without them. Never the newest one. */
size_t backup_folder_surplus(const struct backup_folder *f, const struct backup_retention *keep,
                             int64_t now_ms);

/* Removes the files of a series, the last one first: what a crash leaves is a series, too. 0, or CONCLAVE_EIO or
 * CONCLAVE_ENOMEM with *ret_text. */
int backup_series_remove(const struct backup_series *s, char **ret_text) CONCLAVE_MUST_USE;

/* Puts the names of a folder's files on the disk. 0, or errno. */
int backup_folder_sync(const char *dir) CONCLAVE_MUST_USE;

#endif
