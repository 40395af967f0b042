/*
 * The members of the newest configuration that this server applied, in a file beside the log: if the log is damaged,
 * this is what the server still knows about its ensemble. It has no other use and may be missing.
 *
 *   magic "CONCLMEM", version u32, length u32 of the configuration, cluster id, index u64 of the configuration's entry,
 *   configuration (configuration.h), checksum u64 over everything before it
 */
#ifndef REPLICATION_DISK_MEMBERS_FILE_H
#define REPLICATION_DISK_MEMBERS_FILE_H

#include "replication/disk/configuration.h"
#include "replication/disk/error_text.h"
#include "replication/disk/file_ops.h"
#include "replication/disk/folder_format.h"

#define MEMBERS_FILE "members"

struct members_file {
    uint8_t cluster[FORMAT_CLUSTER_SIZE];
    uint64_t index;                                   /* 0: unknown */
    struct configuration_member members[MEMBERS_MAX]; /* addresses in bytes */
    size_t n;
    struct buf bytes;
};

void members_file_init(struct members_file *f);
void members_file_finish(struct members_file *f);

/* Copies the members; index is not 0. 0, CONCLAVE_ENOMEM or CONCLAVE_EINVAL: *f is then unchanged. */
int members_file_set(struct members_file *f, const uint8_t cluster[FORMAT_CLUSTER_SIZE],
                     uint64_t index, const struct configuration_member *members,
                     size_t n) CONCLAVE_MUST_USE;

/* Replaces the file in dir by *f, durably. 0, CONCLAVE_EIO, CONCLAVE_ENOSPACE or CONCLAVE_ENOMEM. ops NULL: the
 * system's files. */
int members_file_write(const struct members_file *f, const struct file_ops *ops, const char *dir,
                       struct error_text *problem) CONCLAVE_MUST_USE;

/* 0; CONCLAVE_NO_NODE, CONCLAVE_ECORRUPT, CONCLAVE_EIO, CONCLAVE_ENOMEM: *f is then unchanged. */
int members_file_read(struct members_file *f, const struct file_ops *ops,
                      const char *dir) CONCLAVE_MUST_USE;

#endif
