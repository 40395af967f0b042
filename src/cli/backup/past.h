/* What the commands share that look into backups: their options, and nodes of a state as a reader with all rights sees them. */
#ifndef CLI_BACKUP_PAST_H
#define CLI_BACKUP_PAST_H

#include "backup/backup_folder.h"
#include "cli/common/options.h"
#include "wire/records.h"

struct past_options {
    struct option_list from; /* backups, in their order */
    const char *dir;         /* a folder of conclave backup --dir */
    const char *at;          /* ZXID|TIME; NULL: the end */
};
extern const struct option_row PAST_ROWS[]; /* --from and --dir, for OPTION_GROUP */

/* The files that names stand for: themselves, or those in a folder, if there is one name and it is that of a folder. */
struct past_files {
    const char **names; /* borrowed texts */
    size_t count;
    bool in_folder;
    struct backup_folder folder;
};

/* 0, or the exit code of a printed error. Close after 0. */
int past_files_open(const char *command, const char *const *names, size_t count,
                    struct past_files *ret);
void past_files_close(struct past_files *f);

/* The files that have the moment, in their order. */
const char *const *past_files_of(const struct past_files *f, const struct backup_moment *moment,
                                 size_t *ret_count);

/* Whether the option asks for anything; more_count: of names behind the operands. */
bool past_given(const struct past_options *o, size_t more_count);

/* Loads the state of `at`. Files are those of --dir, --from and `more`. 0, or the exit code of a printed error. */
int past_load(const struct command_usage *usage, const struct past_options *o, char **more,
              size_t more_count, struct backup_loaded *ret);

/* The changes in all files, those of all series of a folder one after the other, each change once. */
struct past_walk {
    /* As in struct backup_load_options. After a gap between two series it is called for the state behind it, change NULL. */
    void (*changed)(void *ctx, const struct state *s, const struct backup_change *change);
    void *ctx;
    bool gap; /* during such a call */

    /* private */
    bool overlaps;     /* the series begins with what the one before it had */
    bool other;        /* there was a series before this one */
    int64_t seen_zxid; /* the last state that was told */
};
int past_walk(const struct command_usage *usage, const struct past_options *o, char **more,
              size_t more_count, struct past_walk *w);

/* 0, CONCLAVE_NO_NODE or CONCLAVE_ENOMEM. */
int past_stat(const struct state *s, struct slice path, struct wire_stat *ret);

/* Answers a read of the path; the result borrows from out. Errors as state_query. */
int past_data(const struct state *s, struct slice path, struct buf *out,
              struct wire_get_data_response *ret);
int past_acl(const struct state *s, struct slice path, struct buf *out,
             struct wire_get_acl_response *ret);
int past_children(const struct state *s, struct slice path, struct buf *out,
                  struct wire_get_children_response *ret);

/* conclave get --at: prints the data of the node, or JSON as get does. The exit code. */
int past_get(const struct command_usage *usage, const struct past_options *o, const char *path,
             bool as_json);

#endif
