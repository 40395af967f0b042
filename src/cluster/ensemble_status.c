#include "cluster/ensemble_status.h"
#include "cluster/replica.h"

#include <string.h>

static size_t list_length(const struct list *head)
{
    size_t n = 0;
    LIST_FOREACH (it, head) {
        n++;
    }
    return n;
}

static void add_links(const struct replica *n, struct ensemble_status *ret)
{
    struct peer_stats links[MEMBERS_MAX];
    const struct peers *peers = replica_peers(n);
    if (peers == NULL) {
        return;
    }
    size_t count = peers_stats(peers, links, MEMBERS_MAX);
    for (size_t i = 0; i < count && i < MEMBERS_MAX; i++) {
        ret->links += links[i].linked;
        ret->links_made += links[i].links;
        ret->bytes_sent += links[i].bytes_sent;
        ret->bytes_received += links[i].bytes_received;
        ret->dropped += links[i].dropped;
    }
    ret->refused = peers_refused(peers);
}

static void add_members(struct replica *n, struct ensemble_status *ret)
{
    struct replication_member_stats m;
    for (size_t i = 0; quorum_member(n, i, &m); i++) {
        ret->members++;
        bool voter = m.role == MEMBER_VOTER;
        ret->voters += voter;
        if (ret->leads && !m.self && m.linked) {
            ret->learners++;
            ret->synced_followers += voter && m.match_index > 0;
            ret->synced_observers += !voter && m.match_index > 0;
        }
    }
}

void quorum_stats(struct replica *n, const struct clock_source *clock, struct ensemble_status *ret)
{
    const struct ensemble *e = replica_ensemble(n);
    *ret = (struct ensemble_status){.grouped = !e->sole, .contact_ms = -1};
    ret->leads = e->role == REPLICATION_LEADER;
    ret->leader = e->leader;
    ret->aside = replica_stage(n) == NODE_ASIDE;
    ret->damaged = replica_is_damaged(n);
    ret->pending_syncs = list_length(&e->service->standing.confirming);
    if (ret->leads) {
        ret->leader_uptime_ms = clock_monotonic_ms(clock) - e->leads_since_ms;
    }
    if (e->sole) {
        ret->contact_ms = 0;
    } else if (e->service->standing.contact_at != CONTACT_NEVER) {
        ret->contact_ms = clock_monotonic_ms(clock) - e->service->standing.contact_at;
    }
    add_links(n, ret);
    add_members(n, ret);
}

/* Drops members that a reconfig removed, because clients do not see them any more. */
static size_t drop_leaving(const struct state *s, struct replication_member_stats *all,
                           size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!state_is_leaving(s, (int64_t)all[i].id)) {
            all[kept++] = all[i];
        }
    }
    return kept;
}

/* The members of the log, or the configured ones while the log is not open. */
static size_t list_members(struct replica *n, struct replication_member_stats *out)
{
    const struct configuration_member *members;
    const struct replication *log = replica_log(n);
    size_t count = log != NULL ? replication_members(log, out, MEMBERS_MAX) : 0;
    if (count > 0) {
        return drop_leaving(replica_ensemble(n)->service->state, out, count);
    }
    count = replica_members(n, &members);
    for (size_t i = 0; i < count; i++) {
        out[i] = (struct replication_member_stats){
            .id = members[i].id, .role = members[i].role, .address = members[i].address};
    }
    return count;
}

bool quorum_member(struct replica *n, size_t i, struct replication_member_stats *ret)
{
    struct replication_member_stats all[MEMBERS_MAX];
    const struct peers *peers = replica_peers(n);
    const struct ensemble *e = replica_ensemble(n);
    size_t count = list_members(n, all);
    if (i >= count) {
        return false;
    }
    *ret = all[i];
    ret->self = ret->id == (uint64_t)e->id;
    ret->match_index = e->role == REPLICATION_LEADER ? ret->match_index : 0;
    ret->linked = ret->self || (peers != NULL && peers_linked(peers, ret->id));
    return true;
}

const char *quorum_member_problem(struct replica *n, uint64_t id)
{
    const struct peers *peers = replica_peers(n);
    bool self = id == (uint64_t)replica_ensemble(n)->id;
    return self || peers == NULL ? NULL : peers_problem(peers, id);
}

bool quorum_digest(struct replica *n, size_t i, struct digest_check_digest *ret)
{
    const struct digest_check *a = &replica_ensemble(n)->agreement;
    uint64_t index = a->last;
    if (i >= QUORUM_DIGESTS_MAX || a->last == 0) {
        return false;
    }
    if (i > 0) {
        uint64_t back = (uint64_t)i * QUORUM_DIGEST_STEP;
        index -= index % QUORUM_DIGEST_STEP;
        if (index < back) {
            return false;
        }
        index -= back - QUORUM_DIGEST_STEP;
    }
    *ret = a->kept[index % AGREEMENT_KEPT];
    return ret->index == index && (i == 0 || index != a->last);
}

bool ensemble_status_address(const struct server_line *line, struct net_address *ret)
{
    if (!line->has_client) {
        return false;
    }
    *ret = line->client;
    if (strcmp(ret->host, "0.0.0.0") == 0 || strcmp(ret->host, "::") == 0) {
        memcpy(ret->host, line->hosts[0].host, sizeof ret->host);
    }
    return true;
}
