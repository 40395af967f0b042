/*
 * The file layer in memory, for a server of tests that keeps nothing on disk (conclave server --test): a flat table of
 * names, which are whole paths. The content goes with memory_files_destroy.
 *
 * For one thread: it sets file_ops.threads to false, so all jobs run on the loop's thread. Limits: MEMORY_FILES_MAX
 * names, MEMORY_FILES_OPEN open handles, and MEMORY_FILES_BYTES bytes in all; beyond them a call fails with -ENOSPC or -EMFILE.
 */
#ifndef REPLICATION_DISK_MEMORY_FILES_H
#define REPLICATION_DISK_MEMORY_FILES_H

#include "replication/disk/file_ops.h"

#include <conclave/error.h>

enum { MEMORY_FILES_MAX = 4096, MEMORY_FILES_OPEN = 128 };
#define MEMORY_FILES_BYTES ((uint64_t)2 << 30)

struct memory_files;

/* 0 or CONCLAVE_ENOMEM. */
int memory_files_create(struct memory_files **ret) CONCLAVE_MUST_USE;

/* Frees all content; nothing may use the files any more. NULL does nothing. */
void memory_files_destroy(struct memory_files *m);

/* Valid until memory_files_destroy. */
const struct file_ops *memory_files_ops(const struct memory_files *m);

/* The bytes of all files, also of removed ones that are still open. */
uint64_t memory_files_bytes(const struct memory_files *m);

#endif
