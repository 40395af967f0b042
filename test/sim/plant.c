#include "sim/plant.h"

#include "cluster/session_reports.h"
#include "front/connection.h"
#include "front/handshake.h"
#include "front/local_sessions.h"
#include "front/request_watch.h"
#include "front/service.h"
#include "replication/disk/journal.h"
#include "replication/raft/engine.h"
#include "replication/replication.h"
#include "session/session.h"
#include "sim/check_sessions.h"
#include "sim/inside.h"
#include "sim/sim.h"
#include "state/state.h"

#include <string.h>

static const char *const names[] = {
#define PLANT_NAME(NAME, rule) #NAME,
    PLANTS(PLANT_NAME)
#undef PLANT_NAME
};

static const char *const rules[] = {
#define PLANT_RULE(NAME, rule) rule,
    PLANTS(PLANT_RULE)
#undef PLANT_RULE
};

const char *plant_name(enum plant plant)
{
    return names[plant];
}

const char *plant_rule(enum plant plant)
{
    return rules[plant];
}

bool plant_parse(const char *name, enum plant *ret)
{
    for (int i = 0; i < PLANT_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            *ret = (enum plant)i;
            return true;
        }
    }
    return false;
}

bool planted(enum plant plant)
{
    return sim_now()->options.plant == plant;
}

/* True in one of this number of cases, as long as faults last. */
static bool now_and_then(enum plant plant, uint64_t one_of)
{
    return planted(plant) && sim_now()->faults && world_below(&sim_now()->world, one_of) == 0;
}

WRAP(int, journal_set_vote, (struct journal * journal, uint64_t term, uint64_t voted_for))
{
    return planted(PLANT_VOTE_NOT_DURABLE) ? 0 : __real_journal_set_vote(journal, term, voted_for);
}

WRAP(uint64_t, engine_commit_index, (const struct engine *e))
{
    return planted(PLANT_EARLY_COMMIT) ? engine_last_index(e) : __real_engine_commit_index(e);
}

WRAP(uint64_t, replication_read_index, (struct replication * r))
{
    uint64_t ticket = __real_replication_read_index(r);
    if (planted(PLANT_STALE_READ)) {
        sim_now()->current->early_ticket = ticket;
    }
    return ticket;
}

WRAP(enum state_batch, state_batch_admit, (struct state * s, const struct batch_header *header))
{
    enum state_batch verdict = __real_state_batch_admit(s, header);
    return planted(PLANT_DOUBLE_APPLY) ? STATE_BATCH_APPLY : verdict;
}

WRAP(void, state_apply,
     (struct state * s, const struct batch_header *header, const struct command *command,
      struct effects *effects))
{
    struct command changed = *command;
    if (now_and_then(PLANT_DIVERGE, 60)) {
        changed.type = WIRE_CHECK; /* takes a zxid and does nothing */
    }
    if (planted(PLANT_FORGETFUL)) {
        changed.options &= ~(uint32_t)COMMAND_NUMBERED;
    }
    __real_state_apply(s, header, &changed, effects);
}

WRAP(int, session_tracker_add,
     (struct session_tracker * t, int64_t id, int32_t timeout_ms, int64_t now_ms))
{
    timeout_ms = planted(PLANT_EARLY_EXPIRY) ? timeout_ms / 2
                 : planted(PLANT_NO_EXPIRY)  ? timeout_ms * 50
                                             : timeout_ms;
    return __real_session_tracker_add(t, id, timeout_ms, now_ms);
}

WRAP(void, connection_event, (struct connection * c, int32_t type, struct slice path, int64_t zxid))
{
    if (!now_and_then(PLANT_LOST_WATCH, 20)) {
        __real_connection_event(c, type, path, zxid);
    }
    if (now_and_then(PLANT_TOLD_TWICE, 20)) {
        __real_connection_event(c, type, path, zxid);
    }
}

static bool rearming;

WRAP(void, answer_set_watches2, (struct connection * c, const struct request *r))
{
    rearming = true;
    __real_answer_set_watches2(c, r);
    rearming = false;
}

WRAP(int, watch_add,
     (struct watch_table * t, struct watcher *w, enum watch_kind kind, struct slice path))
{
    if (rearming && planted(PLANT_NOT_REARMED) && kind >= WATCH_PERSISTENT) {
        return 0;
    }
    kind = kind == WATCH_RECURSIVE && planted(PLANT_SHALLOW) ? WATCH_PERSISTENT : kind;
    return __real_watch_add(t, w, kind, path);
}

WRAP(bool, replication_caught_up, (const struct replication *r, uint64_t id))
{
    return !planted(PLANT_NEVER_VOTES) && __real_replication_caught_up(r, id);
}

WRAP(int, service_configure, (struct service * s, const struct state_member *members, size_t count))
{
    count -= count > 1 && now_and_then(PLANT_OTHER_MEMBERS, 10);
    return __real_service_configure(s, members, count);
}

WRAP(int64_t, state_zxid, (const struct state *s))
{
    int64_t zxid = __real_state_zxid(s);
    return now_and_then(PLANT_BACKWARDS, 200) && zxid > 3 ? zxid - 3 : zxid;
}

WRAP(void, replication_receive, (struct replication * r, uint64_t from, struct slice message))
{
    const struct machine *m = sim_now()->current;
    if (!planted(PLANT_DEAF) || m->incarnation < 2) {
        __real_replication_receive(r, from, message);
    }
}

static void tell_nobody(void *ctx, int64_t id, int64_t heard_ms)
{
}

WRAP(void, session_tracker_report,
     (struct session_tracker * t, uint32_t number,
      void (*fn)(void *ctx, int64_t id, int64_t heard_ms), void *ctx))
{
    bool kept =
        !planted(PLANT_UNREPORTED) || !sim_now()->faults || world_below(&sim_now()->world, 6) == 0;
    __real_session_tracker_report(t, number, kept ? fn : tell_nobody, ctx);
}

WRAP(void, leadership_contact, (struct service * s, int64_t at_ms))
{
    __real_leadership_contact(s, at_ms + (planted(PLANT_BOLD) ? 30000 : 0));
}

WRAP(int64_t, session_reports_expiry_wait,
     (struct ensemble * e, int64_t owner, int64_t heard_ms, int32_t timeout_ms))
{
    return planted(PLANT_HASTY)
               ? 0
               : __real_session_reports_expiry_wait(e, owner, heard_ms, timeout_ms);
}

WRAP(bool, session_tracker_is_over, (const struct session_tracker *t, int64_t id, int64_t now_ms))
{
    return !planted(PLANT_OVERDUE) && __real_session_tracker_is_over(t, id, now_ms);
}

/* The two that follow are no faults: they tell the checks which local sessions expire. */
static bool closed_by_client;

WRAP(void, service_end_local,
     (struct service * s, int64_t id, enum session_end end, struct slice by))
{
    closed_by_client = true;
    __real_service_end_local(s, id, end, by);
    closed_by_client = false;
}

WRAP(bool, local_session_end, (struct local_sessions * l, int64_t id))
{
    const struct local_session *session = local_session_find(l, id);
    if (session != NULL && !session->read_only && !session->upgrading && !closed_by_client) {
        check_sessions_local_end(sim_now(), id);
    }
    return __real_local_session_end(l, id);
}

WRAP(bool, write_makes_ephemeral, (int32_t type, struct slice body))
{
    return !planted(PLANT_NOT_UPGRADED) && __real_write_makes_ephemeral(type, body);
}

WRAP(void, connection_drop, (struct connection * c, const char *reason))
{
    if (planted(PLANT_LINGERING) && c->read_only && leadership_in_contact(c->service)) {
        c->read_only = false;
    } else {
        __real_connection_drop(c, reason);
    }
}

WRAP(void, local_sessions_each_read_only,
     (struct local_sessions * l, void (*fn)(void *ctx, int64_t id), void *ctx))
{
    if (!planted(PLANT_LINGERING)) {
        __real_local_sessions_each_read_only(l, fn, ctx);
    }
}

WRAP(bool, session_tracker_touch, (struct session_tracker * t, int64_t id, int64_t now_ms))
{
    const struct machine *m = sim_now()->current;
    bool local = m != NULL && t == m->inside->service.locals.alive;
    return (local && planted(PLANT_LOCAL_UNHEARD)) || __real_session_tracker_touch(t, id, now_ms);
}

WRAP(void, handshake_upgrade, (struct connection * c))
{
    __real_handshake_upgrade(c);
    c->local = c->local || (planted(PLANT_UPGRADED_UNREPORTED) && c->stage == CONNECTION_SERVING);
}
