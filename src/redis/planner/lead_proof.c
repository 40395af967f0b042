/* The reports in flight, their lag, and until when the confirmed ones let a manager act. */
#include "redis/planner/lead_proof.h"

#include <assert.h>

enum { LEAD_SPARE_MS = 500 };

void lead_proof_init(struct lead_proof *proof)
{
    *proof = (struct lead_proof){
        .until_ms = INT64_MIN, .proved_ms = INT64_MIN, .lead_ms = REDIS_LEAD_MIN_MS, .led_ms = -1};
}

static struct lead_report *lead_report_at(struct lead_proof *p, size_t at)
{
    assert(at < p->count);
    return &p->ring[(p->first + at) % LEAD_PROOF_REPORTS];
}

/* Forgets this number of the oldest reports. */
static void lead_proof_drop(struct lead_proof *p, size_t count)
{
    assert(count <= p->count);
    p->first = (p->first + count) % LEAD_PROOF_REPORTS;
    p->count -= count;
}

static int64_t lead_wanted_ms(struct lead_proof *p, int64_t session_timeout_ms, int64_t now_ms)
{
    int64_t age_ms = p->count > 0 ? now_ms - lead_report_at(p, 0)->made_ms : 0;
    int64_t lag_ms = age_ms > p->lag_ms ? age_ms : p->lag_ms;
    int64_t most_ms = session_timeout_ms * 2 / 3;
    int64_t wanted_ms = 2 * lag_ms + LEAD_SPARE_MS;
    wanted_ms = wanted_ms < most_ms ? wanted_ms : most_ms;
    return wanted_ms > REDIS_LEAD_MIN_MS ? wanted_ms : REDIS_LEAD_MIN_MS;
}

int64_t lead_proof_make(struct lead_proof *proof, uint64_t seq, int64_t session_timeout_ms,
                        int64_t now_ms)
{
    struct lead_proof *p = proof;
    assert(seq > p->seq);
    assert(p->count == 0 || now_ms >= lead_report_at(p, p->count - 1)->made_ms);
    int64_t until_ms = now_ms + lead_wanted_ms(p, session_timeout_ms, now_ms);
    if (p->count == LEAD_PROOF_REPORTS) {
        lead_proof_drop(p, 1);
    }
    p->until_ms = until_ms > p->until_ms ? until_ms : p->until_ms;
    p->seq = seq;
    p->count++;
    *lead_report_at(p, p->count - 1) =
        (struct lead_report){.seq = seq, .made_ms = now_ms, .until_ms = p->until_ms};
    return p->until_ms - now_ms;
}

void lead_proof_confirm(struct lead_proof *proof, uint64_t seq, int64_t now_ms)
{
    struct lead_proof *p = proof;
    size_t at = 0;
    while (at < p->count && lead_report_at(p, at)->seq < seq) {
        at++;
    }
    if (at == p->count || lead_report_at(p, at)->seq != seq) {
        return;
    }
    struct lead_report report = *lead_report_at(p, at);
    int64_t lag_ms = now_ms - report.made_ms;
    assert(lag_ms >= 0 && report.until_ms >= p->proved_ms);
    p->lag_ms = lag_ms > p->lag_ms ? lag_ms : p->lag_ms - (p->lag_ms - lag_ms) / 4;
    p->proved_ms = report.until_ms;
    p->lead_ms = report.until_ms - report.made_ms;
    lead_proof_drop(p, at + 1);
}

void lead_proof_lead(struct lead_proof *proof, bool leads, int64_t now_ms)
{
    proof->led_ms = leads ? now_ms : -1;
}

bool lead_proof_stalls(const struct lead_proof *proof, int64_t now_ms)
{
    int64_t since_ms = proof->proved_ms > proof->led_ms ? proof->proved_ms : proof->led_ms;
    return proof->led_ms >= 0 && now_ms - since_ms > proof->lead_ms;
}
