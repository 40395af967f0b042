#include "sim/peek.h"

#include "sim/inside.h"
#include "wire/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As one who may read everything. */
static int query(struct machine *m, int32_t type, const char *path, struct buf *out)
{
    struct buf body;
    struct buf ids;
    struct state_watch watch;
    struct wire_get_data_request r = {.path = slice_str(path)};
    buf_init(&body, 0);
    buf_init(&ids, 0);
    buf_init(out, 0);
    wire_encode_get_data_request(&body, &r);
    wire_encode_id(&ids, &(struct wire_id){slice_str("world"), slice_str("anyone")});
    int rc = state_query(m->inside->service.state, type, wire_vector_make(&ids, 1),
                         buf_slice(&body), out, &watch);
    buf_finish(&body);
    buf_finish(&ids);
    return rc;
}

uint64_t peek_number(struct slice data)
{
    uint64_t number = 0;
    for (size_t i = 0; i < data.len && data.data[i] >= '0' && data.data[i] <= '9'; i++) {
        number = 10 * number + (data.data[i] - '0');
    }
    return number;
}

static bool look(struct machine *m, const char *path, int32_t *ret_version, uint64_t *ret_number,
                 int64_t *ret_owner)
{
    struct buf out;
    struct wire_get_data_response response;
    int rc = query(m, WIRE_GET_DATA, path, &out);
    if (rc == 0) {
        struct wire_reader r = wire_reader_make(buf_slice(&out));
        rc = wire_decode_get_data_response(&r, &response);
        *ret_version = response.stat.version;
        *ret_number = peek_number(response.data);
        *ret_owner = response.stat.ephemeral_owner;
    }
    buf_finish(&out);
    return rc == 0;
}

bool peek_node(struct machine *m, const char *path, int32_t *ret_version, uint64_t *ret_number)
{
    int64_t owner;
    return look(m, path, ret_version, ret_number, &owner);
}

int64_t peek_owner(struct machine *m, const char *path)
{
    int64_t owner = 0;
    int32_t version;
    uint64_t number;
    return look(m, path, &version, &number, &owner) ? owner : 0;
}

bool peek_session(struct machine *m, int64_t id)
{
    struct state_session session;
    return state_session_find(m->inside->service.state, id, &session);
}

int32_t peek_version(struct machine *m, unsigned key)
{
    char path[16];
    int32_t version = 0;
    uint64_t number = 0;
    snprintf(path, sizeof path, "/r/%u", key);
    (void)peek_node(m, path, &version, &number);
    return version;
}

void peek_children(struct machine *m, const char *path,
                   void (*fn)(void *ctx, struct machine *m, const char *name), void *ctx)
{
    struct buf out;
    char name[128];
    if (query(m, WIRE_GET_CHILDREN, path, &out) == 0) {
        struct wire_reader r = wire_reader_make(buf_slice(&out));
        int32_t count = wire_read_i32(&r);
        for (int32_t i = 0; i < count; i++) {
            struct slice child = wire_read_buffer(&r);
            snprintf(name, sizeof name, "%.*s", SLICE_FMT(child));
            fn(ctx, m, name);
        }
    }
    buf_finish(&out);
}
