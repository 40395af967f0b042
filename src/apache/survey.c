#include "apache/survey.h"

#include "apache/folder_files.h"
#include "apache/snapshot.h"
#include "apache/txn_log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- lists ------------------------------------------------------------------------------------ */

/* Takes the text, which may be NULL when memory is out. */
static int survey_damage(struct apache_survey *s, enum apache_damage_kind kind, const char *path,
                         uint64_t offset, char *what_take)
{
    struct apache_damage damage = {kind, strdup(path), offset, what_take};
    if (damage.path == NULL || what_take == NULL ||
        !array_room(&s->damages, s->damage_count, &s->damage_cap, sizeof *s->damages)) {
        free(damage.path);
        free(what_take);
        return CONCLAVE_ENOMEM;
    }
    s->damages[s->damage_count++] = damage;
    s->faults += kind == APACHE_DAMAGE || kind == APACHE_GAP;
    return 0;
}

/* NULL: out of memory. Valid until the next call. */
static struct apache_file *survey_file(struct apache_survey *s, const struct zxid_file *file,
                                       bool snapshot)
{
    struct stat st;
    struct apache_file f = {.path = strdup(file->path), .snapshot = snapshot};
    if (f.path == NULL || !array_room(&s->files, s->file_count, &s->file_cap, sizeof *s->files)) {
        free(f.path);
        return NULL;
    }
    f.bytes = stat(file->path, &st) == 0 ? (uint64_t)st.st_size : 0;
    s->files[s->file_count] = f;
    return &s->files[s->file_count++];
}

/* --- snapshots -------------------------------------------------------------------------------- */

static int count_session(void *ctx, int64_t id, int32_t timeout_ms)
{
    struct apache_file *f = ctx;
    (void)id;
    (void)timeout_ms;
    f->sessions++;
    return 0;
}

static int pass_acl(void *ctx, int64_t number, struct wire_vector entries)
{
    (void)ctx;
    (void)number;
    (void)entries;
    return 0;
}

static int count_node(void *ctx, const struct adopted_node *node)
{
    struct apache_file *f = ctx;
    (void)node;
    f->nodes++;
    return 0;
}

static int pass_end(void *ctx, int64_t zxid)
{
    (void)ctx;
    (void)zxid;
    return 0;
}

static const char *no_problem(void *ctx)
{
    (void)ctx;
    return "";
}

static int survey_snapshot(struct apache_survey *s, const struct zxid_file *file)
{
    struct apache_file *f = survey_file(s, file, true);
    struct apache_snapshot_end end;
    char *error = NULL;
    if (f == NULL) {
        return CONCLAVE_ENOMEM;
    }
    const struct apache_snapshot_taker taker = {f,          count_session, pass_acl,
                                                count_node, pass_end,      no_problem};
    f->first_zxid = file->zxid;
    int rc = apache_snapshot_read(file->path, file->zxid, &taker, &end, &error);
    f->last_zxid = end.has_zxid ? end.zxid : file->zxid;
    if (rc != 0 && rc != CONCLAVE_ENOMEM) {
        f->damaged = true;
        rc = survey_damage(s, APACHE_DAMAGE, file->path, end.offset, error);
    }
    return rc;
}

/* --- logs ------------------------------------------------------------------------------------- */

static void count_transaction(struct apache_file *f, const struct outcome *o)
{
    const struct wire_txn_header *h = &o->header;
    f->first_zxid = f->transactions == 0 ? h->zxid : f->first_zxid;
    f->first_ms = f->transactions == 0 ? h->time_ms : f->first_ms;
    f->last_zxid = h->zxid;
    f->last_ms = h->time_ms;
    f->transactions++;
}

enum { DAMAGES_MAX = 100 }; /* told of one file, which may consist of nothing else */

/* All entries; behind damage it goes on. */
static int read_entries(struct apache_survey *s, struct apache_file *f, struct apache_txn_log *log)
{
    struct outcome o;
    for (unsigned damages = 0;; damages++) {
        char *error = NULL;
        int rc = apache_txn_log_next(log, &o, &error);
        while (rc == 1) {
            count_transaction(f, &o);
            rc = apache_txn_log_next(log, &o, &error);
        }
        if (rc == 0 || rc == CONCLAVE_ENOMEM) {
            free(error);
            return rc;
        }
        f->damaged = true;
        if (damages == DAMAGES_MAX) {
            free(error);
            error = NULL;
            (void)text_fail(&error, 0, "%s is damaged in more than %d places: the rest is not read",
                            f->path, DAMAGES_MAX);
        }
        rc = survey_damage(s, APACHE_DAMAGE, f->path, apache_txn_log_offset(log), error);
        if (damages == DAMAGES_MAX) {
            return rc;
        }
        error = NULL;
        rc = rc == 0 ? apache_txn_log_resume(log, &error) : rc;
        if (rc != 1) {
            free(error);
            return rc == CONCLAVE_ENOMEM ? rc : 0;
        }
    }
}

static int survey_log(struct apache_survey *s, const struct zxid_file *file)
{
    struct apache_file *f = survey_file(s, file, false);
    struct apache_txn_log *log;
    char *error = NULL;
    uint64_t offset;
    if (f == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int rc = apache_txn_log_open(file->path, &log, &error);
    if (rc != 0) {
        f->damaged = true;
        return rc == CONCLAVE_ENOMEM ? rc : survey_damage(s, APACHE_DAMAGE, file->path, 0, error);
    }
    rc = read_entries(s, f, log);
    if (rc == 0 && apache_txn_log_unfinished(log, &offset)) {
        (void)text_fail(&error, 0,
                        "%s ends with a part of an entry at byte %llu, as a crash leaves it; "
                        "nobody was told that it is written",
                        file->path, (unsigned long long)offset);
        rc = survey_damage(s, APACHE_UNFINISHED, file->path, offset, error);
    }
    apache_txn_log_close(log);
    return rc;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* The newest snapshot that is whole. */
static int64_t newest_snapshot(const struct apache_survey *s)
{
    int64_t zxid = -1;
    for (size_t i = 0; i < s->file_count; i++) {
        const struct apache_file *f = &s->files[i];
        zxid = f->snapshot && !f->damaged && f->first_zxid > zxid ? f->first_zxid : zxid;
    }
    return zxid;
}

/* Transactions that are missing between one log and the next. A server that got a snapshot from its leader has such a gap,
 * and that snapshot. */
static int survey_gaps(struct apache_survey *s)
{
    const struct apache_file *before = NULL;
    int64_t newest = newest_snapshot(s);
    int rc = 0;
    for (size_t i = 0; i < s->file_count && rc == 0; i++) {
        const struct apache_file *f = &s->files[i];
        if (f->snapshot || f->transactions == 0) {
            continue;
        }
        if (before != NULL && f->first_zxid > before->last_zxid &&
            !zxid_follows(before->last_zxid, f->first_zxid)) {
            char *what = NULL;
            (void)text_fail(&what, 0,
                            "transactions are missing between 0x%llx, the last one of %s, and "
                            "0x%llx, with which %s begins",
                            (unsigned long long)before->last_zxid, before->path,
                            (unsigned long long)f->first_zxid, f->path);
            rc = survey_damage(s, newest >= f->first_zxid - 1 ? APACHE_OLD_GAP : APACHE_GAP,
                               f->path, 0, what);
        }
        before = f;
    }
    return rc;
}

int apache_survey(const char *dir, const char *log_dir, struct apache_survey *ret, char **ret_error)
{
    struct folder_files files;
    *ret = (struct apache_survey){.files = NULL};
    int rc = folder_files_list(dir, log_dir, &files, ret_error);
    for (size_t i = 0; rc == 0 && i < files.snapshots.count; i++) {
        rc = survey_snapshot(ret, &files.snapshots.list[i]);
    }
    for (size_t i = 0; rc == 0 && i < files.logs.count; i++) {
        rc = survey_log(ret, &files.logs.list[i]);
    }
    rc = rc == 0 ? survey_gaps(ret) : rc;
    assert(rc != 0 || ret->file_count == files.snapshots.count + files.logs.count);
    folder_files_finish(&files);
    return rc;
}

void apache_survey_finish(struct apache_survey *s)
{
    for (size_t i = 0; i < s->file_count; i++) {
        free(s->files[i].path);
    }
    for (size_t i = 0; i < s->damage_count; i++) {
        free(s->damages[i].path);
        free(s->damages[i].what);
    }
    free(s->files);
    free(s->damages);
    *s = (struct apache_survey){.files = NULL};
}
