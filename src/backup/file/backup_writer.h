/* Writes the bytes of a backup file: header, records, end. No I/O: the bytes are appended to a buffer of the caller. */
#ifndef BACKUP_FILE_BACKUP_WRITER_H
#define BACKUP_FILE_BACKUP_WRITER_H

#include "backup/file/backup_format.h"
#include "base/buf.h"

struct backup_writer;

/* NULL: out of memory. level: of zstd. */
struct backup_writer *backup_writer_create(int level);
void backup_writer_destroy(struct backup_writer *w);

/* Once, first. Failures of all calls show in out (buf_ok). */
void backup_writer_header(struct backup_writer *w, const struct backup_header *header,
                          struct buf *out);

void backup_writer_record(struct backup_writer *w, uint32_t kind, uint64_t index, uint64_t term,
                          struct slice payload, struct buf *out);

/* Once, last. */
void backup_writer_end(struct backup_writer *w, struct buf *out);

#endif
