/*
 * Whether a server is down for all, from what each manager says of it. Pure.
 *
 * A manager's vote counts while its reports come: the one who judges has SEEN the number in it change within the last
 * three periods of his own clock. A report that was there already when he came counts from its next change on.
 * Votes are counted against the CONFIGURED managers, so a few that are cut off together decide nothing. With majority,
 * one more view is asked: that of the judge himself, or that of the replicas (their links to the server are down, for
 * more than half of those that answer).
 */
#ifndef REDIS_PLANNER_DOWN_VOTE_H
#define REDIS_PLANNER_DOWN_VOTE_H

#include "redis/records/records.h"

enum redis_verdict_kind { REDIS_VERDICT_UNDECIDED, REDIS_VERDICT_UP, REDIS_VERDICT_DOWN };

/* one other manager, as seen from here */
struct redis_manager_view {
    bool fresh_once;            /* its number was seen to change */
    int64_t changed_ms;         /* when that was last, on the own clock */
    struct redis_report report; /* the last one */
};

/* The other managers; one's own report is not among them. About 1 MB: on the heap, all zero at first. */
struct redis_managers {
    size_t count;
    struct redis_manager_view views[REDIS_MANAGERS_MAX];
};

struct redis_verdict {
    enum redis_verdict_kind kind;
    int down, up, fresh;       /* votes; fresh reports, one's own included */
    int64_t since_ms;          /* DOWN: since when the own view is not up, or -1 */
    char why[REDIS_TEXT_SIZE]; /* for logs and status */
};

/* A report was read (by a watch or otherwise; the same one twice changes nothing). 0; CONCLAVE_ETOOMANY. */
int redis_managers_saw(struct redis_managers *managers, const struct redis_report *report,
                       int64_t now_ms);

/* A manager's node is gone: its vote goes at once. */
void redis_managers_gone(struct redis_managers *managers, const char *id);

/* Fresh reports now, one's own included. */
int redis_managers_fresh(const struct redis_managers *managers, const struct redis_config *config,
                         int64_t now_ms);

/* Judges all nodes: ret has room for config->node_count. own: this manager's view. master: place of the current
 * master or REDIS_NONE (whose replicas are asked). True: fresh reports are enough to decide at all. */
bool redis_verdicts(const struct redis_managers *managers, const struct redis_config *config,
                    const struct redis_node *own, int master, int64_t now_ms,
                    struct redis_verdict *ret);

#endif
