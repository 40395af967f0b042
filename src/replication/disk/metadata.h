/*
 * The small text files of the data folder: `conclave.format` (the identity of the folder), `metadata` (term, vote, and
 * which files must exist, so that a missing one is noticed), `healing` while damaged files are put aside (damage.h),
 * `imported` beside the files of an Apache ZooKeeper, and `import-choice` until an ensemble has begun with such files.
 * They are replaced as a whole and are durable on return.
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
#define IMPORTED_FILE "imported"
#define CHOICE_FILE "import-choice"

struct marker {
    uint8_t cluster[FORMAT_CLUSTER_SIZE]; /* random, created at the first start */
    uint64_t server_id;
    bool ready; /* the first start is complete: there may be data */
};

struct metadata {
    uint64_t term;
    uint64_t voted_for;     /* the vote in term; 0: none */
    uint64_t first_segment; /* older files are leftovers */
    /* files up to this one must exist; the next may exist (after a crash while it was created) */
    uint64_t last_segment;
    uint64_t snapshot_index; /* newest snapshot known to be durable; 0: none */
    uint64_t installing; /* the snapshot of this index replaces the log when it is there; 0: none */
    bool joining;        /* this server may have forgotten its promises: see join.h */
};

enum {
    ASIDE_NAME_SIZE = 40,
    METADATA_SEGMENTS_MAX = 1 << 20, /* limit of a log; more count as damage */
};

struct healing_file {
    uint8_t cluster[FORMAT_CLUSTER_SIZE];
    char aside[ASIDE_NAME_SIZE]; /* the folder that the damaged files move to */
};

/* The member whose files an ensemble is to begin with, and what they were: see cluster/import_start.h. */
struct choice_file {
    uint64_t member;
    int64_t epoch;
    int64_t zxid;
    uint64_t digest;
};

/* The files of an Apache ZooKeeper in a folder that has data of ours. */
struct imported_file {
    int64_t zxid; /* their last one, when they were imported */
    int64_t
        epoch; /* theirs, in the folder that the data come from; -1: they come from another member */
};

/* 0, or CONCLAVE_NO_NODE (the file does not exist), CONCLAVE_ECORRUPT, CONCLAVE_EFOREIGN (an unknown version),
 * CONCLAVE_EIO, CONCLAVE_ENOMEM. */
int marker_read(const struct file_ops *ops, const char *dir, struct marker *ret,
                struct error_text *problem) CONCLAVE_MUST_USE;
int metadata_read(const struct file_ops *ops, const char *dir, struct metadata *ret,
                  struct error_text *problem) CONCLAVE_MUST_USE;
int healing_read(const struct file_ops *ops, const char *dir, struct healing_file *ret,
                 struct error_text *problem) CONCLAVE_MUST_USE;
int choice_read(const struct file_ops *ops, const char *dir, struct choice_file *ret,
                struct error_text *problem) CONCLAVE_MUST_USE;

int imported_read(const struct file_ops *ops, const char *dir, struct imported_file *ret,
                  struct error_text *problem) CONCLAVE_MUST_USE;

/* 0: durable; or CONCLAVE_EIO, CONCLAVE_ENOSPACE, CONCLAVE_ENOMEM: then the old or the new version may be found
 * later. */
int metadata_replace_file(const struct file_ops *ops, const char *dir, const char *name,
                          const void *text, size_t len,
                          struct error_text *problem) CONCLAVE_MUST_USE;
int marker_write(const struct file_ops *ops, const char *dir, const struct marker *m,
                 struct error_text *problem) CONCLAVE_MUST_USE;
int metadata_write(const struct file_ops *ops, const char *dir, const struct metadata *m,
                   struct error_text *problem) CONCLAVE_MUST_USE;
int healing_write(const struct file_ops *ops, const char *dir, const struct healing_file *h,
                  struct error_text *problem) CONCLAVE_MUST_USE;
int imported_write(const struct file_ops *ops, const char *dir, const struct imported_file *f,
                   struct error_text *problem) CONCLAVE_MUST_USE;
int choice_write(const struct file_ops *ops, const char *dir, const struct choice_file *c,
                 struct error_text *problem) CONCLAVE_MUST_USE;

/* Removes the choice, durably; it may be missing. 0 or CONCLAVE_EIO. */
int choice_remove(const struct file_ops *ops, const char *dir,
                  struct error_text *problem) CONCLAVE_MUST_USE;

#endif
