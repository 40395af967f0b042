/* One step of libraft, and everything that follows from its update. */
#include "replication/raft/engine_raft.h"

#include "replication/disk/configuration.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const enum raft_entry_type engine_entry_types[] = {
    [ENTRY_COMMAND] = RAFT_COMMAND,
    [ENTRY_BARRIER] = RAFT_BARRIER,
    [ENTRY_CONFIGURATION] = RAFT_CHANGE,
};

static int map_error(int rv)
{
    switch (rv) {
    case 0:
        return 0;
    case RAFT_NOMEM:
        return CONCLAVE_ENOMEM;
    case RAFT_NOTLEADER:
    case RAFT_CANTCHANGE:
        return CONCLAVE_EBUSY;
    case RAFT_BADID:
    case RAFT_NOTFOUND:
        return CONCLAVE_EINVAL;
    case RAFT_MALFORMED:
    case RAFT_SHUTDOWN:
        return CONCLAVE_ECORRUPT;
    default:
        return CONCLAVE_SYSTEM_ERROR;
    }
}

int engine_fail(struct engine *e, int rv)
{
    e->failed = rv;
    return rv;
}

int engine_make_room(struct engine *e, size_t n)
{
    /* A step makes at most two messages per member, and a few more. */
    unsigned more = 2 * (unsigned)n + 16;
    if (e->raft.n_messages_cap < more) {
        struct raft_message *messages = raft_realloc(e->raft.messages, more * sizeof *messages);
        if (messages == NULL) {
            return CONCLAVE_ENOMEM;
        }
        e->raft.messages = messages;
        e->raft.n_messages_cap = more;
    }
    if (e->out_cap < e->out_n + more) {
        struct engine_message *out = realloc(e->out, (e->out_n + more) * sizeof *out);
        if (out == NULL) {
            return CONCLAVE_ENOMEM;
        }
        e->out = out;
        e->out_cap = e->out_n + more;
    }
    if (e->told_cap < e->told_n + n) {
        struct engine_told *told = realloc(e->told, (e->told_n + n) * sizeof *told);
        if (told == NULL) {
            return CONCLAVE_ENOMEM;
        }
        e->told = told;
        e->told_cap = e->told_n + n;
    }
    return 0;
}

struct engine_told *engine_told_to(struct engine *e, uint64_t id)
{
    for (size_t i = 0; i < e->told_n; i++) {
        if (e->told[i].id == id) {
            return &e->told[i];
        }
    }
    assert(e->told_n < e->told_cap);
    e->told[e->told_n] = (struct engine_told){.id = id};
    return &e->told[e->told_n++];
}

static void take_message(struct engine *e, const struct raft_message *m)
{
    struct engine_message *out = &e->out[e->out_n++];
    assert(e->out_n <= e->out_cap);
    memset(out, 0, sizeof *out);
    out->kind = (enum engine_kind)m->type;
    out->peer = m->server_id;
    switch (m->type) {
    case RAFT_APPEND_ENTRIES:
        out->term = m->append_entries.term;
        out->append.prev_index = m->append_entries.prev_log_index;
        out->append.prev_term = m->append_entries.prev_log_term;
        out->append.commit = m->append_entries.leader_commit;
        out->append.first_index = out->append.prev_index + 1;
        out->append.count = m->append_entries.n_entries;
        engine_told_to(e, out->peer)->commit =
            engine_least(out->append.commit, out->append.prev_index + out->append.count);
        break;
    case RAFT_APPEND_ENTRIES_RESULT:
        out->term = m->append_entries_result.term;
        out->append_result.rejected = m->append_entries_result.rejected;
        out->append_result.last_index = m->append_entries_result.last_log_index;
        out->append_result.features = m->append_entries_result.features;
        out->append_result.capacity = m->append_entries_result.capacity;
        break;
    case RAFT_REQUEST_VOTE:
        out->term = m->request_vote.term;
        out->vote.candidate = m->request_vote.candidate_id;
        out->vote.last_index = m->request_vote.last_log_index;
        out->vote.last_term = m->request_vote.last_log_term;
        out->vote.disrupt = m->request_vote.disrupt_leader;
        out->vote.pre_vote = m->request_vote.pre_vote;
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        out->term = m->request_vote_result.term;
        out->vote_result.granted = m->request_vote_result.vote_granted;
        out->vote_result.pre_vote = m->request_vote_result.pre_vote;
        out->vote_result.features = m->request_vote_result.features;
        out->vote_result.capacity = m->request_vote_result.capacity;
        break;
    case RAFT_INSTALL_SNAPSHOT:
        out->term = m->install_snapshot.term;
        out->install.index = m->install_snapshot.last_index;
        out->install.term = m->install_snapshot.last_term;
        out->install.configuration_index = m->install_snapshot.conf_index;
        engine_told_to(e, out->peer)->snapshot_index = out->install.index;
        engine_told_to(e, out->peer)->snapshot_term = out->install.term;
        break;
    case RAFT_TIMEOUT_NOW:
        out->term = m->timeout_now.term;
        out->timeout_now.last_index = m->timeout_now.last_log_index;
        out->timeout_now.last_term = m->timeout_now.last_log_term;
        break;
    }
}

static void engine_raft_take_entries(struct engine *e, const struct raft_update *update,
                                     uint64_t last_before, struct engine_result *ret)
{
    uint64_t first = update->entries.index;
    if (ret->first_index == 0) {
        ret->first_index = first;
    }
    assert(first == ret->first_index + ret->count);
    ret->count += update->entries.n;
    if (first <= last_before && ret->truncated_from == 0) {
        ret->truncated_from = first;
    }
    if (update->entries.batch == &e->raft.barrier) {
        raft_free(e->raft.barrier.buf.base);
        e->raft.barrier.buf.base = NULL;
        ret->barrier = true;
    }
}

/* 0 or CONCLAVE_ENOMEM. */
static int copy_configuration(const struct raft_configuration *c, struct raft_configuration *ret)
{
    raft_configuration_init(ret);
    for (unsigned i = 0; i < c->n; i++) {
        int rv = raft_configuration_add(ret, c->servers[i].id, c->servers[i].address,
                                        c->servers[i].role);
        if (rv != 0) {
            raft_configuration_close(ret);
            return CONCLAVE_ENOMEM;
        }
    }
    return 0;
}

/* Not left to the caller's apply: by then another configuration may have come, and a rollback of that one would end at
 * an outdated configuration. */
static int settle_configuration(struct engine *e, struct engine_result *ret)
{
    struct raft *r = &e->raft;
    struct raft_event event = {.type = RAFT_CONFIGURATION};
    uint64_t index = r->configuration_uncommitted_index;
    if (index == 0 || index > r->commit_index) {
        return 0;
    }
    event.configuration.index = index;
    int rv = copy_configuration(&r->configuration, &event.configuration.conf);
    return rv != 0 ? engine_fail(e, rv) : engine_step(e, &event, ret);
}

static struct raft_server *own_server(struct raft_configuration *c, uint64_t id)
{
    unsigned i = 0;
    while (i < c->n && c->servers[i].id != id) {
        i++;
    }
    return i < c->n ? &c->servers[i] : NULL;
}

void engine_stand(struct engine *e)
{
    struct raft *r = &e->raft;
    uint64_t index = r->configuration_uncommitted_index;
    struct raft_server *self = own_server(&r->configuration, r->id);
    const struct raft_server *before = own_server(&r->configuration_committed, r->id);
    unsigned voters = engine_voters(&r->configuration);
    if (index == 0 || index <= r->commit_index || self == NULL || self->role == RAFT_VOTER ||
        before == NULL || before->role != RAFT_VOTER || voters == 1 || voters % 2 == 0) {
        return;
    }
    assert(e->stands_index == 0);
    e->stands_index = index;
    e->stands_term = engine_term_at(e, index);
    e->stands_role = self->role;
    self->role = RAFT_VOTER;
}

/* After a step: a server that is no candidate any more gets back the role that its log gives it, unless that entry is
 * gone. */
static void stand_no_more(struct engine *e)
{
    struct raft *r = &e->raft;
    if (e->stands_index == 0 || engine_state(e) == RAFT_CANDIDATE) {
        return;
    }
    if (r->configuration_uncommitted_index == e->stands_index &&
        engine_term_at(e, e->stands_index) == e->stands_term) {
        own_server(&r->configuration, r->id)->role = e->stands_role;
    }
    e->stands_index = 0;
}

int engine_step(struct engine *e, struct raft_event *event, struct engine_result *ret)
{
    struct raft_update update;
    uint64_t last_before = engine_last_index(e);
    uint64_t commit_before = e->raft.commit_index;
    if (e->failed != 0) {
        return e->failed;
    }
    int rv = engine_make_room(e, (size_t)e->raft.configuration.n + 1);
    if (rv != 0) {
        return engine_fail(e, rv);
    }
    memset(&update, 0, sizeof update);
    event->time = e->now;
    rv = raft_step(&e->raft, event, &update);
    stand_no_more(e);
    if (rv != 0) {
        bool harmless = rv == RAFT_NOTLEADER || rv == RAFT_CANTCHANGE || rv == RAFT_BADID ||
                        rv == RAFT_NOTFOUND;
        return harmless ? map_error(rv) : engine_fail(e, map_error(rv));
    }
    ret->vote_changed |=
        (update.flags & ((RAFT_UPDATE_CURRENT_TERM) | (RAFT_UPDATE_VOTED_FOR))) != 0;
    if ((update.flags & (RAFT_UPDATE_ENTRIES)) != 0) {
        engine_raft_take_entries(e, &update, last_before, ret);
    }
    if ((update.flags & (RAFT_UPDATE_MESSAGES)) != 0) {
        for (unsigned i = 0; i < update.messages.n; i++) {
            take_message(e, &update.messages.batch[i]);
        }
    }
    /* A committed entry stays one, and committed means that the log has it. */
    assert(e->raft.commit_index >= commit_before && e->raft.commit_index <= engine_last_index(e));
    ret->commit_moved |= e->raft.commit_index != commit_before;
    rv = settle_configuration(e, ret);
    e->flags = update.flags; /* not those of a nested step */
    return rv;
}

bool engine_sole_voter(const struct engine *e)
{
    const struct raft_server *self = engine_server(e, e->raft.id);
    return self != NULL && self->role == RAFT_VOTER && engine_voters(&e->raft.configuration) == 1;
}

int engine_new_term(struct engine *e, struct engine_result *ret)
{
    /* A vote request that raises the term but cannot be granted: its log is empty, ours is not. */
    struct raft_message message = {
        .type = RAFT_REQUEST_VOTE,
        .server_id = e->raft.id,
        .server_address = "self",
        .request_vote = {.version = 2,
                         .term = e->raft.current_term + 1,
                         .candidate_id = e->raft.id,
                         .disrupt_leader = true},
    };
    struct raft_event event = {.type = RAFT_RECEIVE, .receive = {.message = &message}};
    unsigned before = e->out_n;
    int rv = engine_step(e, &event, ret);
    e->out_n = before;
    assert(rv != 0 || e->raft.voted_for == 0);
    return rv;
}

int engine_begin(struct engine *e, int64_t now_ms, struct engine_result *ret)
{
    if (e->failed != 0) {
        return e->failed;
    }
    if (now_ms > 0 && (raft_time)now_ms > e->now) {
        e->now = (raft_time)now_ms;
    }
    e->out_n = 0;
    e->was_leader = engine_state(e) == RAFT_LEADER;
    memset(ret, 0, sizeof *ret);
    return 0;
}

unsigned engine_voters(const struct raft_configuration *c)
{
    unsigned n = 0;
    for (unsigned i = 0; i < c->n; i++) {
        n += c->servers[i].role == RAFT_VOTER;
    }
    return n;
}

int engine_submit_entry(struct engine *e, uint32_t kind, struct slice payload,
                        struct engine_result *ret)
{
    struct raft_entry entry = {
        .term = raft_current_term(&e->raft),
        .type = engine_entry_types[kind],
        .buf = {.base = (void *)(uintptr_t)payload.data, .len = payload.len},
        .batch = e, /* must not be NULL, but is not used */
    };
    struct raft_event event = {.type = RAFT_SUBMIT, .submit = {.entries = &entry, .n = 1}};
    return engine_step(e, &event, ret);
}

int engine_end(struct engine *e, struct engine_result *ret)
{
    int rv = 0;
    if (engine_state(e) == RAFT_LEADER && !e->was_leader) {
        e->told_n = 0;
        if (e->hasten_ms != 0) {
            e->hasten_ms = 0;
            raft_set_election_timeout(&e->raft, e->election_ms);
        }
        /* If everything is committed, libraft omits the barrier; but then there is no entry of the new term. */
        if (!ret->barrier && engine_voters(&e->raft.configuration) > 1) {
            rv = engine_submit_entry(e, ENTRY_BARRIER, SLICE_NULL, ret);
            ret->barrier = rv == 0;
        }
    }
    ret->messages = e->out_n;
    return rv;
}

/* --- events --------------------------------------------------------------------------------------- */

/* An event of one step. */
int engine_event(struct engine *e, int64_t now_ms, struct raft_event *event,
                 struct engine_result *ret)
{
    struct engine_result result;
    int rv = engine_begin(e, now_ms, &result);
    if (rv == 0) {
        rv = engine_step(e, event, &result);
    }
    if (rv == 0) {
        rv = engine_end(e, &result);
    }
    if (rv == 0) {
        *ret = result;
    }
    return rv;
}

/* There is nothing to do: an empty result. */
int engine_no_event(struct engine *e, int64_t now_ms, struct engine_result *ret)
{
    struct engine_result result;
    int rv = engine_begin(e, now_ms, &result);
    if (rv == 0) {
        *ret = result;
    }
    return rv;
}

/* --- configurations ------------------------------------------------------------------------------- */

static int decode(struct slice bytes, struct raft_configuration *ret)
{
    struct configuration_member members[MEMBERS_MAX];
    size_t n;
    struct raft_buffer buffer = {.base = (void *)(uintptr_t)bytes.data, .len = bytes.len};
    int rv = configuration_decode(bytes, members, &n);
    return rv != 0 ? rv : map_error(raft_configuration_decode(&buffer, ret));
}

int engine_decode_meta(const struct snapshot_meta *meta, struct raft_snapshot_metadata *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->index = meta->index;
    ret->term = meta->term;
    ret->configuration_index = meta->configuration_index;
    return decode(buf_slice(&meta->configuration), &ret->configuration);
}

size_t engine_list_members(const struct raft_configuration *c,
                           struct configuration_member ret[MEMBERS_MAX])
{
    assert(c->n <= MEMBERS_MAX);
    for (unsigned i = 0; i < c->n; i++) {
        ret[i] = (struct configuration_member){
            c->servers[i].id, (enum configuration_role)c->servers[i].role, c->servers[i].address};
    }
    return c->n;
}

const struct raft_server *engine_server(const struct engine *e, uint64_t id)
{
    for (unsigned i = 0; i < e->raft.configuration.n; i++) {
        if (e->raft.configuration.servers[i].id == id) {
            return &e->raft.configuration.servers[i];
        }
    }
    return NULL;
}
