/* Creates, starts and destroys the engine, and reports its state. */
#include "replication/raft/engine.h"

#include "replication/disk/configuration.h"
#include "replication/raft/engine_raft.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A standalone server needs no address, but libraft refuses an empty one. */
#define SINGLE_ADDRESS "self"

enum { ELECTION_MS = 1000 }; /* libraft's default, until engine_set_timeouts */

/* --- begin and end -------------------------------------------------------------------------------- */

struct engine *engine_create(uint64_t server_id)
{
    struct engine *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return NULL;
    }
    if (raft_init(&e->raft, NULL, NULL, server_id, SINGLE_ADDRESS) != 0) {
        free(e);
        return NULL;
    }
    e->raft.tracer = NULL;
    e->voting = true;
    e->heard_ms = INT64_MIN;
    e->election_ms = ELECTION_MS;
    raft_set_pre_vote(&e->raft, true);
    return e;
}

void engine_destroy(struct engine *e)
{
    if (e == NULL) {
        return;
    }
    if (e->failed != CONCLAVE_ENOMEM) {
        raft_close(&e->raft, NULL);
    }
    free(e->out);
    free(e->told);
    free(e);
}

void engine_seed(struct engine *e, unsigned seed)
{
    raft_seed(&e->raft, seed);
}

void engine_set_timeouts(struct engine *e, unsigned election_ms, unsigned heartbeat_ms,
                         unsigned install_ms)
{
    assert(election_ms > 0 && heartbeat_ms > 0 && install_ms > 0);
    e->election_ms = election_ms;
    e->hasten_ms = 0;
    raft_set_election_timeout(&e->raft, election_ms);
    raft_set_heartbeat_timeout(&e->raft, heartbeat_ms);
    raft_set_install_snapshot_timeout(&e->raft, install_ms);
}

void engine_set_max_inflight(struct engine *e, unsigned entries)
{
    raft_set_max_inflight_entries(&e->raft, entries > 0 ? entries : 1);
}

void engine_set_voting(struct engine *e, bool voting)
{
    e->voting = voting;
}

/* --- configurations ------------------------------------------------------------------------------- */

int engine_members(const struct engine *e, struct buf *out)
{
    struct configuration_member members[MEMBERS_MAX];
    size_t n = engine_list_members(&e->raft.configuration, members);
    return n == 0 ? 0 : configuration_encode(members, n, out);
}

int engine_encode_single(uint64_t server_id, struct buf *out)
{
    struct configuration_member self = {server_id, MEMBER_VOTER, SINGLE_ADDRESS};
    return configuration_encode(&self, 1, out);
}

/* --- start ---------------------------------------------------------------------------------------- */

struct loaded {
    struct raft_entry *entries;   /* or NULL */
    void *batch;                  /* one block for the bytes of all configurations */
    size_t members;               /* members of the largest configuration */
    uint64_t configuration_index; /* index of the newest configuration, or 0 */
    bool alone, sole_voter;       /* this server's role in it */
};

/* Checks the conditions that libraft only asserts. */
static bool start_is_sound(const struct engine_start *start)
{
    const struct snapshot_meta *s = start->snapshot;
    if (start->term == 0) {
        return start->voted_for == 0 && s == NULL && start->count == 0;
    }
    if (start->count > UINT32_MAX || start->term > INT64_MAX) {
        return false;
    }
    if (s == NULL) {
        return start->count == 0 || start->first_index == 1;
    }
    return s->index > 0 && s->term > 0 && s->term <= start->term && s->configuration_index > 0 &&
           s->configuration_index <= s->index &&
           (start->count == 0 || (start->first_index > 0 && start->first_index <= s->index + 1 &&
                                  start->first_index + start->count > s->index));
}

static bool entry_is_sound(const struct engine_start *start, const struct engine_entry *entry,
                           size_t i, uint64_t term_before)
{
    return engine_kind_known(entry->kind) && entry->term > 0 && entry->term >= term_before &&
           entry->term <= start->term &&
           (i > 0 || start->snapshot != NULL || entry->kind == ENTRY_CONFIGURATION);
}

static void note_configuration(struct loaded *l, uint64_t self_id,
                               const struct configuration_member *members, size_t n, uint64_t index)
{
    const struct configuration_member *self = configuration_find(members, n, self_id);
    l->members = n > l->members ? n : l->members;
    if (index <= l->configuration_index) {
        return; /* the snapshot has a newer configuration */
    }
    l->configuration_index = index;
    l->alone = n == 1;
    l->sole_voter =
        self != NULL && self->role == MEMBER_VOTER && configuration_voters(members, n) == 1;
}

static int load(const struct engine_start *start, uint64_t self_id, struct loaded *l,
                struct buf *bytes)
{
    struct engine_entry entry;
    struct configuration_member members[MEMBERS_MAX];
    uint64_t term = 0;
    size_t n;
    for (size_t i = 0; i < start->count; i++) {
        start->entry(start->ctx, i, &entry);
        if (!entry_is_sound(start, &entry, i, term)) {
            return CONCLAVE_ECORRUPT;
        }
        term = entry.term;
        l->entries[i].term = term;
        l->entries[i].type = engine_entry_types[entry.kind];
        if (entry.kind == ENTRY_CONFIGURATION) {
            if (configuration_decode(entry.payload, members, &n) != 0) {
                return CONCLAVE_ECORRUPT;
            }
            note_configuration(l, self_id, members, n, start->first_index + i);
            l->entries[i].buf.len = entry.payload.len;
            buf_append_slice(bytes, entry.payload);
        }
    }
    return 0;
}

/* Converts the entries to libraft's form. */
static int make_entries(const struct engine_start *start, uint64_t self_id, struct loaded *l)
{
    struct buf bytes;
    size_t at = 0;
    if (start->count == 0) {
        return 0;
    }
    buf_init(&bytes, 0);
    l->entries = raft_calloc(start->count, sizeof *l->entries);
    int rv = l->entries == NULL ? CONCLAVE_ENOMEM : load(start, self_id, l, &bytes);
    if (rv == 0) {
        l->batch = buf_ok(&bytes) ? raft_malloc(bytes.len + 1) : NULL;
        rv = l->batch == NULL ? CONCLAVE_ENOMEM : 0;
    }
    if (rv == 0 && bytes.len > 0) {
        memcpy(l->batch, bytes.data, bytes.len);
    }
    for (size_t i = 0; rv == 0 && i < start->count; i++) {
        l->entries[i].batch = l->batch;
        l->entries[i].buf.base = (uint8_t *)l->batch + at;
        at += l->entries[i].buf.len;
    }
    buf_finish(&bytes);
    return rv;
}

/* Prepares the configurations of snapshot and log, and the entries in libraft's form. */
static int engine_prepare(const struct engine *e, const struct engine_start *start,
                          struct loaded *l)
{
    struct configuration_member members[MEMBERS_MAX];
    size_t n;
    const struct snapshot_meta *s = start->snapshot;
    if (!start_is_sound(start) ||
        (s != NULL && configuration_decode(buf_slice(&s->configuration), members, &n) != 0)) {
        return CONCLAVE_ECORRUPT;
    }
    if (s != NULL) {
        note_configuration(l, e->raft.id, members, n, s->configuration_index);
    }
    return make_entries(start, e->raft.id, l);
}

int engine_start(struct engine *e, int64_t now_ms, const struct engine_start *start,
                 struct engine_result *ret)
{
    struct raft_snapshot_metadata metadata;
    struct loaded loaded = {0};
    struct raft_event event = {
        .type = RAFT_START,
        .start = {.term = start->term,
                  .voted_for = start->voted_for,
                  .start_index = start->first_index,
                  .n_entries = (unsigned)start->count},
    };
    int rv = engine_prepare(e, start, &loaded);
    /* A sole voter elects itself at once, in the given term: see engine_new_term. */
    bool new_term = loaded.sole_voter && (!loaded.alone || loaded.configuration_index > 1);
    if (new_term) {
        event.start.term++;
        event.start.voted_for = e->raft.id;
    }
    if (start->count == 0) {
        event.start.start_index = start->snapshot == NULL ? 1 : start->snapshot->index + 1;
    }
    if (rv == 0) {
        rv = engine_make_room(e, loaded.members);
    }
    if (rv == 0 && start->snapshot != NULL) {
        rv = engine_decode_meta(start->snapshot, &metadata);
        event.start.metadata = &metadata;
    }
    if (rv == 0) {
        event.start.entries = loaded.entries;
        rv = engine_event(e, now_ms, &event, ret);
        if (rv != 0) {
            return rv; /* libraft may or may not have freed the entries */
        }
        ret->vote_changed |= new_term;
    }
    raft_free(loaded.batch);
    raft_free(loaded.entries);
    return rv == CONCLAVE_ENOMEM ? engine_fail(e, rv) : rv;
}

/* --- state ---------------------------------------------------------------------------------------- */

static unsigned trail_records(const struct raft_trail *t)
{
    return t->front <= t->back ? t->back - t->front : t->size - t->front + t->back;
}

uint64_t engine_last_index(const struct engine *e)
{
    const struct raft_trail *t = &e->raft.trail;
    unsigned n = trail_records(t);
    return n == 0 ? t->snapshot.index : t->records[(t->front + n - 1) % t->size].index;
}

uint64_t engine_term_at(const struct engine *e, uint64_t index)
{
    const struct raft_trail *t = &e->raft.trail;
    if (index == 0) {
        return 0;
    }
    if (index > t->offset) {
        /* Search backwards, because the newest ones are needed most. */
        uint64_t term = 0;
        for (unsigned n = trail_records(t); n > 0; n--) {
            unsigned at = (t->front + n - 1) % t->size;
            if (t->records[at].index < index) {
                break;
            }
            term = t->records[at].term;
        }
        if (term != 0) {
            return term;
        }
    }
    return index == t->snapshot.index ? t->snapshot.term : 0;
}

uint64_t engine_term(const struct engine *e)
{
    return raft_current_term(&e->raft);
}

uint64_t engine_voted_for(const struct engine *e)
{
    return raft_voted_for(&e->raft);
}

uint64_t engine_commit_index(const struct engine *e)
{
    return raft_commit_index(&e->raft);
}

uint64_t engine_stored(const struct engine *e)
{
    return e->raft.last_stored;
}

bool engine_is_leader(const struct engine *e)
{
    return engine_state(e) == RAFT_LEADER;
}

bool engine_is_candidate(const struct engine *e)
{
    return engine_state(e) == RAFT_CANDIDATE;
}

bool engine_transferring(const struct engine *e)
{
    return raft_transferee(&e->raft) != 0;
}

uint64_t engine_leader(const struct engine *e)
{
    if (engine_state(e) == RAFT_LEADER) {
        return e->raft.id;
    }
    return engine_state(e) == RAFT_FOLLOWER && e->leader_term == e->raft.current_term
               ? e->raft.follower_state.current_leader.id
               : 0;
}

bool engine_is_voter(const struct engine *e, uint64_t id)
{
    const struct raft_server *server = engine_server(e, id);
    return server != NULL && server->role == RAFT_VOTER;
}

int64_t engine_next_timeout_ms(const struct engine *e)
{
    if (!e->voting && engine_state(e) == RAFT_FOLLOWER) {
        return INT64_MAX;
    }
    return (int64_t)raft_timeout(&e->raft);
}

bool engine_appends_wait(const struct engine *e)
{
    return engine_voters(&e->raft.configuration) == 1 ||
           engine_voters(&e->raft.configuration_committed) == 1;
}

uint64_t engine_match_index(const struct engine *e, uint64_t id)
{
    raft_index index;
    return raft_match_index(&e->raft, id, &index) == 0 ? index : 0;
}

enum engine_catch_up engine_catch_up_status(const struct engine *e, uint64_t id)
{
    int status;
    if (engine_state(e) != RAFT_LEADER) {
        return CATCH_UP_NONE;
    }
    if (e->ready_id == id && e->ready_term == e->raft.current_term) {
        return CATCH_UP_FINISHED;
    }
    if (raft_catch_up(&e->raft, id, &status) != 0) {
        return CATCH_UP_NONE;
    }
    switch (status) {
    case RAFT_CATCH_UP_RUNNING:
        return CATCH_UP_RUNNING;
    case RAFT_CATCH_UP_ABORTED:
        return CATCH_UP_ABORTED;
    case RAFT_CATCH_UP_FINISHED:
        return CATCH_UP_FINISHED;
    default:
        return CATCH_UP_NONE;
    }
}
