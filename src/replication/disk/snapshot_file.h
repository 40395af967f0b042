/*
 * Snapshot files: written aside block by block, complete or not there. Writing runs on the worker's
 * thread for files; all functions return 0 or a code with a text in problem.
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
    uint64_t index; /* of the last entry in it */
    uint64_t term;  /* of that entry */
    uint64_t configuration_index;
    struct buf configuration; /* as raft_configuration_encode writes it */
};

/* The name of the snapshot of an index in the data folder dir, on the heap; NULL: memory is out. */
char *snapshot_path(const char *dir, uint64_t index);

/* One being written. */
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

/* All blocks but the last have SNAPSHOT_BLOCK_SIZE bytes. */
int snapshot_writer_block(struct snapshot_writer *w, struct slice block,
                          struct error_text *problem) CONCLAVE_MUST_USE;

/* Makes it durable under its name. */
int snapshot_writer_finish(struct snapshot_writer *w, struct error_text *problem) CONCLAVE_MUST_USE;

/* Closes, and removes what is unfinished. */
void snapshot_writer_abort(struct snapshot_writer *w);

/* One that was read and checked. */
struct snapshot_reader {
    const struct file_ops *ops;
    struct snapshot_meta meta;
    struct slice content; /* in the mapping */
    const void *map;      /* or NULL */
    size_t map_len;
};

/* Maps it after its checksums were found right. CONCLAVE_ECORRUPT when they are not,
 * CONCLAVE_NO_NODE when there is no such file. */
int snapshot_reader_open(struct snapshot_reader *r, const struct file_ops *ops, const char *dir,
                         uint64_t index, const uint8_t cluster[FORMAT_CLUSTER_SIZE],
                         struct error_text *problem) CONCLAVE_MUST_USE;
void snapshot_reader_close(struct snapshot_reader *r);

/* The content of a whole snapshot file of any cluster and index in memory; borrows. CONCLAVE_ECORRUPT when a checksum
 * or a length is wrong. */
int snapshot_content(struct slice file, struct slice *ret) CONCLAVE_MUST_USE;

/* For sending: the file as it is, with an identity that only equal content has. CONCLAVE_NO_NODE when
 * there is none; only its end is looked at. */
int snapshot_send_open(const struct file_ops *ops, const char *dir, uint64_t index, int *ret_fd,
                       uint64_t *ret_size, uint64_t *ret_identity) CONCLAVE_MUST_USE;

/* One that another server sends: written aside, under a name that says which it is, so that it can be gone on with in
 * another run; checked as a whole against what was offered (its configuration is not compared), given its name. */
struct snapshot_incoming {
    uint64_t identity; /* of the content, as snapshot_send_open gives it */
    uint64_t size;     /* of the whole file */
};

/* From empty when `anew`, else with the *ret_length bytes that an earlier run left. Others that are unfinished are
 * removed. */
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

/* All that are unfinished. */
void snapshot_incoming_remove(const struct file_ops *ops, const char *dir);

/* Indexes of the snapshot files, newest first (*ret_indexes: free it). Removes unfinished ones of our own.
 * When `create` (a first start) creates the folder and removes what others sent, too; else a missing folder is an empty
 * one. */
int snapshot_list(const struct file_ops *ops, const char *dir, bool create, uint64_t **ret_indexes,
                  size_t *ret_count, struct error_text *problem) CONCLAVE_MUST_USE;

/* 0 or a negative errno. */
int snapshot_remove(const struct file_ops *ops, const char *dir, uint64_t index) CONCLAVE_MUST_USE;

#endif
