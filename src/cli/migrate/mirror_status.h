/* The leader of a mirror, asked over HTTP: what it knows, and what it is to do (admin/mirror_route.h). */
#ifndef CLI_MIGRATE_MIRROR_STATUS_H
#define CLI_MIGRATE_MIRROR_STATUS_H

#include "base/buf.h"
#include "cli/common/ensemble_view.h"
#include "cli/common/options.h"

struct migrate_options {
    struct common_options common;
    const char *admin;  /* HTTP ports; NULL: those that the servers name */
    const char *source; /* --from */
    const char *config; /* zoo.cfg of a server, or NULL */
    int reads;          /* enum of READS */
    bool replace;
    bool no_wait;
    bool yes;
    const char *stop; /* commands for sh */
    const char *fence;
    struct option_list folders;
    int64_t wait_ms;
};

struct mirror_status {
    char address[ROSTER_ADDRESS_MAX]; /* of the leader's HTTP port */
    bool mirror;
    bool leads;
    bool synced;
    char source[1100];
    char reads[16];
    char stage[24];
    char server[300];
    char trouble[420];
    int64_t zxid;
    int64_t source_zxid;
    int64_t behind; /* transactions; -1: unknown */
    int64_t behind_ms;
    int64_t heard_ms;
    int64_t transactions;
    int64_t states;
    int64_t breaks;
    int64_t nodes;
    int64_t sessions;
    int64_t backlog;
    int64_t barrier_zxid;
    bool has_digest;
    int64_t digest;
    int64_t source_digest;
    char act[16];
    bool act_waits;
    int32_t act_err;
    char *text; /* the answer; free it */
};

/* Asks all servers until one says that it leads. 0 and *ret, or the exit code of a printed error. */
int mirror_status_find(const struct migrate_options *o, struct mirror_status *ret);

/* Asks this server again. As above; quiet: prints nothing. */
int mirror_status_again(const struct migrate_options *o, bool quiet, struct mirror_status *ret);
void mirror_status_finish(struct mirror_status *s);

/* POST target, with a body or SLICE_NULL, to the server of s. *ret_answer, if it is not NULL, gets the answer. 0, or the exit
 * code of a printed error. */
int mirror_act(const struct migrate_options *o, const struct mirror_status *s, const char *target,
               struct slice body, struct buf *ret_answer);

/* The number behind "taken" in an answer; -1: there is none. */
int64_t mirror_taken(const struct buf *answer);

#endif
