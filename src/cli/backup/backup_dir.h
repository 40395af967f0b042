/* conclave backup --dir: a folder that a timer fills, and from which old backups go. */
#ifndef CLI_BACKUP_BACKUP_DIR_H
#define CLI_BACKUP_BACKUP_DIR_H

#include "backup/backup_folder.h"
#include "cli/backup/backup_download.h"

struct backup_dir_options {
    const struct common_options *common;
    const char *admin; /* "host:port" */
    const char *dir;
    bool full;             /* begin a new series now */
    int64_t full_every_ms; /* begin one when the newest is so old */
    struct backup_retention keep;
};

struct backup_dir_done {
    char *file; /* free it */
    struct backup_downloaded backup;
    size_t series; /* what the folder has now */
    size_t files;
    uint64_t bytes;
    size_t removed_series;
    size_t removed_files;
    uint64_t removed_bytes;
};

/* Takes one backup and then removes what need not be kept. 0, or the exit code of a printed error; free ret->file in any
 * case. */
int backup_to_dir(const struct backup_dir_options *options, struct backup_dir_done *ret);

/* "30d", "12h", "90m", "45s", "2w" as milliseconds; "10G", "500M", "64K" or bytes, by powers of 1024. False: neither. */
bool backup_age_parse(const char *text, int64_t *ret_ms);
bool backup_size_parse(const char *text, uint64_t *ret_bytes);

#endif
