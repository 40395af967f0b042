/* Keeps entries in blocks of equal size, found by division; whole blocks are added and removed at the ends. */
#include "replication/disk/entry_table.h"

#include "base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 256u

struct entry_table_block {
    struct entry_table_entry entries[BLOCK];
};

void entry_table_init(struct entry_table *t, uint64_t next)
{
    memset(t, 0, sizeof *t);
    t->first = t->next = t->held = next;
}

static void forget_bytes(struct entry_table *t, struct entry_table_entry *entry)
{
    if (entry->data != NULL) {
        assert(t->bytes >= entry->length);
        t->bytes -= entry->length;
        free(entry->data);
        entry->data = NULL;
    }
}

void entry_table_finish(struct entry_table *t)
{
    entry_table_truncate(t, t->first);
    assert(t->next == t->first && t->bytes == 0);
    for (size_t i = 0; i < t->n_blocks; i++) {
        free(t->blocks[i]);
    }
    free(t->blocks);
    entry_table_init(t, t->next);
}

void entry_table_reset(struct entry_table *t, uint64_t next)
{
    entry_table_finish(t);
    entry_table_init(t, next);
}

uint32_t entry_table_hash(struct slice payload)
{
    return (uint32_t)hash_bytes(payload.data, payload.len);
}

/* The position of index, whose block exists. */
static struct entry_table_entry *place(const struct entry_table *t, uint64_t index)
{
    assert(index / BLOCK - t->first / BLOCK < t->n_blocks);
    return &t->blocks[index / BLOCK - t->first / BLOCK]->entries[index % BLOCK];
}

int entry_table_reserve(struct entry_table *t)
{
    size_t block = (size_t)(t->next / BLOCK - t->first / BLOCK);
    if (block < t->n_blocks) {
        return 0;
    }
    assert(block == t->n_blocks); /* the next one is the only one that can be missing */
    if (t->n_blocks == t->cap_blocks) {
        size_t cap = t->cap_blocks == 0 ? 16 : 2 * t->cap_blocks;
        struct entry_table_block **grown =
            realloc(t->blocks, cap * sizeof(struct entry_table_block *));
        if (grown == NULL) {
            return CONCLAVE_ENOMEM;
        }
        t->blocks = grown;
        t->cap_blocks = cap;
    }
    t->blocks[block] = malloc(sizeof *t->blocks[block]);
    if (t->blocks[block] == NULL) {
        return CONCLAVE_ENOMEM;
    }
    t->n_blocks++;
    return 0;
}

int entry_table_push(struct entry_table *t, const struct entry_table_entry *entry)
{
    int rv = entry_table_reserve(t);
    if (rv != 0) {
        return rv;
    }
    assert(entry->data == NULL);
    *place(t, t->next++) = *entry;
    return 0;
}

struct entry_table_entry *entry_table_at(const struct entry_table *t, uint64_t index)
{
    return index >= t->first && index < t->next ? place(t, index) : NULL;
}

void entry_table_hold(struct entry_table *t, uint64_t index, uint8_t *data_take)
{
    struct entry_table_entry *entry = entry_table_at(t, index);
    assert(entry != NULL && entry->data == NULL);
    if (entry->length == 0) {
        free(data_take);
        return;
    }
    entry->data = data_take;
    t->bytes += entry->length;
    t->held = index < t->held ? index : t->held;
}

void entry_table_truncate(struct entry_table *t, uint64_t index)
{
    if (index < t->first) {
        index = t->first;
    }
    while (t->next > index) {
        forget_bytes(t, place(t, --t->next));
    }
    t->held = t->held < t->next ? t->held : t->next;
    assert(t->first <= t->held);
    size_t used = t->next == t->first ? 0 : (size_t)((t->next - 1) / BLOCK - t->first / BLOCK) + 1;
    while (t->n_blocks > used) {
        free(t->blocks[--t->n_blocks]);
    }
}

void entry_table_trim(struct entry_table *t, uint64_t index)
{
    uint64_t first = index + 1 < t->next ? index + 1 : t->next;
    if (first <= t->first) {
        return;
    }
    for (uint64_t i = t->held > t->first ? t->held : t->first; i < first; i++) {
        forget_bytes(t, place(t, i));
    }
    size_t gone = (size_t)(first / BLOCK - t->first / BLOCK);
    gone = gone < t->n_blocks ? gone : t->n_blocks;
    for (size_t i = 0; i < gone; i++) {
        free(t->blocks[i]);
    }
    t->n_blocks -= gone;
    memmove(t->blocks, t->blocks + gone, t->n_blocks * sizeof(struct entry_table_block *));
    t->first = first;
    t->held = t->held > first ? t->held : first;
    assert(t->first <= t->held && t->held <= t->next);
}

void entry_table_evict(struct entry_table *t, uint64_t index, size_t max)
{
    while (t->bytes > max && t->held <= index && t->held < t->next) {
        struct entry_table_entry *entry = place(t, t->held);
        if (entry->segment == 0) {
            break;
        }
        forget_bytes(t, entry);
        t->held++;
    }
}
