/* libraft's raft_step, one function per event. No I/O, no clock: time comes in. */
#include "replication/engine.h"

#include "base/random.h"

#include <assert.h>
#include <raft.h>
#include <stdlib.h>
#include <string.h>

/* The addresses of members are the server room's business: the engine only wants them to differ. */
#define SINGLE_ADDRESS "self"

struct engine {
    struct raft raft;
};

static const enum raft_entry_type entry_types[] = {
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
        return CONCLAVE_EBUSY;
    case RAFT_MALFORMED:
        return CONCLAVE_ECORRUPT;
    default:
        return CONCLAVE_SYSTEM_ERROR;
    }
}

static int step(struct engine *e, int64_t now_ms, struct raft_event *event,
                struct engine_result *ret)
{
    struct raft_update update;
    memset(&update, 0, sizeof update);
    event->time = (raft_time)now_ms;
    int rv = raft_step(&e->raft, event, &update);
    if (rv != 0) {
        return map_error(rv);
    }
    memset(ret, 0, sizeof *ret);
    ret->vote_changed =
        (update.flags & ((RAFT_UPDATE_CURRENT_TERM) | (RAFT_UPDATE_VOTED_FOR))) != 0;
    if ((update.flags & (RAFT_UPDATE_ENTRIES)) != 0) {
        ret->first_index = update.entries.index;
        ret->count = update.entries.n;
    }
    if ((update.flags & (RAFT_UPDATE_MESSAGES)) != 0) {
        ret->messages = update.messages.n;
    }
    return 0;
}

struct engine *engine_create(uint64_t server_id)
{
    unsigned seed;
    struct engine *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return NULL;
    }
    if (raft_init(&e->raft, NULL, NULL, server_id, SINGLE_ADDRESS) != 0) {
        free(e);
        return NULL;
    }
    e->raft.tracer = NULL;
    random_bytes(&seed, sizeof seed);
    raft_seed(&e->raft, seed);
    raft_set_pre_vote(&e->raft, true);
    return e;
}

void engine_destroy(struct engine *e)
{
    if (e == NULL) {
        return;
    }
    raft_close(&e->raft, NULL);
    free(e);
}

static int decode(struct slice bytes, struct raft_configuration *ret)
{
    struct raft_buffer buffer = {.base = (void *)(uintptr_t)bytes.data, .len = bytes.len};
    if (bytes.len == 0) {
        return CONCLAVE_ECORRUPT;
    }
    return map_error(raft_configuration_decode(&buffer, ret));
}

static int decode_metadata(const struct snapshot_meta *meta, struct raft_snapshot_metadata *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->index = meta->index;
    ret->term = meta->term;
    ret->configuration_index = meta->configuration_index;
    return decode(buf_slice(&meta->configuration), &ret->configuration);
}

/* The entries as the engine wants them: one batch holds the bytes of the configurations among
 * them. */
static int make_entries(const struct engine_start *start, struct raft_entry **ret, void **ret_batch)
{
    struct engine_entry entry;
    struct buf bytes;
    size_t at = 0;
    *ret = NULL;
    *ret_batch = NULL;
    if (start->count == 0) {
        return 0;
    }
    buf_init(&bytes, 0);
    struct raft_entry *entries = raft_calloc(start->count, sizeof *entries);
    for (size_t i = 0; entries != NULL && i < start->count; i++) {
        start->entry(start->ctx, i, &entry);
        entries[i].term = entry.term;
        entries[i].type = entry_types[entry.kind];
        entries[i].buf.len = entry.kind == ENTRY_CONFIGURATION ? entry.payload.len : 0;
        buf_append(&bytes, entry.payload.data, entries[i].buf.len);
    }
    uint8_t *batch = entries == NULL || !buf_ok(&bytes) ? NULL : raft_malloc(bytes.len + 1);
    if (batch == NULL) {
        raft_free(entries);
        buf_finish(&bytes);
        return CONCLAVE_ENOMEM;
    }
    if (bytes.len > 0) {
        memcpy(batch, bytes.data, bytes.len);
    }
    buf_finish(&bytes);
    for (size_t i = 0; i < start->count; i++) {
        entries[i].batch = batch;
        entries[i].buf.base = batch + at;
        at += entries[i].buf.len;
    }
    *ret = entries;
    *ret_batch = batch;
    return 0;
}

int engine_start(struct engine *e, int64_t now_ms, const struct engine_start *start,
                 struct engine_result *ret)
{
    struct raft_snapshot_metadata metadata;
    struct raft_entry *entries;
    void *batch;
    struct raft_event event = {
        .type = RAFT_START,
        .start = {.term = start->term,
                  .voted_for = start->voted_for,
                  .start_index = start->first_index},
    };
    int rv = make_entries(start, &entries, &batch);
    if (rv != 0) {
        return rv;
    }
    if (start->snapshot != NULL) {
        rv = decode_metadata(start->snapshot, &metadata);
        event.start.metadata = &metadata;
    }
    event.start.entries = entries;
    event.start.n_entries = (unsigned)start->count;
    if (rv == 0) {
        rv = step(e, now_ms, &event, ret);
        if (rv != 0) {
            return rv;
        }
    }
    raft_free(batch);
    raft_free(entries);
    return rv;
}

int engine_submit(struct engine *e, int64_t now_ms, uint32_t kind, struct slice payload,
                  struct engine_result *ret)
{
    struct raft_entry entry = {
        .term = raft_current_term(&e->raft),
        .type = entry_types[kind],
        .buf = {.base = (void *)(uintptr_t)payload.data, .len = payload.len},
        .batch = e, /* not NULL, and not looked at */
    };
    struct raft_event event = {.type = RAFT_SUBMIT, .submit = {.entries = &entry, .n = 1}};
    return step(e, now_ms, &event, ret);
}

int engine_persisted(struct engine *e, int64_t now_ms, uint64_t index, struct engine_result *ret)
{
    struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES,
                               .persisted_entries = {.index = index}};
    return step(e, now_ms, &event, ret);
}

int engine_configuration(struct engine *e, int64_t now_ms, uint64_t index,
                         struct slice configuration, struct engine_result *ret)
{
    struct raft_event event = {.type = RAFT_CONFIGURATION, .configuration = {.index = index}};
    int rv = decode(configuration, &event.configuration.conf);
    return rv != 0 ? rv : step(e, now_ms, &event, ret);
}

int engine_snapshot(struct engine *e, int64_t now_ms, const struct snapshot_meta *meta,
                    uint64_t trailing, struct engine_result *ret)
{
    struct raft_event event = {
        .type = RAFT_SNAPSHOT,
        .snapshot = {.trailing = trailing > UINT32_MAX ? UINT32_MAX : (unsigned)trailing},
    };
    int rv = decode_metadata(meta, &event.snapshot.metadata);
    return rv != 0 ? rv : step(e, now_ms, &event, ret);
}

int engine_timeout(struct engine *e, int64_t now_ms, struct engine_result *ret)
{
    struct raft_event event = {.type = RAFT_TIMEOUT};
    return step(e, now_ms, &event, ret);
}

uint64_t engine_term(const struct engine *e)
{
    return raft_current_term(&e->raft);
}

uint64_t engine_voted_for(const struct engine *e)
{
    return raft_voted_for(&e->raft);
}

uint64_t engine_commit_index(const struct engine *e)
{
    return raft_commit_index(&e->raft);
}

static enum raft_state state_of(const struct engine *e)
{
    return (enum raft_state)e->raft.state;
}

bool engine_is_leader(const struct engine *e)
{
    return state_of(e) == RAFT_LEADER;
}

bool engine_is_candidate(const struct engine *e)
{
    return state_of(e) == RAFT_CANDIDATE;
}

int64_t engine_next_timeout_ms(const struct engine *e)
{
    return (int64_t)raft_timeout(&e->raft);
}

int engine_encode_single(uint64_t server_id, struct buf *out)
{
    struct raft_configuration configuration;
    struct raft_buffer buffer = {NULL, 0};
    raft_configuration_init(&configuration);
    int rv = raft_configuration_add(&configuration, server_id, SINGLE_ADDRESS, RAFT_VOTER);
    if (rv == 0) {
        rv = raft_configuration_encode(&configuration, &buffer);
    }
    raft_configuration_close(&configuration);
    if (rv == 0) {
        buf_append(out, buffer.base, buffer.len);
        raft_free(buffer.base);
    }
    return rv == 0 && buf_ok(out) ? 0 : CONCLAVE_ENOMEM;
}

int engine_is_single(struct slice configuration, uint64_t server_id)
{
    struct raft_configuration c;
    bool self = false;
    unsigned voters = 0;
    int rv = decode(configuration, &c);
    if (rv != 0) {
        return rv;
    }
    for (unsigned i = 0; i < c.n; i++) {
        if (c.servers[i].role == RAFT_VOTER) {
            voters++;
            self = self || c.servers[i].id == server_id;
        }
    }
    raft_configuration_close(&c);
    return voters == 1 && self ? 1 : 0;
}
