/*
 * A backup file: a state of an ensemble and the log entries behind it, or (incremental) only entries. Integers are
 * little-endian.
 *
 *   header      0  magic "CONCLBAK"
 *               8  version u32, flags u32        1: incremental
 *              16  cluster id, 16 bytes
 *              32  from index, from term u64     the last entry before this file; 0: it begins with the log
 *              48  end index, end term u64       its last entry
 *              64  from zxid, end zxid i64       0: unknown
 *              80  time i64                      when it was made, ms since 1970 on the server's clock
 *              88  server id u64
 *              96  zeroes
 *             120  checksum u64                  of everything before it
 *   blocks      stored u32, raw u32, checksum u64, then `stored` bytes: zstd of `raw` bytes of the records
 *   end         0 u32, 0 u32, checksum u64, total u64: the raw bytes of all blocks
 *
 * The checksum of a block is c = hash_u64(c ^ hash_bytes(its bytes) ^ raw), with that of the header as the first c; the
 * end's is hash_u64(c ^ total). So each changed, lost, exchanged or missing byte is noticed, and without its end a file is
 * incomplete.
 *
 * The raw bytes are records: kind u32, length u32, index u64, term u64, `length` bytes. Kinds: those of enum entry_kind,
 * for log entries without a gap; and before them, in a file that is not incremental, one RECORD_SNAPSHOT (index of its
 * configuration u64, bytes of its content u64, configuration) with RECORD_PARTs of its content, unless the log is complete.
 */
#ifndef BACKUP_FILE_BACKUP_FORMAT_H
#define BACKUP_FILE_BACKUP_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#define BACKUP_MAGIC "CONCLBAK"

enum {
    BACKUP_VERSION = 1,
    BACKUP_INCREMENTAL = 1,
    BACKUP_CLUSTER_SIZE = 16,
    BACKUP_HEADER_SIZE = 128,
    BACKUP_BLOCK_HEAD = 16,
    BACKUP_END_SIZE = 24,
    BACKUP_RAW_MAX = 1 << 20, /* raw bytes of a block */
    BACKUP_RECORD_HEAD = 24,
    BACKUP_RECORD_MAX = 1 << 30, /* bytes of a record */
};

enum backup_record_kind {
    /* 1 to 3: enum entry_kind */
    BACKUP_RECORD_ENTRY_LAST = 3,
    BACKUP_RECORD_SNAPSHOT = 16,
    BACKUP_RECORD_PART = 17,
};

struct backup_header {
    bool incremental;
    uint8_t cluster[BACKUP_CLUSTER_SIZE];
    uint64_t from_index;
    uint64_t from_term;
    uint64_t end_index;
    uint64_t end_term;
    int64_t from_zxid;
    int64_t end_zxid;
    int64_t made_ms;
    uint64_t server_id;
};

#endif
