#include "replication/skip_entry.h"

#include "base/endian.h"
#include "base/map.h"
#include "replication/running_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum {
    DECISION_SIZE = 8 + 8 + 8 + 4, /* magic, index, term, hash */
    MARKER_SIZE = 8 + 4 + 4,       /* index, deaths, checksum */
    TELL_MS = 200,
    VOTE_MS = 10 * TELL_MS, /* how long a vote is valid */
};

#define DECISION_MAGIC 0x434f4e4c534b4950u /* "CONLSKIP" */

static void update(struct entry_skip *s)
{
    s->any = s->wanted != 0 || s->n_decided > 0 || s->n_told > 0;
}

static bool same_entry(const struct skip_entry *a, const struct skip_entry *b)
{
    return a->index == b->index && a->term == b->term && a->hash == b->hash;
}

/* --- decisions -------------------------------------------------------------------------------- */

static void skip_entry_encode(const struct skip_entry *entry, struct buf *out)
{
    buf_append_i64(out, (int64_t)DECISION_MAGIC);
    buf_append_i64(out, (int64_t)entry->index);
    buf_append_i64(out, (int64_t)entry->term);
    buf_append_i32(out, (int32_t)entry->hash);
}

void skip_entry_noted(struct replication *r, uint64_t at, struct slice payload)
{
    struct entry_skip *s = &r->skip;
    if (payload.len != DECISION_SIZE || get_be64(payload.data) != DECISION_MAGIC ||
        s->n_decided == SKIP_DECISIONS) {
        return;
    }
    s->decided[s->n_decided].entry = (struct skip_entry){
        get_be64(payload.data + 8), get_be64(payload.data + 16), get_be32(payload.data + 24)};
    s->decided[s->n_decided++].at = at;
    update(s);
}

void skip_entry_truncated(struct replication *r, uint64_t index)
{
    struct entry_skip *s = &r->skip;
    while (s->n_decided > 0 && s->decided[s->n_decided - 1].at >= index) {
        s->n_decided--; /* decisions are in the order of the log */
    }
    update(s);
}

enum skip_entry_verdict skip_entry_judge(const struct replication *r,
                                         const struct skip_entry *entry)
{
    const struct entry_skip *s = &r->skip;
    uint64_t commit = engine_commit_index(r->engine);
    enum skip_entry_verdict verdict = s->wanted == entry->index ? SKIP_WAIT : SKIP_APPLY;
    for (size_t i = 0; i < s->n_decided; i++) {
        if (same_entry(&s->decided[i].entry, entry)) {
            return s->decided[i].at <= commit ? SKIP_PASS : SKIP_WAIT;
        }
    }
    for (size_t i = 0; i < s->n_told; i++) {
        if (s->told[i].index == entry->index && s->told[i].at > commit) {
            verdict = SKIP_WAIT;
        }
    }
    return verdict;
}

/* --- waiting ---------------------------------------------------------------------------------- */

void skip_entry_wait(struct replication *r, const struct skip_entry *entry)
{
    struct entry_skip *s = &r->skip;
    if (s->waits && same_entry(&s->held, entry)) {
        return;
    }
    s->waits = true;
    s->held = *entry;
    s->next_ms = 0;
    running_log_note(
        r, true, "entry_awaits_skip",
        "index=%" PRIu64 " term=%" PRIu64 " checksum=%08x reason=\"%s\"", entry->index, entry->term,
        (unsigned)entry->hash,
        s->wanted == entry->index
            ? "this server applies nothing until a majority of the voters is started with --skip-entry and this index"
            : "another member knows a decision to skip this entry");
}

void skip_entry_link(struct replication *r, uint64_t to)
{
    const struct entry_skip *s = &r->skip;
    for (size_t i = 0; i < s->n_decided; i++) {
        send_queue_note(r, to, MESSAGE_SKIP_DECIDED,
                        (struct log_message_note){s->decided[i].entry.index, engine_term(r->engine),
                                                  s->decided[i].at});
    }
}

static void take_vote(struct entry_skip *s, uint64_t from, const struct skip_entry *entry,
                      int64_t now_ms)
{
    size_t i = 0;
    while (i < s->n_votes && s->votes[i].member != from) {
        i++;
    }
    if (i < MEMBERS_MAX) {
        s->votes[i].member = from;
        s->votes[i].entry = *entry;
        s->votes[i].heard_ms = now_ms;
        s->n_votes += i == s->n_votes;
    }
}

void skip_entry_receive(struct replication *r, uint64_t from, const struct log_message *m)
{
    struct entry_skip *s = &r->skip;
    if (m->kind == MESSAGE_SKIP_VOTE) {
        const struct skip_entry entry = {m->note.id, m->note.term, (uint32_t)m->note.index};
        take_vote(s, from, &entry, running_log_now_ms(r));
    } else if (m->note.id > r->applied && s->n_told < SKIP_DECISIONS) {
        s->told[s->n_told].index = m->note.id;
        s->told[s->n_told++].at = m->note.index;
        update(s);
    }
}

/* Whether a majority of the voters waits before the same entry, because their operator named it. */
static bool majority_waits(const struct replication *r)
{
    const struct entry_skip *s = &r->skip;
    int64_t now_ms = running_log_now_ms(r);
    size_t count = 0;
    for (size_t v = 0; v < r->n_voters; v++) {
        bool votes = r->voters[v] == (uint64_t)r->options.server_id && s->wanted == s->held.index;
        for (size_t i = 0; i < s->n_votes; i++) {
            votes |= s->votes[i].member == r->voters[v] &&
                     same_entry(&s->votes[i].entry, &s->held) &&
                     now_ms - s->votes[i].heard_ms <= VOTE_MS;
        }
        count += votes;
    }
    return 2 * count > r->n_voters;
}

static bool is_decided(const struct entry_skip *s)
{
    for (size_t i = 0; i < s->n_decided; i++) {
        if (same_entry(&s->decided[i].entry, &s->held)) {
            return true;
        }
    }
    return false;
}

static void skip_entry_decide(struct replication *r)
{
    struct buf payload;
    buf_init(&payload, 0);
    skip_entry_encode(&r->skip.held, &payload);
    if (!buf_ok(&payload) || running_log_propose(r, ENTRY_BARRIER, &payload) != 0) {
        buf_finish(&payload); /* the next turn tries again */
        return;
    }
    running_log_note(r, true, "entry_skip_decided", "index=%" PRIu64 " by=%" PRIu64,
                     r->skip.held.index, running_log_last_index(r));
    for (size_t i = 0; i < r->outbox.n; i++) {
        skip_entry_link(r, r->outbox.peers[i].id);
    }
}

void skip_entry_turn(struct replication *r)
{
    struct entry_skip *s = &r->skip;
    if (running_log_now_ms(r) < s->next_ms) {
        return;
    }
    s->next_ms = running_log_now_ms(r) + TELL_MS;
    if (is_decided(s)) {
        return;
    }
    if (engine_is_leader(r->engine)) {
        if (majority_waits(r)) {
            skip_entry_decide(r);
        }
    } else if (s->wanted == s->held.index && engine_leader(r->engine) != 0) {
        send_queue_note(r, engine_leader(r->engine), MESSAGE_SKIP_VOTE,
                        (struct log_message_note){s->held.index, s->held.term, s->held.hash});
    }
}

int64_t skip_entry_deadline(const struct replication *r)
{
    return r->skip.waits ? r->skip.next_ms : INT64_MAX;
}

/* --- suspects --------------------------------------------------------------------------------- */

static char *marker_path(const struct replication *r)
{
    return path_make("%s/applying", r->folder.dir);
}

static uint32_t marker_checksum(const uint8_t *bytes)
{
    return (uint32_t)hash_bytes(bytes, MARKER_SIZE - 4);
}

/* An unreadable marker counts as none. */
static void read_marker(struct replication *r)
{
    struct entry_skip *s = &r->skip;
    uint8_t bytes[MARKER_SIZE];
    char *path = marker_path(r);
    int fd = path != NULL ? r->ops->open(r->ops->ctx, path, FILE_READ) : -ENOMEM;
    if (fd >= 0) {
        if (r->ops->read(r->ops->ctx, fd, bytes, sizeof bytes, 0) == (int64_t)sizeof bytes &&
            get_be32(bytes + 12) == marker_checksum(bytes)) {
            s->suspect = get_be64(bytes);
            s->deaths = get_be32(bytes + 8) + 1;
        }
        r->ops->close(r->ops->ctx, fd);
    }
    free(path);
}

static void end_watch(struct replication *r, bool remove)
{
    struct entry_skip *s = &r->skip;
    if (s->marker >= 0) {
        r->ops->close(r->ops->ctx, s->marker);
        s->marker = -1;
    }
    char *path = remove ? marker_path(r) : NULL;
    if (path != NULL) {
        (void)r->ops->remove(r->ops->ctx, path);
    }
    free(path);
    s->watching = false;
}

static void begin_watch(struct replication *r, uint64_t until)
{
    struct entry_skip *s = &r->skip;
    char *path = marker_path(r);
    s->marker = path != NULL ? r->ops->open(r->ops->ctx, path, FILE_REPLACE) : -1;
    s->watching = s->marker >= 0;
    s->watch_until = until;
    free(path);
}

void skip_entry_watch(struct replication *r, uint64_t index)
{
    struct entry_skip *s = &r->skip;
    uint8_t bytes[MARKER_SIZE];
    if (!s->watching) {
        return;
    }
    put_be64(bytes, index);
    put_be32(bytes + 8, index == s->suspect ? s->deaths : 0);
    put_be32(bytes + 12, marker_checksum(bytes));
    /* Not synced: the marker must survive the end of the process, not of the machine. */
    if (r->ops->write(r->ops->ctx, s->marker, bytes, sizeof bytes, 0) != 0) {
        end_watch(r, true);
    }
}

void skip_entry_applied(struct replication *r)
{
    if (r->skip.watching && r->applied >= r->skip.watch_until) {
        end_watch(r, true);
    }
}

static void tell_suspect(struct replication *r)
{
    const struct entry_skip *s = &r->skip;
    if (s->suspect == 0) {
        return;
    }
    running_log_note(
        r, true, "entry_suspected",
        "index=%" PRIu64
        " deaths=%u reason=\"the last run ended while it applied this entry. If that happens again, "
        "start a majority of the voters with --skip-entry %" PRIu64
        "; the writes of that entry are then lost\"",
        s->suspect, (unsigned)s->deaths, s->suspect);
}

/* --- the start -------------------------------------------------------------------------------- */

static int note_entry(void *arg, uint64_t index, const struct journal_ref *ref,
                      const uint8_t *payload)
{
    skip_entry_noted(arg, index, slice_make(payload, ref->length));
    return 0;
}

int skip_entry_recover(struct replication *r, const struct journal_contents *c, bool clean)
{
    struct entry_skip *s = &r->skip;
    *s = (struct entry_skip){.marker = -1};
    for (size_t i = 0; i < c->count; i++) {
        if (c->refs[i].kind == ENTRY_BARRIER && c->refs[i].length == DECISION_SIZE) {
            int rv = journal_read(&r->journal, c, i, i + 1, note_entry, r);
            if (rv != 0) {
                return rv;
            }
        }
    }
    uint64_t last = c->first_index + c->count - 1;
    read_marker(r);
    tell_suspect(r);
    if (!clean && last > r->applied) {
        begin_watch(r, last);
    } else {
        end_watch(r, s->suspect != 0);
    }
    if (r->options.skip > r->applied) {
        s->wanted = r->options.skip;
    } else if (r->options.skip != 0) {
        running_log_note(r, false, "skip_unneeded", "index=%" PRIu64 " applied=%" PRIu64,
                         r->options.skip, r->applied);
    }
    update(s);
    return 0;
}

void skip_entry_finish(struct replication *r)
{
    if (r->skip.marker >= 0) {
        end_watch(r, true);
    }
}
