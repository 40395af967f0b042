#include "replication/force_alone.h"

#include "replication/disk/segment.h"
#include "replication/running_log.h"

#include <inttypes.h>
#include <stdlib.h>

static int keep_payload(void *arg, uint64_t index, const struct journal_ref *ref,
                        const uint8_t *payload)
{
    struct buf *out = arg;
    buf_reset(out);
    buf_append(out, payload, ref->length);
    return buf_ok(out) ? 0 : CONCLAVE_ENOMEM;
}

/* The newest configuration, committed or not, as a start of Raft requires. */
static int newest_configuration(struct replication *r, const struct journal_contents *c,
                                const struct snapshot_meta *snapshot, struct buf *out)
{
    for (size_t i = c->count; i > 0; i--) {
        if (c->refs[i - 1].kind == ENTRY_CONFIGURATION) {
            return journal_read(&r->journal, c, i - 1, i, keep_payload, out);
        }
    }
    if (snapshot != NULL) {
        buf_append_slice(out, buf_slice(&snapshot->configuration));
    }
    return buf_ok(out) ? 0 : CONCLAVE_ENOMEM;
}

static int append_alone(struct replication *r, uint64_t last,
                        const struct configuration_member *self)
{
    const struct configuration_member alone = {self->id, MEMBER_VOTER, self->address};
    uint64_t term = r->journal.metadata.term + 1;
    struct buf configuration;
    struct buf frame;
    buf_init(&configuration, 0);
    buf_init(&frame, 0);
    int rv = configuration_encode(&alone, 1, &configuration);
    if (rv == 0) {
        rv = journal_set_vote(&r->journal, term, self->id);
    }
    if (rv == 0) {
        frame_begin(&frame);
        frame_add(&frame, term, ENTRY_CONFIGURATION, buf_slice(&configuration));
        rv = journal_append(&r->journal, &frame, last + 1, 1);
    }
    buf_finish(&configuration);
    buf_finish(&frame);
    return rv;
}

/* The term of the last entry, which an operator compares. The current term may be higher after elections without
 * entries. */
static uint64_t last_term(const struct journal_contents *c, const struct snapshot_meta *snapshot)
{
    if (c->count > 0) {
        return c->refs[c->count - 1].term;
    }
    return snapshot != NULL ? snapshot->term : 0;
}

static int begin(struct replication *r, uint64_t last, uint64_t term, struct slice configuration,
                 bool *ret_changed, struct error_text *problem)
{
    struct configuration_member members[MEMBERS_MAX];
    size_t n = 0;
    int rv = configuration_decode(configuration, members, &n);
    const struct configuration_member *self =
        rv == 0 ? configuration_find(members, n, (uint64_t)r->options.server_id) : NULL;
    if (rv != 0) {
        return rv;
    }
    if (self != NULL && n == 1) {
        return 0;
    }
    if (self == NULL || r->journal.metadata.joining) {
        return error_text_set(
            problem, CONCLAVE_EINVAL,
            "ensemble.alone: the log in %s does not belong to a member that has its data",
            r->folder.dir);
    }
    if (last != r->options.alone) {
        return error_text_set(
            problem, CONCLAVE_EINVAL,
            "ensemble.alone: the log in %s ends at index %" PRIu64 " in term %" PRIu64
            ", with %zu members. To continue from there without the others and lose what only they have, "
            "start this server once with --ensemble.alone %" PRIu64
            "; to start it as a member, leave the key out",
            r->folder.dir, last, term, n, last);
    }
    rv = append_alone(r, last, self);
    if (rv == 0) {
        *ret_changed = true;
        running_log_note(r, true, "alone", "last_index=%" PRIu64 " members_before=%zu", last, n);
    }
    return rv;
}

int force_alone_begin(struct replication *r, const struct journal_contents *c,
                      const struct snapshot_meta *snapshot, bool *ret_changed,
                      struct error_text *problem)
{
    struct buf configuration;
    buf_init(&configuration, 0);
    int rv = newest_configuration(r, c, snapshot, &configuration);
    if (rv == 0) {
        rv = begin(r, c->first_index + c->count - 1, last_term(c, snapshot),
                   buf_slice(&configuration), ret_changed, problem);
    }
    buf_finish(&configuration);
    return rv;
}
