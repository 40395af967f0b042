/* The files of a data folder of Apache ZooKeeper, by the zxids in their names. */
#ifndef APACHE_FOLDER_FILES_H
#define APACHE_FOLDER_FILES_H

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file whose name has a zxid. */
struct zxid_file {
    int64_t zxid;
    char *path;
};

struct zxid_files {
    struct zxid_file *list; /* by zxid, ascending */
    size_t count;
    size_t cap;
};

/* What a folder, and that of its logs, have. */
struct folder_files {
    struct zxid_files snapshots;
    struct zxid_files logs;
};

/* log_dir NULL: the same. CONCLAVE_EEMPTY: there is no such folder; CONCLAVE_EIO or CONCLAVE_ENOMEM, with *ret_error. After an
 * error, too, *ret is to be finished. */
int folder_files_list(const char *dir, const char *log_dir, struct folder_files *ret,
                      char **ret_error) CONCLAVE_MUST_USE;
void folder_files_finish(struct folder_files *f);

/* dir/version-2 if it exists, else dir. NULL: out of memory. */
char *apache_inner_folder(const char *dir);

/* Within one epoch zxids have no gaps, and each epoch begins with 1: so a log that is missing is noticed. What a leader
 * lost at the end of its epoch nobody can know. */
bool zxid_follows(int64_t before, int64_t zxid);

#endif
