/*
 * The ensemble as its servers describe it: every server of --server is asked, and every member that one of them names, each
 * once, in parallel. By the word memb, or by srvr where a server does not know that (Apache ZooKeeper, or a whitelist
 * without it): then only what srvr tells is known. No session is needed, and no quorum.
 */
#ifndef CLI_COMMON_ENSEMBLE_VIEW_H
#define CLI_COMMON_ENSEMBLE_VIEW_H

#include "base/buf.h"
#include "cli/common/options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROSTER_ADDRESS_MAX = 280, ROSTER_TEXT_MAX = 160, ROSTER_DIGESTS_MAX = 20 };

/* A member as a server describes it. */
struct ensemble_view_member {
    uint64_t id;
    bool voter;
    bool linked;                     /* to the server that answered, or that server itself */
    uint64_t match_index;            /* entries it has; only leaders know it; 0: not known */
    uint64_t snapshot_sent;          /* bytes it has of a snapshot that it is receiving */
    uint64_t snapshot_total;         /* 0: none */
    char client[ROSTER_ADDRESS_MAX]; /* "host:port", "" when not known */
    char problem
        [ROSTER_TEXT_MAX]; /* why the server that answered has no link to it; "": not known */
    char *address;         /* the text behind server.N=; "" when not known */
};

/* A server that was asked. */
struct ensemble_view_server {
    char address[ROSTER_ADDRESS_MAX]; /* "host:port" */
    bool answered;
    bool brief;                    /* by srvr only */
    bool serves;                   /* state is "ok" */
    uint64_t id;                   /* 0: not known */
    char mode[16];                 /* "": not known */
    char state[ROSTER_TEXT_MAX];   /* "ok", or why it does not serve, or why there is no answer */
    char warning[ROSTER_TEXT_MAX]; /* of a server that serves; "": none */
    char version[48];
    char zxid[24];
    char admin[ROSTER_ADDRESS_MAX]; /* "host:port" of its HTTP port; "" when it has none */
    uint64_t term;
    uint64_t leader; /* 0: none */
    uint64_t last;
    uint64_t commit;
    uint64_t applied;
    uint64_t connections;
    uint64_t sessions;
    int64_t time_ms; /* its wall clock when it answered; 0: not known */
    struct {
        uint64_t index;  /* of a log entry */
        uint64_t digest; /* of the state after it */
    } digests[ROSTER_DIGESTS_MAX];
    size_t digests_count;
    struct ensemble_view_member *members;
    size_t members_count;
};

struct ensemble_view {
    struct ensemble_view_server *servers; /* in the order in which they were asked */
    size_t count;
};

/* Asks, and waits at most timeout_ms for an answer. 0, or the exit code of a printed error. Finish in any case. */
int ensemble_view_gather(const char *command, const struct common_options *options,
                         int64_t timeout_ms, struct ensemble_view *ret);
void ensemble_view_finish(struct ensemble_view *r);

/* Fills a server's row, in which only the address is set, with what it answered to memb, or (brief) to srvr. The answer is
 * cut into pieces. False when memory is out. Finish the row in any case. */
bool ensemble_view_read(struct ensemble_view_server *s, struct buf *answer, bool brief);
void ensemble_view_server_finish(struct ensemble_view_server *s);

/* The server that knows the members best: the serving leader of the newest term, else one with the newest term. NULL when
 * nobody answered. */
const struct ensemble_view_server *ensemble_view_best(const struct ensemble_view *r);

/* The number by which people know the member with this id: 0 to 255; the id of member 0 is 256. */
static inline uint64_t ensemble_view_number(uint64_t id)
{
    return id & 255;
}

static inline uint64_t ensemble_view_id(int64_t number)
{
    return number == 0 ? 256 : (uint64_t)number;
}

/* The server with an id that answered; NULL when there is none. */
const struct ensemble_view_server *ensemble_view_find(const struct ensemble_view *r, uint64_t id);

#endif
