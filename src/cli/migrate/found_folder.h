/* A folder of Apache ZooKeeper as the commands read it, with the words for what goes wrong. */
#ifndef CLI_MIGRATE_FOUND_FOLDER_H
#define CLI_MIGRATE_FOUND_FOLDER_H

#include "apache/folder.h"

/* Reads the folder. 0: the caller has *ret_state and *ret; otherwise the exit code, after a line on stderr. */
int found_folder_read(const char *command, const char *dir, const char *log_dir,
                      struct apache_found *ret, struct state **ret_state);

/* Prints an error on stderr, frees it, and returns the exit code for it. error may be NULL. */
int found_folder_fail(const char *command, int rc, char *error);

#endif
