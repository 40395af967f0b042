/*
 * The file layer on the system's files. Folders are created with mode 0700, files with 0600. A write that the kernel
 * cuts short is continued; nothing else is ever tried again.
 */
#include "replication/disk/file_ops.h"

#include <conclave/error.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int system_open(void *ctx, const char *path, enum file_mode mode)
{
    static const int flags[] = {
        [FILE_READ] = O_RDONLY,
        [FILE_WRITE] = O_RDWR,
        [FILE_REPLACE] = O_RDWR | O_CREAT | O_TRUNC,
    };
    int fd = open(path, flags[mode] | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

static void system_close(void *ctx, int fd)
{
    close(fd);
}

static int64_t system_size(void *ctx, int fd)
{
    struct stat st;
    return fstat(fd, &st) != 0 ? -errno : (int64_t)st.st_size;
}

static int64_t system_read(void *ctx, int fd, void *data, size_t len, uint64_t offset)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = pread(fd, (char *)data + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -errno;
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    return (int64_t)done;
}

static int system_write(void *ctx, int fd, const void *data, size_t len, uint64_t offset)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = pwrite(fd, (const char *)data + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -errno : -EIO;
        }
        done += (size_t)n;
    }
    return 0;
}

static int system_sync(void *ctx, int fd)
{
    return fdatasync(fd) != 0 ? -errno : 0;
}

static int system_map(void *ctx, int fd, size_t len, const void **ret)
{
    void *data = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        return -errno;
    }
    *ret = data;
    return 0;
}

static void system_unmap(void *ctx, const void *data, size_t len)
{
    munmap((void *)(uintptr_t)data, len);
}

static int system_rename(void *ctx, const char *from, const char *to)
{
    return rename(from, to) != 0 ? -errno : 0;
}

static int system_remove(void *ctx, const char *path)
{
    return unlink(path) != 0 ? -errno : 0;
}

static int system_make_folder(void *ctx, const char *path)
{
    return mkdir(path, 0700) != 0 && errno != EEXIST ? -errno : 0;
}

static int system_sync_folder(void *ctx, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int rv = fsync(fd) != 0 ? -errno : 0;
    close(fd);
    return rv;
}

static int system_list(void *ctx, const char *path, void (*each)(void *arg, const char *name),
                       void *arg)
{
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return -errno;
    }
    int rv = 0;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            rv = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            each(arg, entry->d_name);
        }
    }
    closedir(dir);
    return rv;
}

/* flock belongs to the open file, so a second open in the same process is refused, too. */
static int system_lock(void *ctx, const char *path, long *ret_pid)
{
    char text[32];
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int rv = -errno;
        ssize_t n = pread(fd, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        *ret_pid = strtol(text, NULL, 10);
        close(fd);
        return rv;
    }
    int len = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)len, 0) != len) {
        int rv = errno != 0 ? -errno : -EIO;
        close(fd);
        return rv;
    }
    return fd;
}

const struct file_ops *file_ops_system(void)
{
    static const struct file_ops ops = {
        .threads = true,
        .open = system_open,
        .close = system_close,
        .size = system_size,
        .read = system_read,
        .write = system_write,
        .sync = system_sync,
        .map = system_map,
        .unmap = system_unmap,
        .rename = system_rename,
        .remove = system_remove,
        .make_folder = system_make_folder,
        .sync_folder = system_sync_folder,
        .list = system_list,
        .lock = system_lock,
    };
    return &ops;
}

int file_error(int negative_errno)
{
    switch (negative_errno) {
    case -ENOSPC:
    case -EDQUOT:
        return CONCLAVE_ENOSPACE;
    case -ENOMEM:
        return CONCLAVE_ENOMEM;
    default:
        return CONCLAVE_EIO;
    }
}
