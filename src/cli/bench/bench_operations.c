/* What the operations send, one request after the other, and what counts as their latency. */
#include "cli/bench/bench.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const BENCH_NAMES[BENCH_ROWS] = {"get",   "exists", "set",  "create", "children",
                                             "multi", "watch",  "lock", "delete", "unlock"};

static uint64_t random_next(struct bench *b)
{
    b->random ^= b->random << 13;
    b->random ^= b->random >> 7;
    b->random ^= b->random << 17;
    return b->random;
}

void bench_count_error(struct bench *b, int error, uint64_t times)
{
    for (size_t i = 0; i < BENCH_ERRORS_MAX; i++) {
        if (b->errors[i].code == error || b->errors[i].count == 0) {
            b->errors[i].code = error;
            b->errors[i].count += times;
            return;
        }
    }
}

static bool counts(const struct bench *b, const struct bench_slot *slot)
{
    return slot->due_us >= b->record_us && slot->due_us < b->end_us;
}

static void record(struct bench *b, const struct bench_slot *slot, enum bench_row row,
                   int64_t from_us)
{
    int64_t now = bench_now_us();
    uint64_t took = now > from_us ? (uint64_t)(now - from_us) : 0;
    latency_histogram_add(&b->second, took);
    if (counts(b, slot)) {
        latency_histogram_add(&b->rows[row].latencies, took);
    }
}

static void operation_fail(struct bench *b, struct bench_slot *slot, int error)
{
    slot->failed = true;
    b->second_errors++;
    if (counts(b, slot)) {
        b->rows[slot->row].errors++;
        bench_count_error(b, error, 1);
    }
}

static void operation_end(struct bench *b, struct bench_slot *slot)
{
    if (slot->watching) {
        return; /* its watch still fires */
    }
    assert(slot->busy && b->busy > 0);
    free(slot->made);
    slot->made = NULL;
    slot->busy = false;
    b->busy--;
    slot->next_free = b->free_slots;
    b->free_slots = slot;
}

static void on_reply(struct conclave_client *client, const struct conclave_reply *reply, void *ctx);

static void request_send(struct bench *b, struct bench_slot *slot, const struct conclave_op *op)
{
    struct bench_session *s = &b->sessions[slot->session];
    slot->begin_us = bench_now_us();
    int error = conclave_submit(s->client, op, on_reply, slot);
    if (error != 0) {
        slot->watching = false; /* never set, or the answer that would tell was already read */
        operation_fail(b, slot, error);
        operation_end(b, slot);
        return;
    }
    slot->step++;
    b->requests++;
}

static void on_event(struct conclave_client *client, enum conclave_event_type type,
                     const char *path, void *ctx)
{
    struct bench_slot *slot = ctx;
    struct bench *b = slot->bench;
    slot->watching = false;
    if (!slot->failed && type == CONCLAVE_EVENT_DATA_CHANGED) {
        record(b, slot, BENCH_WATCH, slot->due_us);
    } else if (!slot->failed) {
        operation_fail(b, slot, CONCLAVE_SESSION_EXPIRED);
    }
    if (slot->step > 2) { /* the answer to the set is here, too */
        operation_end(b, slot);
    }
}

static const char *slot_path(const struct bench_slot *slot, char out[BENCH_PATH_MAX])
{
    const struct bench *b = slot->bench;
    snprintf(out, BENCH_PATH_MAX, "%s/watched/%zu", b->parent, (size_t)(slot - b->slots));
    return out;
}

static const char *bench_node_path(struct bench *b, char out[BENCH_PATH_MAX])
{
    snprintf(out, BENCH_PATH_MAX, "%s/nodes/%llu", b->parent,
             (unsigned long long)(random_next(b) % (uint64_t)b->options->nodes));
    return out;
}

static void send_multi(struct bench *b, struct bench_slot *slot)
{
    char first[BENCH_PATH_MAX];
    char second[BENCH_PATH_MAX];
    size_t len = (size_t)b->options->data_bytes;
    struct conclave_op parts[3] = {
        conclave_op_set(bench_node_path(b, first), b->data, len, -1),
        conclave_op_set(bench_node_path(b, second), b->data, len, -1),
        conclave_op_path(CONCLAVE_OP_CHECK, b->parent, -1),
    };
    struct conclave_op op = conclave_op_multi(parts, 3);
    request_send(b, slot, &op);
}

/* The first request. */
static void send_first(struct bench *b, struct bench_slot *slot)
{
    char path[BENCH_PATH_MAX];
    size_t len = (size_t)b->options->data_bytes;
    struct conclave_op op;
    switch ((enum bench_row)slot->row) {
    case BENCH_GET:
        op = conclave_op_path(CONCLAVE_OP_GET, bench_node_path(b, path), -1);
        break;
    case BENCH_EXISTS:
        op = conclave_op_path(CONCLAVE_OP_EXISTS, bench_node_path(b, path), -1);
        break;
    case BENCH_SET:
        op = conclave_op_set(bench_node_path(b, path), b->data, len, -1);
        break;
    case BENCH_CREATE:
        snprintf(path, sizeof path, "%s/made/n-", b->parent);
        op = conclave_op_create(path, b->data, len, CONCLAVE_PERSISTENT_SEQUENTIAL);
        break;
    case BENCH_CHILDREN:
        snprintf(path, sizeof path, "%s/nodes", b->parent);
        op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, path, -1);
        break;
    case BENCH_MULTI:
        send_multi(b, slot);
        return;
    case BENCH_WATCH:
        op = conclave_op_watch(CONCLAVE_OP_GET, slot_path(slot, path), on_event, slot);
        break;
    default:
        assert(slot->row == BENCH_LOCK);
        snprintf(path, sizeof path, "%s/locks/%zu/lock-", b->parent, (size_t)(slot - b->slots));
        op = conclave_op_create(path, NULL, 0, CONCLAVE_EPHEMERAL_SEQUENTIAL);
        break;
    }
    request_send(b, slot, &op);
}

static void send_delete(struct bench *b, struct bench_slot *slot)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, slot->made, -1);
    request_send(b, slot, &op);
}

static bool keep_made(struct bench_slot *slot, const struct conclave_reply *reply)
{
    slot->made = strdup(reply->path);
    return slot->made != NULL;
}

/* The answer to the first request, and to those behind it, of an operation that has more than one. True: it goes on. */
static bool operation_go_on(struct bench *b, struct bench_slot *slot,
                            const struct conclave_reply *reply)
{
    char path[BENCH_PATH_MAX];
    struct conclave_op op;
    switch (slot->row) {
    case BENCH_CREATE:
        if (slot->step == 1 && keep_made(slot, reply)) {
            record(b, slot, BENCH_CREATE, slot->due_us);
            send_delete(b, slot);
            return true;
        }
        record(b, slot, BENCH_DELETE, slot->begin_us);
        return false;
    case BENCH_LOCK:
        if (slot->step == 1 && keep_made(slot, reply)) {
            snprintf(path, sizeof path, "%s/locks/%zu", b->parent, (size_t)(slot - b->slots));
            op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, path, -1);
            request_send(b, slot, &op);
            return true;
        }
        if (slot->step == 2 && slot->made != NULL) {
            record(b, slot, BENCH_LOCK, slot->due_us);
            send_delete(b, slot);
            return true;
        }
        record(b, slot, BENCH_UNLOCK, slot->begin_us);
        return false;
    case BENCH_WATCH:
        if (slot->step == 1) {
            slot->watching = true;
            op =
                conclave_op_set(slot_path(slot, path), b->data, (size_t)b->options->data_bytes, -1);
            request_send(b, slot, &op);
            return true;
        }
        slot->step++; /* from now on the event ends it */
        return false;
    default:
        record(b, slot, slot->row, slot->due_us);
        return false;
    }
}

static void on_reply(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    struct bench_slot *slot = ctx;
    struct bench *b = slot->bench;
    if (reply->error != 0) {
        slot->step = UINT8_MAX; /* a watch that still comes ends it */
        operation_fail(b, slot, reply->error);
        operation_end(b, slot);
    } else if (!operation_go_on(b, slot, reply)) {
        operation_end(b, slot);
    }
}

static enum bench_row bench_choose(struct bench *b)
{
    unsigned at = (unsigned)(random_next(b) % b->weights_total);
    unsigned row = 0;
    while (at >= b->weights[row]) {
        at -= b->weights[row++];
        assert(row < BENCH_MIXED);
    }
    return row;
}

void bench_operation_begin(struct bench *b, struct bench_slot *slot, int64_t due_us)
{
    assert(!slot->busy && !slot->watching && slot->made == NULL);
    slot->busy = true;
    b->busy++;
    slot->row = (uint8_t)bench_choose(b);
    slot->step = 0;
    slot->failed = false;
    slot->due_us = due_us;
    send_first(b, slot);
}
