/* The machine below a server: disk, open files, memory. */
#define _GNU_SOURCE /* O_TMPFILE */
#include "cli/doctor/doctor.h"
#include "replication/disk/error_text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum {
    BIG_BYTES = 8 << 20, /* written once */
    FRAME_BYTES = 4096,  /* written over and over, as the log does */
    SYNCS_MAX = 64,
    MEASURE_MS = 2000, /* then no further sync begins */
    FILES_LOW = 4096,
    NFS_MAGIC = 0x6969,
};

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* The data folder, or where it does not exist the folder that it will be in. Free it. */
static char *existing_folder(const char *dir)
{
    char *path = path_make("%s%s", dir[0] == '/' ? "" : "./", dir);
    struct statvfs ignored;
    while (path != NULL && statvfs(path, &ignored) != 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');
        if (slash == NULL || slash == path) {
            free(path);
            return strdup(slash == NULL ? "." : "/");
        }
        *slash = '\0';
    }
    return path;
}

/* A file without a name: nothing of it is left, whatever happens. A negative errno where there is none. */
static int nameless_file(const char *dir)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) {
        return fd >= 0 ? fd : -errno;
    }
    char *name = path_make("%s/.conclave-doctor-XXXXXX", dir);
    fd = name != NULL ? mkostemp(name, O_CLOEXEC) : -1;
    int err = errno;
    if (fd >= 0) {
        unlink(name);
    }
    free(name);
    return fd >= 0 ? fd : -err;
}

static int by_size(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;
    return (*x > *y) - (*x < *y);
}

static bool measure(int fd, const uint8_t *zeroes, struct doctor_disk *ret)
{
    int64_t times[SYNCS_MAX];
    size_t n = 0;
    int64_t begin = now_us();
    if (pwrite(fd, zeroes, BIG_BYTES, 0) != BIG_BYTES || fdatasync(fd) != 0) {
        return false;
    }
    int64_t took = now_us() - begin;
    ret->write_kib_s = (int64_t)(BIG_BYTES / 1024) * 1000000 / (took > 0 ? took : 1);
    while (n < SYNCS_MAX && now_us() - begin < MEASURE_MS * INT64_C(1000)) {
        int64_t from = now_us();
        if (pwrite(fd, zeroes, FRAME_BYTES, (off_t)n * FRAME_BYTES) != FRAME_BYTES ||
            fdatasync(fd) != 0) {
            return false;
        }
        times[n++] = now_us() - from;
    }
    if (n == 0) {
        times[n++] = took; /* a disk so slow that one write took all the time */
    }
    assert(n <= SYNCS_MAX);
    qsort(times, n, sizeof times[0], by_size);
    ret->sync_median_us = times[n / 2];
    ret->sync_max_us = times[n - 1];
    ret->measured = true;
    return true;
}

static void look_at_speed(struct doctor *d, const char *dir)
{
    uint8_t *zeroes = calloc(1, BIG_BYTES);
    int fd = nameless_file(dir);
    if (fd < 0 || zeroes == NULL) {
        finding_add(&d->findings, FOUND_DATA_UNWRITABLE, dir, "no file can be made in it: %s",
                    fd < 0 ? strerror(-fd) : "out of memory");
    } else if (!measure(fd, zeroes, &d->disk)) {
        finding_add(&d->findings, FOUND_DATA_UNWRITABLE, dir, "a write to a file in it failed: %s",
                    strerror(errno));
    } else if (d->disk.sync_median_us > d->options->slow_sync_ms * 1000) {
        finding_add(&d->findings, FOUND_DISK_SLOW, dir,
                    "half of the syncs took longer than %" PRId64 ".%03" PRId64 " ms, one %" PRId64
                    " ms",
                    d->disk.sync_median_us / 1000, d->disk.sync_median_us % 1000,
                    d->disk.sync_max_us / 1000);
    }
    if (fd >= 0) {
        close(fd);
    }
    free(zeroes);
}

static void look_at_space(struct doctor *d, const char *dir)
{
    struct statvfs v;
    struct statfs f;
    if (statvfs(dir, &v) != 0 || statfs(dir, &f) != 0) {
        finding_add(&d->findings, FOUND_FILE_UNREADABLE, dir, "its file system is not known: %s",
                    strerror(errno));
        return;
    }
    uint64_t free_mib = (uint64_t)v.f_bavail * v.f_frsize >> 20;
    if (free_mib < (uint64_t)d->options->min_free_mib) {
        finding_add(&d->findings, FOUND_DISK_LOW, dir, "%" PRIu64 " MiB are free", free_mib);
    }
    if (v.f_files > 0 && v.f_favail < 1000) {
        finding_add(&d->findings, FOUND_INODES_LOW, dir, "%" PRIu64 " inodes are free",
                    (uint64_t)v.f_favail);
    }
    if (f.f_type == TMPFS_MAGIC || f.f_type == RAMFS_MAGIC) {
        finding_add(&d->findings, FOUND_DATA_IN_MEMORY, dir, "its file system is in memory");
    } else if (f.f_type == NFS_MAGIC) {
        finding_add(&d->findings, FOUND_DATA_REMOTE, dir, "its file system is NFS");
    }
}

void doctor_disk(struct doctor *d)
{
    char *dir = existing_folder(d->config->options.data_dir);
    if (dir == NULL) {
        d->findings.failed = true;
        return;
    }
    look_at_space(d, dir);
    look_at_speed(d, dir);
    free(dir);
}

/* The hard limit of open files: of the running server, or of what this process may start. */
static uint64_t file_limit(long owner)
{
    struct rlimit own;
    uint64_t limit = 0;
    char line[256];
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/limits", owner);
    FILE *file = owner > 0 ? fopen(path, "re") : NULL;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "Max open files", 14) == 0) {
            limit = strtoull(line + 14, NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    if (limit == 0 && getrlimit(RLIMIT_NOFILE, &own) == 0) {
        limit = own.rlim_max;
    }
    return limit;
}

void doctor_limits(struct doctor *d)
{
    const struct client_limits *l = &d->config->options.limits;
    uint64_t files = file_limit(d->owner);
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (files > 0 && (files < FILES_LOW || files < l->connections_max)) {
        finding_add(&d->findings, FOUND_FILE_LIMIT, "open files",
                    "%s may open %" PRIu64 " files, and each connection is one%s",
                    d->owner > 0 ? "the server" : "a server started from here", files,
                    files < l->connections_max ? "; maxCnxns allows more" : "");
    }
    if (l->data_max > memory / 2) {
        finding_add(&d->findings, FOUND_MEMORY_LIMIT, "maxDataBytes",
                    "%zu MiB is more than half of this machine's memory, %" PRIu64 " MiB",
                    l->data_max >> 20, memory >> 20);
    }
}
