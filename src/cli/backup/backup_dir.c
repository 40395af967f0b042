/*
 * conclave backup --dir. One run takes one backup: it continues the newest series of the folder, or begins a new one. A
 * file has a hidden name until it is complete and on the disk, and old series go last, after the newest one was read back
 * and is good: a crash at any point leaves what can be restored.
 */
#include "cli/backup/backup_dir.h"

#include "base/clock.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/values.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char COMMAND[] = "backup";
static const char LOCK_NAME[] = ".lock";
static const char PART_NAME[] = ".new.part"; /* one: the lock keeps others away */

/* --- values ----------------------------------------------------------------------------------- */

struct value_unit {
    const char *name;
    int64_t factor;
};

static bool value_parse(const char *text, const struct value_unit *units, int64_t *ret)
{
    char number[20];
    size_t digits = strspn(text, "0123456789");
    int64_t value;
    if (digits == 0 || digits >= sizeof number) {
        return false;
    }
    memcpy(number, text, digits);
    number[digits] = '\0';
    for (const struct value_unit *u = units; u->name != NULL; u++) {
        if (strcmp(text + digits, u->name) == 0) {
            bool good = integer_parse(number, 1, INT64_MAX / u->factor, &value);
            *ret = good ? value * u->factor : 0;
            return good;
        }
    }
    return false;
}

bool backup_age_parse(const char *text, int64_t *ret_ms)
{
    static const struct value_unit units[] = {{"s", 1000},     {"m", 60000},     {"h", 3600000},
                                              {"d", 86400000}, {"w", 604800000}, {NULL, 0}};
    return value_parse(text, units, ret_ms);
}

bool backup_size_parse(const char *text, uint64_t *ret_bytes)
{
    static const struct value_unit units[] = {
        {"", 1}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1LL << 30}, {"T", 1LL << 40}, {NULL, 0},
    };
    int64_t bytes = 0;
    bool good = value_parse(text, units, &bytes);
    *ret_bytes = (uint64_t)bytes;
    return good;
}

/* --- a run ------------------------------------------------------------------------------------ */

struct dir_run {
    const struct backup_dir_options *o;
    struct backup_dir_done *done;
    struct backup_folder folder;
    bool has_folder;
    int64_t now_ms;
};

static int run_fail(const char *path, const char *what)
{
    fprintf(stderr, "conclave %s: %s: %s: %s\n", COMMAND, path, what, strerror(errno));
    return CLI_EXIT_IO;
}

/* Prints the error of a function that gave a text, which is freed. */
static int run_fail_text(int rc, char *text)
{
    fprintf(stderr, "conclave %s: %s\n", COMMAND, text != NULL ? text : conclave_strerror(rc));
    free(text);
    return rc == CONCLAVE_EIO ? CLI_EXIT_IO : CLI_EXIT_FAILED;
}

/* DIR/NAME on the heap, or NULL. */
static char *path_in(const char *dir, const char *name)
{
    char *path = NULL;
    (void)text_fail(&path, 0, "%s/%s", dir, name);
    return path;
}

static int folder_look(struct dir_run *r)
{
    char *text = NULL;
    if (r->has_folder) {
        backup_folder_finish(&r->folder);
    }
    int rc = backup_folder_read(r->o->dir, &r->folder, &text);
    r->has_folder = true;
    return rc != 0 ? run_fail_text(rc, text) : 0;
}

static const struct backup_series *newest(const struct dir_run *r)
{
    size_t n = r->folder.series_count;
    return n > 0 ? &r->folder.series[n - 1] : NULL;
}

/* "2026-01-31T093000.250Z-0x1f3-full.backup": the names' order is that of time. */
static char *dated_path(const char *dir, const struct backup_header *h)
{
    time_t seconds = (time_t)(h->made_ms / 1000);
    struct tm tm;
    char when[32];
    char *path = NULL;
    if (gmtime_r(&seconds, &tm) == NULL ||
        strftime(when, sizeof when, "%Y-%m-%dT%H%M%S", &tm) == 0) {
        return NULL;
    }
    (void)text_fail(&path, 0, "%s/%s.%03dZ-0x%" PRIx64 "-%s" BACKUP_FILE_END, dir, when,
                    (int)(h->made_ms % 1000), (uint64_t)h->end_zxid,
                    h->incremental ? "incremental" : "full");
    return path;
}

/* Gives the complete file its name, and puts both on the disk. */
static int keep_part(struct dir_run *r, int fd, const char *part)
{
    char *path = dated_path(r->o->dir, &r->done->backup.header);
    int code = 0;
    if (path == NULL) {
        return fail(COMMAND, NULL, CONCLAVE_ENOMEM);
    }
    if (access(path, F_OK) == 0) {
        fprintf(stderr, "conclave %s: %s exists already: is the server's clock right?\n", COMMAND,
                path);
        code = CLI_EXIT_FAILED;
    } else if (fsync(fd) != 0 || rename(part, path) != 0 ||
               (errno = backup_folder_sync(r->o->dir)) != 0) {
        code = run_fail(path, "cannot be written");
    }
    if (code == 0) {
        free(r->done->file);
        r->done->file = path;
    } else {
        free(path);
    }
    return code;
}

static int take_backup(struct dir_run *r, const struct backup_header *since)
{
    const struct backup_series *last = newest(r);
    assert(since == NULL || (last != NULL && !r->o->full));
    char *part = path_in(r->o->dir, PART_NAME);
    if (part == NULL) {
        return fail(COMMAND, NULL, CONCLAVE_ENOMEM);
    }
    int code;
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        code = run_fail(part, "cannot be made");
    } else {
        const struct backup_request request = {
            .command = COMMAND,
            .common = r->o->common,
            .admin = r->o->admin,
            .since = since,
            .ensemble = last != NULL && !r->o->full ? last->header.cluster : NULL,
            .file = part,
            .fd = fd,
        };
        code = backup_download(&request, &r->done->backup);
        code = code == 0 ? keep_part(r, fd, part) : code;
        (void)unlink(part);
        close(fd);
    }
    free(part);
    return code;
}

/* The end of the newest series, if it is to be continued and its last file is good. */
static int choose_since(const struct dir_run *r, struct backup_header *ret, bool *ret_any)
{
    const struct backup_series *s = newest(r);
    struct backup_header last;
    uint64_t bytes;
    char *text = NULL;
    *ret_any = false;
    if (s == NULL || r->o->full || r->now_ms - s->full_ms >= r->o->full_every_ms) {
        return 0;
    }
    int rc = backup_read_header(s->files[s->count - 1], &last, &bytes, &text);
    if (rc == CONCLAVE_ECORRUPT) {
        fprintf(stderr, "conclave %s: %s; a new series begins, with a full backup\n", COMMAND,
                text);
        free(text);
        return 0;
    }
    *ret = s->header;
    *ret_any = rc == 0;
    return rc != 0 ? run_fail_text(rc, text) : 0;
}

static int take_next(struct dir_run *r)
{
    struct backup_header since;
    bool any;
    int code = choose_since(r, &since, &any);
    if (code != 0) {
        return code;
    }
    code = take_backup(r, any ? &since : NULL);
    if (code != 0 && any && r->done->backup.since_gone) {
        fprintf(stderr, "conclave %s: a new series begins, with a full backup\n", COMMAND);
        code = take_backup(r, NULL);
    }
    return code;
}

/* Reads all of the newest series. If it is damaged, begins a new one, so that the others may go. */
static int make_sure(struct dir_run *r)
{
    const struct backup_series *s = newest(r);
    struct backup_header h;
    uint64_t bytes;
    char *text = NULL;
    assert(s != NULL && r->folder.series_count > 1);
    int rc = backup_check_files(s->files, s->count, &h, &bytes, &text);
    if (rc == CONCLAVE_ECORRUPT && r->done->backup.header.incremental) {
        fprintf(stderr, "conclave %s: %s; a new series begins, with a full backup\n", COMMAND,
                text);
        free(text);
        int code = take_backup(r, NULL);
        return code == 0 ? folder_look(r) : code;
    }
    if (rc != 0) {
        fprintf(stderr, "conclave %s: nothing is removed, because the newest series is not good\n",
                COMMAND);
        return run_fail_text(rc, text);
    }
    return 0;
}

static int remove_old(struct dir_run *r)
{
    struct backup_dir_done *d = r->done;
    const struct backup_retention *keep = &r->o->keep;
    char *text = NULL;
    if (backup_folder_surplus(&r->folder, keep, r->now_ms) == 0) {
        return 0;
    }
    int code = make_sure(r);
    size_t n = code == 0 ? backup_folder_surplus(&r->folder, keep, r->now_ms) : 0;
    assert(n == 0 || n < r->folder.series_count);
    for (size_t i = 0; i < n; i++) {
        const struct backup_series *s = &r->folder.series[i];
        int rc = backup_series_remove(s, &text);
        if (rc != 0) {
            return run_fail_text(rc, text);
        }
        d->removed_series++;
        d->removed_files += s->count;
        d->removed_bytes += s->bytes;
    }
    return code;
}

/* What the folder has, and a word about a limit that cannot be kept. */
static void look_back(struct dir_run *r)
{
    struct backup_dir_done *d = r->done;
    const struct backup_folder *f = &r->folder;
    for (size_t i = d->removed_series; i < f->series_count; i++) {
        d->series++;
        d->files += f->series[i].count;
        d->bytes += f->series[i].bytes;
    }
    if (r->o->keep.bytes > 0 && d->bytes > r->o->keep.bytes) {
        fprintf(stderr,
                "conclave %s: the newest series alone has %" PRIu64
                " bytes, more than --keep-size: it is kept; a shorter --full-every makes smaller "
                "ones\n",
                COMMAND, d->bytes);
    }
    for (const char *line = buf_cstr(&r->folder.problems); line != NULL && *line != '\0';
         line = strchr(line, '\n') + 1) {
        fprintf(stderr, "conclave %s: %.*s; it is not used, and not removed\n", COMMAND,
                (int)strcspn(line, "\n"), line);
    }
}

static int run_locked(struct dir_run *r)
{
    int code = folder_look(r);
    code = code == 0 ? take_next(r) : code;
    code = code == 0 ? folder_look(r) : code;
    if (code == 0) {
        code = remove_old(r);
        look_back(r);
    }
    return code;
}

int backup_to_dir(const struct backup_dir_options *options, struct backup_dir_done *ret)
{
    struct dir_run r = {
        .o = options, .done = ret, .now_ms = clock_system()->wall_ms(clock_system()->ctx)};
    *ret = (struct backup_dir_done){.file = NULL};
    if (mkdir(options->dir, 0700) != 0 && errno != EEXIST) {
        return run_fail(options->dir, "cannot be made");
    }
    char *lock = path_in(options->dir, LOCK_NAME);
    int fd = lock != NULL ? open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    int code;
    if (lock == NULL) {
        code = fail(COMMAND, NULL, CONCLAVE_ENOMEM);
    } else if (fd < 0) {
        code = run_fail(lock, "cannot be made");
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        fprintf(
            stderr,
            "conclave %s: %s: another backup into this folder is in progress: nothing is done\n",
            COMMAND, options->dir);
        code = CLI_EXIT_FAILED;
    } else {
        code = run_locked(&r);
    }
    if (r.has_folder) {
        backup_folder_finish(&r.folder);
    }
    if (fd >= 0) {
        close(fd);
    }
    free(lock);
    return code;
}
