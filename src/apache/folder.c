#define _GNU_SOURCE /* asprintf */
#include "apache/folder.h"

#include "apache/format.h"
#include "apache/snapshot.h"
#include "apache/txn_log.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zlib.h>

/* A file whose name has a zxid. */
struct zxid_file {
    int64_t zxid;
    char *path;
};

struct zxid_files {
    struct zxid_file *list; /* by zxid, ascending */
    size_t count;
    size_t cap;
};

static void files_finish(struct zxid_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        free(files->list[i].path);
    }
    free(files->list);
}

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

/* The zxid in a name like PREFIX + hexadecimal digits [+ ".gz" or ".snappy"]. */
static bool parse_name(const char *name, const char *prefix, int64_t *ret)
{
    size_t len = strlen(prefix);
    if (strncmp(name, prefix, len) != 0 || name[len] == '\0' ||
        strspn(name + len, "0123456789abcdefABCDEF") == 0) {
        return false;
    }
    char *end;
    errno = 0;
    unsigned long long zxid = strtoull(name + len, &end, 16);
    bool known = *end == '\0' || strcmp(end, ".gz") == 0 || strcmp(end, ".snappy") == 0;
    *ret = (int64_t)zxid;
    return errno == 0 && known && zxid <= INT64_MAX;
}

static int compare_zxids(const void *a, const void *b)
{
    int64_t x = ((const struct zxid_file *)a)->zxid;
    int64_t y = ((const struct zxid_file *)b)->zxid;
    return x < y ? -1 : x > y;
}

static int files_add(struct zxid_files *files, const char *dir, const char *name, int64_t zxid)
{
    char *path;
    if (!array_room(&files->list, files->count, &files->cap, sizeof *files->list) ||
        asprintf(&path, "%s/%s", dir, name) < 0) {
        return CONCLAVE_ENOMEM;
    }
    files->list[files->count++] = (struct zxid_file){zxid, path};
    return 0;
}

/* The files with that prefix in a folder. */
static int files_list(const char *dir, const char *prefix, struct zxid_files *ret, char **ret_error)
{
    DIR *d = opendir(dir);
    if (d == NULL) {
        return text_fail(ret_error, errno == ENOENT ? CONCLAVE_EEMPTY : CONCLAVE_EIO,
                         "%s cannot be opened: %s", dir, strerror(errno));
    }
    int rc = 0;
    const struct dirent *entry;
    while (rc == 0 && (entry = readdir(d)) != NULL) {
        int64_t zxid;
        if (parse_name(entry->d_name, prefix, &zxid)) {
            rc = files_add(ret, dir, entry->d_name, zxid);
        }
    }
    (void)closedir(d);
    if (ret->count > 1) {
        qsort(ret->list, ret->count, sizeof *ret->list, compare_zxids);
    }
    return rc;
}

/* dir/version-2 if it exists, else dir. NULL: out of memory. */
static char *inner_folder(const char *dir)
{
    char *inner;
    if (asprintf(&inner, "%s/" APACHE_VERSION_FOLDER, dir) < 0) {
        return NULL;
    }
    struct stat st;
    if (stat(inner, &st) == 0 && S_ISDIR(st.st_mode)) {
        return inner;
    }
    free(inner);
    return strdup(dir);
}

/* What a folder, and that of its logs, have. */
struct folder_files {
    struct zxid_files snapshots;
    struct zxid_files logs;
};

static void folder_files_finish(struct folder_files *f)
{
    files_finish(&f->snapshots);
    files_finish(&f->logs);
}

/* After an error, too, *ret is to be finished. */
static int folder_files_list(const char *dir, const char *log_dir, struct folder_files *ret,
                             char **ret_error)
{
    char *inner = inner_folder(dir);
    char *inner_log = inner_folder(log_dir != NULL ? log_dir : dir);
    *ret = (struct folder_files){0};
    *ret_error = NULL;
    int rc = inner != NULL && inner_log != NULL ? 0 : CONCLAVE_ENOMEM;
    rc = rc == 0 ? files_list(inner, APACHE_SNAPSHOT_PREFIX, &ret->snapshots, ret_error) : rc;
    rc = rc == 0 ? files_list(inner_log, APACHE_LOG_PREFIX, &ret->logs, ret_error) : rc;
    free(inner);
    free(inner_log);
    return rc;
}

bool apache_folder_was(const char *dir)
{
    char *inner = inner_folder(dir);
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
    const char *last_file; /* log of the last applied transaction */
    char **ret_error;
};

/* Within one epoch zxids have no gaps, and each epoch begins with 1: so a log that is missing is noticed. What a leader
 * lost at the end of its epoch nobody can know. */
static bool follows(int64_t before, int64_t zxid)
{
    bool same_epoch = before >> 32 == zxid >> 32;
    return same_epoch ? zxid == before + 1 : (zxid & 0xffffffff) == 1;
}

static int folder_apply(struct folder_reading *x, const char *file, const struct outcome *o,
                        bool *first)
{
    int64_t before = adoption_zxid(x->a);
    int64_t zxid = o->header.zxid;
    if (*first && !follows(before, zxid)) {
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
        rc = apache_history_add(&x->found->history, &o);
        if (rc == 0 && o.header.zxid > adoption_zxid(x->a)) {
            rc = folder_apply(x, file, &o, &first);
        }
        if (rc != 0) {
            break;
        }
    }
    assert(x->found->transactions >= before);
    x->found->logs_read += x->found->transactions > before;
    if (rc == 0) {
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

static int read_snapshot(struct folder_reading *x, const struct zxid_files *snapshots,
                         struct apache_snapshot_end *ret_end)
{
    if (snapshots->count == 0) {
        return begin_empty(x);
    }
    const struct zxid_file *newest = &snapshots->list[snapshots->count - 1];
    x->found->snapshot_zxid = newest->zxid;
    int rc = text_replace(&x->found->snapshot, newest->path);
    if (rc == 0) {
        rc = apache_snapshot_read(newest->path, newest->zxid, x->a, ret_end, x->ret_error);
    }
    if (rc == CONCLAVE_ECORRUPT && snapshots->count > 1) {
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

static int folder_read_all(struct folder_reading *x, const struct zxid_files *snapshots,
                           const struct zxid_files *logs, struct state **ret_state)
{
    struct apache_snapshot_end end = {0};
    int rc = read_snapshot(x, snapshots, &end);
    rc = rc == 0 ? read_logs(x, logs) : rc;
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

static int read_listed(const struct folder_files *files, const char *dir,
                       const struct hash_key *key, struct apache_found *ret,
                       struct state **ret_state, char **ret_error)
{
    if (files->snapshots.count == 0 && files->logs.count == 0) {
        return text_fail(ret_error, CONCLAVE_EEMPTY, "%s has no snapshot and no log of ZooKeeper",
                         dir);
    }
    struct folder_reading x = {.a = adoption_create(key), .found = ret, .ret_error = ret_error};
    if (x.a == NULL) {
        return CONCLAVE_ENOMEM;
    }
    ret->snapshots = files->snapshots.count;
    ret->logs = files->logs.count;
    int rc = folder_read_all(&x, &files->snapshots, &files->logs, ret_state);
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
    char *inner = inner_folder(dir);
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
    rc = rc == 0 ? read_listed(&files, dir, key, ret, ret_state, ret_error) : rc;
    if (rc == 0 && (rc = read_epoch(dir, ret->zxid, &ret->epoch)) != 0) {
        state_destroy(*ret_state);
    }
    if (rc != 0) {
        apache_found_finish(ret);
    }
    folder_files_finish(&files);
    return rc;
}

/* The bytes of a transaction as a leader sends it. */
static int tail_give(const struct outcome *o, struct buf *bytes,
                     int (*fn)(void *ctx, int64_t zxid, struct slice transaction), void *ctx)
{
    buf_reset(bytes);
    wire_encode_txn_header(bytes, &o->header);
    buf_append_slice(bytes, o->record);
    if (o->has_digest) {
        buf_append_i32(bytes, o->digest.version);
        buf_append_i64(bytes, o->digest.digest);
    }
    return buf_ok(bytes) ? fn(ctx, o->header.zxid, buf_slice(bytes)) : CONCLAVE_ENOMEM;
}

static int tail_of_log(const char *file, int64_t after,
                       int (*fn)(void *ctx, int64_t zxid, struct slice transaction), void *ctx,
                       int64_t *last, char **ret_error)
{
    struct apache_txn_log *log;
    struct outcome o;
    struct buf bytes;
    int rc = apache_txn_log_open(file, &log, ret_error);
    if (rc != 0) {
        return rc;
    }
    buf_init(&bytes, 0);
    while ((rc = apache_txn_log_next(log, &o, ret_error)) == 1) {
        bool next = o.header.zxid > *last;
        *last = next ? o.header.zxid : *last;
        if (next && o.header.zxid > after && (rc = tail_give(&o, &bytes, fn, ctx)) != 0) {
            break;
        }
    }
    buf_finish(&bytes);
    apache_txn_log_close(log);
    return rc;
}

int apache_folder_tail(const char *dir, const char *log_dir, int64_t after,
                       int (*fn)(void *ctx, int64_t zxid, struct slice transaction), void *ctx,
                       struct apache_tail *ret, char **ret_error)
{
    struct folder_files files;
    int64_t last = 0;
    int rc = folder_files_list(dir, log_dir, &files, ret_error);
    const struct zxid_files *logs = &files.logs;
    size_t first = 0;
    for (size_t i = 0; rc == 0 && i < logs->count; i++) {
        first = logs->list[i].zxid <= after + 1 ? i : first;
    }
    for (size_t i = first; rc == 0 && i < logs->count; i++) {
        rc = tail_of_log(logs->list[i].path, after, fn, ctx, &last, ret_error);
    }
    if (rc == 0 && logs->count == 0 && files.snapshots.count == 0) {
        rc = text_fail(ret_error, CONCLAVE_EEMPTY, "%s has no snapshot and no log of ZooKeeper",
                       dir);
    }
    if (rc == 0) {
        int64_t newest =
            files.snapshots.count > 0 ? files.snapshots.list[files.snapshots.count - 1].zxid : 0;
        ret->zxid = newest > last ? newest : last;
        rc = read_epoch(dir, ret->zxid, &ret->epoch);
    }
    folder_files_finish(&files);
    return rc;
}
