/* The JSON writer: escaping by RFC 8259 section 7, base64 by RFC 4648 section 4. */
#include "base/json.h"

#include <assert.h>
#include <inttypes.h>

/* Length of the UTF-8 character at the start of s; 0: malformed. */
size_t utf8_length(struct slice s)
{
    const uint8_t *p = s.data;
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (n == 0 || p[0] > 0xf4 || n > s.len) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool outside = (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf4 && p[1] > 0x8f);
    return overlong || outside ? 0 : n;
}

bool utf8_valid(struct slice text)
{
    for (size_t i = 0; i < text.len;) {
        if (text.data[i] < 0x80) {
            i++;
            continue;
        }
        size_t n = utf8_length(slice_make(text.data + i, text.len - i));
        if (n == 0) {
            return false;
        }
        i += n;
    }
    return true;
}

void json_init(struct json *j)
{
    *j = (struct json){.depth = 0};
    buf_init(&j->out, 0);
}

void json_init_pretty(struct json *j)
{
    json_init(j);
    j->pretty = true;
}

void json_finish(struct json *j)
{
    buf_finish(&j->out);
}

static void new_line(struct json *j)
{
    buf_printf(&j->out, "\n%*s", (int)j->objects * 2, "");
}

/* Writes the separator before a value: a comma, unless it is the first one or follows its key. */
static void value_begins(struct json *j)
{
    if (!j->after_key && j->comma[j->depth]) {
        buf_append_u8(&j->out, ',');
    }
    if (j->pretty && !j->after_key && j->depth > 0) {
        if (j->array[j->depth]) {
            buf_append_u8(&j->out, ' ');
        } else {
            new_line(j);
        }
    }
    j->after_key = false;
    j->comma[j->depth] = true;
}

static void nest(struct json *j, uint8_t bracket)
{
    value_begins(j);
    buf_append_u8(&j->out, bracket);
    assert(j->depth + 1 < JSON_DEPTH_MAX);
    j->depth++;
    j->comma[j->depth] = false;
    j->array[j->depth] = bracket == '[';
    j->objects += bracket == '{';
}

static void unnest(struct json *j, uint8_t bracket)
{
    assert(j->depth > 0 && !j->after_key);
    bool filled_object = j->comma[j->depth] && !j->array[j->depth];
    j->depth--;
    j->objects -= bracket == '}';
    if (j->pretty && filled_object) {
        new_line(j);
    } else if (j->pretty) {
        buf_append_u8(&j->out, ' ');
    }
    buf_append_u8(&j->out, bracket);
}

void json_object_begin(struct json *j)
{
    nest(j, '{');
}

void json_object_end(struct json *j)
{
    unnest(j, '}');
}

void json_array_begin(struct json *j)
{
    nest(j, '[');
}

void json_array_end(struct json *j)
{
    unnest(j, ']');
}

/* The number of bytes at the start of s that are ASCII and need no escape. */
static size_t plain_length(struct slice s)
{
    size_t n = 0;
    while (n < s.len && s.data[n] >= 0x20 && s.data[n] < 0x7f && s.data[n] != '"' &&
           s.data[n] != '\\') {
        n++;
    }
    return n;
}

void json_append_string(struct buf *out, struct slice text)
{
    static const char SHORT[] = "\b\t\n\f\r\"\\";
    static const char LETTER[] = "btnfr\"\\";
    buf_append_u8(out, '"');
    for (size_t i = 0; i < text.len;) {
        size_t run = plain_length(slice_make(text.data + i, text.len - i));
        buf_append(out, text.data + i, run);
        i += run;
        if (i == text.len) {
            break;
        }
        uint8_t c = text.data[i];
        size_t n = utf8_length(slice_make(text.data + i, text.len - i));
        const char *found = c == 0 ? NULL : strchr(SHORT, c);
        if (n == 0) {
            buf_append_str(out, "\\ufffd");
            n = 1;
        } else if (found != NULL) {
            buf_append_u8(out, '\\');
            buf_append_u8(out, (uint8_t)LETTER[found - SHORT]);
        } else if (c < 0x20 || c == 0x7f) {
            buf_printf(out, "\\u%04x", (unsigned)c);
        } else {
            buf_append(out, text.data + i, n);
        }
        i += n;
    }
    buf_append_u8(out, '"');
}

void json_key(struct json *j, const char *name)
{
    json_key_text(j, slice_str(name));
}

void json_key_text(struct json *j, struct slice name)
{
    assert(!j->after_key);
    value_begins(j);
    json_append_string(&j->out, name);
    buf_append_str(&j->out, j->pretty ? " : " : ":");
    j->after_key = true;
}

void json_text(struct json *j, struct slice text)
{
    value_begins(j);
    json_append_string(&j->out, text);
}

void json_string(struct json *j, const char *text)
{
    json_text(j, slice_str(text));
}

void json_int(struct json *j, int64_t value)
{
    value_begins(j);
    buf_printf(&j->out, "%" PRId64, value);
}

void json_uint(struct json *j, uint64_t value)
{
    value_begins(j);
    buf_printf(&j->out, "%" PRIu64, value);
}

void real_append(struct buf *out, double value, int digits)
{
    char text[64];
    int len = snprintf(text, sizeof text, "%.*f", digits, value);
    assert(len > 2 && (size_t)len < sizeof text);
    while (text[len - 1] == '0' && text[len - 2] != '.') {
        text[--len] = '\0';
    }
    buf_append_str(out, text);
}

void json_real(struct json *j, double value, int digits)
{
    value_begins(j);
    real_append(&j->out, value, digits);
}

void json_bool(struct json *j, bool value)
{
    value_begins(j);
    buf_append_str(&j->out, value ? "true" : "false");
}

void json_null(struct json *j)
{
    value_begins(j);
    buf_append_str(&j->out, "null");
}

void json_ready(struct json *j, struct slice value)
{
    value_begins(j);
    buf_append_slice(&j->out, value);
}

void json_hex(struct json *j, int64_t value)
{
    value_begins(j);
    buf_printf(&j->out, "\"0x%" PRIx64 "\"", (uint64_t)value);
}

void json_member_string(struct json *j, const char *name, const char *text)
{
    json_key(j, name);
    json_string(j, text);
}

void json_member_string_or_null(struct json *j, const char *name, const char *text)
{
    json_key(j, name);
    if (text != NULL && text[0] != '\0') {
        json_string(j, text);
    } else {
        json_null(j);
    }
}

void json_member_text(struct json *j, const char *name, struct slice text)
{
    json_key(j, name);
    json_text(j, text);
}

void json_member_int(struct json *j, const char *name, int64_t value)
{
    json_key(j, name);
    json_int(j, value);
}

void json_member_uint(struct json *j, const char *name, uint64_t value)
{
    json_key(j, name);
    json_uint(j, value);
}

void json_member_bool(struct json *j, const char *name, bool value)
{
    json_key(j, name);
    json_bool(j, value);
}

void json_member_hex(struct json *j, const char *name, int64_t value)
{
    json_key(j, name);
    json_hex(j, value);
}

void json_member_null(struct json *j, const char *name)
{
    json_key(j, name);
    json_null(j);
}

static void append_base64(struct buf *out, struct slice data)
{
    static const char DIGIT[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < data.len; i += 3) {
        size_t left = data.len - i;
        uint32_t bits = (uint32_t)data.data[i] << 16;
        bits |= left > 1 ? (uint32_t)data.data[i + 1] << 8 : 0;
        bits |= left > 2 ? data.data[i + 2] : 0;
        char group[4] = {DIGIT[bits >> 18], DIGIT[bits >> 12 & 63],
                         left > 1 ? DIGIT[bits >> 6 & 63] : '=', left > 2 ? DIGIT[bits & 63] : '='};
        buf_append(out, group, sizeof group);
    }
}

void json_data(struct json *j, const void *data, size_t len)
{
    struct slice bytes = slice_make(data, len);
    if (slice_is_null(bytes)) {
        json_key(j, "data");
        json_null(j);
    } else if (utf8_valid(bytes)) {
        json_key(j, "data");
        json_text(j, bytes);
    } else {
        json_key(j, "data_base64");
        value_begins(j);
        buf_append_u8(&j->out, '"');
        append_base64(&j->out, bytes);
        buf_append_u8(&j->out, '"');
    }
}

void json_line_begin(struct json *j)
{
    json_init(j);
    json_object_begin(j);
}

int json_line_print(struct json *j, FILE *file)
{
    json_object_end(j);
    int error = json_print(j, file);
    json_finish(j);
    return error;
}

void json_list_begin(struct json *j, const char *key)
{
    json_line_begin(j);
    json_key(j, key);
    json_array_begin(j);
}

int json_list_print(struct json *j, FILE *file)
{
    json_array_end(j);
    return json_line_print(j, file);
}

int json_print(struct json *j, FILE *file)
{
    assert(j->depth == 0 && !j->after_key);
    buf_append_u8(&j->out, '\n');
    int result = CONCLAVE_ENOMEM;
    if (buf_ok(&j->out)) {
        bool written = fwrite(j->out.data, 1, j->out.len, file) == j->out.len;
        result = written && fflush(file) == 0 ? 0 : CONCLAVE_EIO;
    }
    buf_reset(&j->out);
    j->comma[0] = false;
    return result;
}
