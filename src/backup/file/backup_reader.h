/*
 * Reads a backup file: bytes in, in any pieces; header and records out. Every byte is checked before it is used. Limits:
 * a block has at most BACKUP_RAW_MAX raw bytes, and a record at most BACKUP_RECORD_MAX, which is in memory as a whole.
 */
#ifndef BACKUP_FILE_BACKUP_READER_H
#define BACKUP_FILE_BACKUP_READER_H

#include "backup/file/backup_format.h"
#include "base/buf.h"

#include <conclave/error.h>

struct backup_record {
    uint32_t kind;
    uint64_t index;
    uint64_t term;
    struct slice payload; /* borrowed until the call returns */
};

/* Return 0 to go on; anything else ends the reading, which returns it. */
struct backup_reader_callbacks {
    void *ctx;
    int (*header)(void *ctx, const struct backup_header *header);
    int (*record)(void *ctx,
                  const struct backup_record *record); /* NULL: records are only checked */
};

struct backup_reader;

/* NULL: out of memory. */
struct backup_reader *backup_reader_create(const struct backup_reader_callbacks *callbacks);
void backup_reader_destroy(struct backup_reader *r);

/* The next bytes. 0, CONCLAVE_ECORRUPT, CONCLAVE_EFOREIGN (no backup, or of a newer version), CONCLAVE_ENOMEM, or what a
 * callback returned. After an error the reader is of no use but for its text. */
int backup_reader_feed(struct backup_reader *r, struct slice bytes) CONCLAVE_MUST_USE;

/* Call it at the end of the file: 0, or CONCLAVE_ECORRUPT if it is incomplete. */
int backup_reader_end(struct backup_reader *r) CONCLAVE_MUST_USE;

/* What is wrong, fixed text, and the offset in the file of the part that is; "" unless one of the above errors. */
const char *backup_reader_problem(const struct backup_reader *r, uint64_t *ret_offset);

#endif
