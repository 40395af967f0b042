#include "wire/records.h"

#include <assert.h>

/* --- vectors: elements are checked once when decoded, then read again on demand  */

static void wire_check_string(struct wire_reader *r)
{
    (void)wire_read_string(r);
}

static void wire_check_id(struct wire_reader *r)
{
    struct wire_id id;
    (void)!wire_decode_id(r, &id);
}

static void wire_check_acl(struct wire_reader *r)
{
    struct wire_acl acl;
    (void)!wire_decode_acl(r, &acl);
}

static void wire_check_client(struct wire_reader *r)
{
    struct wire_client_info info;
    (void)!wire_decode_client_info(r, &info);
}

/* A false count costs no more than the existing bytes, because the loop ends at the first error. */
static struct wire_vector wire_read_vector(struct wire_reader *r,
                                           void (*check)(struct wire_reader *))
{
    int32_t count = wire_read_i32(r);
    if (r->failed || count == -1) {
        return WIRE_VECTOR_NULL;
    }
    if (count < 0) {
        r->failed = true;
        return WIRE_VECTOR_NULL;
    }
    const uint8_t *start = r->pos;
    for (int32_t i = 0; i < count && !r->failed; i++) {
        check(r);
    }
    if (r->failed) {
        return WIRE_VECTOR_NULL;
    }
    assert((count > 0) == (r->pos > start));
    return (struct wire_vector){slice_make(start, (size_t)(r->pos - start)), count};
}

static bool wire_vector_step(struct wire_vector *v, struct wire_reader *r)
{
    if (v->count <= 0) {
        assert(v->items.len == 0);
        return false;
    }
    assert(v->items.len > 0);
    v->count--;
    *r = wire_reader_make(v->items);
    return true;
}

bool wire_next_string(struct wire_vector *v, struct slice *ret)
{
    struct wire_reader r;
    if (!wire_vector_step(v, &r)) {
        return false;
    }
    *ret = wire_read_string(&r);
    v->items = wire_rest(&r);
    return !r.failed;
}

#define WIRE_NEXT(name, record)                                                                    \
    bool wire_next_##name(struct wire_vector *v, struct wire_##record *ret)                        \
    {                                                                                              \
        struct wire_reader r;                                                                      \
        if (!wire_vector_step(v, &r) || wire_decode_##record(&r, ret) != 0) {                      \
            return false;                                                                          \
        }                                                                                          \
        v->items = wire_rest(&r);                                                                  \
        return true;                                                                               \
    }
WIRE_NEXT(acl, acl)
WIRE_NEXT(id, id)
WIRE_NEXT(client, client_info)

struct wire_vector wire_read_ids(struct wire_reader *r)
{
    return wire_read_vector(r, wire_check_id);
}

struct wire_vector wire_read_acls(struct wire_reader *r)
{
    return wire_read_vector(r, wire_check_acl);
}

/* --- one reader, writer and printer per kind of field -------------------------- */

#define WIRE_GET_boolean(r, f) f = wire_read_boolean(r)
#define WIRE_GET_i32(r, f) f = wire_read_i32(r)
#define WIRE_GET_i64(r, f) f = wire_read_i64(r)
#define WIRE_GET_string(r, f) f = wire_read_string(r)
#define WIRE_GET_buffer(r, f) f = wire_read_buffer(r)
#define WIRE_GET_secret(r, f) f = wire_read_buffer(r)
#define WIRE_GET_strings(r, f) f = wire_read_vector(r, wire_check_string)
#define WIRE_GET_acls(r, f) f = wire_read_vector(r, wire_check_acl)
#define WIRE_GET_clients(r, f) f = wire_read_vector(r, wire_check_client)
#define WIRE_GET_id(r, f) (void)!wire_decode_id(r, &f)
#define WIRE_GET_stat(r, f) (void)!wire_decode_stat(r, &f)

#define WIRE_PUT_boolean(b, f) wire_write_boolean(b, f)
#define WIRE_PUT_i32(b, f) wire_write_i32(b, f)
#define WIRE_PUT_i64(b, f) wire_write_i64(b, f)
#define WIRE_PUT_string(b, f) wire_write_string(b, f)
#define WIRE_PUT_buffer(b, f) wire_write_buffer(b, f)
#define WIRE_PUT_secret(b, f) wire_write_buffer(b, f)
#define WIRE_PUT_strings(b, f) wire_write_vector(b, &f)
#define WIRE_PUT_acls(b, f) wire_write_vector(b, &f)
#define WIRE_PUT_clients(b, f) wire_write_vector(b, &f)
#define WIRE_PUT_id(b, f) wire_encode_id(b, &f)
#define WIRE_PUT_stat(b, f) wire_encode_stat(b, &f)

static void wire_show_strings(struct buf *out, struct wire_vector v)
{
    struct slice s;
    buf_append_str(out, "[");
    for (const char *sep = ""; wire_next_string(&v, &s); sep = " ") {
        buf_append_str(out, sep);
        wire_print_string(out, s);
    }
    buf_append_str(out, "]");
}

#define WIRE_SHOW_VECTOR(name, record)                                                             \
    static void wire_show_##name##s(struct buf *out, struct wire_vector v)                         \
    {                                                                                              \
        struct wire_##record item;                                                                 \
        buf_append_str(out, "[");                                                                  \
        for (const char *sep = ""; wire_next_##name(&v, &item); sep = " ") {                       \
            buf_append_str(out, sep);                                                              \
            wire_print_##record(out, &item);                                                       \
        }                                                                                          \
        buf_append_str(out, "]");                                                                  \
    }
WIRE_SHOW_VECTOR(acl, acl)
WIRE_SHOW_VECTOR(client, client_info)

#define WIRE_SHOW_boolean(o, f) wire_print_boolean(o, f)
#define WIRE_SHOW_i32(o, f) wire_print_i32(o, f)
#define WIRE_SHOW_i64(o, f) wire_print_i64(o, f)
#define WIRE_SHOW_string(o, f) wire_print_string(o, f)
#define WIRE_SHOW_buffer(o, f) wire_print_buffer(o, f)
#define WIRE_SHOW_secret(o, f) wire_print_secret(o, f)
#define WIRE_SHOW_strings(o, f) wire_show_strings(o, f)
#define WIRE_SHOW_acls(o, f) wire_show_acls(o, f)
#define WIRE_SHOW_clients(o, f) wire_show_clients(o, f)
#define WIRE_SHOW_id(o, f) wire_print_id(o, &f)
#define WIRE_SHOW_stat(o, f) wire_print_stat(o, &f)

/* --- the functions of each record ---------------------------------------------- */

#define WIRE_DECODE_FIELD(kind, field) WIRE_GET_##kind(r, ret->field);
#define WIRE_ENCODE_FIELD(kind, field) WIRE_PUT_##kind(b, record->field);
#define WIRE_PRINT_FIELD(kind, field)                                                              \
    buf_append_str(out, sep);                                                                      \
    buf_append_str(out, #field "=");                                                               \
    WIRE_SHOW_##kind(out, record->field);                                                          \
    sep = " ";

#define WIRE_FUNCTIONS(name, FIELDS)                                                               \
    int wire_decode_##name(struct wire_reader *r, struct wire_##name *ret)                         \
    {                                                                                              \
        FIELDS(WIRE_DECODE_FIELD)                                                                  \
        return r->failed ? CONCLAVE_MARSHALLING_ERROR : 0;                                         \
    }                                                                                              \
    void wire_encode_##name(struct buf *b, const struct wire_##name *record)                       \
    {                                                                                              \
        FIELDS(WIRE_ENCODE_FIELD)                                                                  \
    }                                                                                              \
    void wire_print_##name(struct buf *out, const struct wire_##name *record)                      \
    {                                                                                              \
        const char *sep = "{";                                                                     \
        FIELDS(WIRE_PRINT_FIELD)                                                                   \
        (void)sep;                                                                                 \
        buf_append_str(out, "}");                                                                  \
    }
WIRE_FIELD_RECORDS(WIRE_FUNCTIONS)
WIRE_RECORDS(WIRE_FUNCTIONS)
WIRE_FILE_RECORDS(WIRE_FUNCTIONS)
