/*
 * The start: folder, log, snapshot, engine, replay. Reads everything and decides; changes nothing in a damaged folder.
 *
 * Which snapshot: the newest one with correct checksums from which the log continues without a gap. An older one is
 * used with a warning; none at all only if the log is complete from its first entry.
 */
#include "replication/running_log.h"

#include "replication/disk/damage.h"
#include "replication/disk/segment.h"
#include "replication/force_alone.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Moves the log's error text to `problem`. */
static int journal_problem(struct replication *r, int rv, struct error_text *problem)
{
    error_text_finish(problem);
    problem->text = r->journal.problem.text;
    r->journal.problem.text = NULL;
    return rv;
}

static int init_log(struct replication *r)
{
    size_t bytes = r->options.segment_bytes != 0 ? r->options.segment_bytes : (size_t)64 << 20;
    int rv = journal_init(&r->journal, r->ops, r->folder.dir, r->folder.marker.cluster, bytes,
                          r->options.sync);
    r->journal_ready = rv == 0;
    return rv;
}

static int remove_snapshots(struct replication *r, struct error_text *problem)
{
    uint64_t *indexes = NULL;
    size_t n = 0;
    int rv = snapshot_list(r->ops, r->folder.dir, true, &indexes, &n, problem);
    for (size_t i = 0; rv == 0 && i < n; i++) {
        int err = snapshot_remove(r->ops, r->folder.dir, indexes[i]);
        rv = err == 0
                 ? 0
                 : error_text_file(problem, err, "cannot remove an old snapshot in", r->folder.dir);
    }
    free(indexes);
    return rv;
}

/* The first configuration, which is the same on every founder. */
static int encode_founders(const struct replication *r, uint64_t server_id, struct buf *out)
{
    const struct replication_options *o = &r->options;
    return o->founders == NULL ? engine_encode_single(server_id, out)
                               : configuration_encode(o->founders, o->n_founders, out);
}

/* Creates a log of one entry, the configuration, or without entries for a server that joins. First removes what an
 * interrupted first start left. */
static int first_start(struct replication *r, uint64_t server_id, struct error_text *problem)
{
    struct buf configuration;
    struct buf frame;
    buf_init(&configuration, 0);
    buf_init(&frame, 0);
    int rv = remove_snapshots(r, problem);
    if (rv == 0 && !r->options.join) {
        rv = encode_founders(r, server_id, &configuration);
    }
    if (rv == 0) {
        frame_begin(&frame);
        frame_add(&frame, 1, ENTRY_CONFIGURATION, buf_slice(&configuration));
        rv = init_log(r);
    }
    if (rv == 0) {
        rv = journal_create(&r->journal, r->options.join ? NULL : &frame);
        if (rv != 0) {
            rv = journal_problem(r, rv, problem);
        }
    }
    if (rv == 0) {
        rv = data_folder_set_ready(&r->folder, problem);
    }
    if (rv == 0 && r->folder.healing) {
        damage_is_over(r->ops, r->folder.dir);
    }
    if (r->journal_ready) {
        journal_finish(&r->journal);
        r->journal_ready = false;
    }
    buf_finish(&configuration);
    buf_finish(&frame);
    return rv;
}

static void note_tail(struct replication *r, const struct journal_contents *c, bool fresh)
{
    if (c->cut_bytes > 0) {
        running_log_note(r, true, "log_cut",
                         "segment=%" PRIu64 " offset=%" PRIu64 " last_index=%" PRIu64
                         " reason=\"the last write is incomplete\"",
                         c->cut_segment, c->cut_offset, c->first_index + c->count - 1);
    }
    if (!c->sealed && !fresh) {
        running_log_note(r, false, "log_recovered",
                         "last_index=%" PRIu64 " reason=\"the last run did not end cleanly\"",
                         c->first_index + c->count - 1);
    }
}

/* The log ends before a durable snapshot, so acknowledged entries are lost. Without syncs that can happen and is
 * allowed: then the log counts. */
static int log_is_short(struct replication *r, uint64_t snapshot, uint64_t last,
                        struct error_text *problem)
{
    int rv = error_text_set(
        problem, CONCLAVE_ECORRUPT,
        "the log in %s/log ends at index %" PRIu64 ", but the snapshot of index %" PRIu64
        " was taken: the log's end is damaged. Restore the folder from a backup",
        r->folder.dir, last, snapshot);
    return r->options.sync ? rv : 0;
}

/* Opens the newest usable snapshot. *ret_found is false if there is none and none is needed. */
static int choose_snapshot(struct replication *r, const struct journal_contents *c,
                           struct snapshot_reader *reader, bool *ret_found,
                           struct error_text *problem)
{
    struct snapshot_task *t = &r->snapshot;
    uint64_t *indexes = NULL;
    size_t n = 0;
    uint64_t newest = r->journal.metadata.snapshot_index;
    uint64_t last = c->first_index + c->count - 1;
    *ret_found = false;
    int rv = snapshot_list(r->ops, r->folder.dir, false, &indexes, &n, problem);
    if (rv != 0) {
        return rv;
    }
    t->kept = calloc(n + 1, sizeof *t->kept);
    if (t->kept == NULL) {
        free(indexes);
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < n && !*ret_found; i++) {
        t->kept[t->n_kept++] = (struct kept_snapshot){indexes[i], false};
        if (indexes[i] + 1 < c->first_index) {
            error_text_set(problem, CONCLAVE_ECORRUPT,
                           "the snapshot of index %" PRIu64
                           " does not fit the log, which has the entries %" PRIu64 " to %" PRIu64,
                           indexes[i], c->first_index, last);
        } else if (snapshot_reader_open(reader, r->ops, r->folder.dir, indexes[i],
                                        r->folder.marker.cluster, problem) == 0) {
            if (indexes[i] <= last) {
                t->kept[i].good = true;
                *ret_found = true;
                break;
            }
            snapshot_reader_close(reader);
            rv = log_is_short(r, indexes[i], last, problem);
            if (rv != 0) {
                break;
            }
        }
        running_log_note(r, true, "snapshot_skipped", "index=%" PRIu64 " reason=\"%s\"", indexes[i],
                         error_text_of(problem, CONCLAVE_ECORRUPT));
    }
    for (size_t i = t->n_kept; i < n; i++) {
        t->kept[t->n_kept++] = (struct kept_snapshot){indexes[i], indexes[i] + 1 >= c->first_index};
    }
    free(indexes);
    if (rv == 0 && newest > last) {
        rv = log_is_short(r, newest, last, problem);
    }
    if (rv != 0) {
        return rv;
    }
    if (*ret_found ? reader->meta.index < newest : newest > 0) {
        running_log_note(r, true, "snapshot_missing", "index=%" PRIu64 " used=%" PRIu64, newest,
                         *ret_found ? reader->meta.index : 0);
    }
    if (!*ret_found && c->first_index != 1) {
        char *why = error_text_take(problem, CONCLAVE_ECORRUPT);
        rv = error_text_set(
            problem, CONCLAVE_ECORRUPT,
            "there is no usable snapshot in %s/snapshot, and the log begins only at index %" PRIu64
            "%s%s. Restore the folder from a backup",
            r->folder.dir, c->first_index, n > 0 ? ": " : "", n > 0 && why != NULL ? why : "");
        free(why);
    }
    return rv;
}

/* The index of the second newest good snapshot; 0: none. If two snapshots contain a piece of the log, one of them may
 * still become damaged. */
static uint64_t covered_index(void *ctx)
{
    struct replication *r = ctx;
    struct error_text ignored = {0};
    struct snapshot_reader reader;
    uint64_t *indexes = NULL;
    uint64_t covered = 0;
    size_t n = 0;
    size_t good = 0;
    int rv = snapshot_list(r->ops, r->folder.dir, false, &indexes, &n, &ignored);
    for (size_t i = 0; rv == 0 && i < n && good < 2; i++) {
        if (snapshot_reader_open(&reader, r->ops, r->folder.dir, indexes[i],
                                 r->folder.marker.cluster, &ignored) == 0) {
            snapshot_reader_close(&reader);
            good++;
            covered = good == 2 ? indexes[i] : 0;
        }
    }
    free(indexes);
    error_text_finish(&ignored);
    return covered;
}

static void note_left_out(void *ctx, const struct journal_damage *damage)
{
    running_log_note(ctx, true, "log_left_out",
                     "segment=%" PRIu64 " offset=%" PRIu64
                     " reason=\"%s, but two newer snapshots have its entries\"",
                     damage->segment, damage->offset, damage->what);
}

/* The payloads of configurations, which the engine needs at the start. */
struct start_entries {
    const struct journal_contents *contents;
    struct buf bytes; /* all payloads, one after the other */
    size_t at;        /* offset of the next one */
};

static int collect_configuration(void *arg, uint64_t index, const struct journal_ref *ref,
                                 const uint8_t *payload)
{
    struct start_entries *s = arg;
    buf_append(&s->bytes, payload, ref->length);
    return buf_ok(&s->bytes) ? 0 : CONCLAVE_ENOMEM;
}

static void next_entry(void *ctx, size_t i, struct engine_entry *ret)
{
    struct start_entries *s = ctx;
    const struct journal_ref *ref = &s->contents->refs[i];
    *ret = (struct engine_entry){.term = ref->term, .kind = ref->kind};
    if (ref->kind == ENTRY_CONFIGURATION) {
        ret->payload = slice_make(s->bytes.data + s->at, ref->length);
        s->at += ref->length;
    }
}

static int start_engine(struct replication *r, const struct journal_contents *c,
                        const struct snapshot_meta *snapshot, struct error_text *problem)
{
    struct start_entries entries = {.contents = c};
    struct engine_result result;
    struct engine_start start = {
        .term = r->journal.metadata.term,
        .voted_for = r->journal.metadata.voted_for,
        .snapshot = snapshot,
        .first_index = c->first_index,
        .count = c->count,
        .entry = next_entry,
        .ctx = &entries,
    };
    int rv = 0;
    buf_init(&entries.bytes, 0);
    for (size_t i = 0; rv == 0 && i < c->count; i++) {
        if (c->refs[i].kind == ENTRY_CONFIGURATION) {
            rv = journal_read(&r->journal, c, i, i + 1, collect_configuration, &entries);
        }
        if (rv == 0 && c->refs[i].term > start.term) {
            rv = error_text_set(problem, CONCLAVE_ECORRUPT,
                                "%s/" METADATA_FILE " has term %" PRIu64
                                ", but the log has an entry of term %" PRIu64,
                                r->folder.dir, start.term, c->refs[i].term);
        }
    }
    if (rv == 0) {
        rv = engine_start(r->engine, running_log_now_ms(r), &start, &result);
    }
    buf_finish(&entries.bytes);
    if (rv == 0) {
        r->applying = true; /* replay applies the committed entries */
        carry_out_members(r);
        carry_out(r, rv, &result, NULL);
        r->applying = false;
        rv = r->error;
    }
    if (rv == 0 && r->host.send == NULL && !engine_is_leader(r->engine)) {
        rv = error_text_set(
            problem, CONCLAVE_EFOREIGN,
            "the data folder %s belongs to an ensemble of several servers: start it as a member",
            r->folder.dir);
    }
    return rv;
}

/* Fills the table with the entries on the disk, without their payloads. */
static int fill_table(struct replication *r, const struct journal_contents *c)
{
    entry_table_reset(&r->table, c->first_index);
    for (size_t i = 0; i < c->count; i++) {
        const struct journal_ref *ref = &c->refs[i];
        const struct entry_table_entry entry = {
            .term = ref->term,
            .segment = (uint32_t)ref->segment,
            .offset = (uint32_t)ref->offset,
            .hash = ref->hash,
            .length = ref->length,
            .kind = ref->kind,
        };
        int rv = entry_table_push(&r->table, &entry);
        if (rv != 0) {
            return rv;
        }
    }
    return 0;
}

static int replay_entry(void *arg, uint64_t index, const struct journal_ref *ref,
                        const uint8_t *payload)
{
    const struct skip_entry entry = {index, ref->term, ref->hash};
    return apply_next(arg, &entry, ref->kind, slice_make(payload, ref->length));
}

static int restore(struct replication *r, struct snapshot_reader *reader,
                   struct error_text *problem)
{
    int rv = r->callbacks.restore(r->callbacks.ctx, reader->content);
    if (rv != 0) {
        return error_text_set(
            problem, rv, "the snapshot of index %" PRIu64 " in %s/snapshot cannot be loaded: %s",
            reader->meta.index, r->folder.dir, conclave_strerror(rv));
    }
    r->snapshot_index = reader->meta.index;
    r->applied = reader->meta.index;
    r->applied_term = reader->meta.term;
    return apply_configuration(r, reader->meta.configuration_index,
                               buf_slice(&reader->meta.configuration));
}

/* Applies the committed entries: all of them if this server is the only voter. */
static int replay_committed(struct replication *r, struct journal_contents *c)
{
    uint64_t commit = engine_commit_index(r->engine);
    size_t from = (size_t)(r->applied + 1 - c->first_index);
    size_t to = commit >= r->applied ? (size_t)(commit + 1 - c->first_index) : from;
    for (size_t i = from; i < to && r->skip.any; i++) {
        const struct skip_entry entry = {c->first_index + i, c->refs[i].term, c->refs[i].hash};
        if (c->refs[i].kind == ENTRY_COMMAND && skip_entry_judge(r, &entry) == SKIP_WAIT) {
            skip_entry_wait(r, &entry);
            to = i;
        }
    }
    r->applying = true;
    int rv = journal_read(&r->journal, c, from, to, replay_entry, r);
    r->applying = false;
    for (size_t i = to; i < c->count; i++) {
        r->commands += c->refs[i].kind == ENTRY_COMMAND;
    }
    r->callbacks.apply_done(r->callbacks.ctx);
    return rv != 0 ? rv : r->error;
}

/* Restores the snapshot, starts the engine and applies the committed entries. */
static int replay(struct replication *r, struct journal_contents *c, struct snapshot_reader *reader,
                  bool found, bool fresh, struct error_text *problem)
{
    int rv = 0;
    bool empty = c->count == 0 && r->journal.metadata.joining;
    if (!found && !empty && (c->count == 0 || c->refs[0].kind != ENTRY_CONFIGURATION)) {
        return error_text_set(problem, CONCLAVE_ECORRUPT,
                              "the log in %s/log does not begin with a configuration",
                              r->folder.dir);
    }
    if (found) {
        rv = restore(r, reader, problem);
    }
    if (rv == 0) {
        rv = fill_table(r, c);
    }
    if (rv == 0) {
        join_init(r, r->journal.metadata.joining);
        rv = skip_entry_recover(r, c, c->sealed || fresh);
    }
    if (rv == 0) {
        rv = start_engine(r, c, found ? &reader->meta : NULL, problem);
    }
    if (rv == 0) {
        rv = replay_committed(r, c);
        if (r->journal.problem.text != NULL) {
            rv = journal_problem(r, rv, problem);
        }
    }
    r->live_segment = r->journal.n_segments > 0 ? r->journal.segments[0].sequence : 0;
    return rv;
}

/* Makes file names durable: the last run may have been killed between a rename and the sync of its folder. A later
 * power cut must not take back a file that this start relies on. */
static int settle_names(struct replication *r, struct error_text *problem)
{
    char *snapshots = path_make("%s/snapshot", r->folder.dir);
    int err = snapshots == NULL ? -ENOMEM : r->ops->sync_folder(r->ops->ctx, r->folder.dir);
    if (err == 0) {
        err = r->ops->sync_folder(r->ops->ctx, snapshots);
        err = err == -ENOENT ? 0 : err;
    }
    free(snapshots);
    return err == 0 ? 0 : error_text_file(problem, err, "cannot sync the folder", r->folder.dir);
}

static bool snapshot_is_there(void *ctx, uint64_t index)
{
    struct replication *r = ctx;
    struct snapshot_reader reader;
    struct error_text ignored = {0};
    int rv = snapshot_reader_open(&reader, r->ops, r->folder.dir, index, r->folder.marker.cluster,
                                  &ignored);
    error_text_finish(&ignored);
    if (rv == 0) {
        snapshot_reader_close(&reader);
        running_log_note(r, false, "snapshot_installed",
                         "index=%" PRIu64 " reason=\"begun before\"", index);
    }
    return rv == 0;
}

/* Opens the log, and completes an installation that a crash interrupted. */
static int open_log(struct replication *r, struct error_text *problem)
{
    int rv = init_log(r);
    if (rv != 0) {
        return rv;
    }
    rv = journal_resume_install(&r->journal, snapshot_is_there, r);
    if (rv != 0) {
        return journal_problem(r, rv, problem);
    }
    journal_finish(&r->journal);
    r->journal_ready = false;
    return init_log(r);
}

/* Reads log and snapshots; the caller owns the results, also on failure. */
static int read_folder(struct replication *r, bool fresh, struct journal_contents *c,
                       struct snapshot_reader *reader, bool *ret_found, struct error_text *problem)
{
    const struct journal_rescue rescue = {r, covered_index, note_left_out};
    int rv = open_log(r, problem);
    if (rv != 0) {
        return rv;
    }
    rv = journal_recover(&r->journal, &rescue, c);
    if (rv != 0) {
        return journal_problem(r, rv, problem);
    }
    note_tail(r, c, fresh);
    return choose_snapshot(r, c, reader, ret_found, problem);
}

static void forget_folder(struct replication *r, struct journal_contents *c,
                          struct snapshot_reader *reader, bool *found)
{
    if (*found) {
        snapshot_reader_close(reader);
        *found = false;
    }
    journal_contents_finish(c);
    free(r->snapshot.kept);
    r->snapshot.kept = NULL;
    r->snapshot.n_kept = 0;
    journal_finish(&r->journal);
    r->journal_ready = false;
}

int start_recover(struct replication *r, uint64_t server_id, struct error_text *problem)
{
    struct journal_contents contents = {0};
    struct snapshot_reader reader = {0};
    bool found = false;
    bool changed = false;
    int rv = data_folder_open(&r->folder, r->ops, r->options.dir, server_id, r->options.join,
                              r->options.cluster_given ? r->options.cluster : NULL, problem);
    r->options.dir = r->folder.dir;
    bool fresh = rv == 0 && !r->folder.marker.ready;
    if (fresh) {
        rv = first_start(r, server_id, problem);
    } else if (rv == 0 && r->folder.healing) {
        damage_is_over(r->ops, r->folder.dir); /* a crash came before its removal */
    }
    if (rv == 0) {
        rv = settle_names(r, problem);
    }
    if (rv != 0) {
        return rv;
    }
    rv = read_folder(r, fresh, &contents, &reader, &found, problem);
    if (rv == 0 && r->options.go_alone) {
        rv = force_alone_begin(r, &contents, found ? &reader.meta : NULL, &changed, problem);
    }
    if (rv == 0 && changed) {
        forget_folder(r, &contents, &reader, &found);
        rv = read_folder(r, fresh, &contents, &reader, &found, problem);
    }
    if (rv == 0) {
        rv = replay(r, &contents, &reader, found, fresh, problem);
    }
    if (rv == 0 && journal_drop_left_out(&r->journal, &contents) != 0) {
        rv = journal_problem(r, r->journal.error, problem);
    }
    if (found) {
        snapshot_reader_close(&reader);
    }
    journal_contents_finish(&contents);
    return rv;
}
