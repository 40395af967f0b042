#include "front/session_notes.h"

#include "front/service.h"

#include <assert.h>
#include <stdio.h>

int session_notes_init(struct session_notes *n, size_t max)
{
    *n = (struct session_notes){.ledger = NULL};
    if (max == 0) {
        return 0;
    }
    n->ledger = session_ledger_create(max);
    return n->ledger != NULL ? 0 : CONCLAVE_ENOMEM;
}

void session_notes_finish(struct session_notes *n)
{
    session_ledger_destroy(n->ledger);
    n->ledger = NULL;
}

/* --- what the server notes about itself --------------------------------------------------------- */

void session_notes_stall(struct session_notes *n, int64_t now_ms, int64_t lost_ms)
{
    if (lost_ms < NOTED_STALL_MIN_MS) {
        return;
    }
    size_t i = n->stalls_count++ % NOTED_STALLS;
    n->stalls[i].end_ms = now_ms;
    n->stalls[i].lost_ms = lost_ms;
}

void session_notes_beat(struct service *s, int64_t now_ms)
{
    struct session_notes *n = &s->notes;
    uint64_t sum = s->metrics->fsynctime.sum;
    uint64_t more = sum >= n->sync_sum ? sum - n->sync_sum : sum; /* the metrics may be reset */
    n->sync_sum = sum;
    n->beats[n->beats_count++ % NOTED_BEATS] = (struct noted_beat){
        .at_ms = now_ms,
        .sync_ms = (int64_t)(more / 1000),
        .disk_ms = service_disk_wait_ms(s),
        .write_wait_ms = service_oldest_write_ms(s),
        .queue = (uint32_t)s->pipeline.outstanding,
        .in_contact = leadership_in_contact(s),
    };
}

void session_notes_leader(struct service *s, uint64_t leader)
{
    struct session_notes *n = &s->notes;
    if (leader == 0 || leader == n->leader) {
        return;
    }
    if (n->leader != 0) {
        n->changes[n->changes_count++ % NOTED_CHANGES] = clock_monotonic_ms(s->clock);
    }
    n->leader = leader;
}

static size_t noted(size_t count, size_t most)
{
    return count < most ? count : most;
}

static uint32_t count_changes(const struct session_notes *n, int64_t since_ms)
{
    uint32_t count = 0;
    for (size_t i = 0; i < noted(n->changes_count, NOTED_CHANGES); i++) {
        count += n->changes[i] >= since_ms;
    }
    return count;
}

/* The part of a stall that lies after since_ms. */
static void add_stalls(const struct session_notes *n, int64_t since_ms, struct session_facts *f)
{
    for (size_t i = 0; i < noted(n->stalls_count, NOTED_STALLS); i++) {
        int64_t left_ms = n->stalls[i].end_ms - since_ms;
        int64_t ms = n->stalls[i].lost_ms < left_ms ? n->stalls[i].lost_ms : left_ms;
        if (ms > 0) {
            f->stalled_ms += ms;
            f->stall_longest_ms = ms > f->stall_longest_ms ? ms : f->stall_longest_ms;
        }
    }
}

/* A server that is out of contact now lost it one tick after the last contact at the latest. */
static void add_contact(const struct service *s, int64_t since_ms, int64_t now_ms,
                        struct session_facts *f)
{
    const struct leadership *st = &s->standing;
    int64_t lost_ms = now_ms - st->contact_at - s->limits.tick_ms;
    if (st->sole || st->contact_at == CONTACT_NEVER || lost_ms <= 0) {
        return;
    }
    lost_ms = lost_ms < now_ms - since_ms ? lost_ms : now_ms - since_ms;
    f->cut_off_ms = lost_ms > f->cut_off_ms ? lost_ms : f->cut_off_ms;
}

static void add_beats(const struct service *s, int64_t since_ms, int64_t now_ms,
                      struct session_facts *f)
{
    const struct session_notes *n = &s->notes;
    int64_t beat_ms = service_beat_ms(s);
    for (size_t i = 0; i < noted(n->beats_count, NOTED_BEATS); i++) {
        const struct noted_beat *b = &n->beats[i];
        if (b->at_ms < since_ms) {
            continue;
        }
        f->sync_ms += b->sync_ms;
        f->sync_longest_ms = b->disk_ms > f->sync_longest_ms ? b->disk_ms : f->sync_longest_ms;
        f->write_wait_ms =
            b->write_wait_ms > f->write_wait_ms ? b->write_wait_ms : f->write_wait_ms;
        f->queue = b->queue > f->queue ? b->queue : f->queue;
        f->cut_off_ms += b->in_contact ? 0 : beat_ms;
    }
    f->cut_off_ms = f->cut_off_ms < now_ms - since_ms ? f->cut_off_ms : now_ms - since_ms;
}

/* The write that is on its way to the disk now: no beat has its end. */
static void add_disk(const struct service *s, int64_t since_ms, int64_t now_ms,
                     struct session_facts *f)
{
    int64_t disk_ms = service_disk_wait_ms(s);
    f->sync_longest_ms = disk_ms > f->sync_longest_ms ? disk_ms : f->sync_longest_ms;
    f->sync_ms += disk_ms;
    f->sync_ms = f->sync_ms < now_ms - since_ms ? f->sync_ms : now_ms - since_ms;
}

/* The server's own facts since the last sign of life. */
static void add_server(const struct service *s, int64_t since_ms, int64_t now_ms,
                       struct session_facts *f)
{
    const struct session_notes *n = &s->notes;
    f->stalled_ms = f->stall_longest_ms = f->cut_off_ms = f->write_wait_ms = 0;
    f->sync_ms = f->sync_longest_ms = 0;
    f->queue = (uint32_t)s->pipeline.outstanding;
    f->leader_changes = count_changes(n, since_ms);
    f->leader_changes_linked = count_changes(n, now_ms - f->linked_ms);
    add_stalls(n, since_ms, f);
    add_beats(s, since_ms, now_ms, f);
    add_disk(s, since_ms, now_ms, f);
    add_contact(s, since_ms, now_ms, f);
    assert(f->stalled_ms >= f->stall_longest_ms && f->cut_off_ms >= 0);
}

/* --- records ------------------------------------------------------------------------------------ */

static void copy_text(char to[SESSION_NAME_MAX], struct slice text)
{
    size_t len = text.len < SESSION_NAME_MAX - 1 ? text.len : SESSION_NAME_MAX - 1;
    if (len > 0) { /* the data of an empty text may be NULL */
        memcpy(to, text.data, len);
    }
    to[len] = '\0';
}

/* Age of the oldest request that has no answer; 0: there is none. */
static int64_t oldest_owed_ms(const struct connection *c, int64_t now_ms)
{
    if (c->pending_count == 0) {
        return 0;
    }
    const struct pending *oldest = CONTAINER_OF(c->pending.next, struct pending, order);
    int64_t ms = now_ms - oldest->taken_ns / 1000000;
    return ms > 0 ? ms : 0;
}

/* The facts of a connection that ends now or with the session. */
static void add_connection(const struct service *s, const struct connection *c, int64_t now_ms,
                           struct ledger_record *r)
{
    struct session_facts *f = &r->facts;
    int64_t linked_ms = clock_wall_ms(s->clock) - c->established_ms;
    f->linked_ms = linked_ms > 0 ? linked_ms : 0;
    r->last_at_ms = c->heard_ms != CONTACT_NEVER ? c->heard_ms : now_ms - f->linked_ms;
    r->unlinked_at_ms = now_ms;
    f->link = c->link;
    f->reason = c->link_reason;
    f->timeout_ms = c->timeout_ms;
    copy_text(f->client, slice_str(c->peer));
    f->last_request =
        c->stats.last_type != CONNECTION_NO_TYPE ? wire_op_name(c->stats.last_type) : NULL;
    f->requests = c->stats.received;
    f->silent_ms = now_ms - r->last_at_ms;
    f->gap_ms = c->gap_ms;
    f->unanswered = (uint32_t)c->pending_count;
    f->owed_ms = oldest_owed_ms(c, now_ms);
    f->unlinked_ms = 0;
    f->tcp = (struct session_tcp){.known = false};
    f->tcp.known = s->notes.tcp != NULL && s->notes.tcp(c, &f->tcp);
    int64_t owed_at_ms = now_ms - f->owed_ms;
    add_server(s, owed_at_ms < r->last_at_ms ? owed_at_ms : r->last_at_ms, now_ms, f);
}

static struct ledger_record *put_record(struct service *s, int64_t id, enum ledger_ring ring,
                                        int64_t now_ms)
{
    struct ledger_record *r = session_ledger_put(s->notes.ledger, id, ring);
    if (r != NULL) {
        r->at_ms = now_ms;
        r->wall_ms = clock_wall_ms(s->clock);
    }
    return r; /* NULL: memory is out, and there is no record */
}

static bool is_known(const struct service *s, int64_t id)
{
    struct state_session session;
    return state_session_find(s->state, id, &session) || local_session_find(&s->locals, id) != NULL;
}

void session_notes_unlinked(struct service *s, const struct connection *c)
{
    if (s->notes.ledger == NULL || !is_known(s, c->session_id)) {
        return;
    }
    int64_t now_ms = clock_monotonic_ms(s->clock);
    struct ledger_record *r = put_record(s, c->session_id, LEDGER_UNLINKED, now_ms);
    if (r == NULL) {
        return;
    }
    r->facts = (struct session_facts){.end = SESSION_END_NONE};
    add_connection(s, c, now_ms, r);
    if (r->facts.link == SESSION_LINK_OPEN) {
        r->facts.link = SESSION_LINK_DROPPED;
    }
}

void session_notes_resumed(struct service *s, int64_t id)
{
    if (s->notes.ledger != NULL) {
        session_ledger_forget(s->notes.ledger, id);
    }
}

void session_notes_moved(struct service *s, int64_t id, const struct connection *c)
{
    struct session_ledger *l = s->notes.ledger;
    const struct ledger_record *known = l != NULL ? session_ledger_find(l, id) : NULL;
    if (l == NULL || (c == NULL && known == NULL)) {
        return;
    }
    if (c == NULL && known->facts.link == SESSION_LINK_NONE) {
        session_ledger_forget(l, id); /* a decision to end it that did not take effect */
        return;
    }
    int64_t now_ms = clock_monotonic_ms(s->clock);
    struct ledger_record *r = put_record(s, id, LEDGER_ORDERLY, now_ms);
    if (r == NULL) {
        return;
    }
    if (c != NULL) {
        r->facts = (struct session_facts){.end = SESSION_END_NONE};
        add_connection(s, c, now_ms, r);
    }
    r->facts.decided = false;
    r->facts.link = SESSION_LINK_MOVED;
    r->facts.unlinked_ms = now_ms - r->unlinked_at_ms;
}

void session_notes_decided(struct service *s, int64_t id, int64_t heard_ms, int32_t timeout_ms,
                           int64_t owner, const struct reporter_ages *ages)
{
    if (s->notes.ledger == NULL) {
        return;
    }
    int64_t now_ms = s->now_ns / 1000000;
    struct ledger_record *r =
        put_record(s, id, LEDGER_UNLINKED, now_ms); /* until it takes effect */
    if (r == NULL) {
        return;
    }
    struct session_facts *f = &r->facts;
    f->timeout_ms = timeout_ms;
    f->decided = true;
    f->heard_ms = now_ms - heard_ms;
    f->led_ms = now_ms - s->notes.led_since_ms;
    f->owner = owner != 0 ? member_number(owner) : -1;
    f->owner_here = owner == s->server_id;
    f->report_ms = ages->report_ms;
    f->reborn_ms = ages->reborn_ms;
}

/* Counts an end once in the ensemble: on the server that the client used last, or on the leader if that server is gone. */
static void count_end(struct session_notes *n, const struct session_facts *f)
{
    enum session_cause cause = session_cause_find(f);
    bool servers = cause == SESSION_CAUSE_SERVER_LOST || cause == SESSION_CAUSE_LEADER_CHANGE;
    if (f->link == SESSION_LINK_NONE ? f->decided && servers : f->link != SESSION_LINK_MOVED) {
        n->ended[cause]++;
    }
}

void session_notes_ended(struct service *s, int64_t id, enum session_end end, struct slice by,
                         const struct connection *c)
{
    struct session_ledger *l = s->notes.ledger;
    if (l == NULL ||
        (c == NULL && end != SESSION_END_KILLED && session_ledger_find(l, id) == NULL)) {
        return;
    }
    int64_t now_ms = clock_monotonic_ms(s->clock);
    struct ledger_record *known = session_ledger_find(l, id);
    bool moved = known != NULL && c == NULL && known->facts.link == SESSION_LINK_MOVED;
    bool orderly = end == SESSION_END_CLOSED || moved;
    struct ledger_record *r = put_record(s, id, orderly ? LEDGER_ORDERLY : LEDGER_LOST, now_ms);
    if (r == NULL) {
        return;
    }
    struct session_facts *f = &r->facts;
    f->end = end;
    copy_text(f->by, by);
    if (c != NULL) {
        add_connection(s, c, now_ms, r);
    } else if (f->link != SESSION_LINK_NONE) {
        f->unlinked_ms = now_ms - r->unlinked_at_ms;
    }
    count_end(&s->notes, f);
}
