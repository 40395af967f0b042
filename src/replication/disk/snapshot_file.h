/*
 * Snapshot files: written in blocks under another name, so that a file with its final name is always complete. Writing
 * runs on the file worker's thread. All functions return 0, or a code with a text in problem.
 */
#ifndef REPLICATION_DISK_SNAPSHOT_FILE_H
#define REPLICATION_DISK_SNAPSHOT_FILE_H

#include "base/buf.h"
#include "base/slice.h"
#include "replication/disk/error_text.h"
#include "replication/disk/file_ops.h"
#include "replication/disk/folder_format.h"

#include <stdbool.h>
#include <stdint.h>

struct snapshot_meta {
    uint64_t index; /* index of its last entry */
    uint64_t term;  /* of that entry */
    uint64_t configuration_index;
    struct buf configuration; /* as raft_configuration_encode writes it */
};

/* The name of the snapshot of an index in the data folder dir, allocated; NULL: out of memory. */
char *snapshot_path(const char *dir, uint64_t index);

/* A snapshot that is being written. */
struct snapshot_writer {
    const struct file_ops *ops;
    const char *dir; /* borrowed */
    int fd;          /* or -1 */
    uint64_t index;
    uint64_t offset; /* where the next block goes */
    uint64_t size;   /* bytes of content so far */
    uint64_t checksum;
};

int snapshot_writer_begin(struct snapshot_writer *w, const struct file_ops *ops, const char *dir,
                          const uint8_t cluster[FORMAT_CLUSTER_SIZE],
                          const struct snapshot_meta *meta,
                          struct error_text *problem) CONCLAVE_MUST_USE;

/* All blocks except the last have SNAPSHOT_BLOCK_SIZE bytes. */
int snapshot_writer_block(struct snapshot_writer *w, struct slice block,
                          struct error_text *problem) CONCLAVE_MUST_USE;

/* Makes the file durable under its final name. */
int snapshot_writer_finish(struct snapshot_writer *w, struct error_text *problem) CONCLAVE_MUST_USE;

/* Closes the file and removes it. */
void snapshot_writer_abort(struct snapshot_writer *w);

/* A snapshot that was read and checked. */
struct snapshot_reader {
    const struct file_ops *ops;
    struct snapshot_meta meta;
    struct slice content; /* in the mapping */
    const void *map;      /* or NULL */
    size_t map_len;
};

/* Checks the checksums, then maps the file. CONCLAVE_ECORRUPT: a checksum is wrong; CONCLAVE_NO_NODE: no such file. */
int snapshot_reader_open(struct snapshot_reader *r, const struct file_ops *ops, const char *dir,
                         uint64_t index, const uint8_t cluster[FORMAT_CLUSTER_SIZE],
                         struct error_text *problem) CONCLAVE_MUST_USE;
void snapshot_reader_close(struct snapshot_reader *r);

/* The content of a complete snapshot file in memory, of any cluster and index; borrowed. CONCLAVE_ECORRUPT: a checksum
 * or length is wrong. */
int snapshot_content(struct slice file, struct slice *ret) CONCLAVE_MUST_USE;

/* Opens a file for sending, and computes an identity that only equal content has. CONCLAVE_NO_NODE: no such file. Reads
 * only the end of the file. */
int snapshot_send_open(const struct file_ops *ops, const char *dir, uint64_t index, int *ret_fd,
                       uint64_t *ret_size, uint64_t *ret_identity) CONCLAVE_MUST_USE;

/* A snapshot that another server sends. It is written under a name that contains its identity, so that another run can
 * continue it; it is checked as a whole against the offer (except its configuration), and then gets its final name. */
struct snapshot_incoming {
    uint64_t identity; /* identity of the content, as from snapshot_send_open */
    uint64_t size;     /* size of the whole file */
};

/* Begins empty if `anew`, otherwise with the *ret_length bytes from an earlier run. Removes other incomplete ones. */
int snapshot_incoming_open(const struct file_ops *ops, const char *dir,
                           const struct snapshot_incoming *in, bool anew, int *ret_fd,
                           uint64_t *ret_length) CONCLAVE_MUST_USE;
int snapshot_incoming_check(const struct file_ops *ops, const char *dir,
                            const struct snapshot_incoming *in,
                            const uint8_t cluster[FORMAT_CLUSTER_SIZE],
                            const struct snapshot_meta *meta,
                            struct error_text *problem) CONCLAVE_MUST_USE;
int snapshot_incoming_accept(const struct file_ops *ops, const char *dir,
                             const struct snapshot_incoming *in, uint64_t index) CONCLAVE_MUST_USE;

/* Removes all incomplete ones. */
void snapshot_incoming_remove(const struct file_ops *ops, const char *dir);

/* The indexes of the snapshot files, newest first (*ret_indexes: free it). Removes incomplete ones of this server. With
 * `create` (a first start) it creates the folder, and also removes incomplete ones from other servers; without it a
 * missing folder counts as empty. */
int snapshot_list(const struct file_ops *ops, const char *dir, bool create, uint64_t **ret_indexes,
                  size_t *ret_count, struct error_text *problem) CONCLAVE_MUST_USE;

/* 0 or a negative errno. */
int snapshot_remove(const struct file_ops *ops, const char *dir, uint64_t index) CONCLAVE_MUST_USE;

#endif
