#define _GNU_SOURCE /* memmem */
#include "cli/switch/member_description.h"

#include "cli/common/values.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* Hadoop's ActiveNodeInfo, and protobuf's wire types. */
enum {
    FIELD_SERVICE = 1,
    FIELD_ID = 2,
    FIELD_HOST = 3,
    FIELD_PORT = 4,
    FIELD_FAILOVER_PORT = 5,
    WIRE_VARINT = 0,
    WIRE_BYTES = 2,
    VARINT_BITS = 64,
    PORT_MAX = 65535,
};

/* --- lines ------------------------------------------------------------------------ */

/* The value of the line "name=..." in text; null: there is none. */
static struct slice line_value(struct slice text, const char *name)
{
    size_t name_len = strlen(name);
    while (text.len > 0 && text.data[0] != '\n') {
        const uint8_t *end = memchr(text.data, '\n', text.len);
        size_t len = end != NULL ? (size_t)(end - text.data) : text.len;
        if (len > name_len && text.data[name_len] == '=' &&
            memcmp(text.data, name, name_len) == 0) {
            return slice_make(text.data + name_len + 1, len - name_len - 1);
        }
        size_t used = end != NULL ? len + 1 : len;
        text = slice_make(text.data + used, text.len - used);
    }
    return SLICE_NULL;
}

static void copy(char *to, size_t size, struct slice from)
{
    size_t len = from.len < size ? from.len : size - 1;
    if (len > 0) {
        memcpy(to, from.data, len);
    }
    to[len] = '\0';
}

static int64_t number(struct slice text, int64_t max)
{
    char digits[24];
    int64_t value;
    if (text.len >= sizeof digits) {
        return 0;
    }
    copy(digits, sizeof digits, text);
    return integer_parse(digits, 0, max, &value) ? value : 0;
}

/* --- the address -------------------------------------------------------------------- */

static void write_varint(struct buf *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        buf_append_u8(out, (uint8_t)(value | 0x80));
    }
    buf_append_u8(out, (uint8_t)value);
}

static void write_text(struct buf *out, unsigned field, const char *text)
{
    write_varint(out, field << 3 | WIRE_BYTES);
    write_varint(out, strlen(text));
    buf_append_str(out, text);
}

static void write_number(struct buf *out, unsigned field, int value)
{
    assert(value >= 0);
    write_varint(out, field << 3 | WIRE_VARINT);
    write_varint(out, (uint64_t)value);
}

void address_write(struct buf *out, enum conclave_elector_layout layout, const struct address *a)
{
    assert(a->port >= 0 && a->port <= PORT_MAX);
    if (layout == CONCLAVE_ELECTOR_LAYOUT_NATIVE) {
        buf_printf(out, "host=%s\nport=%d\n\n", a->host, a->port);
        buf_append_slice(out, a->data);
        return;
    }
    write_text(out, FIELD_SERVICE, a->service);
    write_text(out, FIELD_ID, a->id);
    write_text(out, FIELD_HOST, a->host);
    write_number(out, FIELD_PORT, a->port);
    write_number(out, FIELD_FAILOVER_PORT, a->failover_port);
}

/* Moves *at behind a number; false when it is cut off or too long. */
static bool read_varint(struct slice *at, uint64_t *ret)
{
    uint64_t value = 0;
    for (unsigned shift = 0; at->len > 0 && shift < VARINT_BITS; shift += 7) {
        uint8_t byte = at->data[0];
        *at = slice_make(at->data + 1, at->len - 1);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret = value;
            return true;
        }
    }
    return false;
}

static bool read_message(struct slice at, struct address *ret)
{
    while (at.len > 0) {
        uint64_t key;
        uint64_t value;
        if (!read_varint(&at, &key) || !read_varint(&at, &value)) {
            return false;
        }
        if ((key & 7) == WIRE_VARINT) {
            if (key >> 3 == FIELD_PORT && value <= PORT_MAX) {
                ret->port = (int)value;
            }
            continue;
        }
        if ((key & 7) != WIRE_BYTES || value > at.len) {
            return false;
        }
        struct slice text = slice_make(at.data, (size_t)value);
        at = slice_make(at.data + value, at.len - (size_t)value);
        if (key >> 3 == FIELD_ID) {
            copy(ret->id, sizeof ret->id, text);
        } else if (key >> 3 == FIELD_HOST) {
            copy(ret->host, sizeof ret->host, text);
        }
    }
    return true;
}

void address_read(const void *data, size_t len, struct address *ret)
{
    struct slice all = slice_make(data != NULL ? data : "", len);
    *ret = (struct address){.data = all};
    if (len >= 5 && memcmp(all.data, "host=", 5) == 0) {
        const uint8_t *end = memmem(all.data, len, "\n\n", 2);
        copy(ret->host, sizeof ret->host, line_value(all, "host"));
        ret->port = (int)number(line_value(all, "port"), PORT_MAX);
        size_t used = end != NULL ? (size_t)(end - all.data) + 2 : len;
        ret->data = slice_make(all.data + used, len - used);
    } else if (!read_message(all, ret)) {
        *ret = (struct address){.data = all};
    }
}

/* --- the member's card ------------------------------------------------------------------ */

void member_description_write(struct buf *out, const struct member_description *card)
{
    assert(card->token != 0 || !card->ready); /* only a term can be ready */
    buf_printf(out, "state=%s\nhealth=%s\ntoken=%" PRId64 "\nready=%d\nhost=%s\nport=%d\n",
               card->state, card->health, card->token, card->ready ? 1 : 0, card->host, card->port);
}

void member_description_read(const void *data, size_t len, struct member_description *ret)
{
    struct slice text = slice_make(data != NULL ? data : "", len);
    *ret = (struct member_description){.port = (int)number(line_value(text, "port"), PORT_MAX)};
    copy(ret->state, sizeof ret->state, line_value(text, "state"));
    copy(ret->health, sizeof ret->health, line_value(text, "health"));
    copy(ret->host, sizeof ret->host, line_value(text, "host"));
    ret->token = number(line_value(text, "token"), INT64_MAX);
    ret->ready = number(line_value(text, "ready"), 1) == 1;
}

/* --- a request ---------------------------------------------------------------------------- */

void request_write(struct buf *out, const struct cede_request *request)
{
    assert(request->stay_out_ms >= 0 && request->stay_out_ms <= VALUES_DURATION_MAX_MS);
    buf_printf(out, "token=%" PRId64 "\nstay-out-ms=%" PRId64 "\n", request->token,
               request->stay_out_ms);
}

bool request_read(const void *data, size_t len, struct cede_request *ret)
{
    struct slice text = slice_make(data != NULL ? data : "", len);
    ret->token = number(line_value(text, "token"), INT64_MAX);
    ret->stay_out_ms = number(line_value(text, "stay-out-ms"), VALUES_DURATION_MAX_MS);
    return ret->token > 0;
}
