/* The engine's own events, except the start. They check the conditions that libraft only asserts. */
#include "replication/raft/engine.h"

#include "replication/disk/configuration.h"
#include "replication/raft/engine_raft.h"

#include <assert.h>

/* --- events --------------------------------------------------------------------------------------- */

/* Positions must not change, because libraft keeps a leader's progress by position while the number of members stays
 * the same. configuration_encode provides the order; this function verifies it. */
static bool same_positions(const struct raft_configuration *now,
                           const struct configuration_member *next, size_t n)
{
    for (unsigned i = 0; now->n == n && i < n; i++) {
        if (now->servers[i].id != next[i].id) {
            return false;
        }
    }
    return true;
}

static int check_change(const struct engine *e, struct slice payload)
{
    struct configuration_member now[MEMBERS_MAX], next[MEMBERS_MAX];
    size_t n_next;
    const struct raft *r = &e->raft;
    if (configuration_decode(payload, next, &n_next) != 0) {
        return CONCLAVE_EINVAL;
    }
    size_t n_now = engine_list_members(&r->configuration, now);
    if (configuration_differences(now, n_now, next, n_next) > 1 ||
        !same_positions(&r->configuration, next, n_next)) {
        return CONCLAVE_EINVAL;
    }
    /* Otherwise two leaders could change the members at once (Ongaro's correction of 2015). */
    bool settled = engine_voters(&r->configuration) == 1 ||
                   engine_term_at(e, r->commit_index) == r->current_term;
    return settled ? 0 : CONCLAVE_EBUSY;
}

int engine_submit(struct engine *e, int64_t now_ms, uint32_t kind, struct slice payload,
                  struct engine_result *ret)
{
    struct engine_result result;
    int rv = engine_begin(e, now_ms, &result);
    if (rv == 0 && engine_state(e) != RAFT_LEADER) {
        rv = CONCLAVE_EBUSY;
    }
    if (rv == 0 && kind == ENTRY_CONFIGURATION) {
        rv = check_change(e, payload);
    }
    if (rv == 0) {
        rv = engine_submit_entry(e, kind, payload, &result);
    }
    if (rv == 0) {
        rv = engine_end(e, &result);
    }
    if (rv == 0) {
        *ret = result;
    }
    return rv;
}

int engine_persisted(struct engine *e, int64_t now_ms, uint64_t index, struct engine_result *ret)
{
    struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES,
                               .persisted_entries = {.index = index}};
    /* A candidate's entries are all stored. */
    if (e->raft.snapshot.installing || index <= e->raft.last_stored ||
        index > engine_last_index(e) || engine_state(e) == RAFT_CANDIDATE) {
        return engine_no_event(e, now_ms, ret);
    }
    return engine_event(e, now_ms, &event, ret);
}

int engine_configuration(struct engine *e, int64_t now_ms, uint64_t index,
                         struct slice configuration, struct engine_result *ret)
{
    struct configuration_member members[MEMBERS_MAX];
    size_t n;
    int rv = configuration_decode(configuration, members, &n);
    if (rv == 0 && index > e->raft.commit_index) {
        rv = CONCLAVE_EINVAL;
    }
    return rv != 0 ? rv : engine_no_event(e, now_ms, ret);
}

int engine_snapshot(struct engine *e, int64_t now_ms, const struct snapshot_meta *meta,
                    uint64_t trailing, struct engine_result *ret)
{
    struct raft_event event = {
        .type = RAFT_SNAPSHOT,
        .snapshot = {.trailing = trailing > UINT32_MAX ? UINT32_MAX : (unsigned)trailing},
    };
    if (e->failed != 0) {
        return e->failed;
    }
    if (meta->index <= e->raft.trail.snapshot.index) {
        return engine_no_event(e, now_ms, ret);
    }
    if (meta->index > e->raft.last_stored || meta->index > e->raft.commit_index) {
        return CONCLAVE_EBUSY;
    }
    int rv = engine_decode_meta(meta, &event.snapshot.metadata);
    if (rv != 0) {
        return rv == CONCLAVE_ENOMEM ? engine_fail(e, rv) : rv;
    }
    return engine_event(e, now_ms, &event, ret);
}

int engine_installed(struct engine *e, int64_t now_ms, const struct snapshot_meta *meta,
                     struct engine_result *ret)
{
    struct raft_event event = {.type = RAFT_PERSISTED_SNAPSHOT,
                               .persisted_snapshot = {.last = true}};
    const struct raft_trail *t = &e->raft.trail;
    if (e->failed != 0) {
        return e->failed;
    }
    if (!e->raft.snapshot.installing || meta->index != t->snapshot.index ||
        meta->term != t->snapshot.term || meta->configuration_index > meta->index) {
        return CONCLAVE_EINVAL;
    }
    int rv = engine_decode_meta(meta, &event.persisted_snapshot.metadata);
    if (rv != 0) {
        return rv == CONCLAVE_ENOMEM ? engine_fail(e, rv) : rv;
    }
    rv = engine_make_room(e, event.persisted_snapshot.metadata.configuration.n);
    if (rv == 0) {
        rv = engine_event(e, now_ms, &event, ret);
    }
    if (rv == 0 && e->raft.commit_index != meta->index) {
        rv =
            CONCLAVE_ENOMEM; /* libraft hides this error, although it has freed entries that it still uses */
    }
    return rv != 0 ? engine_fail(e, rv) : 0;
}

int engine_timeout(struct engine *e, int64_t now_ms, struct engine_result *ret)
{
    struct raft_event event = {.type = RAFT_TIMEOUT};
    if (!e->voting && engine_state(e) == RAFT_FOLLOWER) {
        return engine_no_event(e, now_ms, ret);
    }
    struct engine_result result;
    int rv = engine_begin(e, now_ms, &result);
    const struct raft *r = &e->raft;
    if (rv == 0 && engine_state(e) == RAFT_FOLLOWER && engine_sole_voter(e) &&
        e->now >= raft_timeout(r) && r->last_stored == engine_last_index(e) &&
        !r->snapshot.installing) {
        rv = engine_new_term(e, &result);
    }
    if (rv == 0 && engine_state(e) == RAFT_FOLLOWER && e->now >= raft_timeout(r) &&
        r->last_stored == engine_last_index(e) && !r->snapshot.installing) {
        engine_stand(e);
    }
    if (rv == 0) {
        rv = engine_step(e, &event, &result);
    }
    if (rv == 0) {
        rv = engine_end(e, &result);
    }
    if (rv == 0) {
        *ret = result;
    }
    if (rv == 0 && e->hasten_ms != 0 && engine_state(e) == RAFT_CANDIDATE) {
        /* Otherwise two hasty candidates would take each other's votes forever. */
        e->hasten_ms = e->hasten_ms < e->election_ms / 2 ? e->hasten_ms * 2 : e->election_ms;
        raft_set_election_timeout(&e->raft, e->hasten_ms);
    }
    return rv;
}

int engine_transfer(struct engine *e, int64_t now_ms, uint64_t id, struct engine_result *ret)
{
    struct raft_event event = {.type = RAFT_TRANSFER, .transfer = {.server_id = id}};
    return engine_event(e, now_ms, &event, ret);
}

int engine_catch_up(struct engine *e, int64_t now_ms, uint64_t id, struct engine_result *ret)
{
    struct raft_event event = {.type = RAFT_CATCH_UP, .catch_up = {.server_id = id}};
    const struct raft_server *server = engine_server(e, id);
    if (engine_state(e) != RAFT_LEADER || e->raft.leader_state.promotee_id != 0) {
        return CONCLAVE_EBUSY;
    }
    if (server == NULL || server->role == RAFT_VOTER || id == e->raft.id) {
        return CONCLAVE_EINVAL;
    }
    e->ready_id = 0;
    if (engine_match_index(e, id) == engine_last_index(e)) {
        e->ready_id = id;
        e->ready_term = e->raft.current_term;
        return engine_no_event(e, now_ms, ret);
    }
    return engine_event(e, now_ms, &event, ret);
}

int engine_announce(struct engine *e, int64_t now_ms, struct engine_result *ret)
{
    struct engine_result result;
    int rv = engine_begin(e, now_ms, &result);
    const struct raft *r = &e->raft;
    if (rv == 0) {
        rv = engine_make_room(e, (size_t)r->configuration.n + 1);
        rv = rv != 0 ? engine_fail(e, rv) : 0;
    }
    for (unsigned i = 0; rv == 0 && e->was_leader && i < r->configuration.n; i++) {
        uint64_t id = r->configuration.servers[i].id;
        uint64_t commit = engine_least(r->commit_index, engine_match_index(e, id));
        uint64_t term = engine_term_at(e, commit);
        if (id == r->id || r->configuration.servers[i].role == RAFT_SPARE || term == 0 ||
            commit <= engine_told_to(e, id)->commit) {
            continue;
        }
        e->out[e->out_n++] = (struct engine_message){
            .kind = ENGINE_APPEND,
            .peer = id,
            .term = r->current_term,
            .append = {commit, term, r->commit_index, commit + 1, 0},
        };
        engine_told_to(e, id)->commit = commit;
    }
    if (rv == 0) {
        result.messages = e->out_n;
        *ret = result;
    }
    return rv;
}

void engine_message(const struct engine *e, unsigned i, struct engine_message *ret)
{
    assert(i < e->out_n);
    *ret = e->out[i];
}

void engine_hasten(struct engine *e, int64_t now_ms, unsigned ms)
{
    if (engine_state(e) != RAFT_FOLLOWER || e->hasten_ms != 0 || ms == 0 || ms >= e->election_ms) {
        return;
    }
    if (now_ms > 0 && (raft_time)now_ms > e->now) {
        e->now = (raft_time)now_ms;
    }
    e->hasten_ms = ms;
    /* Counted from now, so that two followers that lose the leader at once have different deadlines. */
    e->raft.election_timer_start = e->now;
    raft_set_election_timeout(&e->raft, ms);
}
