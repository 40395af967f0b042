/* What the commands share that look into backups: their options, and nodes of a state as a reader with all rights sees them. */
#ifndef CLI_BACKUP_PAST_H
#define CLI_BACKUP_PAST_H

#include "backup/backup_load.h"
#include "cli/common/options.h"
#include "wire/records.h"

struct past_options {
    struct option_list from; /* backups, in their order */
    const char *at;          /* ZXID|TIME; NULL: the end */
};
extern const struct option_row PAST_ROWS[]; /* --from, for OPTION_GROUP */

/* Loads the state of `at`, and calls changed as backup_load does (it may be NULL). Files are those of --from and `more`.
 * 0, or the exit code of a printed error. */
int past_load(const struct command_usage *usage, const struct past_options *o, char **more,
              size_t more_count,
              void (*changed)(void *ctx, const struct state *s, const struct backup_change *change),
              void *ctx, struct backup_loaded *ret);

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
