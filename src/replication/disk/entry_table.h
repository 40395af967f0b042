/*
 * The entries that the engine may still ask for, by index, without a gap: where each stands on the
 * disk, and the bytes of those that are kept in memory. What is not applied yet and not on the disk
 * always has its bytes here; all else may be read again (fetch.h).
 *
 * Limit: an entry takes 32 bytes even without its payload; offsets in a segment have 32 bits.
 */
#ifndef REPLICATION_DISK_ENTRY_TABLE_H
#define REPLICATION_DISK_ENTRY_TABLE_H

#include "base/slice.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct entry_table_entry {
    uint8_t *data; /* heap block; NULL: only on the disk, or empty */
    uint64_t term;
    uint32_t segment;     /* sequence of the segment; 0: not on the disk yet */
    uint32_t offset;      /* of the payload in its file */
    uint32_t hash;        /* entry_table_hash of the payload */
    uint32_t length : 30; /* bytes of the payload */
    uint32_t kind : 2;    /* enum entry_kind */
};

struct entry_table_block; /* of entries */

struct entry_table {
    struct entry_table_block **blocks;
    size_t n_blocks;
    size_t cap_blocks;
    uint64_t first; /* index of the oldest entry */
    uint64_t next;  /* index that the next one gets; no entries when equal to first */
    size_t bytes;   /* of payloads in memory */
    uint64_t held;  /* no entry below has its bytes in memory */
};

/* Empty; the next entry gets index `next`. */
void entry_table_init(struct entry_table *t, uint64_t next);
void entry_table_finish(struct entry_table *t);

/* The same as finish and init. */
void entry_table_reset(struct entry_table *t, uint64_t next);

uint32_t entry_table_hash(struct slice payload);

/* Makes room, so that the next push does not fail. 0 or CONCLAVE_ENOMEM. */
int entry_table_reserve(struct entry_table *t) CONCLAVE_MUST_USE;

/* Appends an entry whose payload is not in memory. It can only fail with CONCLAVE_ENOMEM. */
int entry_table_push(struct entry_table *t,
                     const struct entry_table_entry *entry) CONCLAVE_MUST_USE;

/* NULL when there is no such entry. Valid until a trim or truncation reaches it. */
struct entry_table_entry *entry_table_at(const struct entry_table *t, uint64_t index);

/* Whether the payload can be had from memory. */
static inline bool entry_table_has_bytes(const struct entry_table_entry *entry)
{
    return entry->data != NULL || entry->length == 0;
}

static inline struct slice entry_table_payload(const struct entry_table_entry *entry)
{
    return slice_make(entry->data != NULL ? entry->data : (const uint8_t *)"", entry->length);
}

/* Gives the bytes to an entry that has none. */
void entry_table_hold(struct entry_table *t, uint64_t index, uint8_t *data_take);

/* Drops the entries from index on, or up to index. */
void entry_table_truncate(struct entry_table *t, uint64_t index);
void entry_table_trim(struct entry_table *t, uint64_t index);

/* Frees payloads, the oldest first, of entries up to index that are on the disk, until no more than
 * max bytes are held. */
void entry_table_evict(struct entry_table *t, uint64_t index, size_t max);

#endif
