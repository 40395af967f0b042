/*
 * Every call of this room to the file system goes through this struct, so that tests can count, fail and lose writes.
 * Functions return 0 (or the stated value) or a negative errno. Several threads call them, on different files.
 */
#ifndef REPLICATION_DISK_FILE_OPS_H
#define REPLICATION_DISK_FILE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum file_mode {
    FILE_READ,    /* must exist */
    FILE_WRITE,   /* must exist, read and write */
    FILE_REPLACE, /* created, or emptied if it exists; read and write */
};

struct file_ops {
    void *ctx;
    bool threads; /* false: jobs run on the loop's thread, in order, for repeatable tests */

    int (*open)(void *ctx, const char *path, enum file_mode mode); /* a handle >= 0 */
    void (*close)(void *ctx, int fd);
    int64_t (*size)(void *ctx, int fd);
    int64_t (*read)(void *ctx, int fd, void *data, size_t len,
                    uint64_t offset); /* number of bytes; fewer only at the end of the file */
    int (*write)(void *ctx, int fd, const void *data, size_t len,
                 uint64_t offset);  /* writes everything, or fails */
    int (*sync)(void *ctx, int fd); /* the content, and the size if it changed */
    int (*map)(void *ctx, int fd, size_t len, const void **ret); /* read-only; len > 0 */
    void (*unmap)(void *ctx, const void *data, size_t len);

    int (*rename)(void *ctx, const char *from, const char *to);
    int (*remove)(void *ctx, const char *path);
    int (*make_folder)(void *ctx, const char *path); /* 0 also if it exists */
    int (*sync_folder)(void *ctx, const char *path);
    int (*list)(void *ctx, const char *path, void (*each)(void *arg, const char *name), void *arg);

    /* Locks the file for the life of the process; creates it. A handle >= 0; -EWOULDBLOCK if another process holds it,
     * whose id is then in *ret_pid, as the file says, or 0. */
    int (*lock)(void *ctx, const char *path, long *ret_pid);
};

/* The system's files. Static. */
const struct file_ops *file_ops_system(void);

/* CONCLAVE_ENOSPACE, CONCLAVE_ENOMEM or CONCLAVE_EIO for a negative errno. */
int file_error(int negative_errno);

#endif
