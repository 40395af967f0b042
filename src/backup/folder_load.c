#include "backup/folder_load.h"

#include "base/memory.h"
#include "replication/disk/damage.h"
#include "replication/disk/log_scan.h"
#include "replication/disk/snapshot_file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- survey ----------------------------------------------------------------------------------- */

static void survey_fault(void *ctx, const struct folder_fault *fault)
{
    struct folder_survey *s = ctx;
    struct folder_damage damage = {fault->kind, strdup(fault->path), fault->offset,
                                   strdup(fault->what)};
    if (damage.path == NULL || damage.what == NULL ||
        !array_room(&s->damages, s->damage_count, &s->damage_cap, sizeof *s->damages)) {
        free(damage.path);
        free(damage.what);
        s->failed = true;
        return;
    }
    s->damages[s->damage_count++] = damage;
    s->faults += fault->kind != FOLDER_FAULT_TORN && fault->kind != FOLDER_FAULT_ASIDE;
    assert(s->faults <= s->damage_count);
}

static void survey_snapshot(struct folder_survey *s, const struct folder_file *file)
{
    struct folder_snapshot snapshot = {
        .path = strdup(file->path),
        .damaged = file->damaged,
        .bytes = file->bytes,
        .index = file->last_index,
        .term = file->last_term,
        .zxid = -1,
    };
    if (!file->damaged && state_snapshot_zxid(file->content, &snapshot.zxid) != 0) {
        snapshot.damaged = true; /* the file is whole: a newer version wrote it */
    }
    if (snapshot.path == NULL ||
        !array_room(&s->snapshots, s->snapshot_count, &s->snapshot_cap, sizeof *s->snapshots)) {
        free(snapshot.path);
        s->failed = true;
        return;
    }
    s->snapshots[s->snapshot_count++] = snapshot;
}

static void survey_file(void *ctx, const struct folder_file *file)
{
    struct folder_survey *s = ctx;
    if (file->snapshot) {
        survey_snapshot(s, file);
        return;
    }
    struct folder_segment segment = {
        .path = strdup(file->path),
        .damaged = file->damaged,
        .bytes = file->bytes,
        .first_index = file->first_index,
        .last_index = file->last_index,
        .first_term = file->first_term,
        .last_term = file->last_term,
    };
    if (segment.path == NULL ||
        !array_room(&s->segments, s->segment_count, &s->segment_cap, sizeof *s->segments)) {
        free(segment.path);
        s->failed = true;
        return;
    }
    s->segments[s->segment_count++] = segment;
}

static int snapshot_compare(const void *a, const void *b)
{
    const struct folder_snapshot *x = a;
    const struct folder_snapshot *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

bool folder_is_ours(const char *dir)
{
    struct error_text ignored = {NULL};
    struct marker marker;
    int rc = marker_read(file_ops_system(), dir, &marker, &ignored);
    error_text_finish(&ignored);
    return rc != CONCLAVE_NO_NODE || damage_is_ours(file_ops_system(), dir);
}

int folder_survey(const char *dir, struct folder_survey *ret)
{
    *ret = (struct folder_survey){.segments = NULL};
    const struct folder_listener told = {ret, survey_fault, survey_file};
    members_file_init(&ret->members);
    int rc = folder_check(dir, NULL, &told, &ret->facts);
    if (ret->snapshot_count > 1) {
        qsort(ret->snapshots, ret->snapshot_count, sizeof *ret->snapshots, snapshot_compare);
    }
    int members = rc == 0 ? members_file_read(&ret->members, NULL, dir) : 0;
    assert(members != 0 || ret->members.n > 0 || rc != 0);
    return ret->failed || members == CONCLAVE_ENOMEM ? CONCLAVE_ENOMEM : rc;
}

void folder_survey_finish(struct folder_survey *s)
{
    for (size_t i = 0; i < s->segment_count; i++) {
        free(s->segments[i].path);
    }
    for (size_t i = 0; i < s->snapshot_count; i++) {
        free(s->snapshots[i].path);
    }
    for (size_t i = 0; i < s->damage_count; i++) {
        free(s->damages[i].path);
        free(s->damages[i].what);
    }
    free(s->segments);
    free(s->snapshots);
    free(s->damages);
    members_file_finish(&s->members);
    *s = (struct folder_survey){.segments = NULL};
}

/* --- state ------------------------------------------------------------------------------------ */

struct our_reading {
    const char *dir;
    const struct folder_survey *survey;
    struct replay replay;
    struct error_text problem;
};

/* The last entry of the log; 0: there is none, or a snapshot was about to replace the log, and is whole. */
static uint64_t log_last(const struct folder_survey *s)
{
    for (size_t i = 0; i < s->snapshot_count; i++) {
        if (!s->snapshots[i].damaged && s->snapshots[i].index == s->facts.metadata.installing) {
            return 0;
        }
    }
    return s->facts.last_index;
}

/* Whether the log goes on behind this entry, or ends before it. */
static bool log_continues(const struct folder_survey *s, uint64_t index)
{
    uint64_t first = s->facts.first_index;
    return log_last(s) <= index || (first != 0 && first <= index + 1);
}

/* The newest snapshot to begin with, the oldest for a time; NULL: the log is complete. False: nothing to begin with. */
static bool choose_snapshot(const struct folder_survey *s, const struct backup_moment *moment,
                            const struct folder_snapshot **ret)
{
    *ret = NULL;
    for (size_t i = 0; i < s->snapshot_count; i++) {
        const struct folder_snapshot *snapshot = &s->snapshots[i];
        bool early = moment->zxid == 0 || snapshot->zxid <= moment->zxid;
        bool usable = !snapshot->damaged && log_continues(s, snapshot->index);
        if (usable && (*ret == NULL || (early && moment->time_ms == 0))) {
            *ret = snapshot;
        }
    }
    return *ret != NULL || (s->snapshot_count == 0 && log_continues(s, 0));
}

static void reading_passed(void *ctx, struct slice bytes)
{
    pages_pass(ctx, bytes);
}

static int begin_with_snapshot(struct our_reading *x, const struct folder_snapshot *snapshot)
{
    struct snapshot_reader reader;
    struct pages_passed pages = {0};
    int rc = snapshot_reader_open(&reader, file_ops_system(), x->dir, snapshot->index,
                                  x->survey->facts.marker.cluster, &x->problem);
    if (rc != 0) {
        return rc;
    }
    const struct replay_snapshot from = {
        .index = reader.meta.index,
        .term = reader.meta.term,
        .content = reader.content,
        .configuration = buf_slice(&reader.meta.configuration),
        .passed = reading_passed,
        .ctx = &pages,
    };
    rc = replay_begin(&x->replay, &from);
    snapshot_reader_close(&reader);
    return rc;
}

static int replay_log(struct our_reading *x)
{
    const struct folder_facts *f = &x->survey->facts;
    const struct log_scan_end end = {f->last_index, f->metadata.last_segment, f->end_offset};
    struct log_scan_entry entry;
    struct log_scan *scan;
    if (x->replay.index >= log_last(x->survey)) {
        return 0;
    }
    int rc = log_scan_open(&scan, file_ops_system(), x->dir, f->marker.cluster, x->replay.index + 1,
                           &end, &x->problem);
    if (rc != 0) {
        return rc;
    }
    while ((rc = log_scan_next(scan, &entry, &x->problem)) == 1) {
        const struct replay_entry e = {entry.kind, entry.index, entry.term, entry.payload};
        rc = replay_apply(&x->replay, &e);
        if (rc != 0) {
            break;
        }
    }
    log_scan_close(scan);
    return rc;
}

static int read_to(struct our_reading *x, const struct backup_moment *moment,
                   struct folder_loaded *ret)
{
    const struct folder_snapshot *snapshot;
    if (!choose_snapshot(x->survey, moment, &snapshot)) {
        return error_text_set(&x->problem, CONCLAVE_ECORRUPT,
                              "%s has no snapshot that is whole and that the log continues",
                              x->dir);
    }
    int rc = snapshot != NULL ? begin_with_snapshot(x, snapshot) : replay_begin_empty(&x->replay);
    rc = rc == 0 ? replay_log(x) : rc;
    rc = rc == REPLAY_STOPPED ? 0 : rc;
    rc = rc == 0 ? replay_judge(&x->replay, "the log ends") : rc;
    if (rc != 0) {
        return rc;
    }
    *ret = (struct folder_loaded){
        .state = x->replay.state,
        .snapshot = snapshot != NULL ? snapshot->index : 0,
        .index = x->replay.index,
        .term = x->replay.term,
        .end_zxid = state_zxid(x->replay.state),
        .time_ms = x->replay.time_ms,
        .entries = x->replay.entries,
    };
    x->replay.state = NULL;
    return 0;
}

/* The first zxid that the folder can give. */
static int64_t first_zxid(const struct folder_survey *s)
{
    for (size_t i = 0; i < s->snapshot_count; i++) {
        if (!s->snapshots[i].damaged && log_continues(s, s->snapshots[i].index)) {
            return s->snapshots[i].zxid;
        }
    }
    return 0;
}

/* The moment is not there: what is? */
static int tell_range(const char *dir, const struct folder_survey *survey,
                      const struct backup_moment *moment, const char *why, char **ret_text)
{
    const struct backup_moment end = {0};
    struct folder_loaded all = {.state = NULL};
    char *text = NULL;
    int rc = moment->zxid != 0 || moment->time_ms != 0 ? folder_load(dir, survey, &end, &all, &text)
                                                       : CONCLAVE_EINVAL;
    free(text);
    if (rc != 0) {
        return text_fail(ret_text, CONCLAVE_EINVAL, "%s: %s", dir, why);
    }
    (void)text_fail(ret_text, 0,
                    "%s: %s. The folder gives every state from zxid 0x%" PRIx64 " to 0x%" PRIx64
                    "; older ones may be in backups",
                    dir, why, (uint64_t)all.begin_zxid, (uint64_t)all.end_zxid);
    state_destroy(all.state);
    return CONCLAVE_EINVAL;
}

int folder_load(const char *dir, const struct folder_survey *survey,
                const struct backup_moment *moment, struct folder_loaded *ret, char **ret_text)
{
    struct our_reading x = {.dir = dir, .survey = survey};
    const struct folder_facts *f = &survey->facts;
    if (f->fresh) {
        return text_fail(ret_text, CONCLAVE_EEMPTY, "%s has no data yet", dir);
    }
    if (f->segments == 0 || f->end_offset == 0) {
        return text_fail(ret_text, CONCLAVE_ECORRUPT,
                         "%s cannot be read: the end of its log is missing or damaged", dir);
    }
    replay_init(&x.replay, moment, NULL, NULL);
    int rc = read_to(&x, moment, ret);
    if (rc == 0) {
        ret->begin_zxid = first_zxid(survey);
    } else if (rc == CONCLAVE_EINVAL) {
        const char *why = x.replay.text != NULL ? x.replay.text : conclave_strerror(rc);
        rc = tell_range(dir, survey, moment, why, ret_text);
    } else {
        const char *why = x.replay.text != NULL ? x.replay.text : error_text_of(&x.problem, rc);
        rc = text_fail(ret_text, rc, "%s: %s", dir, why);
    }
    error_text_finish(&x.problem);
    replay_finish(&x.replay);
    return rc;
}
