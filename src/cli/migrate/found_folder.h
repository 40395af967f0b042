/* A data folder, ours or Apache's, as the commands read it, with the words for what goes wrong. */
#ifndef CLI_MIGRATE_FOUND_FOLDER_H
#define CLI_MIGRATE_FOUND_FOLDER_H

#include "apache/folder.h"
#include "backup/folder_load.h"

enum found_kind {
    FOUND_NOTHING, /* neither */
    FOUND_OURS,
    FOUND_APACHE,
    FOUND_BOTH, /* a server of ours has imported Apache's files, or somebody put them beside its own */
};
enum found_kind found_folder_kind(const char *dir, const char *log_dir);

/* Reads Apache's folder at a zxid; 0: the end. 0: the caller has *ret_state and *ret; otherwise the exit code, after a line on
 * stderr. */
int found_folder_read(const char *command, const char *dir, const char *log_dir, int64_t zxid,
                      struct apache_found *ret, struct state **ret_state);

/* The process that uses the folder: a server of ours, or one that has a file of Apache's open; 0: none, or it cannot be told
 * (processes of other users). */
long found_folder_user(const char *dir, const char *log_dir);

/* Prints an error on stderr, frees it, and returns the exit code for it. error may be NULL. */
int found_folder_fail(const char *command, int rc, char *error);

#endif
