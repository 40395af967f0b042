/* Carries out the result of a step of the engine, in the order that Raft requires: term and vote to the disk, entries
 * to the disk, messages, apply. Messages wait for term and vote (send_queue.c). */
#include "replication/running_log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The engine failed in a way that leaves its state unusable. */
static void engine_failed(struct replication *r, int rv)
{
    char text[160];
    snprintf(text, sizeof text,
             rv == CONCLAVE_ECORRUPT
                 ? "the log contradicts the committed entries of the ensemble: its end is lost"
                 : "the consensus engine failed: %s",
             conclave_strerror(rv));
    running_log_fail(r, rv, text);
}

void carry_out_members(struct replication *r)
{
    struct configuration_member members[MEMBERS_MAX];
    struct buf bytes;
    size_t n = 0;
    buf_init(&bytes, 0);
    int rv = engine_members(r->engine, &bytes);
    if (rv == 0 && bytes.len > 0) {
        rv = configuration_decode(buf_slice(&bytes), members, &n);
    }
    buf_finish(&bytes);
    uint64_t *voters = rv == 0 ? malloc((n + 1) * sizeof *voters) : NULL;
    if (voters == NULL) {
        engine_failed(r, rv != 0 ? rv : CONCLAVE_ENOMEM);
        return;
    }
    free(r->voters);
    r->voters = voters;
    r->n_voters = 0;
    for (size_t i = 0; i < n; i++) {
        if (members[i].role == MEMBER_VOTER) {
            voters[r->n_voters++] = members[i].id;
        }
    }
    r->has_others = n > 1;
}

/* Appends one entry that the engine accepted. */
static int take_entry(struct replication *r, const struct engine_entry *entry)
{
    uint8_t *data = malloc(entry->payload.len + 1);
    if (data == NULL) {
        return CONCLAVE_ENOMEM;
    }
    if (entry->payload.len > 0) {
        memcpy(data, entry->payload.data, entry->payload.len);
    }
    int rv = append_entry(r, entry->term, entry->kind, entry->payload, data);
    if (rv != 0) {
        free(data);
    }
    return rv;
}

static void step_effects_take_entries(struct replication *r, const struct engine_result *result,
                                      const struct carried *received)
{
    const struct engine_entry barrier = {
        .term = engine_term(r->engine),
        .kind = ENTRY_BARRIER,
        .payload = slice_str(""),
    };
    bool members = result->truncated_from != 0;
    assert(result->first_index == r->table.next);
    for (uint32_t i = 0; i < result->count; i++) {
        bool own = result->barrier && i + 1 == result->count;
        const struct engine_entry *entry =
            own ? &barrier : &received->entries[result->first_index + i - received->first_index];
        members = members || entry->kind == ENTRY_CONFIGURATION;
        if (take_entry(r, entry) != 0) {
            running_log_fail(r, CONCLAVE_ENOMEM, "out of memory while appending entries");
            return;
        }
    }
    if (members) {
        carry_out_members(r);
    }
}

void carry_out(struct replication *r, int rv, const struct engine_result *result,
               const struct carried *received)
{
    if (rv != 0) {
        if (rv != CONCLAVE_EBUSY && rv != CONCLAVE_EINVAL && rv != CONCLAVE_EPROTO) {
            engine_failed(r, rv);
        }
        return;
    }
    if (result->vote_changed) {
        append_vote(r);
    }
    if (result->truncated_from != 0) {
        append_truncated(r, result->truncated_from);
    }
    if (result->count > 0 && r->error == 0) {
        step_effects_take_entries(r, result, received);
    }
    for (unsigned i = 0; i < result->messages && r->error == 0; i++) {
        struct engine_message m;
        engine_message(r->engine, i, &m);
        send_queue_add(r, &m);
    }
    if (r->error == 0) {
        apply_committed(r);
    }
}
