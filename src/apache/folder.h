/*
 * A data folder of Apache ZooKeeper that no server uses: its newest snapshot, and the logs that follow it. Reads only;
 * every file that is needed is checked, and damage is named with file and offset.
 */
#ifndef APACHE_FOLDER_H
#define APACHE_FOLDER_H

#include "apache/history.h"
#include "state/adopt/adopt.h"

/* What is in a folder. */
struct apache_found {
    char *
        snapshot; /* name of the file that was read, NULL: none, the log begins with an empty tree */
    int64_t snapshot_zxid;
    size_t snapshots;      /* files */
    size_t logs;           /* files */
    size_t logs_read;      /* of these, those with transactions behind the snapshot */
    uint64_t transactions; /* applied to the snapshot */
    int64_t zxid;          /* of the last transaction */
    int64_t time_ms;       /* its time, 0: none was applied */
    int64_t
        epoch; /* the newest that the server took part in: elections compare it before the zxid */
    struct apache_history history;
    char *unfinished; /* file whose last entry is not complete, NULL: none; a crash leaves one */
    uint64_t unfinished_at;
    struct adoption_report report;
};
void apache_found_finish(struct apache_found *found);

/* Whether dir, or its version-2, has files of ZooKeeper. */
bool apache_folder_is(const char *dir);

/* Whether dir has a version-2, with files or without. */
bool apache_folder_was(const char *dir);

/* The last zxid in a folder, from the names of the snapshots and the newest log with transactions; dir, log_dir, errors as
 * apache_folder_read. */
int apache_folder_last_zxid(const char *dir, const char *log_dir, int64_t *ret,
                            char **ret_error) CONCLAVE_MUST_USE;

/* The newest transactions of a folder, without its state: those after a zxid, in order, as a leader sends them to learners;
 * borrowed until fn returns. An error of fn ends it. *ret: the last zxid of the folder, as above, and its epoch. Only the
 * logs that may have them are read. Errors as apache_folder_last_zxid; CONCLAVE_ECORRUPT, too, if some are missing. */
struct apache_tail {
    int64_t zxid;
    int64_t epoch;
};
int apache_folder_tail(const char *dir, const char *log_dir, int64_t after,
                       int (*fn)(void *ctx, int64_t zxid, struct slice transaction), void *ctx,
                       struct apache_tail *ret, char **ret_error) CONCLAVE_MUST_USE;

/* Makes the state of the folder. dir: dataDir or its version-2; log_dir: dataLogDir, NULL: the same. On success the
 * caller has *ret_state and *ret (apache_found_finish); otherwise *ret_error, which it frees: CONCLAVE_ECORRUPT for what is
 * damaged or missing, CONCLAVE_EIO, CONCLAVE_ENOMEM, CONCLAVE_EEMPTY for a folder without files of ZooKeeper. */
int apache_folder_read(const char *dir, const char *log_dir, const struct hash_key *key,
                       struct apache_found *ret, struct state **ret_state,
                       char **ret_error) CONCLAVE_MUST_USE;

/* The same at exactly this zxid, not above the last one. CONCLAVE_EINVAL: the files cannot give it, and *ret_error says what they
 * can. */
int apache_folder_read_at(const char *dir, const char *log_dir, int64_t zxid,
                          const struct hash_key *key, struct apache_found *ret,
                          struct state **ret_state, char **ret_error) CONCLAVE_MUST_USE;

/* CRC-32 for outcome_tree_digest. */
uint32_t apache_crc32(uint32_t before, struct slice bytes);

#endif
