/* Where the state comes from that conclave export writes. */
#ifndef CLI_MIGRATE_EXPORT_SOURCE_H
#define CLI_MIGRATE_EXPORT_SOURCE_H

#include "cli/common/ensemble_view.h"
#include "cli/migrate/found_folder.h"
#include "cli/migrate/progress.h"

struct export_source {
    const char *command; /* its name, for messages */
    const struct common_options *common;
    const char *admin;   /* HTTP port of a server; NULL: found */
    const char *folder;  /* data folder that nobody serves, or NULL */
    const char *log_dir; /* of an Apache ZooKeeper, or NULL */
    const char *const *files;
    size_t file_count; /* backups; without these and a folder: a running server */
    struct backup_moment moment;
    const char *target; /* a backup that is fetched lies here meanwhile */
    struct node_progress *progress;
};

/* 0 and the state, or the exit code of a printed error. */
int export_source_read(const struct export_source *x, struct state **ret);

#endif
