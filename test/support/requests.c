#include "support/requests.h"

#include <assert.h>

void maker_init(struct maker *m)
{
    *m = (struct maker){0};
    buf_init(&m->body, 0);
    buf_init(&m->acl, 0);
    buf_init(&m->ids, 0);
    maker_acl_add(m, WIRE_PERM_ALL, "world", "anyone");
}

void maker_finish(struct maker *m)
{
    buf_finish(&m->body);
    buf_finish(&m->acl);
    buf_finish(&m->ids);
}

void maker_acl_reset(struct maker *m)
{
    buf_reset(&m->acl);
    m->acl_count = 0;
}

void maker_acl_add(struct maker *m, int32_t perms, const char *scheme, const char *id)
{
    struct wire_acl acl = {perms, {slice_str(scheme), slice_str(id)}};
    wire_encode_acl(&m->acl, &acl);
    m->acl_count++;
}

void maker_ids_reset(struct maker *m)
{
    buf_reset(&m->ids);
    m->ids_count = 0;
}

void maker_ids_add(struct maker *m, const char *scheme, const char *id)
{
    wire_encode_id(&m->ids, &(struct wire_id){slice_str(scheme), slice_str(id)});
    m->ids_count++;
}

struct wire_vector maker_ids(const struct maker *m)
{
    return wire_vector_make(&m->ids, m->ids_count);
}

static struct slice made(struct maker *m)
{
    assert(buf_ok(&m->body));
    return buf_slice(&m->body);
}

static void add_create(struct maker *m, const char *path, const char *data, int32_t mode)
{
    struct wire_create_request r = {slice_str(path), slice_str(data),
                                    wire_vector_make(&m->acl, m->acl_count), mode};
    wire_encode_create_request(&m->body, &r);
}

static void add_set_data(struct maker *m, const char *path, const char *data, int32_t version)
{
    struct wire_set_data_request r = {slice_str(path), slice_str(data), version};
    wire_encode_set_data_request(&m->body, &r);
}

static void add_path_version(struct maker *m, const char *path, int32_t version)
{
    wire_encode_delete_request(&m->body, &(struct wire_delete_request){slice_str(path), version});
}

struct slice make_create(struct maker *m, const char *path, const char *data, int32_t mode)
{
    buf_reset(&m->body);
    add_create(m, path, data, mode);
    return made(m);
}

struct slice make_create_ttl(struct maker *m, const char *path, int32_t mode, int64_t ttl_ms)
{
    buf_reset(&m->body);
    add_create(m, path, "", mode);
    wire_write_i64(&m->body, ttl_ms);
    return made(m);
}

struct slice make_delete(struct maker *m, const char *path, int32_t version)
{
    buf_reset(&m->body);
    add_path_version(m, path, version);
    return made(m);
}

struct slice make_set_data(struct maker *m, const char *path, const char *data, int32_t version)
{
    buf_reset(&m->body);
    add_set_data(m, path, data, version);
    return made(m);
}

struct slice make_set_acl(struct maker *m, const char *path, int32_t version)
{
    struct wire_set_acl_request r = {slice_str(path), wire_vector_make(&m->acl, m->acl_count),
                                     version};
    buf_reset(&m->body);
    wire_encode_set_acl_request(&m->body, &r);
    return made(m);
}

/* getACL and sync have no watch flag: their records end after the path. */
struct slice make_read(struct maker *m, const char *path, bool watch)
{
    buf_reset(&m->body);
    wire_encode_exists_request(&m->body, &(struct wire_exists_request){slice_str(path), watch});
    return made(m);
}

struct slice make_session(struct maker *m, int64_t id, int32_t timeout_ms)
{
    return make_attach(m, id, timeout_ms, id);
}

struct slice make_attach(struct maker *m, int64_t id, int32_t timeout_ms, int64_t passwd_of)
{
    uint8_t passwd[WIRE_PASSWD_LEN];
    memset(passwd, (int)(passwd_of & 0xff), sizeof passwd);
    struct wire_connect_response r = {0, timeout_ms, id, slice_make(passwd, sizeof passwd)};
    buf_reset(&m->body);
    wire_encode_connect_response(&m->body, &r);
    return made(m);
}

static void add_header(struct maker *m, int32_t type, bool done)
{
    wire_encode_multi_header(&m->body, &(struct wire_multi_header){type, done, -1});
}

void make_multi_begin(struct maker *m)
{
    buf_reset(&m->body);
}

void make_multi_create(struct maker *m, int32_t type, const char *path, const char *data,
                       int32_t mode)
{
    add_header(m, type, false);
    add_create(m, path, data, mode);
}

void make_multi_create_ttl(struct maker *m, const char *path, int32_t mode, int64_t ttl_ms)
{
    add_header(m, WIRE_CREATE_TTL, false);
    add_create(m, path, "", mode);
    wire_write_i64(&m->body, ttl_ms);
}

void make_multi_delete(struct maker *m, const char *path, int32_t version)
{
    add_header(m, WIRE_DELETE, false);
    add_path_version(m, path, version);
}

void make_multi_set_data(struct maker *m, const char *path, const char *data, int32_t version)
{
    add_header(m, WIRE_SET_DATA, false);
    add_set_data(m, path, data, version);
}

void make_multi_check(struct maker *m, const char *path, int32_t version)
{
    add_header(m, WIRE_CHECK, false);
    add_path_version(m, path, version);
}

struct slice make_multi_end(struct maker *m)
{
    add_header(m, -1, true);
    return made(m);
}

int32_t apply(struct state *s, struct effects *e, struct maker *m, int64_t session_id, int32_t type,
              struct slice body)
{
    return apply_from(s, e, m, BATCH_ORIGIN_LEADER, session_id, type, body);
}

int32_t apply_from(struct state *s, struct effects *e, struct maker *m, int64_t origin,
                   int64_t session_id, int32_t type, struct slice body)
{
    struct batch_header header = {.origin = origin, .time_ms = 1000 + state_zxid(s) + 1};
    struct command c = {
        .session_id = session_id, .cxid = 1, .type = type, .ids = maker_ids(m), .body = body};
    state_apply(s, &header, &c, e);
    return e->err;
}
