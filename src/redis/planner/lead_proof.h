/*
 * How long a leading manager may act by the reports that the ensemble has confirmed. Pure: the caller gives the time, on a
 * clock that counts suspend.
 *
 *   made ─────────────────> confirmed        until = made + lead_ms, which the report states
 *     '──── lag ────────────────'
 *     '──────────── lead_ms ───────────────────────' it may act until here, unless a later report is confirmed
 *
 * lead_ms grows with the lag, so that slow writes do not stop a fail-over: 2 lag + 500 ms, because up to two writes lie
 * between a report and the confirmation of the one after it; at least REDIS_LEAD_MIN_MS, at most two thirds of the session
 * timeout. The lag rises at once, and falls by a quarter of the difference. A report without an answer counts with its age.
 *
 * Safety: another manager takes the lead away only in a transaction which checks that the last report it has read is still
 * the last one, and only 5/4 of the lead_ms IN THAT REPORT after it read it (redis/manager/leader_watch.h). A confirmed
 * report was in the ensemble while the leader's node was. So it came before the removal, and is the last one or an earlier
 * one. `until` never goes back from one report to the next, so the last one's is the longest, and the removal comes later.
 *   - A late answer: `until` counts from when the report was made. It may have passed already; then it proves nothing.
 *   - A report that was written but not confirmed proves nothing. It may still be the last one: its `until` is not earlier.
 *   - A report that is replaced before it was written (the group writes the newest one): the same.
 *   - Answers in another order, or of a server that is behind: a report older than the newest confirmed one is ignored.
 *   - A report that was on its way when the lead was taken away, and written after that: the leader's node is no longer
 *     found, so it is not confirmed (leader_watch.h).
 *   - A new server, the same session: only times count, and they do not depend on the link.
 *   - The end of the session: the lease of the election, which must hold as well, ends before it (recipes/engine/lease.h).
 *   - An earlier life of this manager: its reports have another incarnation, which the caller compares.
 */
#ifndef REDIS_PLANNER_LEAD_PROOF_H
#define REDIS_PLANNER_LEAD_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reports in flight: if there are more, the oldest is forgotten. At four a second they are those of 16 s. */
enum { REDIS_LEAD_MIN_MS = 1000, LEAD_PROOF_REPORTS = 64 };

struct lead_proof {
    struct lead_report {
        uint64_t seq;
        int64_t made_ms;
        int64_t until_ms;       /* made_ms + the lead_ms that it states */
    } ring[LEAD_PROOF_REPORTS]; /* made and not confirmed */
    size_t first;               /* the oldest */
    size_t count;
    int64_t lag_ms;
    uint64_t seq;      /* of the newest report; 0: none */
    int64_t until_ms;  /* of the newest report */
    int64_t proved_ms; /* until_ms of the newest confirmed report; INT64_MIN: none */
    int64_t lead_ms;   /* of the newest confirmed report; REDIS_LEAD_MIN_MS: none */
    int64_t led_ms;    /* when this manager began to lead; -1: it does not */
};

void lead_proof_init(struct lead_proof *proof);

/* A report of this number, which is larger than those before, is about to be written. Returns the lead_ms that it must
 * state. session_timeout_ms: as negotiated; 0: not known yet. */
int64_t lead_proof_make(struct lead_proof *proof, uint64_t seq, int64_t session_timeout_ms,
                        int64_t now_ms);

/* The report of this number was in the ensemble while this manager's node in the election was there, or before that
 * node was. A number that is not in flight is ignored. */
void lead_proof_confirm(struct lead_proof *proof, uint64_t seq, int64_t now_ms);

/* Whether it may act, if it leads. */
static inline bool lead_proof_may_act(const struct lead_proof *proof, int64_t now_ms)
{
    return now_ms < proof->proved_ms;
}

/* This manager begins to lead, or no longer leads. */
void lead_proof_lead(struct lead_proof *proof, bool leads, int64_t now_ms);

/* Whether it leads, and has not been able to act for longer than the lead_ms that was confirmed last: the operator should
 * know. */
bool lead_proof_stalls(const struct lead_proof *proof, int64_t now_ms);

#endif
