/*
 * The state that backup files describe, at any moment that they cover: a full backup, and incremental ones that continue
 * it. The files are all checked before the first is used.
 *
 * Limits: the state is in memory, and while it is loaded also the snapshot that a full backup begins with.
 */
#ifndef BACKUP_BACKUP_LOAD_H
#define BACKUP_BACKUP_LOAD_H

#include "backup/file/backup_format.h"
#include "backup/replay.h"

struct backup_load_options {
    const char *const *files; /* in their order */
    size_t count;
    struct backup_moment moment; /* all zero: the end of the files */
    replay_changed_fn changed;   /* or NULL */
    void *ctx;
};

struct backup_loaded {
    struct state *state;
    struct backup_header header; /* of all files as one: from the first's begin to the last's end */
    uint64_t index;              /* of the last entry that was applied, whole or in part */
    uint64_t term;
    int64_t begin_zxid; /* the first state that the files can give */
    int64_t begin_ms;   /* its time; 0: unknown */
    int64_t time_ms;    /* of the last change; 0: unknown */
    uint64_t entries;
    uint64_t bytes; /* of the files */
};

/* Reads all files and checks them and that they continue each other: *ret as far as the headers tell it. 0, or
 * CONCLAVE_ECORRUPT, CONCLAVE_EFOREIGN, CONCLAVE_EINVAL (the wrong order), CONCLAVE_EIO, CONCLAVE_ENOMEM, with *ret_text
 * (free it), which names the file. */
int backup_check_files(const char *const *files, size_t count, struct backup_header *ret,
                       uint64_t *ret_bytes, char **ret_text) CONCLAVE_MUST_USE;

/* The header of one complete backup, full or incremental, after checking all of it. Errors as above. */
int backup_read_header(const char *file, struct backup_header *ret, uint64_t *ret_bytes,
                       char **ret_text) CONCLAVE_MUST_USE;

/* backup_check_files, then loads. CONCLAVE_EINVAL: the files do not cover the moment. Finish *ret after 0. */
int backup_load(const struct backup_load_options *options, struct backup_loaded *ret,
                char **ret_text) CONCLAVE_MUST_USE;
void backup_loaded_finish(struct backup_loaded *l);

#endif
