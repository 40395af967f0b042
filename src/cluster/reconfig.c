#include "cluster/reconfig.h"

#include "base/log.h"
#include "cluster/member_roles.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_MS = 100,
    GATHER_MS = 10,      /* the same while clients wait for an ensemble to gather */
    STEP_MAX_MS = 60000, /* a reconfig without progress for this long is withdrawn */
    LINK_MAX_MS = 30000, /* the same while the step waits for a member that was linked before */
    COME_MAX_MS = 5000, /* the same for a member without any link in this step: it is not running */
    REFUSED_MAX_MS = 3000,  /* the same if that member and this server refuse each other */
    LEAVING_MAX_MS = 10000, /* for a removed member to disconnect its clients */
};

void reconfig_init(struct reconfig *r, struct ensemble *ensemble)
{
    *r = (struct reconfig){.ensemble = ensemble, .files = true};
    buf_init(&r->addresses, 0);
}

void reconfig_finish(struct reconfig *r)
{
    buf_finish(&r->addresses);
}

void reconfig_configuration(struct reconfig *r, const struct configuration_member *members,
                            size_t count)
{
    size_t at[MEMBERS_MAX];
    assert(count <= MEMBERS_MAX);
    buf_reset(&r->addresses);
    for (size_t i = 0; i < count; i++) {
        at[i] = r->addresses.len;
        buf_append(&r->addresses, members[i].address, strlen(members[i].address) + 1);
    }
    if (!buf_ok(&r->addresses)) {
        abort(); /* apply must not fail on one member only */
    }
    memcpy(r->now, members, count * sizeof *members);
    for (size_t i = 0; i < count; i++) {
        r->now[i].address = (const char *)r->addresses.data + at[i];
    }
    r->n_now = count;
    r->step_ms = 0;
    r->leaving_id = 0;
}

/* The present members and those that the configuration files add. False: nothing to add. */
static bool target_of_files(const struct reconfig *r, struct configuration_member *ret,
                            size_t *ret_n)
{
    size_t n = r->n_now;
    bool more = false;
    memcpy(ret, r->now, n * sizeof *ret);
    for (size_t i = 0; i < r->n_configured; i++) {
        const struct configuration_member *wanted = &r->configured[i];
        struct configuration_member *present = NULL;
        for (size_t k = 0; k < r->n_now; k++) {
            present = ret[k].id == wanted->id ? &ret[k] : present;
        }
        /* Only this server's own address counts from its file: the files of others may be newer. */
        bool self = wanted->id == (uint64_t)r->ensemble->id;
        if (present == NULL && n < MEMBERS_MAX && r->links.linked(r->links.ctx, wanted->id)) {
            ret[n++] = *wanted;
            more = true;
        } else if (present != NULL && self && strcmp(present->address, wanted->address) != 0) {
            present->address = wanted->address;
            more = true;
        } else if (present != NULL && present->role == MEMBER_OBSERVER &&
                   wanted->role == MEMBER_VOTER) {
            present->role = MEMBER_VOTER;
            more = true;
        }
    }
    *ret_n = n;
    return more;
}

static struct reconfig_peer *find_peer(const struct reconfig *r, uint64_t id)
{
    for (size_t i = 0; i < r->n_peers; i++) {
        if (r->peers[i].id == id) {
            return (struct reconfig_peer *)&r->peers[i];
        }
    }
    return NULL;
}

void reconfig_hello(struct reconfig *r, const struct peer_identity *who)
{
    struct reconfig_peer *p = find_peer(r, who->id);
    if (p == NULL && r->n_peers < MEMBERS_MAX) {
        p = &r->peers[r->n_peers++];
    }
    if (p != NULL) {
        *p = (struct reconfig_peer){who->id, who->age};
    }
}

bool reconfig_may_vote(const struct reconfig *r, uint64_t id)
{
    const struct reconfig_peer *p = find_peer(r, id);
    return p != NULL && (p->age == PEER_GROWN || p->age == PEER_FOUNDED);
}

static bool caught_up(void *ctx, uint64_t id)
{
    struct reconfig *r = ctx;
    /* What a server told before it died says nothing about now: its vote would count in the quorum, but never come. */
    return r->links.linked(r->links.ctx, id) && reconfig_may_vote(r, id) &&
           replication_caught_up(r->log, id);
}

/* A removed member may go when it has no clients left, is unreachable, or takes too long. A member that a withdrawn
 * reconfig had added may go at once. */
static bool may_go(void *ctx, uint64_t id)
{
    struct reconfig *r = ctx;
    int64_t now_ms = clock_monotonic_ms(r->ensemble->clock);
    if (r->leaving_id != id) {
        r->leaving_id = id;
        r->leaving_ms = now_ms;
    }
    return r->withdrawn != 0 || ensemble_has_left(r->ensemble, id) ||
           !r->links.linked(r->links.ctx, id) || now_ms - r->leaving_ms > LEAVING_MAX_MS;
}

static void begin_step(struct reconfig *r, const struct membership_step *step, int64_t now_ms)
{
    if (r->step_ms == 0 || r->step_id != step->id || r->step_action != step->action) {
        log_info("server", "membership", "step=%s member=%llu",
                 step->action == TRANSITION_CHANGE ? "change" : "catch-up",
                 (unsigned long long)member_number((int64_t)step->id));
        r->step_ms = now_ms;
        r->step_id = step->id;
        r->step_action = step->action;
    }
}

/* Takes the next step towards the target. Returns whether the members already equal the target. */
static bool walk(struct reconfig *r, const struct configuration_member *target, size_t n,
                 int64_t now_ms)
{
    struct membership_step step;
    uint64_t self = (uint64_t)r->ensemble->id;
    int rc = 0;
    assert(r->log != NULL && r->ensemble->role == REPLICATION_LEADER);
    struct membership_facts facts = {.caught_up = caught_up, .may_go = may_go, .ctx = r};
    membership_step_next(r->now, r->n_now, target, n, self, &facts, &step);
    if (step.action == TRANSITION_DONE) {
        return configuration_equal(r->now, r->n_now, target, n);
    }
    begin_step(r, &step, now_ms);
    if (step.action == TRANSITION_CATCH_UP) {
        rc = replication_catch_up(r->log, step.id);
    } else {
        const struct configuration_member *after =
            configuration_find(step.members, step.count, self);
        /* A leader cannot take its own vote: it hands the lead over, and the next leader takes this step. */
        bool leaves = step.id == self && (after == NULL || after->role != MEMBER_VOTER);
        rc = leaves ? replication_transfer(r->log, 0)
                    : replication_change(r->log, step.members, step.count);
    }
    if (rc != 0 && rc != CONCLAVE_EBUSY) {
        log_warn_advice("server", "membership-refused",
                        "check that the member runs and that the others reach it",
                        "member=%llu error=%s", (unsigned long long)member_number((int64_t)step.id),
                        conclave_errname(rc));
    }
    return false;
}

/* Ends a reconfig without success: its client gets the error, and the next reconfig can begin. */
static void give_up(struct reconfig *r, const struct state_reconfig *asked, int32_t err)
{
    uint8_t room[32];
    struct buf body = {.data = room, .cap = sizeof room, .max = sizeof room};
    reconfig_end_encode(&body, asked->zxid, err);
    assert(buf_ok(&body) && body.data == room);
    log_warn_advice("server", "reconfig-given-up",
                    "start that member, or check the network to it, then change the members again",
                    "zxid=0x%llx member=%llu", (unsigned long long)asked->zxid,
                    (unsigned long long)member_number((int64_t)r->step_id));
    r->step_ms = 0;
    r->withdrawn = 0;
    if (leadership_propose(r->ensemble->service, 0, COMMAND_RECONFIG_END, buf_slice(&body)) != 0) {
        log_warn_advice("server", "reconfig-end-delayed", "give the server more memory",
                        "error=ENOMEM");
    }
}

static bool was_listed(void *ctx, uint64_t id)
{
    const struct reconfig *r = ctx;
    return state_config_lists(r->ensemble->service->state, (int64_t)id);
}

/* Removes the observers that the reconfig added, then ends it, so that a failed change leaves no member behind. */
static void withdraw(struct reconfig *r, const struct state_reconfig *asked, bool stuck,
                     int64_t now_ms)
{
    struct configuration_member target[MEMBERS_MAX];
    size_t n = membership_step_withdraw(r->now, r->n_now, was_listed, r, target);
    if (r->withdrawn != asked->zxid) {
        r->withdrawn = asked->zxid;
        r->step_ms = 0;
        stuck = false;
    }
    if (stuck || walk(r, target, n, now_ms)) {
        give_up(r, asked, CONCLAVE_NEW_CONFIG_NO_QUORUM);
    }
}

/* Whether the current step has made no progress for too long. */
static bool is_stuck(struct reconfig *r, int64_t now_ms)
{
    void *ctx = r->links.ctx;
    if (r->step_ms == 0) {
        return false;
    }
    if (r->step_action != TRANSITION_CATCH_UP || r->links.linked(ctx, r->step_id)) {
        r->link_ms = now_ms;
        return now_ms - r->step_ms > STEP_MAX_MS;
    }
    if (r->link_ms >= r->step_ms) {
        return now_ms - r->link_ms > LINK_MAX_MS;
    }
    bool refused = r->links.refused != NULL && r->links.refused(ctx, r->step_id);
    return now_ms - r->step_ms > (refused ? REFUSED_MAX_MS : COME_MAX_MS);
}

static void walk_as_asked(struct reconfig *r, const struct state_reconfig *asked, int64_t now_ms)
{
    struct configuration_member target[MEMBERS_MAX];
    if (asked->count > MEMBERS_MAX) { /* there is one number more than that */
        give_up(r, asked, CONCLAVE_BAD_ARGUMENTS);
        return;
    }
    for (size_t i = 0; i < asked->count; i++) {
        target[i] = member_of_state(&asked->members[i]);
    }
    r->files = false; /* from now on the log decides the members, not the files */
    bool stuck = is_stuck(r, now_ms);
    if (asked->zxid != 0 && (stuck || r->withdrawn == asked->zxid)) {
        withdraw(r, asked, stuck, now_ms);
    } else {
        r->withdrawn = 0;
        (void)walk(r, target, asked->count, now_ms);
    }
}

void reconfig_tick(struct reconfig *r)
{
    struct configuration_member target[MEMBERS_MAX];
    size_t n = 0;
    int64_t now_ms = clock_monotonic_ms(r->ensemble->clock);
    if (now_ms < r->at || r->log == NULL || r->ensemble->role != REPLICATION_LEADER) {
        return;
    }
    r->at = now_ms + (r->ensemble->service->standing.gathering ? GATHER_MS : LOOK_MS);
    struct state_reconfig asked;
    if (state_reconfig(r->ensemble->service->state, &asked)) {
        walk_as_asked(r, &asked, now_ms);
    } else if (r->files && target_of_files(r, target, &n)) {
        (void)walk(r, target, n, now_ms);
    }
}
