#define _GNU_SOURCE /* asprintf */
#include "apache/folder_files.h"

#include "apache/format.h"
#include "base/buf.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void files_finish(struct zxid_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        free(files->list[i].path);
    }
    free(files->list);
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

char *apache_inner_folder(const char *dir)
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

void folder_files_finish(struct folder_files *f)
{
    files_finish(&f->snapshots);
    files_finish(&f->logs);
}

int folder_files_list(const char *dir, const char *log_dir, struct folder_files *ret,
                      char **ret_error)
{
    char *inner = apache_inner_folder(dir);
    char *inner_log = apache_inner_folder(log_dir != NULL ? log_dir : dir);
    *ret = (struct folder_files){0};
    *ret_error = NULL;
    int rc = inner != NULL && inner_log != NULL ? 0 : CONCLAVE_ENOMEM;
    rc = rc == 0 ? files_list(inner, APACHE_SNAPSHOT_PREFIX, &ret->snapshots, ret_error) : rc;
    rc = rc == 0 ? files_list(inner_log, APACHE_LOG_PREFIX, &ret->logs, ret_error) : rc;
    free(inner);
    free(inner_log);
    return rc;
}

bool zxid_follows(int64_t before, int64_t zxid)
{
    bool same_epoch = before >> 32 == zxid >> 32;
    return same_epoch ? zxid == before + 1 : (zxid & 0xffffffff) == 1;
}
