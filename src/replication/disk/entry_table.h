/*
 * The entries that the engine may still need, by index, without gaps: where each is on the disk, and the bytes of those
 * that are in memory. An entry that is not applied yet and not on the disk always has its bytes here; all others can be
 * read again (entry_fetch.c).
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

struct entry_table_block; /* a block of entries */

struct entry_table {
    struct entry_table_block **blocks;
    size_t n_blocks;
    size_t cap_blocks;
    uint64_t first; /* index of the oldest entry */
    uint64_t next;  /* index of the next entry; equal to first: no entries */
    size_t bytes;   /* of payloads in memory */
    uint64_t held;  /* no older entry has its bytes in memory */
};

/* Begins empty; the next entry gets index `next`. */
void entry_table_init(struct entry_table *t, uint64_t next);
void entry_table_finish(struct entry_table *t);

/* The same as finish and init. */
void entry_table_reset(struct entry_table *t, uint64_t next);

uint32_t entry_table_hash(struct slice payload);

/* Makes room, so that the next push cannot fail. 0 or CONCLAVE_ENOMEM. */
int entry_table_reserve(struct entry_table *t) CONCLAVE_MUST_USE;

/* Appends an entry whose payload is not in memory. 0 or CONCLAVE_ENOMEM. */
int entry_table_push(struct entry_table *t,
                     const struct entry_table_entry *entry) CONCLAVE_MUST_USE;

/* NULL: no such entry. Valid until a trim or truncation reaches it. */
struct entry_table_entry *entry_table_at(const struct entry_table *t, uint64_t index);

/* Whether the payload is in memory. */
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

/* Removes the entries from index on (truncate), or up to index (trim). */
void entry_table_truncate(struct entry_table *t, uint64_t index);
void entry_table_trim(struct entry_table *t, uint64_t index);

/* Frees the payloads of entries up to index that are on the disk, oldest first, until at most max bytes are held. */
void entry_table_evict(struct entry_table *t, uint64_t index, size_t max);

#endif
