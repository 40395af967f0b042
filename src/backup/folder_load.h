/*
 * A data folder of ours that nobody serves: what is in it and what is wrong with it, and the state at any moment that its
 * snapshots and its log cover. Reads only, and takes no lock.
 *
 * Limits: the end of a member's log may hold writes that no majority of its ensemble has; they count as written, as they do
 * when this member wins the next election. One server alone has no such writes.
 */
#ifndef BACKUP_FOLDER_LOAD_H
#define BACKUP_FOLDER_LOAD_H

#include "backup/replay.h"
#include "replication/disk/folder_check.h"
#include "replication/disk/members_file.h"

struct folder_segment {
    char *path;
    bool damaged;
    uint64_t bytes;
    uint64_t first_index; /* 0: it has no entries */
    uint64_t last_index;
    uint64_t first_term;
    uint64_t last_term;
};

struct folder_snapshot {
    char *path;
    bool damaged;
    uint64_t bytes;
    uint64_t index; /* of the last entry that it contains */
    uint64_t term;
    int64_t zxid; /* -1: unknown, as it is damaged */
};

struct folder_damage {
    enum folder_fault_kind kind;
    char *path;
    uint64_t offset;
    char *what;
};

struct folder_survey {
    struct folder_facts facts;
    struct folder_segment *segments; /* in their order */
    size_t segment_count;
    size_t segment_cap;
    struct folder_snapshot *snapshots; /* oldest first */
    size_t snapshot_count;
    size_t snapshot_cap;
    struct folder_damage
        *damages; /* all that was found, also what is none (FOLDER_FAULT_TORN, _ASIDE) */
    size_t damage_count;
    size_t damage_cap;
    size_t faults;               /* of these, those that are damage */
    struct members_file members; /* n 0: unknown */
    bool failed;                 /* out of memory */
};

/* Whether dir has the files of a server of ours. */
bool folder_is_ours(const char *dir);

/* Reads all files to their ends. 0 or CONCLAVE_ENOMEM; finish *ret in any case. */
int folder_survey(const char *dir, struct folder_survey *ret) CONCLAVE_MUST_USE;
void folder_survey_finish(struct folder_survey *s);

struct folder_loaded {
    struct state *state; /* the caller destroys it */
    uint64_t snapshot;   /* index of the one that it began with; 0: the log is complete */
    uint64_t index;      /* of the last entry that was applied */
    uint64_t term;
    int64_t begin_zxid; /* of the first state that the folder can give */
    int64_t end_zxid;   /* of the last one; 0: not read up to there */
    int64_t time_ms;    /* of the last change; 0: unknown */
    uint64_t entries;   /* that were applied */
};

/* The state at the moment. 0; CONCLAVE_EINVAL: the folder does not cover it, and *ret_text says which range it covers;
 * CONCLAVE_ECORRUPT: what is needed for it is damaged; CONCLAVE_EEMPTY: a fresh folder; CONCLAVE_EIO, CONCLAVE_ENOMEM; with
 * *ret_text (free it). */
int folder_load(const char *dir, const struct folder_survey *survey,
                const struct backup_moment *moment, struct folder_loaded *ret,
                char **ret_text) CONCLAVE_MUST_USE;

#endif
