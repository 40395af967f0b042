/*
 * The small text files of the data folder: `conclave.format` (what this folder is), `metadata`
 * (term, vote, and which files must exist, so that a missing file is noticed), and `healing` while
 * damaged files are put aside (damage.h). Replaced whole and durable on return.
 */
#ifndef REPLICATION_DISK_METADATA_H
#define REPLICATION_DISK_METADATA_H

#include "replication/disk/error_text.h"
#include "replication/disk/file_ops.h"
#include "replication/disk/folder_format.h"

#include <stdbool.h>
#include <stdint.h>

#define FORMAT_FILE "conclave.format"
#define METADATA_FILE "metadata"
#define HEALING_FILE "healing"

struct marker {
    uint8_t cluster[FORMAT_CLUSTER_SIZE]; /* random, made at the first start */
    uint64_t server_id;
    bool ready; /* the first start came to its end: there may be data */
};

struct metadata {
    uint64_t term;
    uint64_t voted_for;     /* in term; 0: nobody */
    uint64_t first_segment; /* files below are leftovers */
    /* files up to here must exist; one above may (a crash while starting it) */
    uint64_t last_segment;
    uint64_t snapshot_index; /* newest snapshot known to be durable; 0: none */
    uint64_t installing;     /* the snapshot of this index, once there, replaces the log; 0: none */
    bool joining;            /* this server may have forgotten what it promised: see join.h */
};

enum {
    ASIDE_NAME_SIZE = 40,
    METADATA_SEGMENTS_MAX = 1 << 20, /* of a log; more are taken for damage */
};

struct healing_file {
    uint8_t cluster[FORMAT_CLUSTER_SIZE];
    char aside[ASIDE_NAME_SIZE]; /* the folder that the damaged files move to */
};

/* 0, or CONCLAVE_NO_NODE when the file does not exist, CONCLAVE_ECORRUPT, CONCLAVE_EFOREIGN (a
 * version this program does not know), CONCLAVE_EIO, CONCLAVE_ENOMEM. */
int marker_read(const struct file_ops *ops, const char *dir, struct marker *ret,
                struct error_text *problem) CONCLAVE_MUST_USE;
int metadata_read(const struct file_ops *ops, const char *dir, struct metadata *ret,
                  struct error_text *problem) CONCLAVE_MUST_USE;
int healing_read(const struct file_ops *ops, const char *dir, struct healing_file *ret,
                 struct error_text *problem) CONCLAVE_MUST_USE;

/* 0 when durable, or CONCLAVE_EIO, CONCLAVE_ENOSPACE, CONCLAVE_ENOMEM: then either version may
 * be found later. */
int metadata_replace_file(const struct file_ops *ops, const char *dir, const char *name,
                          const void *text, size_t len,
                          struct error_text *problem) CONCLAVE_MUST_USE;
int marker_write(const struct file_ops *ops, const char *dir, const struct marker *m,
                 struct error_text *problem) CONCLAVE_MUST_USE;
int metadata_write(const struct file_ops *ops, const char *dir, const struct metadata *m,
                   struct error_text *problem) CONCLAVE_MUST_USE;
int healing_write(const struct file_ops *ops, const char *dir, const struct healing_file *h,
                  struct error_text *problem) CONCLAVE_MUST_USE;

#endif
