/* Writes a record by its table. A file of its own, because base/json.h and jansson share names. */
#include "redis/records/record_table.h"

#include "base/json.h"

#include <assert.h>
#include <string.h>

static void fields_write(struct json *j, const struct record_table *table, const char *record);

static int64_t number_of(const struct record_field *f, const char *at)
{
    int64_t number = 0;
    int small = 0;
    bool yes = false;
    assert(f->size == sizeof number || f->size == sizeof small || f->size == sizeof yes);
    memcpy(f->size == sizeof number  ? (void *)&number
           : f->size == sizeof small ? (void *)&small
                                     : (void *)&yes,
           at, f->size);
    return f->size == sizeof number ? number : f->size == sizeof small ? small : yes;
}

static void list_write(struct json *j, const struct record_field *f, const char *record)
{
    size_t count;
    memcpy(&count, record + f->count_at, sizeof count);
    assert(count <= f->max);
    for (size_t i = 0; i < count; i++) {
        const char *element = record + f->offset + i * f->size;
        if (f->kind == RECORD_ADDRESSES) {
            json_string(j, element);
        } else {
            json_key(j, element);
            json_object_begin(j);
            fields_write(j, f->below, element);
            json_object_end(j);
        }
    }
}

static void field_write(struct json *j, const struct record_field *f, const char *record)
{
    const char *at = record + f->offset;
    switch (f->kind) {
    case RECORD_INT:
    case RECORD_SMALL:
        json_int(j, number_of(f, at));
        break;
    case RECORD_HEX:
        json_hex(j, number_of(f, at));
        break;
    case RECORD_BOOL:
        json_bool(j, number_of(f, at) != 0);
        break;
    case RECORD_NAME:
        assert(number_of(f, at) >= 0);
        json_string(j, f->names[number_of(f, at)]);
        break;
    case RECORD_TEXT:
    case RECORD_NOTE:
    case RECORD_ADDRESS:
        if (at[0] == '\0' && (f->flags & RECORD_NULL) != 0) {
            json_null(j);
        } else {
            json_string(j, at);
        }
        break;
    case RECORD_ADDRESSES:
        json_array_begin(j);
        list_write(j, f, record);
        json_array_end(j);
        break;
    case RECORD_MAP:
        json_object_begin(j);
        list_write(j, f, record);
        json_object_end(j);
        break;
    }
}

static bool field_is_empty(const struct record_field *f, const char *at)
{
    bool number = f->kind == RECORD_INT || f->kind == RECORD_SMALL;
    return number ? number_of(f, at) < 0 : at[0] == '\0';
}

static void fields_write(struct json *j, const struct record_table *table, const char *record)
{
    for (const struct record_field *f = table->fields; f->key != NULL; f++) {
        bool empty = field_is_empty(f, record + f->offset);
        if (!empty || (f->flags & RECORD_OMIT) == 0) {
            json_key(j, f->key);
            field_write(j, f, record);
        }
        if (empty && (f->flags & RECORD_LAST_IF_NO) != 0) {
            return;
        }
    }
}

void record_write(struct buf *out, const struct record_table *table, const void *record)
{
    struct json j;
    json_line_begin(&j);
    if (table->versioned) {
        json_member_int(&j, "version", 1);
    }
    fields_write(&j, table, record);
    json_object_end(&j);
    if (buf_ok(&j.out)) {
        buf_append_slice(out, buf_slice(&j.out));
    } else {
        out->failed = true;
    }
    json_finish(&j);
}
