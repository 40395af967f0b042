/*
 * Every call of this room to the file system goes through this struct, so that tests can count,
 * fail and lose writes. Functions return 0 (or what is said) or a negative errno. They are called
 * from several threads, on different files.
 */
#ifndef REPLICATION_DISK_FILE_OPS_H
#define REPLICATION_DISK_FILE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum file_mode {
    FILE_READ,    /* must exist */
    FILE_WRITE,   /* must exist, read and write */
    FILE_REPLACE, /* created, or emptied when it exists; read and write */
};

struct file_ops {
    void *ctx;
    bool threads; /* false: jobs run on the loop's thread, in order, for repeatable tests */

    int (*open)(void *ctx, const char *path, enum file_mode mode); /* a handle >= 0 */
    void (*close)(void *ctx, int fd);
    int64_t (*size)(void *ctx, int fd);
    int64_t (*read)(void *ctx, int fd, void *data, size_t len,
                    uint64_t offset); /* bytes; less only at the end */
    int (*write)(void *ctx, int fd, const void *data, size_t len,
                 uint64_t offset);  /* all or an error */
    int (*sync)(void *ctx, int fd); /* the content, and the size if it changed */
    int (*map)(void *ctx, int fd, size_t len, const void **ret); /* read-only; len > 0 */
    void (*unmap)(void *ctx, const void *data, size_t len);

    int (*rename)(void *ctx, const char *from, const char *to);
    int (*remove)(void *ctx, const char *path);
    int (*make_folder)(void *ctx, const char *path); /* 0 also when it exists */
    int (*sync_folder)(void *ctx, const char *path);
    int (*list)(void *ctx, const char *path, void (*each)(void *arg, const char *name), void *arg);

    /* Locks the file for this process's life, creating it. A handle >= 0; -EWOULDBLOCK when
     * another holds it, and *ret_pid is then its process id as written there, or 0. */
    int (*lock)(void *ctx, const char *path, long *ret_pid);
};

/* The machine's file system. Static. */
const struct file_ops *file_ops_system(void);

/* CONCLAVE_ENOSPACE, CONCLAVE_ENOMEM or CONCLAVE_EIO for a negative errno. */
int file_error(int negative_errno);

#endif
