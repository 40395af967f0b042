/*
 * Decides whether a server is down, from the reports of all managers. Pure.
 *
 * The vote of a manager counts while its reports are fresh: this manager has SEEN the number in them change within the
 * last three periods of its own clock. A report that existed before this manager started counts after its next change.
 * Votes are compared with the CONFIGURED number of managers, so a minority that is cut off decides nothing. The strategy
 * "majority" also needs the view of this manager, or that of the replicas (more than half of those that answer report
 * that their link to the server is down).
 */
#ifndef REDIS_PLANNER_DOWN_VOTE_H
#define REDIS_PLANNER_DOWN_VOTE_H

#include "redis/records/records.h"

enum redis_verdict_kind { REDIS_VERDICT_UNDECIDED, REDIS_VERDICT_UP, REDIS_VERDICT_DOWN };

/* another manager, as this one sees it */
struct redis_manager_view {
    bool fresh_once;            /* this manager saw its number change */
    int64_t changed_ms;         /* when that was last, on the own clock */
    struct redis_report report; /* the last one */
};

/* The other managers; the own report is not among them. About 1 MB: on the heap, all zero at first. */
struct redis_managers {
    char own
        [REDIS_NAME_SIZE]; /* incarnation of this manager, whose reports are left out; "": none */
    size_t count;
    struct redis_manager_view views[REDIS_MANAGERS_MAX];
};

struct redis_verdict {
    enum redis_verdict_kind kind;
    int down, up, fresh;       /* votes; fresh reports, including the own one */
    int64_t since_ms;          /* DOWN: since when the own view is not up, or -1 */
    char why[REDIS_TEXT_SIZE]; /* for logs and status */
};

/* A report was read; reading the same one twice changes nothing, nor does the own one. 0; CONCLAVE_ETOOMANY. */
int redis_managers_saw(struct redis_managers *managers, const struct redis_report *report,
                       int64_t now_ms);

/* The manager of this id, or NULL. */
const struct redis_manager_view *redis_managers_find(const struct redis_managers *managers,
                                                     const char *id);

/* From then on this manager, which leads since since_ms, does nothing, unless it reports again (own clock): by the lead_ms
 * that its last report states. INT64_MAX: never, as far as is known; also for NULL. */
int64_t redis_lead_until_ms(const struct redis_manager_view *view, int64_t since_ms);

/* The node of a manager is gone: its vote counts no longer. */
void redis_managers_gone(struct redis_managers *managers, const char *id);

/* Whether its reports are fresh. */
bool redis_manager_is_fresh(const struct redis_manager_view *view,
                            const struct redis_config *config, int64_t now_ms);

/* Fresh reports now, including the own one. */
int redis_managers_fresh(const struct redis_managers *managers, const struct redis_config *config,
                         int64_t now_ms);

/* Judges all nodes; ret has room for config->node_count. own: this manager's view. master: place of the current master,
 * whose replicas count, or REDIS_NONE. True: there are enough fresh reports to decide. */
bool redis_verdicts(const struct redis_managers *managers, const struct redis_config *config,
                    const struct redis_node *own, int master, int64_t now_ms,
                    struct redis_verdict *ret);

#endif
