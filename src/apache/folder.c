#define _GNU_SOURCE /* asprintf */
#include "apache/folder.h"

#include "apache/folder_files.h"
#include "apache/format.h"
#include "apache/snapshot.h"
#include "apache/txn_log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

void apache_found_finish(struct apache_found *found)
{
    free(found->snapshot);
    free(found->unfinished);
    apache_history_finish(&found->history);
    *found = (struct apache_found){0};
}

uint32_t apache_crc32(uint32_t before, struct slice bytes)
{
    return bytes.len > 0 ? (uint32_t)crc32_z(before, bytes.data, bytes.len) : before;
}

bool apache_folder_was(const char *dir)
{
    char *inner = apache_inner_folder(dir);
    bool was = inner != NULL && strcmp(inner, dir) != 0;
    free(inner);
    return was;
}

bool apache_folder_is(const char *dir)
{
    struct folder_files files;
    char *error;
    bool is = folder_files_list(dir, NULL, &files, &error) == 0 &&
              files.snapshots.count + files.logs.count > 0;
    free(error);
    folder_files_finish(&files);
    return is;
}

/* A folder that is being read. */
struct folder_reading {
    struct adoption *a;
    struct apache_found *found;
    int64_t until; /* the last zxid to apply */
    char **ret_error;
};

static int folder_apply(struct folder_reading *x, const char *file, const struct outcome *o,
                        bool *first)
{
    int64_t before = adoption_zxid(x->a);
    int64_t zxid = o->header.zxid;
    if (*first && !zxid_follows(before, zxid)) {
        return text_fail(
            x->ret_error, CONCLAVE_ECORRUPT,
            "transactions are missing between 0x%llx and 0x%llx, with which %s goes on: put the "
            "missing log files back (is dataLogDir another folder?)",
            (unsigned long long)before, (unsigned long long)zxid, file);
    }
    *first = false;
    int rc = adoption_apply(x->a, o);
    if (rc == CONCLAVE_ECORRUPT) {
        return text_fail(x->ret_error, rc, "%s: %s", file, adoption_error(x->a));
    }
    x->found->transactions++;
    x->found->time_ms = o->header.time_ms;
    return rc;
}

static int note_unfinished(struct folder_reading *x, const struct apache_txn_log *log,
                           const char *file)
{
    uint64_t offset;
    if (!apache_txn_log_unfinished(log, &offset)) {
        return 0;
    }
    x->found->unfinished_at = offset;
    return text_replace(&x->found->unfinished, file);
}

static int read_log(struct folder_reading *x, const char *file)
{
    struct apache_txn_log *log;
    int rc = apache_txn_log_open(file, &log, x->ret_error);
    if (rc != 0) {
        return rc;
    }
    struct outcome o;
    bool first = true;
    uint64_t before = x->found->transactions;
    while ((rc = apache_txn_log_next(log, &o, x->ret_error)) == 1) {
        if (o.header.zxid > x->until) {
            break;
        }
        rc = apache_history_add(&x->found->history, &o);
        if (rc == 0 && o.header.zxid > adoption_zxid(x->a)) {
            rc = folder_apply(x, file, &o, &first);
        }
        if (rc != 0) {
            break;
        }
    }
    if (rc == 1) {
        rc = 0; /* the last one that is wanted was there */
    }
    assert(x->found->transactions >= before);
    x->found->logs_read += x->found->transactions > before;
    if (rc == 0 && x->until == INT64_MAX) {
        rc = note_unfinished(x, log, file);
    }
    apache_txn_log_close(log);
    return rc;
}

/* From the file on that may hold the transaction after the snapshot. */
static int read_logs(struct folder_reading *x, const struct zxid_files *logs)
{
    size_t start = 0;
    for (size_t i = 0; i < logs->count; i++) {
        if (logs->list[i].zxid <= x->found->snapshot_zxid + 1) {
            start = i;
        }
    }
    int rc = 0;
    for (size_t i = start; i < logs->count && rc == 0; i++) {
        rc = read_log(x, logs->list[i].path);
    }
    return rc;
}

/* Without a snapshot a log must begin with the first transaction of all, and the tree with the root. */
static int begin_empty(struct folder_reading *x)
{
    struct adopted_node root = {.path = slice_make("", 0),
                                .record = {.data = slice_make("", 0), .acl = -1}};
    int rc = adoption_node(x->a, &root);
    return rc == 0 ? adoption_nodes_end(x->a, 0) : rc;
}

/* `count`: how many of the snapshots may be read; the last of these is. */
static int read_snapshot(struct folder_reading *x, const struct zxid_files *snapshots, size_t count,
                         struct apache_snapshot_end *ret_end)
{
    if (count == 0) {
        return begin_empty(x);
    }
    const struct zxid_file *newest = &snapshots->list[count - 1];
    x->found->snapshot_zxid = newest->zxid;
    const struct apache_snapshot_taker taker = apache_adoption_taker(x->a);
    int rc = text_replace(&x->found->snapshot, newest->path);
    if (rc == 0) {
        rc = apache_snapshot_read(newest->path, newest->zxid, &taker, ret_end, x->ret_error);
    }
    if (rc == CONCLAVE_ECORRUPT && count > 1) {
        char *why = *x->ret_error;
        (void)text_fail(
            x->ret_error, rc,
            "%s. An older snapshot is there: if you move this file away, reading begins with that one, and "
            "fails if logs are missing",
            why);
        free(why);
    }
    return rc;
}

static int folder_read_all(struct folder_reading *x, const struct folder_files *files, size_t count,
                           struct state **ret_state)
{
    struct apache_snapshot_end end = {0};
    int rc = read_snapshot(x, &files->snapshots, count, &end);
    rc = rc == 0 ? read_logs(x, &files->logs) : rc;
    if (rc != 0) {
        return rc;
    }
    x->found->zxid = adoption_zxid(x->a);
    assert(x->found->zxid >= x->found->snapshot_zxid);
    rc = adoption_end(x->a, end.has_digest ? &end.digest : NULL, apache_crc32, &x->found->report,
                      ret_state);
    if (rc == CONCLAVE_ECORRUPT) {
        return text_fail(x->ret_error, rc, "the files do not fit together: %s",
                         adoption_error(x->a));
    }
    return rc;
}

static int read_listed(const struct folder_files *files, const char *dir, int64_t until,
                       size_t snapshots, const struct hash_key *key, struct apache_found *ret,
                       struct state **ret_state, char **ret_error)
{
    if (files->snapshots.count == 0 && files->logs.count == 0) {
        return text_fail(ret_error, CONCLAVE_EEMPTY, "%s has no snapshot and no log of ZooKeeper",
                         dir);
    }
    struct folder_reading x = {
        .a = adoption_create(key), .found = ret, .until = until, .ret_error = ret_error};
    if (x.a == NULL) {
        return CONCLAVE_ENOMEM;
    }
    ret->snapshots = files->snapshots.count;
    ret->logs = files->logs.count;
    int rc = folder_read_all(&x, files, snapshots, ret_state);
    adoption_destroy(x.a);
    return rc;
}

static int last_of_log(const char *file, int64_t *ret, char **ret_error)
{
    struct apache_txn_log *log;
    struct outcome o;
    int rc = apache_txn_log_open(file, &log, ret_error);
    if (rc != 0) {
        return rc;
    }
    while ((rc = apache_txn_log_next(log, &o, ret_error)) == 1) {
        *ret = o.header.zxid > *ret ? o.header.zxid : *ret;
    }
    apache_txn_log_close(log);
    return rc;
}

int apache_folder_last_zxid(const char *dir, const char *log_dir, int64_t *ret, char **ret_error)
{
    struct folder_files files;
    *ret = 0;
    int rc = folder_files_list(dir, log_dir, &files, ret_error);
    size_t left = rc == 0 ? files.logs.count : 0;
    while (rc == 0 && left > 0 && *ret == 0) {
        rc = last_of_log(files.logs.list[--left].path, ret, ret_error);
    }
    if (rc == 0 && files.snapshots.count > 0) {
        int64_t newest = files.snapshots.list[files.snapshots.count - 1].zxid;
        *ret = newest > *ret ? newest : *ret;
    }
    folder_files_finish(&files);
    return rc;
}

/* The file beside the snapshots, or the epoch of the last zxid, when that is newer or there is no such file. */
static int read_epoch(const char *dir, int64_t zxid, int64_t *ret)
{
    char *inner = apache_inner_folder(dir);
    char *path;
    if (inner == NULL || asprintf(&path, "%s/" APACHE_EPOCH_FILE, inner) < 0) {
        free(inner);
        return CONCLAVE_ENOMEM;
    }
    char text[32] = "";
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        size_t len = fread(text, 1, sizeof text - 1, file);
        text[len] = '\0';
        (void)fclose(file);
    }
    free(inner);
    free(path);
    long long epoch = strtoll(text, NULL, 10);
    *ret = epoch > zxid >> 32 ? epoch : zxid >> 32;
    return 0;
}

int apache_folder_read(const char *dir, const char *log_dir, const struct hash_key *key,
                       struct apache_found *ret, struct state **ret_state, char **ret_error)
{
    struct folder_files files;
    *ret = (struct apache_found){0};
    int rc = folder_files_list(dir, log_dir, &files, ret_error);
    rc = rc == 0 ? read_listed(&files, dir, INT64_MAX, files.snapshots.count, key, ret, ret_state,
                               ret_error)
                 : rc;
    if (rc == 0 && (rc = read_epoch(dir, ret->zxid, &ret->epoch)) != 0) {
        state_destroy(*ret_state);
    }
    if (rc != 0) {
        apache_found_finish(ret);
    }
    folder_files_finish(&files);
    return rc;
}

/* The newest transactions of a folder. */
struct tail_reading {
    int64_t last;  /* of the logs so far */
    int64_t given; /* the last one that fn has, or that its caller had before */
    int (*fn)(void *ctx, int64_t zxid, struct slice transaction);
    void *ctx;
    struct buf bytes;
    char **ret_error;
};

/* Gives the bytes of a transaction as a leader sends them. */
static int tail_give(struct tail_reading *x, const char *file, const struct outcome *o)
{
    int64_t zxid = o->header.zxid;
    if (!zxid_follows(x->given, zxid)) {
        return text_fail(
            x->ret_error, CONCLAVE_ECORRUPT,
            "transactions are missing between 0x%llx and 0x%llx, with which %s goes on: put the missing log "
            "files back, or name the folder of a server that has them",
            (unsigned long long)x->given, (unsigned long long)zxid, file);
    }
    x->given = zxid;
    buf_reset(&x->bytes);
    wire_encode_txn_header(&x->bytes, &o->header);
    buf_append_slice(&x->bytes, o->record);
    if (o->has_digest) {
        buf_append_i32(&x->bytes, o->digest.version);
        buf_append_i64(&x->bytes, o->digest.digest);
    }
    return buf_ok(&x->bytes) ? x->fn(x->ctx, zxid, buf_slice(&x->bytes)) : CONCLAVE_ENOMEM;
}

static int tail_of_log(struct tail_reading *x, const char *file)
{
    struct apache_txn_log *log;
    struct outcome o;
    int rc = apache_txn_log_open(file, &log, x->ret_error);
    if (rc != 0) {
        return rc;
    }
    while ((rc = apache_txn_log_next(log, &o, x->ret_error)) == 1) {
        x->last = o.header.zxid > x->last ? o.header.zxid : x->last;
        if (o.header.zxid > x->given && (rc = tail_give(x, file, &o)) != 0) {
            break;
        }
    }
    apache_txn_log_close(log);
    return rc;
}

int apache_folder_tail(const char *dir, const char *log_dir, int64_t after,
                       int (*fn)(void *ctx, int64_t zxid, struct slice transaction), void *ctx,
                       struct apache_tail *ret, char **ret_error)
{
    struct folder_files files;
    struct tail_reading x = {.given = after, .fn = fn, .ctx = ctx, .ret_error = ret_error};
    buf_init(&x.bytes, 0);
    int rc = folder_files_list(dir, log_dir, &files, ret_error);
    const struct zxid_files *logs = &files.logs;
    size_t first = 0;
    for (size_t i = 0; rc == 0 && i < logs->count; i++) {
        first = logs->list[i].zxid <= after + 1 ? i : first;
    }
    for (size_t i = first; rc == 0 && i < logs->count; i++) {
        rc = tail_of_log(&x, logs->list[i].path);
    }
    if (rc == 0 && logs->count == 0 && files.snapshots.count == 0) {
        rc = text_fail(ret_error, CONCLAVE_EEMPTY, "%s has no snapshot and no log of ZooKeeper",
                       dir);
    }
    if (rc == 0) {
        int64_t newest =
            files.snapshots.count > 0 ? files.snapshots.list[files.snapshots.count - 1].zxid : 0;
        ret->zxid = newest > x.last ? newest : x.last;
        rc = read_epoch(dir, ret->zxid, &ret->epoch);
    }
    buf_finish(&x.bytes);
    folder_files_finish(&files);
    return rc;
}

/* One attempt, from the last of so many snapshots. CONCLAVE_EINVAL: it does not lead to a state of this zxid. */
static int read_from(const struct folder_files *files, const char *dir, int64_t zxid, size_t count,
                     const struct hash_key *key, struct apache_found *ret, struct state **ret_state,
                     char **ret_error)
{
    int rc = read_listed(files, dir, zxid, count, key, ret, ret_state, ret_error);
    if (rc == 0 && ret->zxid != zxid) {
        rc = text_fail(ret_error, CONCLAVE_EINVAL,
                       "%s: there is no state of zxid 0x%llx: the last one before it is 0x%llx",
                       dir, (unsigned long long)zxid, (unsigned long long)ret->zxid);
        state_destroy(*ret_state);
    }
    if (rc != 0) {
        apache_found_finish(ret);
    }
    return rc;
}

/* ZooKeeper writes a snapshot while the tree changes, so it may hold more than its name says, but nothing of what came after the
 * next snapshot was begun. So the newest one before that zxid counts only if the digest proves it. */
static int read_at(const struct folder_files *files, const char *dir, int64_t zxid,
                   const struct hash_key *key, struct apache_found *ret, struct state **ret_state,
                   char **ret_error)
{
    size_t count = 0;
    while (count < files->snapshots.count && files->snapshots.list[count].zxid <= zxid) {
        count++;
    }
    if (count == 0 && files->snapshots.count > 0) {
        return text_fail(ret_error, CONCLAVE_EINVAL,
                         "%s begins only with the snapshot of zxid 0x%llx: 0x%llx is before it",
                         dir, (unsigned long long)files->snapshots.list[0].zxid,
                         (unsigned long long)zxid);
    }
    int rc = read_from(files, dir, zxid, count, key, ret, ret_state, ret_error);
    bool first = count == 0 || files->snapshots.list[count - 1].zxid == 0;
    if (rc == CONCLAVE_ENOMEM || rc == CONCLAVE_EINVAL ||
        (rc == 0 && (first || ret->report.digest_compared))) {
        return rc;
    }
    if (rc == 0) {
        state_destroy(*ret_state);
        apache_found_finish(ret);
        rc = text_fail(
            ret_error, CONCLAVE_EINVAL,
            "%s: nothing proves that the only snapshot before zxid 0x%llx holds nothing that "
            "came after it, as this ZooKeeper noted no digest: choose a later zxid",
            dir, (unsigned long long)zxid);
    }
    if (count < 2) {
        return rc;
    }
    free(*ret_error);
    *ret_error = NULL;
    return read_from(files, dir, zxid, count - 1, key, ret, ret_state, ret_error);
}

int apache_folder_read_at(const char *dir, const char *log_dir, int64_t zxid,
                          const struct hash_key *key, struct apache_found *ret,
                          struct state **ret_state, char **ret_error)
{
    struct folder_files files;
    int64_t last;
    *ret = (struct apache_found){0};
    int rc = folder_files_list(dir, log_dir, &files, ret_error);
    rc = rc == 0 ? apache_folder_last_zxid(dir, log_dir, &last, ret_error) : rc;
    if (rc == 0 && zxid > last) {
        rc = text_fail(ret_error, CONCLAVE_EINVAL, "%s ends with zxid 0x%llx: 0x%llx is behind it",
                       dir, (unsigned long long)last, (unsigned long long)zxid);
    }
    rc = rc == 0 ? read_at(&files, dir, zxid, key, ret, ret_state, ret_error) : rc;
    folder_files_finish(&files);
    return rc;
}
