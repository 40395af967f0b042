/*
 * All files of a data folder of Apache ZooKeeper, each read to its end: what they hold, and every damage with file and
 * place. folder.h makes the state; this tells which files could be part of it. Reads only.
 *
 * Limits: what follows damage in a snapshot cannot be read, as its records have no checksums of their own; in a log, reading
 * goes on with the next whole entry.
 */
#ifndef APACHE_SURVEY_H
#define APACHE_SURVEY_H

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct apache_file {
    char *path;
    bool snapshot; /* otherwise a log */
    bool damaged;
    uint64_t bytes;
    int64_t
        first_zxid; /* of a log's transactions, 0: it has none; of a snapshot, as its name says */
    int64_t last_zxid;
    int64_t first_ms; /* times of these transactions; 0: unknown */
    int64_t last_ms;
    uint64_t transactions; /* of a log */
    uint64_t nodes;        /* of a snapshot */
    uint64_t sessions;     /* of a snapshot */
};

enum apache_damage_kind {
    APACHE_DAMAGE,  /* a file is damaged, cut off, or cannot be read */
    APACHE_GAP,     /* transactions are missing between two logs, and no newer snapshot has them */
    APACHE_OLD_GAP, /* no damage: a newer snapshot has them */
    APACHE_UNFINISHED, /* no damage: a part of a last entry, as a crash leaves it; nobody was told that it is written */
};

struct apache_damage {
    enum apache_damage_kind kind;
    char *path;
    uint64_t offset; /* in the file, before compression */
    char *what;      /* whole sentence, with file and place */
};

struct apache_survey {
    struct apache_file *files; /* snapshots, then logs, each by zxid */
    size_t file_count;
    size_t file_cap;
    struct apache_damage *damages;
    size_t damage_count;
    size_t damage_cap;
    size_t faults; /* of these, those that are damage */
};

/* dir, log_dir and errors as apache_folder_read; damage is no error. Finish *ret in any case. */
int apache_survey(const char *dir, const char *log_dir, struct apache_survey *ret,
                  char **ret_error) CONCLAVE_MUST_USE;
void apache_survey_finish(struct apache_survey *s);

#endif
