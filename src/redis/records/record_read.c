/* Reads a record by its table, with jansson. */
#include "redis/records/cluster_config.h"
#include "redis/records/record_table.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static bool fields_read(const json_t *object, const struct record_table *table, char *record);

int record_name_find(const char *const *names, const char *text)
{
    for (int i = 0; text != NULL && names[i] != NULL; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static void number_set(const struct record_field *f, char *at, int64_t value)
{
    int small = (int)value;
    bool yes = value != 0;
    assert(f->size == sizeof value || f->size == sizeof small || f->size == sizeof yes);
    memcpy(at,
           f->size == sizeof value   ? (void *)&value
           : f->size == sizeof small ? (void *)&small
                                     : (void *)&yes,
           f->size);
}

static bool number_read(const struct record_field *f, const json_t *value, char *at)
{
    int64_t number = json_is_integer(value) ? (int64_t)json_integer_value(value) : f->otherwise;
    number_set(f, at, number);
    return (f->flags & RECORD_NEEDED) == 0 || (json_is_integer(value) && number >= 0);
}

static void hex_read(const struct record_field *f, const json_t *value, char *at)
{
    const char *text = json_string_value(value);
    char *end = NULL;
    unsigned long long number = text != NULL ? strtoull(text, &end, 16) : 0;
    number_set(f, at, end != NULL && *end == '\0' ? (int64_t)number : 0);
}

static bool name_read(const struct record_field *f, const json_t *value, char *at)
{
    int place = record_name_find(f->names, json_string_value(value));
    number_set(f, at, place >= 0 ? place : f->otherwise);
    return place >= 0 || (f->flags & RECORD_NEEDED) == 0;
}

/* at is "" before, and stays "" on failure. */
static bool text_read(const struct record_field *f, const json_t *value, char *at)
{
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);
    if (value == NULL || json_is_null(value)) {
        return (f->flags & RECORD_NEEDED) == 0;
    }
    if (text == NULL || len >= f->size || strlen(text) != len ||
        (len == 0 && (f->flags & RECORD_NEEDED) != 0)) {
        return false;
    }
    memcpy(at, text, len + 1);
    return true;
}

static bool address_put(const char *text, char *at)
{
    struct redis_node_config node;
    if (text == NULL || redis_address_parse(text, strlen(text), &node) != 0) {
        return false;
    }
    memcpy(at, node.address, sizeof node.address);
    return true;
}

static bool addresses_read(const struct record_field *f, const json_t *list, char *record)
{
    size_t count = json_array_size(list);
    assert(f->size >= REDIS_ADDRESS_SIZE);
    if (count > f->max || (list != NULL && !json_is_array(list))) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!address_put(json_string_value(json_array_get(list, i)),
                         record + f->offset + i * f->size)) {
            return false;
        }
    }
    memcpy(record + f->count_at, &count, sizeof count);
    return true;
}

/* Elements that cannot be read are left out. */
static bool map_read(const struct record_field *f, json_t *map, char *record)
{
    size_t count = 0;
    const char *key;
    json_t *value;
    json_object_foreach(map, key, value)
    {
        char *element = record + f->offset + count * f->size;
        if (count < f->max && json_is_object(value) && address_put(key, element)) {
            bool good = fields_read(value, f->below, element);
            assert(good); /* nothing in it is NEEDED or strict */
            count += good;
        }
    }
    memcpy(record + f->count_at, &count, sizeof count);
    return json_is_object(map);
}

static bool field_read(const struct record_field *f, json_t *value, char *record)
{
    char *at = record + f->offset;
    switch (f->kind) {
    case RECORD_INT:
    case RECORD_SMALL:
        return number_read(f, value, at);
    case RECORD_HEX:
        hex_read(f, value, at);
        return true;
    case RECORD_BOOL:
        number_set(f, at, json_is_true(value));
        return json_is_boolean(value) || (f->flags & RECORD_NEEDED) == 0;
    case RECORD_NAME:
        return name_read(f, value, at);
    case RECORD_TEXT:
        return text_read(f, value, at);
    case RECORD_NOTE:
        (void)text_read(f, value, at);
        return true;
    case RECORD_ADDRESS:
        return text_read(f, value, at) && (at[0] == '\0' || address_put(at, at));
    case RECORD_ADDRESSES:
        return addresses_read(f, value, record);
    case RECORD_MAP:
        return map_read(f, value, record);
    }
    return false;
}

static bool fields_read(const json_t *object, const struct record_table *table, char *record)
{
    for (const struct record_field *f = table->fields; f->key != NULL; f++) {
        if (!field_read(f, json_object_get(object, f->key), record)) {
            return false;
        }
    }
    return true;
}

int record_read(const struct record_table *table, const void *json, size_t len, void *ret)
{
    _Alignas(int64_t) char record[RECORD_SIZE_MAX];
    json_t *object = len == 0 ? NULL : json_loadb(json, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *version = json_object_get(object, "version");
    assert(table->size <= sizeof record);
    memset(record, 0, table->size);
    bool good = json_is_object(object) &&
                (!json_is_integer(version) || json_integer_value(version) == 1) &&
                fields_read(object, table, record);
    json_decref(object);
    if (good) {
        memcpy(ret, record, table->size);
    }
    return good ? 0 : CONCLAVE_ECORRUPT;
}
