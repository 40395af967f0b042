#include "apache/history.h"

#include "base/buf.h"
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>

void apache_history_finish(struct apache_history *h)
{
    free(h->entries);
    *h = (struct apache_history){0};
}

/* Of what every server writes alike: not of the digest, which only newer versions append. */
static uint64_t print_of(const struct outcome *o)
{
    const struct wire_txn_header *head = &o->header;
    uint64_t print = hash_bytes(o->record.data, o->record.len);
    print = hash_u64(print ^ (uint64_t)head->session_id);
    print = hash_u64(print ^ (uint64_t)head->time_ms);
    print = hash_u64(print ^ ((uint64_t)(uint32_t)head->cxid << 32 | (uint32_t)head->type));
    return print != 0 ? print : 1;
}

int apache_history_add(struct apache_history *h, const struct outcome *o)
{
    struct history_entry entry = {o->header.zxid, print_of(o)};
    if (h->count == HISTORY_MAX) {
        h->entries[h->oldest] = entry;
        h->oldest = (h->oldest + 1) % HISTORY_MAX;
        return 0;
    }
    assert(h->oldest == 0 && h->count < HISTORY_MAX);
    if (!array_room(&h->entries, h->count, &h->cap, sizeof *h->entries)) {
        return CONCLAVE_ENOMEM;
    }
    h->entries[h->count++] = entry;
    return 0;
}

uint64_t apache_history_find(const struct apache_history *h, int64_t zxid)
{
    size_t low = 0;
    size_t high = h->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct history_entry *e = &h->entries[(h->oldest + middle) % h->count];
        if (e->zxid == zxid) {
            return e->print;
        }
        if (e->zxid < zxid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 0;
}
