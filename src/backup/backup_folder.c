#include "backup/backup_folder.h"

#include "backup/file/backup_reader.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- files ------------------------------------------------------------------------------------ */

static int keep_header(void *ctx, const struct backup_header *header)
{
    *(struct backup_header *)ctx = *header;
    return 0;
}

static void folder_problem(struct backup_folder *f, const char *path, const char *why)
{
    buf_printf(&f->problems, "%s: %s\n", path, why);
}

/* Reads the header. 0, 1: the file has none, which is noted; or CONCLAVE_ENOMEM. */
static int file_header(struct backup_folder *f, const char *path, struct backup_folder_file *ret)
{
    const struct backup_reader_callbacks callbacks = {&ret->header, keep_header, NULL};
    uint8_t bytes[BACKUP_HEADER_SIZE];
    struct stat st;
    struct backup_reader *reader = backup_reader_create(&callbacks);
    if (reader == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 && fstat(fd, &st) == 0 ? read(fd, bytes, sizeof bytes) : -1;
    int rc = 0;
    if (n < 0) {
        folder_problem(f, path, strerror(errno));
        rc = 1;
    } else {
        ret->bytes = (uint64_t)st.st_size;
        rc = backup_reader_feed(reader, slice_make(bytes, (size_t)n));
        if (rc != 0 || (size_t)n < sizeof bytes) {
            uint64_t offset;
            const char *why = backup_reader_problem(reader, &offset);
            folder_problem(f, path, rc != 0 ? why : "it is incomplete");
            rc = rc == CONCLAVE_ENOMEM ? rc : 1;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    backup_reader_destroy(reader);
    return rc;
}

static int folder_add(struct backup_folder *f, const char *dir, const char *name)
{
    struct backup_folder_file file = {.path = NULL};
    struct buf path;
    buf_init(&path, 0);
    buf_printf(&path, "%s/%s", dir, name);
    const char *text = buf_cstr(&path);
    int rc = text != NULL ? file_header(f, text, &file) : CONCLAVE_ENOMEM;
    if (rc == 0) {
        file.path = strdup(text);
        if (file.path == NULL || !array_room(&f->files, f->count, &f->cap, sizeof *f->files)) {
            free(file.path);
            rc = CONCLAVE_ENOMEM;
        } else {
            f->files[f->count++] = file;
        }
    }
    buf_finish(&path);
    return rc < 0 ? rc : 0;
}

static bool name_is_backup(const char *name)
{
    const size_t end = sizeof BACKUP_FILE_END - 1;
    size_t len = strlen(name);
    return len > end && name[0] != '.' && strcmp(name + len - end, BACKUP_FILE_END) == 0;
}

/* --- series ----------------------------------------------------------------------------------- */

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Full ones by the time they were made; then the others so that each comes behind the one that it continues. */
static int file_compare(const void *a, const void *b)
{
    const struct backup_folder_file *x = a;
    const struct backup_folder_file *y = b;
    int by = (int)x->header.incremental - (int)y->header.incremental;
    if (by == 0 && x->header.incremental) {
        by = compare_u64(x->header.end_index, y->header.end_index);
        by = by != 0 ? by : compare_u64(x->header.from_index, y->header.from_index);
    }
    by = by != 0 ? by : compare_u64((uint64_t)x->header.made_ms, (uint64_t)y->header.made_ms);
    return by != 0 ? by : strcmp(x->path, y->path);
}

static void series_append(struct backup_series *s, const struct backup_folder_file *file)
{
    s->files[s->count++] = file->path;
    s->bytes += file->bytes;
    s->header.end_index = file->header.end_index;
    s->header.end_term = file->header.end_term;
    s->header.end_zxid = file->header.end_zxid;
    s->header.made_ms = file->header.made_ms;
}

/* The newest series that the file continues, or NULL. Several can end with the same entry of the log: rather one that began
 * before the file was made. */
static struct backup_series *series_for(const struct backup_folder *f,
                                        const struct backup_header *h)
{
    struct backup_series *found = NULL;
    for (size_t i = f->series_count; i > 0; i--) {
        struct backup_series *s = &f->series[i - 1];
        const struct backup_header *end = &s->header;
        if (h->from_index == end->end_index && h->from_term == end->end_term &&
            memcmp(h->cluster, end->cluster, sizeof h->cluster) == 0) {
            if (s->full_ms <= h->made_ms) {
                return s;
            }
            found = found != NULL ? found : s;
        }
    }
    return found;
}

static int folder_sort(struct backup_folder *f)
{
    if (f->count == 0) {
        return 0;
    }
    qsort(f->files, f->count, sizeof *f->files, file_compare);
    f->series = calloc(f->count, sizeof *f->series);
    for (size_t i = 0; f->series != NULL && i < f->count; i++) {
        const struct backup_folder_file *file = &f->files[i];
        struct backup_series *s =
            file->header.incremental ? series_for(f, &file->header) : &f->series[f->series_count];
        if (s == NULL) {
            folder_problem(f, file->path, "it continues none of the others");
            continue;
        }
        if (!file->header.incremental) {
            *s = (struct backup_series){.files = calloc(f->count, sizeof *s->files),
                                        .header = file->header,
                                        .full_ms = file->header.made_ms,
                                        .full_zxid = file->header.end_zxid};
            if (s->files == NULL) {
                return CONCLAVE_ENOMEM;
            }
            f->series_count++;
        }
        series_append(s, file);
    }
    return f->series != NULL && buf_ok(&f->problems) ? 0 : CONCLAVE_ENOMEM;
}

int backup_folder_read(const char *dir, struct backup_folder *ret, char **ret_text)
{
    *ret = (struct backup_folder){.files = NULL};
    *ret_text = NULL;
    buf_init(&ret->problems, 0);
    DIR *d = opendir(dir);
    if (d == NULL) {
        return text_fail(ret_text, CONCLAVE_EIO, "%s: cannot be read: %s", dir, strerror(errno));
    }
    int rc = 0;
    const struct dirent *entry;
    while (rc == 0 && (errno = 0, entry = readdir(d)) != NULL) {
        rc = name_is_backup(entry->d_name) ? folder_add(ret, dir, entry->d_name) : 0;
    }
    if (rc == 0 && errno != 0) {
        rc = text_fail(ret_text, CONCLAVE_EIO, "%s: cannot be read: %s", dir, strerror(errno));
    }
    closedir(d);
    return rc == 0 ? folder_sort(ret) : rc;
}

void backup_folder_finish(struct backup_folder *f)
{
    for (size_t i = 0; i < f->series_count; i++) {
        free(f->series[i].files);
    }
    for (size_t i = 0; i < f->count; i++) {
        free(f->files[i].path);
    }
    free(f->series);
    free(f->files);
    buf_finish(&f->problems);
    *f = (struct backup_folder){.files = NULL};
}

/* --- choices ---------------------------------------------------------------------------------- */

const struct backup_series *backup_folder_find(const struct backup_folder *f,
                                               const struct backup_moment *moment)
{
    size_t n = f->series_count;
    if (n == 0) {
        return NULL;
    }
    size_t at = n - 1;
    bool any = moment->zxid == 0 && moment->time_ms == 0;
    while (!any && at > 0 &&
           (moment->zxid != 0 ? f->series[at].full_zxid > moment->zxid
                              : f->series[at].full_ms > moment->time_ms)) {
        at--;
    }
    const struct backup_header *end = &f->series[at].header;
    bool ends_before =
        moment->zxid != 0 ? end->end_zxid < moment->zxid : end->made_ms < moment->time_ms;
    return &f->series[!any && ends_before && at + 1 < n ? at + 1 : at];
}

size_t backup_folder_surplus(const struct backup_folder *f, const struct backup_retention *keep,
                             int64_t now_ms)
{
    uint64_t bytes = 0;
    size_t n = 0;
    for (size_t i = 0; i < f->series_count; i++) {
        bytes += f->series[i].bytes;
    }
    while (n + 1 < f->series_count &&
           ((keep->age_ms > 0 && f->series[n].header.made_ms < now_ms - keep->age_ms) ||
            (keep->bytes > 0 && bytes > keep->bytes))) {
        bytes -= f->series[n++].bytes;
    }
    assert(n == 0 || n < f->series_count);
    return n;
}

int backup_series_remove(const struct backup_series *s, char **ret_text)
{
    assert(s->count > 0);
    for (size_t i = s->count; i > 0; i--) {
        if (unlink(s->files[i - 1]) != 0 && errno != ENOENT) {
            return text_fail(ret_text, CONCLAVE_EIO, "%s: cannot be removed: %s", s->files[i - 1],
                             strerror(errno));
        }
    }
    return 0;
}

int backup_folder_sync(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    int error = fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
    close(fd);
    return error;
}
