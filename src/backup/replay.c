#include "backup/replay.h"

#include "base/random.h"
#include "cluster/member_roles.h"
#include "replication/disk/folder_format.h"
#include "state/adopt/mirrored.h"
#include "state/mirror.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

void replay_init(struct replay *r, const struct backup_moment *moment, replay_changed_fn changed,
                 void *ctx)
{
    *r = (struct replay){.moment = *moment, .changed = changed, .ctx = ctx};
    random_bytes(&r->key, sizeof r->key);
    effects_init(&r->effects);
    replacement_pieces_init(&r->pieces);
}

void replay_finish(struct replay *r)
{
    effects_finish(&r->effects);
    replacement_pieces_finish(&r->pieces);
    state_destroy(r->state);
    free(r->text);
    r->state = NULL;
    r->text = NULL;
}

static int replay_fail(struct replay *r, int code, const char *text)
{
    return text_fail(&r->text, code, "%s", text);
}

/* After a change: tells it, and stops where the caller wants. */
static void replay_told(struct replay *r, const struct backup_change *change)
{
    int64_t want = r->moment.zxid;
    assert(!r->stopped && state_zxid(r->state) >= r->begin_zxid);
    if (r->changed != NULL) {
        r->changed(r->ctx, r->state, change);
    }
    r->stopped = r->stopped || (want != 0 && state_zxid(r->state) >= want);
}

static int replay_first(struct replay *r, struct state *state_take)
{
    assert(r->state == NULL || r->state == state_take);
    const struct backup_moment *want = &r->moment;
    r->state = state_take;
    r->begin_zxid = state_zxid(state_take);
    r->begin_ms = state_time_ms(state_take);
    r->time_ms = r->begin_ms;
    if ((want->zxid != 0 && want->zxid < r->begin_zxid) ||
        (want->time_ms != 0 && want->time_ms < r->begin_ms)) {
        return text_fail(&r->text, CONCLAVE_EINVAL,
                         "it begins only at zxid 0x%" PRIx64 ": name an earlier backup",
                         (uint64_t)r->begin_zxid);
    }
    replay_told(r, NULL);
    return r->stopped ? REPLAY_STOPPED : 0;
}

static int replay_configure(struct replay *r, struct slice bytes)
{
    struct configuration_member members[MEMBERS_MAX];
    struct state_member list[MEMBERS_MAX];
    size_t n;
    int rc = configuration_decode(bytes, members, &n);
    if (rc != 0) {
        return replay_fail(r, rc, "a configuration of members in it cannot be read");
    }
    for (size_t i = 0; i < n; i++) {
        list[i] = member_of_log(&members[i]);
    }
    state_configure(r->state, list, n, &r->effects);
    return 0;
}

int replay_begin_empty(struct replay *r)
{
    struct state *fresh = state_create(&r->key);
    return fresh != NULL ? replay_first(r, fresh) : CONCLAVE_ENOMEM;
}

int replay_begin(struct replay *r, const struct replay_snapshot *from)
{
    assert(r->state == NULL);
    int rc = state_restore_passing(from->content, &r->key, from->passed, from->ctx, &r->state);
    if (rc != 0) {
        return replay_fail(r, rc, "the snapshot in it cannot be loaded");
    }
    r->index = from->index;
    r->term = from->term;
    rc = replay_configure(r, from->configuration);
    return rc == 0 ? replay_first(r, r->state) : rc;
}

static int replay_replacement(struct replay *r, struct slice entry)
{
    struct replacement piece;
    struct slice snapshot = SLICE_NULL;
    struct state_mirror m;
    struct state *state = NULL;
    int rc = replacement_open(entry, &piece);
    rc = rc == 0 ? replacement_pieces_take(&r->pieces, &piece, &snapshot) : rc;
    if (rc == 0) {
        return 0;
    }
    rc = rc == 1 ? state_restore(snapshot, &r->key, &state) : rc;
    replacement_pieces_forget(&r->pieces);
    if (rc != 0) {
        return replay_fail(r, rc, "a restored state in it cannot be loaded");
    }
    bool mirrors = (piece.flags & REPLACEMENT_MIRRORS) != 0;
    bool mirror = state_mirror(r->state, &m);
    rc = mirrors ? state_mirror_succeed(state, r->state, piece.id) : mirror ? CONCLAVE_NO_NODE : 0;
    if (rc != 0) {
        state_destroy(state);
        return rc == CONCLAVE_NO_NODE ? 0 : rc;
    }
    if (!mirrors) {
        state_succeed(state, r->state);
    }
    state_destroy(r->state);
    r->state = state;
    r->begin_zxid = state_zxid(state) < r->begin_zxid ? state_zxid(state) : r->begin_zxid;
    replay_told(r, NULL);
    return 0;
}

static int replay_batch(struct replay *r, struct slice entry)
{
    struct batch_reader batch;
    struct command command;
    int rc = batch_open(entry, &batch);
    if (rc != 0) {
        return replay_fail(r, rc, "an entry of the log in it cannot be read");
    }
    int64_t until_ms = r->moment.time_ms;
    if (until_ms != 0 && batch.header.time_ms > until_ms) {
        r->stopped = true;
        return 0;
    }
    if (state_batch_admit(r->state, &batch.header) != STATE_BATCH_APPLY) {
        return 0;
    }
    r->time_ms = batch.header.time_ms;
    while (!r->stopped && (rc = batch_next(&batch, &command)) == 1) {
        mirrored_apply(r->state, &batch.header, &command, &r->effects);
        replay_told(r, &(struct backup_change){&batch.header, &command, &r->effects});
    }
    effects_trim(&r->effects);
    return rc < 0 ? replay_fail(r, rc, "an entry of the log in it cannot be read") : 0;
}

int replay_apply(struct replay *r, const struct replay_entry *entry)
{
    int rc = 0;
    assert(r->state != NULL && !r->stopped);
    if (entry->index != r->index + 1 || entry->term < r->term) {
        return replay_fail(r, CONCLAVE_ECORRUPT, "entries of the log are missing in it");
    }
    if (entry->kind == ENTRY_CONFIGURATION) {
        rc = replay_configure(r, entry->payload);
        if (rc == 0) {
            replay_told(r, NULL);
        }
    } else if (entry->kind == ENTRY_COMMAND) {
        rc = replacement_is(entry->payload) ? replay_replacement(r, entry->payload)
                                            : replay_batch(r, entry->payload);
    }
    r->index = entry->index;
    r->term = entry->term;
    r->entries++;
    assert(r->state != NULL && state_zxid(r->state) >= r->begin_zxid);
    return rc == 0 && r->stopped ? REPLAY_STOPPED : rc;
}

int replay_judge(struct replay *r, const char *where)
{
    int64_t want = r->moment.zxid;
    int64_t zxid = state_zxid(r->state);
    assert(zxid >= r->begin_zxid);
    if (want != 0 && zxid < want) {
        return text_fail(&r->text, CONCLAVE_EINVAL,
                         "%s at zxid 0x%" PRIx64 ", before the one that is wanted", where,
                         (uint64_t)zxid);
    }
    if (want != 0 && zxid > want) {
        return text_fail(&r->text, CONCLAVE_EINVAL,
                         "there was no state of exactly that zxid; the next one is 0x%" PRIx64,
                         (uint64_t)zxid);
    }
    return 0;
}
