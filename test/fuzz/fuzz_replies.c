/*
 * Any bytes as the replies of a Redis server, in parts of any size: each reply is whole and within its limit, or the reader
 * refuses it. Input: a byte for the size of the parts, then the bytes.
 */
#include "fuzz/cost.h"
#include "fuzz/input.h"
#include "redis/client/reply_reader.h"

#include <stdlib.h>

enum { LIMIT = 65536, ITEM_LEAST = 64 };

const struct cost_bound fuzz_bound = {
    .cpu_us = 20000,
    .cpu_ns_per_byte = 20000,
    .alloc_bytes = 1 << 18,
    .alloc_per_byte = 400,
};

/* The number of items. */
static size_t check_reply(const struct conclave_redis_reply *reply, int depth)
{
    size_t items = 1;
    must(reply->text[reply->len] == '\0' && depth < 32);
    must(reply->type == CONCLAVE_REDIS_REPLY_ARRAY || reply->count == 0);
    must(reply->server == NULL && reply->replicas == -1);
    for (size_t i = 0; i < reply->count; i++) {
        must(reply->list[i] != NULL);
        items += check_reply(reply->list[i], depth + 1);
    }
    return items;
}

void fuzz_input(const uint8_t *data, size_t size)
{
    struct input in = input_make(slice_make(data, size));
    size_t part = (size_t)take(&in) + 1;
    struct slice rest = take_rest(&in);
    struct reply_reader *r = reply_reader_create(LIMIT);
    int error = r == NULL ? CONCLAVE_ENOMEM : 0;
    while (error == 0 && rest.len > 0) {
        struct conclave_redis_reply *reply = NULL;
        size_t len = rest.len < part ? rest.len : part;
        error = reply_reader_feed(r, slice_make(rest.data, len));
        rest = slice_make(rest.data + len, rest.len - len);
        while (error == 0 && (error = reply_reader_next(r, &reply)) == 0 && reply != NULL) {
            must(check_reply(reply, 0) <= LIMIT / ITEM_LEAST);
            conclave_redis_reply_free(reply);
            reply = NULL;
        }
    }
    must(error == 0 || error == CONCLAVE_EPROTO || error == CONCLAVE_ETOOBIG ||
         error == CONCLAVE_ENOMEM);
    reply_reader_destroy(r);
}
