/* What a server's HTTP port sends at /backup, into a file. Every byte is checked on its way. */
#ifndef CLI_BACKUP_BACKUP_DOWNLOAD_H
#define CLI_BACKUP_BACKUP_DOWNLOAD_H

#include "backup/file/backup_format.h"
#include "cli/common/ensemble_view.h"

struct backup_request {
    const char *command; /* its name, for messages */
    const struct common_options *common;
    const char *admin;                 /* "host:port" */
    const struct backup_header *since; /* only what came after it; NULL: a full backup */
    const uint8_t *ensemble; /* BACKUP_CLUSTER_SIZE bytes: refuse any other; NULL: whichever */
    const char *file;        /* its name, for errors */
    int fd;
};

struct backup_downloaded {
    struct backup_header header;
    uint64_t bytes;
    bool since_gone; /* the server cannot continue `since`: a full backup may succeed */
};

/* 0, or the exit code of a printed error. Shows the progress if stderr is a terminal. */
int backup_download(const struct backup_request *request, struct backup_downloaded *ret);

/* The HTTP port to ask: the one that is given; else of a server that --server or $CONCLAVE_SERVER lead to, rather not the
 * leader's; else 127.0.0.1:8080. 0, or the exit code of a printed error. */
int backup_find_admin(const char *command, const struct common_options *common, const char *admin,
                      char ret[ROSTER_ADDRESS_MAX]);

#endif
