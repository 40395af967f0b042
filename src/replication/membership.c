/* The members of the ensemble, the leader, and how far each member is. */
#include "replication/running_log.h"

#include <stdlib.h>
#include <string.h>

enum { CATCH_UP_NEAR = 32 }; /* a member with at most this many entries missing has caught up */

static bool leads(const struct replication *r)
{
    return r->error == 0 && r->stage == LOG_RUNNING &&
           replication_leader(r) == (uint64_t)r->options.server_id;
}

int replication_change(struct replication *r, const struct configuration_member *members, size_t n)
{
    const struct configuration_member *self =
        configuration_find(members, n, (uint64_t)r->options.server_id);
    struct buf bytes;
    if (!leads(r)) {
        return CONCLAVE_EBUSY;
    }
    if (self == NULL || self->role != MEMBER_VOTER) {
        return CONCLAVE_EINVAL;
    }
    buf_init(&bytes, 0);
    int rv = configuration_encode(members, n, &bytes);
    if (rv == 0) {
        rv = running_log_propose(r, ENTRY_CONFIGURATION, &bytes);
    }
    buf_finish(&bytes);
    return rv;
}

int replication_catch_up(struct replication *r, uint64_t id)
{
    struct engine_result result;
    if (!leads(r)) {
        return CONCLAVE_EBUSY;
    }
    int rv = engine_catch_up(r->engine, running_log_now_ms(r), id, &result);
    carry_out(r, rv, &result, NULL);
    return rv;
}

/* Having caught up once is not enough: a member that fell behind since then would count for majorities without helping
 * to reach them, and would not know yet that it has a vote. */
bool replication_caught_up(const struct replication *r, uint64_t id)
{
    return engine_catch_up_status(r->engine, id) == CATCH_UP_FINISHED &&
           engine_match_index(r->engine, id) + CATCH_UP_NEAR >= engine_commit_index(r->engine);
}

int replication_transfer(struct replication *r, uint64_t id)
{
    struct engine_result result;
    if (!leads(r)) {
        return CONCLAVE_EBUSY;
    }
    int rv = engine_transfer(r->engine, running_log_now_ms(r), id, &result);
    carry_out(r, rv, &result, NULL);
    return rv;
}

size_t replication_members(const struct replication *r, struct replication_member_stats *ret,
                           size_t cap)
{
    struct configuration_member members[MEMBERS_MAX];
    size_t n = 0;
    if (r->configuration.len == 0 ||
        configuration_decode(buf_slice(&r->configuration), members, &n) != 0) {
        return 0;
    }
    n = n < cap ? n : cap;
    for (size_t i = 0; i < n; i++) {
        uint64_t id = members[i].id;
        ret[i] = (struct replication_member_stats){
            .id = id,
            .role = members[i].role,
            .address = members[i].address,
            .self = id == (uint64_t)r->options.server_id,
            .match_index = engine_match_index(r->engine, id),
            .linked = send_queue_linked(r, id),
            .catch_up = engine_catch_up_status(r->engine, id),
        };
        if (ret[i].self) {
            ret[i].match_index = engine_stored(r->engine);
        }
        snapshot_sender_progress(&r->install.sender, id, &ret[i].snapshot_bytes_sent,
                                 &ret[i].snapshot_bytes_total);
    }
    return n;
}

void replication_cluster(const struct replication *r, uint8_t ret[FORMAT_CLUSTER_SIZE])
{
    memcpy(ret, r->folder.marker.cluster, FORMAT_CLUSTER_SIZE);
}

bool replication_may_vote(const struct replication *r)
{
    return join_votes(r);
}
