/* hiredis builds the replies by the functions below, each item in one block with its text or list. */
#include "redis/client/reply_reader.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

/* The type of the length of an array, by version of hiredis. */
#if HIREDIS_MAJOR >= 1
typedef size_t item_count;
#else
typedef int item_count;
#endif

enum {
    DEPTH_MAX = 16
}; /* of lists in lists, which are freed by recursion; hiredis 0.14 has a lower limit, 1.x none */

struct reply_item {
    struct conclave_redis_reply reply;   /* first */
    char *server;                        /* of a whole reply */
    struct conclave_redis_reply *list[]; /* or a text, of as many bytes as it needs */
};

struct reply_reader {
    redisReader *parser;
    size_t limit;
    size_t used; /* by the reply that is being read */
    int error;   /* why an item was not made, if not for want of memory */
};

static bool is_too_deep(const redisReadTask *task)
{
    int depth = 0;
    for (; task->parent != NULL && depth <= DEPTH_MAX; task = task->parent) {
        depth++;
    }
    return depth > DEPTH_MAX;
}

/* A new item with more bytes behind it, in its place in the list that it belongs to. NULL: out of memory, or too big. */
static struct reply_item *item_create(const redisReadTask *task, size_t more)
{
    struct reply_reader *r = task->privdata;
    size_t size = sizeof(struct reply_item) + more;
    if (is_too_deep(task)) {
        r->error = CONCLAVE_EPROTO;
        return NULL;
    }
    if (size < more || size > r->limit - r->used) {
        r->error = CONCLAVE_ETOOBIG;
        return NULL;
    }
    struct reply_item *item = calloc(1, size);
    if (item == NULL) {
        return NULL;
    }
    r->used += size;
    assert(r->used <= r->limit);
    item->reply.text = "";
    item->reply.replicas = -1;
    if (task->parent != NULL) {
        struct reply_item *list = task->parent->obj;
        assert((size_t)task->idx < list->reply.count && list->list[task->idx] == NULL);
        list->list[task->idx] = &item->reply;
    }
    return item;
}

static void *create_text(const redisReadTask *task, char *text, size_t len)
{
    struct reply_item *item = len < SIZE_MAX ? item_create(task, len + 1) : NULL;
    if (item != NULL) {
        char *own = (char *)item->list;
        memcpy(own, text, len);
        item->reply.type = task->type == REDIS_REPLY_ERROR    ? CONCLAVE_REDIS_REPLY_ERROR
                           : task->type == REDIS_REPLY_STATUS ? CONCLAVE_REDIS_REPLY_STATUS
                                                              : CONCLAVE_REDIS_REPLY_STRING;
        item->reply.text = own;
        item->reply.len = len;
    }
    return item;
}

static void *create_list(const redisReadTask *task, item_count count)
{
    const struct reply_reader *r = task->privdata;
    size_t wanted = (size_t)count;
    size_t more = wanted <= r->limit / sizeof(void *) ? wanted * sizeof(void *) : r->limit;
    struct reply_item *item = item_create(task, more);
    if (item != NULL) {
        item->reply.type = CONCLAVE_REDIS_REPLY_ARRAY;
        item->reply.list = (const struct conclave_redis_reply *const *)item->list;
        item->reply.count = wanted;
    }
    return item;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    struct reply_item *item = item_create(task, 0);
    if (item != NULL) {
        item->reply.type = CONCLAVE_REDIS_REPLY_INTEGER;
        item->reply.integer = value;
    }
    return item;
}

static void *create_nil(const redisReadTask *task)
{
    return item_create(task, 0);
}

#if HIREDIS_MAJOR >= 1
/* Types of RESP3, which was not asked for. */
static void *refuse_item(const redisReadTask *task)
{
    struct reply_reader *r = task->privdata;
    r->error = CONCLAVE_EPROTO;
    return NULL;
}

static void *create_double(const redisReadTask *task, double value, char *text, size_t len)
{
    return refuse_item(task);
}

static void *create_bool(const redisReadTask *task, int value)
{
    return refuse_item(task);
}
#endif

static void free_item(void *block)
{
    struct reply_item *item = block;
    if (item == NULL) {
        return;
    }
    for (size_t i = 0; i < item->reply.count; i++) {
        free_item(item->list[i]);
    }
    free(item->server);
    free(item);
}

void conclave_redis_reply_free(struct conclave_redis_reply *reply)
{
    free_item(reply);
}

int reply_set_server(struct conclave_redis_reply *reply, const char *server, int64_t epoch)
{
    struct reply_item *item = (struct reply_item *)reply;
    assert(item->server == NULL);
    item->server = strdup(server);
    if (item->server == NULL) {
        return CONCLAVE_ENOMEM;
    }
    reply->server = item->server;
    reply->epoch = epoch;
    return 0;
}

struct reply_reader *reply_reader_create(size_t limit)
{
    static redisReplyObjectFunctions functions = {
        .createString = create_text,
        .createArray = create_list,
        .createInteger = create_integer,
        .createNil = create_nil,
#if HIREDIS_MAJOR >= 1
        .createDouble = create_double,
        .createBool = create_bool,
#endif
        .freeObject = free_item,
    };
    struct reply_reader *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return NULL;
    }
    r->limit = limit;
    r->parser = redisReaderCreateWithFunctions(&functions);
    if (r->parser == NULL) {
        free(r);
        return NULL;
    }
    r->parser->privdata = r;
    return r;
}

void reply_reader_destroy(struct reply_reader *r)
{
    if (r != NULL) {
        redisReaderFree(r->parser);
        free(r);
    }
}

int reply_reader_feed(struct reply_reader *r, struct slice bytes)
{
    return redisReaderFeed(r->parser, (const char *)bytes.data, bytes.len) == REDIS_OK
               ? 0
               : CONCLAVE_ENOMEM;
}

int reply_reader_next(struct reply_reader *r, struct conclave_redis_reply **ret)
{
    void *reply = NULL;
    int rc = redisReaderGetReply(r->parser, &reply);
    if (rc != REDIS_OK) {
        int error = r->parser->err == REDIS_ERR_OOM ? CONCLAVE_ENOMEM : CONCLAVE_EPROTO;
        return r->error != 0 ? r->error : error;
    }
    if (reply == NULL && r->parser->len - r->parser->pos > r->limit) {
        return CONCLAVE_ETOOBIG;
    }
    if (reply != NULL) {
        r->used = 0;
    }
    *ret = reply;
    return 0;
}
