/*
 * The way of committed entries to the state machine, in the log's order. An entry may be committed while this server
 * still writes it, because a majority has it. After a restart most of the log is read from the disk again, piece by
 * piece, once a leader has said how much of it is committed.
 */
#include "replication/running_log.h"

#include <assert.h>
#include <inttypes.h>

int apply_configuration(struct replication *r, uint64_t index, struct slice configuration)
{
    struct configuration_member members[MEMBERS_MAX];
    size_t n;
    int rv = configuration_decode(configuration, members, &n);
    if (rv != 0) {
        return rv;
    }
    buf_reset(&r->configuration);
    buf_append_slice(&r->configuration, configuration);
    r->configuration_index = index;
    if (!buf_ok(&r->configuration)) {
        return CONCLAVE_ENOMEM;
    }
    if (r->callbacks.configuration != NULL) {
        r->callbacks.configuration(r->callbacks.ctx, index, members, n);
    }
    return 0;
}

static int apply_entry(struct replication *r, uint64_t index, uint64_t term, uint32_t kind,
                       struct slice payload)
{
    assert(index == r->applied + 1);
    if (term < r->applied_term) {
        return CONCLAVE_ECORRUPT; /* an entry has an older term than the one before it */
    }
    r->applied = index;
    r->applied_term = term;
    r->applied_bytes += payload.len;
    if (kind == ENTRY_CONFIGURATION) {
        struct engine_result result;
        int rv = engine_configuration(r->engine, running_log_now_ms(r), index, payload, &result);
        if (rv != 0) {
            return rv;
        }
        carry_out(r, rv, &result, NULL);
        return apply_configuration(r, index, payload);
    }
    if (kind == ENTRY_COMMAND) {
        r->callbacks.apply(r->callbacks.ctx, index, payload);
    }
    return 0;
}

int apply_next(struct replication *r, const struct skip_entry *entry, uint32_t kind,
               struct slice payload)
{
    bool passed = kind == ENTRY_COMMAND && r->skip.any && skip_entry_judge(r, entry) == SKIP_PASS;
    if (passed) {
        assert(entry->index == r->applied + 1);
        r->applied = entry->index;
        r->applied_term = entry->term;
        r->applied_bytes += payload.len;
        r->skip.waits = false;
        running_log_note(r, true, "entry_skipped", "index=%" PRIu64 " term=%" PRIu64 " bytes=%zu",
                         entry->index, entry->term, payload.len);
        if (r->callbacks.skip != NULL) {
            r->callbacks.skip(r->callbacks.ctx, entry->index, payload);
        }
        return 0;
    }
    skip_entry_watch(r, entry->index);
    int rv = apply_entry(r, entry->index, entry->term, kind, payload);
    skip_entry_applied(r);
    return rv;
}

/* Whether apply waits before the next entry, because it may have to be skipped. */
static bool is_held(struct replication *r, const struct entry_table_entry *entry)
{
    const struct skip_entry next = {r->applied + 1, entry->term, entry->hash};
    if (!r->skip.any || entry->kind != ENTRY_COMMAND || skip_entry_judge(r, &next) != SKIP_WAIT) {
        r->skip.waits = false;
        return false;
    }
    skip_entry_wait(r, &next);
    return true;
}

static void fetched(struct replication *r, uint64_t peer)
{
    r->fetching = false;
    apply_committed(r);
}

/* Reads the next committed entries, unless a read is in progress. */
static void fetch_committed(struct replication *r)
{
    if (r->fetching || r->stage != LOG_RUNNING) {
        return;
    }
    r->fetching = fetch_start(r, r->applied + 1, engine_commit_index(r->engine) + 1, fetched, 0);
    if (!r->fetching) {
        running_log_fail(r, CONCLAVE_ENOMEM, "out of memory while reading the log");
    }
}

void apply_committed(struct replication *r)
{
    uint64_t before = r->applied;
    if (r->install.state == INSTALL_BEGUN) {
        return; /* the snapshot contains the committed entries */
    }
    if (r->applying) {
        return; /* called from a callback of the loop below, which continues itself */
    }
    r->applying = true;
    while (r->error == 0 && r->applied < engine_commit_index(r->engine)) {
        const struct entry_table_entry *entry = entry_table_at(&r->table, r->applied + 1);
        assert(entry != NULL);
        if (is_held(r, entry)) {
            break;
        }
        if (!entry_table_has_bytes(entry)) {
            fetch_committed(r);
            break;
        }
        assert(entry->kind != ENTRY_COMMAND || r->commands > 0);
        r->commands -= entry->kind == ENTRY_COMMAND;
        const struct skip_entry next = {r->applied + 1, entry->term, entry->hash};
        int rv = apply_next(r, &next, entry->kind, entry_table_payload(entry));
        if (rv != 0) {
            carry_out(r, rv, NULL, NULL);
        }
        entry_table_evict(&r->table, r->applied, r->has_others ? r->options.cache_bytes : 0);
    }
    r->applying = false;
    if (r->applied > before) {
        r->commit_unannounced = true;
        r->callbacks.apply_done(r->callbacks.ctx);
    }
    if (r->error == 0) {
        snapshot_task_maybe(r);
    }
}
