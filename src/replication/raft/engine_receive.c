/* Messages from other members, checked and cut so that libraft can handle them (see engine.h). */
#include "replication/raft/engine.h"

#include "replication/disk/configuration.h"
#include "replication/raft/engine_raft.h"
#include "replication/raft/raft_progress.h"

#include <assert.h>
#include <string.h>

/* Far above all reachable numbers, and far enough below the end that nothing overflows. */
#define NUMBER_MAX (UINT64_C(1) << 62)

#define PEER_ADDRESS "peer" /* libraft copies it into its answers, where it is not used */

/* Versions of libraft's messages, as 0.22.1 sends them. */
enum { APPEND_RESULT_VERSION = 2, VOTE_VERSION = 2, OTHER_VERSION = 0 };

/* --- malformed messages --------------------------------------------------------------------------- */

static bool engine_receive_number(uint64_t n)
{
    return n <= NUMBER_MAX;
}

/* Index and term are both 0 or both not. */
static bool position(uint64_t index, uint64_t term, uint64_t term_max)
{
    return engine_receive_number(index) && (index == 0) == (term == 0) && term <= term_max;
}

static bool append_is_sound(const struct engine_message *m, const struct engine_entry *entries,
                            size_t n)
{
    struct configuration_member members[MEMBERS_MAX];
    size_t members_n;
    uint64_t term = m->append.prev_term;
    if (!position(m->append.prev_index, m->append.prev_term, m->term) ||
        m->append.first_index != m->append.prev_index + 1 || m->append.count != n ||
        n > INT32_MAX || !engine_receive_number(m->append.commit)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!engine_kind_known(entries[i].kind) || entries[i].term == 0 || entries[i].term < term ||
            entries[i].term > m->term) {
            return false;
        }
        if (entries[i].kind == ENTRY_CONFIGURATION &&
            configuration_decode(entries[i].payload, members, &members_n) != 0) {
            return false;
        }
        term = entries[i].term;
    }
    /* A log begins with a configuration. */
    return m->append.prev_index > 0 || n == 0 || entries[0].kind == ENTRY_CONFIGURATION;
}

static bool is_sound(const struct engine *e, const struct engine_message *m,
                     const struct engine_entry *entries, size_t n)
{
    const struct raft *r = &e->raft;
    bool second_leader = engine_state(e) == RAFT_LEADER && m->term == r->current_term;
    if (m->peer == 0 || m->peer == r->id || m->term == 0 || !engine_receive_number(m->term) ||
        (n > 0 && m->kind != ENGINE_APPEND)) {
        return false;
    }
    switch (m->kind) {
    case ENGINE_APPEND:
        return !second_leader && append_is_sound(m, entries, n);
    case ENGINE_APPEND_RESULT:
        return engine_receive_number(m->append_result.rejected) &&
               engine_receive_number(m->append_result.last_index);
    case ENGINE_VOTE:
        return m->vote.candidate == m->peer &&
               position(m->vote.last_index, m->vote.last_term, m->term);
    case ENGINE_VOTE_RESULT:
        return !(engine_state(e) == RAFT_CANDIDATE && r->candidate_state.in_pre_vote &&
                 m->vote_result.granted && m->term > r->current_term + 1);
    case ENGINE_INSTALL:
        return !second_leader && m->install.index > 0 &&
               position(m->install.index, m->install.term, m->term) &&
               m->install.configuration_index > 0 &&
               m->install.configuration_index <= m->install.index;
    case ENGINE_TIMEOUT_NOW:
        return position(m->timeout_now.last_index, m->timeout_now.last_term, m->term);
    }
    return false;
}

/* --- one message ---------------------------------------------------------------------------------- */

static int feed(struct engine *e, struct raft_message *message, const struct engine_message *m,
                struct engine_result *ret)
{
    struct raft_event event = {.type = RAFT_RECEIVE, .receive = {.message = message}};
    message->server_id = m->peer;
    message->server_address = PEER_ADDRESS;
    return engine_step(e, &event, ret);
}

/* The sender of an append or install that was not stale is the leader. */
static void heard_leader(struct engine *e, const struct engine_message *m)
{
    const struct raft *r = &e->raft;
    if (m->term != r->current_term || engine_state(e) != RAFT_FOLLOWER) {
        return;
    }
    e->leader_term = m->term;
    e->heard_ms = (int64_t)e->now;
    if (e->hasten_ms != 0) {
        e->hasten_ms = 0;
        raft_set_election_timeout(&e->raft, e->election_ms);
    }
}

/* Sets the fields that libraft leaves unset in an answer to a stale leader. */
static void clean_refusal(struct engine *e, unsigned from)
{
    for (unsigned i = from; i < e->out_n; i++) {
        if (e->out[i].kind == ENGINE_APPEND_RESULT) {
            e->out[i].append_result.last_index = 0;
        }
    }
}

/* --- append --------------------------------------------------------------------------------------- */

/* The remaining part of an append. */
struct append_part {
    uint64_t prev_index, prev_term, commit;
    const struct engine_entry *entries;
    size_t n;
};

/* One step. Only the first entry may be a configuration. */
static int feed_part(struct engine *e, const struct engine_message *m, const struct append_part *p,
                     struct engine_result *ret)
{
    struct raft_message message = {.type = RAFT_APPEND_ENTRIES};
    struct raft_append_entries *args = &message.append_entries;
    struct raft_entry *entries = NULL;
    uint8_t *batch = NULL;
    *args = (struct raft_append_entries){
        .version = OTHER_VERSION,
        .term = m->term,
        .prev_log_index = p->prev_index,
        .prev_log_term = p->prev_term,
        .leader_commit = p->commit,
        .n_entries = (unsigned)p->n,
    };
    if (p->n > 0) {
        struct slice first =
            p->entries[0].kind == ENTRY_CONFIGURATION ? p->entries[0].payload : slice_str("");
        entries = raft_calloc(p->n, sizeof *entries);
        batch = raft_malloc(first.len + 1);
        if (entries == NULL || batch == NULL) {
            raft_free(entries);
            raft_free(batch);
            return engine_fail(e, CONCLAVE_ENOMEM);
        }
        memcpy(batch, first.data, first.len);
        for (size_t i = 0; i < p->n; i++) {
            entries[i].term = p->entries[i].term;
            entries[i].type = engine_entry_types[p->entries[i].kind];
            entries[i].buf.base = batch;
            entries[i].batch = batch;
        }
        entries[0].buf.len = first.len;
    }
    args->entries = entries;
    int rv = feed(e, &message, m, ret);
    /* On every other path libraft has freed it. */
    if (rv == 0 && p->n > 0 && (e->flags & (RAFT_UPDATE_ENTRIES)) != 0) {
        raft_free(batch);
    }
    raft_free(entries);
    return rv;
}

/* Cuts off entries that are committed here: this server has them, and so has the leader of any later term. Returns 0 or
 * CONCLAVE_ECORRUPT. */
static int cut_committed(const struct engine *e, struct append_part *p)
{
    uint64_t commit = e->raft.commit_index;
    if (p->prev_index >= commit) {
        return 0;
    }
    uint64_t term = engine_term_at(e, commit);
    uint64_t skip = commit - p->prev_index;
    assert(term != 0);
    if (skip > p->n) {
        p->n = 0;
    } else if (p->entries[skip - 1].term != term) {
        return CONCLAVE_ECORRUPT;
    } else {
        p->entries += skip;
        p->n -= skip;
    }
    p->prev_index = commit;
    p->prev_term = term;
    return 0;
}

/* The number of entries for one step: up to the next configuration. */
static size_t step_length(const struct append_part *p)
{
    size_t n = p->n > 0 ? 1 : 0;
    while (n < p->n && p->entries[n].kind != ENTRY_CONFIGURATION) {
        n++;
    }
    return n;
}

static int receive_append(struct engine *e, const struct engine_message *m,
                          const struct engine_entry *entries, struct engine_result *ret)
{
    const struct raft *r = &e->raft;
    struct append_part rest = {m->append.prev_index, m->append.prev_term, m->append.commit, entries,
                               m->append.count};
    bool stale = m->term < r->current_term;
    int rv = 0;
    if (stale) {
        rest.n = 0;
    } else if (r->snapshot.installing) {
        rest = (struct append_part){r->trail.snapshot.index, r->trail.snapshot.term, 0, entries, 0};
    } else {
        rv = cut_committed(e, &rest);
    }
    bool more = true;
    while (rv == 0 && more) {
        struct append_part part = rest;
        part.n = step_length(&rest);
        rv = feed_part(e, m, &part, ret);
        rest.prev_index += part.n;
        if (part.n > 0) {
            rest.prev_term = part.entries[part.n - 1].term;
            rest.entries += part.n;
        }
        rest.n -= part.n;
        /* A refusal ends the append. */
        more = rest.n > 0 && engine_term_at(e, rest.prev_index) == rest.prev_term;
    }
    if (rv == 0 && stale) {
        clean_refusal(e, 0);
    }
    if (rv == 0) {
        heard_leader(e, m);
    }
    return rv;
}

/* --- the other kinds ------------------------------------------------------------------------------ */

static int receive_install(struct engine *e, const struct engine_message *m,
                           struct engine_result *ret)
{
    const struct raft *r = &e->raft;
    struct raft_message message = {.type = RAFT_INSTALL_SNAPSHOT};
    message.install_snapshot = (struct raft_install_snapshot){
        .version = OTHER_VERSION,
        .term = m->term,
        .last_index = m->install.index,
        .last_term = m->install.term,
        .conf_index = m->install.configuration_index,
    };
    bool stale = m->term < r->current_term;
    if (!stale && r->snapshot.installing) {
        return 0;
    }
    uint64_t term = engine_term_at(e, m->install.index);
    if (!stale && m->install.index <= r->commit_index && term != 0 && term != m->install.term) {
        return CONCLAVE_ECORRUPT;
    }
    int rv = feed(e, &message, m, ret);
    if (rv == 0 && stale) {
        clean_refusal(e, 0);
    }
    if (rv == 0) {
        ret->install = (e->flags & (RAFT_UPDATE_SNAPSHOT)) != 0;
        heard_leader(e, m);
    }
    return rv;
}

/* Lowers the match index that libraft has of a member, because its disk was replaced or lost the end of the log. False:
 * not possible with this libraft. */
static bool forget_match(struct engine *e, uint64_t id, uint64_t has)
{
    const struct raft_configuration *c = &e->raft.configuration;
    unsigned i = 0;
    while (i < c->n && c->servers[i].id != id) {
        i++;
    }
    return i < c->n && raft_progress_set_match(&e->raft, i, has);
}

/* During a transfer, libraft tells the next leader to begin when the first answer arrives, even if that member has not
 * stored all entries yet: the member then ignores the message, and libraft does not repeat it. So such answers wait
 * here. */
static int feed_append_result(struct engine *e, struct raft_message *message,
                              const struct engine_message *m, struct engine_result *ret)
{
    struct raft *r = &e->raft;
    bool early = r->leader_state.transferee == m->peer && !r->leader_state.transferring &&
                 m->append_result.last_index < engine_last_index(e);
    if (early) {
        r->leader_state.transferring = true;
    }
    int rv = feed(e, message, m, ret);
    if (early && engine_state(e) == RAFT_LEADER) {
        r->leader_state.transferring = false;
    }
    return rv;
}

/* While libraft waits for a member to install a snapshot, its heartbeats are about the newest snapshot, but it accepts
 * a refusal only for the one that it sent. After the next snapshot it would wait until its install timeout, although
 * the member answers all the time. So the member is asked about the snapshot that was sent: a refusal makes libraft
 * begin anew, and an agreement (the member has the snapshot) makes it continue after the snapshot. */
static int ask_about_snapshot(struct engine *e, const struct engine_message *m)
{
    if (engine_state(e) != RAFT_LEADER || engine_server(e, m->peer) == NULL) {
        return 0;
    }
    int rv = engine_make_room(e, (size_t)e->raft.configuration.n + 1);
    if (rv != 0) {
        return engine_fail(e, rv);
    }
    const struct engine_told *told = engine_told_to(e, m->peer);
    uint64_t sent = told->snapshot_index;
    if (sent == 0 || m->append_result.rejected <= sent || engine_match_index(e, m->peer) >= sent) {
        return 0;
    }
    e->out[e->out_n++] = (struct engine_message){
        .kind = ENGINE_APPEND,
        .peer = m->peer,
        .term = e->raft.current_term,
        .append = {sent, told->snapshot_term, sent, sent + 1, 0},
    };
    return 0;
}

static int receive_append_result(struct engine *e, const struct engine_message *m,
                                 struct engine_result *ret)
{
    struct raft_message message = {.type = RAFT_APPEND_ENTRIES_RESULT};
    message.append_entries_result = (struct raft_append_entries_result){
        .version = APPEND_RESULT_VERSION,
        .term = m->term,
        .rejected = m->append_result.rejected,
        .last_log_index = m->append_result.last_index,
        .features = m->append_result.features,
        .capacity = m->append_result.capacity,
    };
    if (engine_state(e) != RAFT_LEADER) {
        return 0;
    }
    uint64_t rejected = m->append_result.rejected;
    if (m->term == e->raft.current_term && rejected > 0) {
        uint64_t has = m->append_result.last_index;
        has = has < rejected ? has : rejected - 1;
        if (has < engine_match_index(e, m->peer) && !forget_match(e, m->peer, has)) {
            return 0; /* it waits for another leader */
        }
    }
    int rv = feed_append_result(e, &message, m, ret);
    if (rv == 0 && m->term == e->raft.current_term && rejected > 0) {
        rv = ask_about_snapshot(e, m);
    }
    return rv;
}

/* libraft answers a pre-vote with the candidate's own term, even an old one: the candidate would never learn the new
 * term, and if its log is the longest, no candidate could be elected. */
static void tell_term(struct engine *e)
{
    for (unsigned i = 0; i < e->out_n; i++) {
        if (e->out[i].kind == ENGINE_VOTE_RESULT && !e->out[i].vote_result.granted) {
            e->out[i].term = e->raft.current_term;
        }
    }
}

/* A server that is asked votes, whatever role its own log gives it (Ongaro's thesis, 4.2.2): the entry that makes it a
 * voter may not have reached it, and without its vote no leader could bring that entry. libraft lets only members vote
 * that know themselves as voters, and only those forget a silent leader. */
static int feed_vote(struct engine *e, struct raft_message *message, const struct engine_message *m,
                     struct engine_result *ret)
{
    struct raft_configuration *c = &e->raft.configuration;
    unsigned i = 0;
    while (i < c->n && c->servers[i].id != e->raft.id) {
        i++;
    }
    if (i == c->n || c->servers[i].role == RAFT_VOTER) {
        return feed(e, message, m, ret);
    }
    int role = c->servers[i].role;
    if (e->heard_ms < (int64_t)e->now - (int64_t)e->election_ms) {
        e->raft.follower_state.current_leader.id = 0;
    }
    c->servers[i].role = RAFT_VOTER;
    int rv = feed(e, message, m, ret);
    assert(i < c->n && c->servers[i].id == e->raft.id); /* a vote changes no configuration */
    c->servers[i].role = role;
    return rv;
}

static int receive_vote(struct engine *e, const struct engine_message *m, struct engine_result *ret)
{
    struct raft_message message = {.type = RAFT_REQUEST_VOTE};
    message.request_vote = (struct raft_request_vote){
        .version = VOTE_VERSION,
        .term = m->term,
        .candidate_id = m->vote.candidate,
        .last_log_index = m->vote.last_index,
        .last_log_term = m->vote.last_term,
        .disrupt_leader = m->vote.disrupt,
        .pre_vote = m->vote.pre_vote,
    };
    if (!e->voting) {
        return 0;
    }
    int rv = feed_vote(e, &message, m, ret);
    if (rv == 0 && m->vote.pre_vote && m->term < e->raft.current_term) {
        tell_term(e);
    }
    return rv;
}

static int receive_vote_result(struct engine *e, const struct engine_message *m,
                               struct engine_result *ret)
{
    struct raft_message message = {.type = RAFT_REQUEST_VOTE_RESULT};
    message.request_vote_result = (struct raft_request_vote_result){
        .version = VOTE_VERSION,
        .term = m->term,
        .vote_granted = m->vote_result.granted,
        .pre_vote = m->vote_result.pre_vote,
        .features = m->vote_result.features,
        .capacity = m->vote_result.capacity,
    };
    return engine_state(e) == RAFT_CANDIDATE ? feed(e, &message, m, ret) : 0;
}

static int receive_timeout_now(struct engine *e, const struct engine_message *m,
                               struct engine_result *ret)
{
    struct raft_message message = {.type = RAFT_TIMEOUT_NOW};
    message.timeout_now = (struct raft_timeout_now){
        .version = OTHER_VERSION,
        .term = m->term,
        .last_log_index = m->timeout_now.last_index,
        .last_log_term = m->timeout_now.last_term,
    };
    /* A sole voter needs no permission, and libraft would not give it a new term. */
    return e->voting && !engine_sole_voter(e) ? feed(e, &message, m, ret) : 0;
}

static int receive(struct engine *e, const struct engine_message *m,
                   const struct engine_entry *entries, struct engine_result *ret)
{
    switch (m->kind) {
    case ENGINE_APPEND:
        return receive_append(e, m, entries, ret);
    case ENGINE_APPEND_RESULT:
        return receive_append_result(e, m, ret);
    case ENGINE_VOTE:
        return receive_vote(e, m, ret);
    case ENGINE_VOTE_RESULT:
        return receive_vote_result(e, m, ret);
    case ENGINE_INSTALL:
        return receive_install(e, m, ret);
    case ENGINE_TIMEOUT_NOW:
        return receive_timeout_now(e, m, ret);
    }
    return CONCLAVE_EPROTO;
}

int engine_receive(struct engine *e, int64_t now_ms, const struct engine_message *message,
                   const struct engine_entry *entries, size_t n, struct engine_result *ret)
{
    struct engine_result result;
    if (e->failed == 0 && !is_sound(e, message, entries, n)) {
        return CONCLAVE_EPROTO;
    }
    int rv = engine_begin(e, now_ms, &result);
    if (rv == 0) {
        rv = receive(e, message, entries, &result);
    }
    if (rv == 0) {
        rv = engine_end(e, &result);
    }
    if (rv == 0) {
        *ret = result;
    }
    return rv;
}
