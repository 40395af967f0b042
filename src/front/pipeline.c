#include "front/pipeline.h"

#include <assert.h>
#include <stdlib.h>

enum {
    BLOCK_PENDINGS = 128,
    COMMAND_ROOM = 64, /* bytes of a command besides ids and body, or of a batch header */
};

struct pending_block {
    struct list node;
    struct pending entries[BLOCK_PENDINGS];
};

void pipeline_init(struct pipeline *p, const struct pipeline_sink *sink, int64_t origin,
                   int64_t first_sequence)
{
    *p = (struct pipeline){.sink = *sink, .origin = origin};
    p->sequence = first_sequence - 1;
    p->applied = p->sequence;
    buf_init(&p->batch, 0);
    list_init(&p->flight);
    list_init(&p->spare);
    list_init(&p->blocks);
}

void pipeline_begin(struct pipeline *p, int64_t last_sequence)
{
    if (p->sequence < last_sequence) {
        /* The gap keeps later batches of that earlier run from being taken for ours. */
        p->sequence = last_sequence + PIPELINE_RUN_GAP;
        p->applied = p->sequence;
    }
}

void pipeline_begin_run(struct pipeline *p)
{
    assert(list_empty(&p->flight));
    p->batch_count = 0;
    p->previous = 0;
    p->applied = p->sequence;
}

void pipeline_finish(struct pipeline *p)
{
    LIST_FOREACH (it, &p->blocks) {
        free(CONTAINER_OF(it, struct pending_block, node));
    }
    list_init(&p->blocks);
    list_init(&p->flight);
    list_init(&p->spare);
    buf_finish(&p->batch);
}

static bool pipeline_add_block(struct pipeline *p)
{
    struct pending_block *block = malloc(sizeof *block);
    if (block == NULL) {
        return false;
    }
    list_push_back(&p->blocks, &block->node);
    for (size_t i = 0; i < BLOCK_PENDINGS; i++) {
        list_push_back(&p->spare, &block->entries[i].flight);
    }
    return true;
}

struct pending *pipeline_pending(struct pipeline *p, struct account *account, size_t bytes,
                                 int64_t now_ns)
{
    if (list_empty(&p->spare) && !pipeline_add_block(p)) {
        return NULL;
    }
    struct pending *entry = CONTAINER_OF(list_pop_front(&p->spare), struct pending, flight);
    *entry = (struct pending){.bytes = bytes, .account = account, .taken_ns = now_ns};
    list_init(&entry->order);
    list_init(&entry->flight);
    p->outstanding++;
    account_charge(account, ACCOUNT_REQUESTS, bytes);
    return entry;
}

void pipeline_recharge(struct pending *entry, struct account *account)
{
    account_credit(entry->account, ACCOUNT_REQUESTS, entry->bytes);
    account_charge(account, ACCOUNT_REQUESTS, entry->bytes);
    entry->account = account;
}

void pipeline_release(struct pipeline *p, struct pending *entry)
{
    assert(list_empty(&entry->order) && list_empty(&entry->flight) && p->outstanding > 0);
    p->outstanding--;
    account_credit(entry->account, ACCOUNT_REQUESTS, entry->bytes);
    list_push_front(&p->spare, &entry->flight);
}

static void pipeline_submit(struct pipeline *p)
{
    if (p->batch_count == 0 || p->error != 0) {
        return;
    }
    if (p->batch_size != NULL) {
        summary_add(p->batch_size, (uint64_t)p->batch_count);
    }
    assert(p->batch.len > 0);
    p->batch_count = 0;
    if (p->clock != NULL) {
        size_t at = (size_t)p->sequence % PIPELINE_LEFT_KEPT;
        p->left[at].sequence = p->sequence;
        p->left[at].ns = clock_monotonic_ns(p->clock);
    }
    int rc = p->sink.submit(p->sink.ctx, &p->batch);
    if (rc != 0) {
        p->error = rc;
    }
}

int64_t pipeline_left_ns(const struct pipeline *p, int64_t sequence)
{
    size_t at = (size_t)sequence % PIPELINE_LEFT_KEPT;
    return p->left[at].sequence == sequence ? p->left[at].ns : 0;
}

int pipeline_write(struct pipeline *p, const struct command *command, int64_t time_ms,
                   struct pending *entry)
{
    if (p->error != 0) {
        return p->error;
    }
    size_t room = COMMAND_ROOM + command->ids.items.len + command->body.len;
    if (p->batch_count == 0) {
        buf_reset(&p->batch);
        room += COMMAND_ROOM;
    }
    if (buf_reserve(&p->batch, room) != 0) {
        p->batch.failed = false; /* nothing was appended, so the batch is still whole */
        return CONCLAVE_ENOMEM;
    }
    if (p->batch_count == 0) {
        struct batch_header header = {.origin = p->origin,
                                      .sequence = ++p->sequence,
                                      .previous = p->previous,
                                      .time_ms = time_ms};
        p->previous = header.sequence;
        batch_begin(&p->batch, &header);
    }
    batch_add(&p->batch, 0, command);
    assert(buf_ok(&p->batch));
    p->batch_count++;
    assert(!entry->write && list_empty(&entry->flight));
    entry->write = true;
    list_push_back(&p->flight, &entry->flight);
    if (p->batch.len >= PIPELINE_BATCH_BYTES) {
        pipeline_submit(p);
    }
    return 0;
}

bool pipeline_has_work(const struct pipeline *p)
{
    return p->batch_count > 0 && p->error == 0 &&
           p->sink.in_flight(p->sink.ctx) < PIPELINE_IN_FLIGHT;
}

void pipeline_turn(struct pipeline *p, bool all)
{
    if (all || pipeline_has_work(p)) {
        pipeline_submit(p);
    }
}

bool pipeline_owns(struct pipeline *p, const struct batch_header *header)
{
    if (header->origin != p->origin || header->sequence != p->applied + 1 ||
        list_empty(&p->flight)) {
        return false;
    }
    p->applied = header->sequence;
    return true;
}

const struct pending *pipeline_first(const struct pipeline *p)
{
    assert(!list_empty(&p->flight));
    return CONTAINER_OF(p->flight.next, struct pending, flight);
}

struct pending *pipeline_next(struct pipeline *p)
{
    struct list *node = list_pop_front(&p->flight);
    assert(node != NULL);
    return CONTAINER_OF(node, struct pending, flight);
}
