#include "front/limits/slow_log.h"

#include "wire/codec.h"
#include "wire/ops.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { MULTI_HEADER = 4 + 1 + 4 }; /* type, done, err: in front of the first operation */

int slow_log_init(struct slow_log *l, int64_t threshold_ms, size_t max)
{
    *l = (struct slow_log){.rows = NULL};
    return slow_log_set(l, threshold_ms, max);
}

int slow_log_set(struct slow_log *l, int64_t threshold_ms, size_t max)
{
    size_t room = threshold_ms > 0 ? max : 0;
    if (room != l->max) {
        struct slow_request *rows = room > 0 ? calloc(room, sizeof *rows) : NULL;
        const struct slow_request *old;
        size_t held = 0;
        if (room > 0 && rows == NULL) {
            return CONCLAVE_ENOMEM;
        }
        while (held < room && (old = slow_log_row(l, held)) != NULL) {
            rows[(l->count - 1 - held) % room] = *old;
            held++;
        }
        free(l->rows);
        l->rows = rows;
        l->max = room;
        l->held = held;
    }
    assert(l->held <= l->max);
    l->threshold_ns = threshold_ms * 1000000;
    return 0;
}

void slow_log_finish(struct slow_log *l)
{
    free(l->rows);
    l->rows = NULL;
    l->max = l->held = 0;
}

struct slow_request *slow_log_add(struct slow_log *l)
{
    l->count++;
    if (l->max == 0) {
        return NULL;
    }
    assert(l->rows != NULL);
    l->held += l->held < l->max;
    struct slow_request *r = &l->rows[(l->count - 1) % l->max];
    *r = (struct slow_request){.count = 1};
    return r;
}

struct slow_request *slow_log_row(const struct slow_log *l, size_t i)
{
    return i < l->held ? &l->rows[(l->count - 1 - i) % l->max] : NULL;
}

void slow_request_set_client(struct slow_request *r, const char *client)
{
    size_t len = strnlen(client, sizeof r->client - 1);
    memcpy(r->client, client, len);
    r->client[len] = '\0';
}

/* Operations whose record begins with a path. */
static bool begins_with_path(int32_t type)
{
    switch (type) {
    case WIRE_CREATE:
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
    case WIRE_CREATE_TTL:
    case WIRE_DELETE:
    case WIRE_EXISTS:
    case WIRE_GET_DATA:
    case WIRE_SET_DATA:
    case WIRE_GET_ACL:
    case WIRE_SET_ACL:
    case WIRE_GET_CHILDREN:
    case WIRE_GET_CHILDREN2:
    case WIRE_SYNC:
    case WIRE_GET_EPHEMERALS:
    case WIRE_GET_ALL_CHILDREN_NUMBER:
    case WIRE_ADD_WATCH:
    case WIRE_MULTI:
    case WIRE_MULTI_READ:
        return true;
    default:
        return false;
    }
}

void slow_request_set_path(struct slow_request *r, int32_t type, struct slice body)
{
    size_t skip = type == WIRE_MULTI || type == WIRE_MULTI_READ ? MULTI_HEADER : 0;
    if (!begins_with_path(type) || body.len < skip) {
        return;
    }
    struct wire_reader reader = wire_reader_make(slice_make(body.data + skip, body.len - skip));
    struct slice path = wire_read_string(&reader);
    if (reader.failed || slice_is_null(path)) {
        return;
    }
    size_t len = path.len < SLOW_PATH_MAX - 1 ? path.len : SLOW_PATH_MAX - 1;
    memcpy(r->path, path.data, len);
    r->path[len] = '\0';
    r->path_cut = len < path.len;
}

const char *request_part_name(enum request_part part)
{
    static const char *const NAMES[] = {
#define REQUEST_PART(name, NAME) [PART_##NAME] = #name,
        REQUEST_PARTS(REQUEST_PART)
#undef REQUEST_PART
    };
    assert(part < PART_COUNT);
    return NAMES[part];
}

enum request_part slow_request_longest(const struct slow_request *r)
{
    enum request_part longest = PART_QUEUE;
    for (enum request_part p = PART_QUEUE; p < PART_COUNT; p++) {
        longest = r->part_us[p] > r->part_us[longest] ? p : longest;
    }
    return longest;
}

int64_t slow_request_us(const struct slow_request *r)
{
    int64_t us = 0;
    for (size_t p = 0; p < PART_COUNT; p++) {
        us += r->part_us[p];
    }
    return us;
}
