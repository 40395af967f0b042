/*
 * Messages to the other servers. They leave at the end of a turn, but not while a term or vote is being written.
 *
 * The entries that a server still needs are kept as one range of the table and sent in pieces. The unacknowledged part
 * may not exceed a window, and bytes that are no longer in memory are first read from the disk. Meanwhile the engine
 * believes that everything was sent. A heartbeat that overtakes unsent entries is therefore anchored before them;
 * anchored as the engine means it, the server would refuse it. A loss shows when the server refuses a later message;
 * then the engine begins again.
 */
#include "replication/running_log.h"

#include "replication/raft/log_messages.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (1u << 20)
#define PIECE_ENTRIES 256u
#define WINDOW_BYTES (8u << 20)
#define PEERS_MAX 512u

/* When the link to the leader breaks, the election timeout is divided by this. */
#define HASTE 16

struct held_message {
    struct held_message *next;
    uint64_t to;
    struct buf bytes;
};

void send_queue_init(struct replication *r)
{
    r->outbox.held_end = &r->outbox.held;
}

/* Removes the oldest held message; NULL: none. */
static struct held_message *take_held(struct send_queue *o)
{
    struct held_message *h = o->held;
    if (h != NULL) {
        o->held = h->next;
        o->held_end = o->held == NULL ? &o->held : o->held_end;
    }
    return h;
}

void send_queue_finish(struct replication *r)
{
    for (struct held_message *h; (h = take_held(&r->outbox)) != NULL;) {
        buf_finish(&h->bytes);
        free(h);
    }
    free(r->outbox.peers);
}

static struct send_queue_peer *find_peer(struct replication *r, uint64_t id)
{
    for (size_t i = 0; i < r->outbox.n; i++) {
        if (r->outbox.peers[i].id == id) {
            return &r->outbox.peers[i];
        }
    }
    return NULL;
}

struct send_queue_peer *send_queue_peer(struct replication *r, uint64_t id)
{
    struct send_queue *o = &r->outbox;
    struct send_queue_peer *found = find_peer(r, id);
    if (found != NULL || o->n == PEERS_MAX) {
        return found;
    }
    if (!array_room(&o->peers, o->n, &o->cap, sizeof *o->peers)) {
        return NULL;
    }
    o->peers[o->n] = (struct send_queue_peer){.id = id};
    return &o->peers[o->n++];
}

bool send_queue_linked(const struct replication *r, uint64_t id)
{
    for (size_t i = 0; i < r->outbox.n; i++) {
        if (r->outbox.peers[i].id == id) {
            return r->outbox.peers[i].linked;
        }
    }
    return false;
}

/* Forgets which entries were sent and which are to be sent. */
static void forget_range(struct send_queue_peer *p)
{
    p->first = p->end = p->matched = 0;
    p->in_flight = 0;
    p->beat = false;
    p->probing = true;
}

void send_queue_link(struct replication *r, uint64_t id, bool up)
{
    struct send_queue_peer *p = send_queue_peer(r, id);
    if (p == NULL) {
        return; /* out of memory: the server stays unlinked */
    }
    p->linked = up;
    p->refused = false;
    forget_range(p);
    if (!up && engine_leader(r->engine) == id) {
        unsigned ms = (unsigned)r->options.election_ms / HASTE;
        engine_hasten(r->engine, running_log_now_ms(r), ms > 0 ? ms : 1);
    }
}

void send_queue_refused(struct replication *r, uint64_t id)
{
    struct send_queue_peer *p = find_peer(r, id);
    if (p != NULL && !p->refused) {
        p->refused = true;
        running_log_note(r, true, "message_refused",
                         "server=%" PRIu64 " reason=\"the message is malformed\"", id);
    }
}

void send_queue_send(struct replication *r, uint64_t to, struct buf *message_take)
{
    const struct send_queue_peer *p = find_peer(r, to);
    struct held_message *h =
        p == NULL || !p->linked || !buf_ok(message_take) ? NULL : malloc(sizeof *h);
    if (h == NULL) {
        buf_finish(message_take); /* like a lost message */
        return;
    }
    h->to = to;
    h->bytes = *message_take;
    buf_init(message_take, 0);
    h->next = NULL;
    *r->outbox.held_end = h;
    r->outbox.held_end = &h->next;
}

void send_queue_note(struct replication *r, uint64_t to, int kind, struct log_message_note note)
{
    struct buf bytes;
    buf_init(&bytes, 0);
    log_message_put_note(&bytes, (enum log_message_kind)kind, &note);
    send_queue_send(r, to, &bytes);
}

/* Bytes of the entries [from, to) that are in the table. */
static size_t range_bytes(const struct replication *r, uint64_t from, uint64_t to)
{
    size_t bytes = 0;
    for (uint64_t i = from > r->table.first ? from : r->table.first; i < to; i++) {
        const struct entry_table_entry *entry = entry_table_at(&r->table, i);
        bytes += entry == NULL ? 0 : log_message_entry_size(entry->length);
    }
    return bytes;
}

/* Appends. */

/* The engine wants [first, end) sent. If that does not continue the earlier range, the engine has begun again. */
static void want_entries(struct replication *r, struct send_queue_peer *p, uint64_t first,
                         uint64_t end)
{
    if (first > p->end || first < p->first || p->end == 0) {
        p->first = first;
        p->end = first;
        p->matched = p->matched < first ? p->matched : first - 1;
        p->in_flight = p->matched == 0 ? 0 : range_bytes(r, p->matched + 1, first);
        p->probing = true;
    }
    p->end = end > p->end ? end : p->end;
}

static void add_append(struct replication *r, const struct engine_message *m)
{
    struct send_queue *o = &r->outbox;
    struct send_queue_peer *p = find_peer(r, m->peer);
    if (m->term != o->term) {
        for (size_t i = 0; i < o->n; i++) {
            forget_range(&o->peers[i]);
        }
        o->term = m->term;
    }
    if (m->append.count > 0) {
        want_entries(r, p, m->append.first_index, m->append.first_index + m->append.count);
    } else {
        p->beat = true;
        p->beat_prev = m->append.prev_index;
    }
}

/* A question about a snapshot before which the log was trimmed: only the message has its term. */
static bool asks_below_log(const struct replication *r, const struct engine_message *m)
{
    return m->append.count == 0 && m->append.prev_index > 0 &&
           engine_term_at(r->engine, m->append.prev_index) == 0;
}

void send_queue_add(struct replication *r, const struct engine_message *m)
{
    struct buf bytes;
    const struct send_queue_peer *p = send_queue_peer(r, m->peer);
    if (p == NULL || !p->linked) {
        return;
    }
    if (m->kind == ENGINE_APPEND && !asks_below_log(r, m)) {
        add_append(r, m);
        return;
    }
    if (m->kind == ENGINE_INSTALL) {
        snapshot_install_send(r, m);
        return;
    }
    buf_init(&bytes, 0);
    log_message_put_engine(&bytes, m);
    send_queue_send(r, m->peer, &bytes);
}

void send_queue_matched(struct replication *r, uint64_t id)
{
    struct send_queue_peer *p = find_peer(r, id);
    uint64_t match = engine_match_index(r->engine, id);
    if (p == NULL || match <= p->matched) {
        return;
    }
    uint64_t sent = p->first < match + 1 ? p->first : match + 1;
    size_t bytes = range_bytes(r, p->matched + 1, sent);
    p->in_flight -= bytes < p->in_flight ? bytes : p->in_flight;
    p->probing = false;
    p->matched = match;
    if (match + 1 >= p->first) {
        p->first = match + 1;
        p->end = p->end > p->first ? p->end : p->first;
        p->in_flight = 0;
    }
}

static void hand_over(struct replication *r, uint64_t to, struct buf *bytes)
{
    assert(r->votes == 0); /* what it says rests on term and vote */
    if (buf_ok(bytes)) {
        r->host.send(r->host.ctx, to, bytes);
    }
    buf_finish(bytes);
}

/* Sends the n entries from p->first on; n == 0: a heartbeat. */
static void send_append(struct replication *r, struct send_queue_peer *p, uint64_t prev, size_t n)
{
    struct buf bytes;
    struct engine_message m = {
        .kind = ENGINE_APPEND,
        .peer = p->id,
        .term = engine_term(r->engine),
        .append = {.prev_index = prev,
                   .prev_term = prev > 0 ? engine_term_at(r->engine, prev) : 0,
                   .commit = engine_commit_index(r->engine),
                   .first_index = prev + 1,
                   .count = (uint32_t)n},
    };
    if (prev > 0 && m.append.prev_term == 0) {
        forget_range(p); /* trimmed: the engine will notice and send a snapshot */
        return;
    }
    buf_init(&bytes, 0);
    log_message_put_engine(&bytes, &m);
    for (size_t i = 0; i < n; i++) {
        const struct entry_table_entry *entry = entry_table_at(&r->table, prev + 1 + i);
        log_message_put_entry(&bytes, entry->term, entry->kind, entry_table_payload(entry));
    }
    hand_over(r, p->id, &bytes);
}

static void send_entries(struct replication *r, struct send_queue_peer *p);

static void fetched(struct replication *r, uint64_t peer)
{
    struct send_queue_peer *p = find_peer(r, peer);
    p->fetching = false;
    if (r->votes == 0) {
        send_entries(r, p);
    }
    entry_table_evict(&r->table, r->applied, r->options.cache_bytes);
}

/* The number of entries from p->first on that make the next message. */
static size_t next_piece(const struct replication *r, const struct send_queue_peer *p,
                         size_t *ret_bytes)
{
    uint64_t end = p->end < r->table.next ? p->end : r->table.next;
    size_t n = 0;
    size_t bytes = 0;
    if (engine_appends_wait(r->engine) && end > engine_stored(r->engine) + 1) {
        end = engine_stored(r->engine) + 1;
    }
    while (p->first + n < end && n < PIECE_ENTRIES) {
        const struct entry_table_entry *entry = entry_table_at(&r->table, p->first + n);
        if (entry == NULL || !entry_table_has_bytes(entry) ||
            (n > 0 && bytes + entry->length > PIECE_BYTES)) {
            break;
        }
        bytes += log_message_entry_size(entry->length);
        n++;
    }
    *ret_bytes = bytes;
    return n;
}

/* Sends as much of the range as is allowed now. */
static void send_entries(struct replication *r, struct send_queue_peer *p)
{
    if (!engine_is_leader(r->engine) || engine_term(r->engine) != r->outbox.term || !p->linked) {
        forget_range(p);
        return;
    }
    while (p->first < p->end && p->in_flight < (p->probing ? PIECE_BYTES : WINDOW_BYTES)) {
        size_t bytes;
        size_t n = next_piece(r, p, &bytes);
        const struct entry_table_entry *entry = entry_table_at(&r->table, p->first);
        if (entry == NULL) {
            forget_range(p);
            return;
        }
        if (n == 0) {
            if (!entry_table_has_bytes(entry) && !p->fetching) {
                p->fetching = fetch_start(r, p->first, p->end, fetched, p->id);
            }
            return;
        }
        send_append(r, p, p->first - 1, n);
        if (p->end == 0) {
            return;
        }
        assert(p->first + n <= p->end);
        p->first += n;
        p->in_flight += bytes;
        p->beat = false;
    }
}

static void flush_peer(struct replication *r, struct send_queue_peer *p)
{
    if (p->matched > 0 && !p->probing && p->linked && engine_match_index(r->engine, p->id) > 0) {
        p->end = r->table.next;
    }
    if (p->first < p->end) {
        send_entries(r, p);
    }
    if (p->beat) {
        p->beat = false;
        if (engine_is_leader(r->engine) && engine_term(r->engine) == r->outbox.term) {
            send_append(r, p, p->first < p->end ? p->first - 1 : p->beat_prev, 0);
        }
    }
}

void send_queue_flush(struct replication *r)
{
    if (r->votes > 0 || r->error != 0) {
        return;
    }
    for (struct held_message *h; (h = take_held(&r->outbox)) != NULL;) {
        hand_over(r, h->to, &h->bytes);
        free(h);
    }
    for (size_t i = 0; i < r->outbox.n; i++) {
        flush_peer(r, &r->outbox.peers[i]);
    }
}
