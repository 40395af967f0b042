/* What the engine's files share: the struct, and one step of libraft with its update. */
#ifndef REPLICATION_RAFT_ENGINE_RAFT_H
#define REPLICATION_RAFT_ENGINE_RAFT_H

#include "replication/disk/configuration.h"
#include "replication/raft/engine.h"

#include <raft.h>

/* What a leader has sent to a member. */
struct engine_told {
    uint64_t id;
    uint64_t commit;         /* commit index that was sent, limited to entries of the member */
    uint64_t snapshot_index; /* the last snapshot that libraft sent it, or 0 */
    uint64_t snapshot_term;
};

struct engine {
    struct raft raft;
    int failed; /* error of the step that made the engine unusable, or 0 */
    bool voting;
    bool was_leader;            /* before the current event */
    raft_time now;              /* never goes back */
    struct engine_message *out; /* messages of the last event */
    unsigned out_n, out_cap;
    unsigned flags;       /* flags of the last step's update */
    uint64_t leader_term; /* term in which the leader was heard */
    int64_t heard_ms;     /* when the leader was heard */
    unsigned election_ms;
    unsigned hasten_ms; /* the shortened election timeout, or 0 */
    uint64_t ready_id;  /* had everything when it began to catch up */
    uint64_t ready_term;
    /* the uncommitted entry that takes this server's vote away, while it is a candidate all the same; 0: none */
    uint64_t stands_index;
    uint64_t stands_term; /* term of that entry */
    int stands_role;      /* role that it gives this server */
    struct engine_told *told;
    size_t told_n, told_cap;
};

extern const enum raft_entry_type engine_entry_types[];

static inline bool engine_kind_known(uint32_t kind)
{
    return kind >= ENTRY_COMMAND && kind <= ENTRY_CONFIGURATION;
}

static inline enum raft_state engine_state(const struct engine *e)
{
    return (enum raft_state)e->raft.state;
}

/* Before the steps of an event: empties *ret. 0, or the earlier failure of the engine. */
int engine_begin(struct engine *e, int64_t now_ms, struct engine_result *ret) CONCLAVE_MUST_USE;

/* One step, at the event's time; adds its outcome to ret. */
int engine_step(struct engine *e, struct raft_event *event,
                struct engine_result *ret) CONCLAVE_MUST_USE;

/* After the steps: handles a new role. */
int engine_end(struct engine *e, struct engine_result *ret) CONCLAVE_MUST_USE;

/* An event of one step, and one without a step, as the engine's public events. */
int engine_event(struct engine *e, int64_t now_ms, struct raft_event *event,
                 struct engine_result *ret) CONCLAVE_MUST_USE;
int engine_no_event(struct engine *e, int64_t now_ms, struct engine_result *ret) CONCLAVE_MUST_USE;

/* Takes a follower with a log into a new term. libraft lets a sole voter lead without one, but if there were several
 * voters before, another may be the leader of the old term. */
int engine_new_term(struct engine *e, struct engine_result *ret) CONCLAVE_MUST_USE;
bool engine_sole_voter(const struct engine *e); /* whether this server is the only voter */

/*
 * Before a follower's election timeout: a server whose vote an uncommitted entry takes away becomes a candidate if no
 * other server might win (Ongaro's thesis, 4.2.2). Of four voters two may not have that entry: they are no majority of
 * four, and of the three voters that the entry leaves they vote for the third, which has it. libraft lets only voters
 * become candidates, so the server is a voter until the step that ends its candidacy. It then counts its own vote, too:
 * of 2n voters it needs n + 1, which is n without its own, and these are a majority of the 2n - 1 that the entry
 * leaves. Of 2n + 1 voters that would be one vote short, and is never needed: the servers that might elect it can elect
 * one of themselves.
 */
void engine_stand(struct engine *e);

/* The step that submits an entry. */
int engine_submit_entry(struct engine *e, uint32_t kind, struct slice payload,
                        struct engine_result *ret) CONCLAVE_MUST_USE;

/* Marks the engine as failed, and returns rv. */
int engine_fail(struct engine *e, int rv);

/* Makes room for the messages of a step with n members. */
int engine_make_room(struct engine *e, size_t n) CONCLAVE_MUST_USE;

/* What a member was sent: found, or added. There is always room (engine_make_room). */
struct engine_told *engine_told_to(struct engine *e, uint64_t id);

unsigned engine_voters(const struct raft_configuration *c);
size_t engine_list_members(const struct raft_configuration *c,
                           struct configuration_member ret[MEMBERS_MAX]);
const struct raft_server *engine_server(const struct engine *e, uint64_t id); /* or NULL */

/* Decodes the configuration; libraft then owns its memory. 0, CONCLAVE_ENOMEM or CONCLAVE_ECORRUPT. */
int engine_decode_meta(const struct snapshot_meta *meta,
                       struct raft_snapshot_metadata *ret) CONCLAVE_MUST_USE;

static inline uint64_t engine_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#endif
