#include "base/properties.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

static bool properties_is_blank(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\f' || ch == '\r';
}

static size_t skip_blanks(struct slice text, size_t at)
{
    while (at < text.len && properties_is_blank((char)text.data[at])) {
        at++;
    }
    return at;
}

/* Appends one logical line without its continuation marks; returns where the next line begins. */
static size_t properties_read_line(struct slice text, size_t at, struct buf *line, unsigned *lines)
{
    at = skip_blanks(text, at);
    bool comment = at < text.len && (text.data[at] == '#' || text.data[at] == '!');
    while (at < text.len) {
        char ch = (char)text.data[at++];
        if (ch == '\n') {
            *lines += 1;
            break;
        }
        if (ch == '\\' && !comment && at < text.len) {
            char next = (char)text.data[at];
            size_t end = next == '\r' && at + 1 < text.len ? at + 1 : at;
            if (text.data[end] == '\n') {
                *lines += 1;
                at = skip_blanks(text, end + 1);
                continue;
            }
            buf_append_u8(line, (uint8_t)ch);
            buf_append_u8(line, (uint8_t)next);
            at++;
            continue;
        }
        if (!comment) {
            buf_append_u8(line, (uint8_t)ch);
        }
    }
    return at;
}

/* Undoes the escapes of a NUL-terminated text in place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        if (*from != '\\' || from[1] == '\0') {
            *to++ = *from;
            continue;
        }
        from++;
        switch (*from) {
        case 't':
            *to++ = '\t';
            break;
        case 'n':
            *to++ = '\n';
            break;
        case 'r':
            *to++ = '\r';
            break;
        case 'f':
            *to++ = '\f';
            break;
        default:
            *to++ = *from;
            break;
        }
    }
    *to = '\0';
}

/* Splits a line in place. False: the line is empty. */
static bool split_line(char *line, char **ret_key, char **ret_value)
{
    size_t len = strlen(line);
    size_t end = 0;
    while (len > 0 && properties_is_blank(line[len - 1])) {
        line[--len] = '\0';
    }
    if (len == 0) {
        return false;
    }
    while (end < len && !properties_is_blank(line[end]) && line[end] != '=' && line[end] != ':') {
        end += line[end] == '\\' && end + 1 < len ? 2 : 1;
    }
    size_t value = end;
    while (properties_is_blank(line[value])) {
        value++;
    }
    if (line[value] == '=' || line[value] == ':') {
        value++;
    }
    while (properties_is_blank(line[value])) {
        value++;
    }
    line[end] = '\0';
    *ret_key = line;
    *ret_value = line + value;
    unescape(*ret_value);
    unescape(*ret_key);
    return true;
}

int properties_parse(struct slice text, properties_fn fn, void *ctx)
{
    struct buf line;
    unsigned lines = 1;
    size_t at = 0;
    int rc = 0;
    if (text.len > 0 && memchr(text.data, '\0', text.len) != NULL) {
        return CONCLAVE_EINVAL;
    }
    buf_init(&line, 0);
    while (at < text.len && rc == 0) {
        unsigned first = lines;
        char *key;
        char *value;
        buf_reset(&line);
        at = properties_read_line(text, at, &line, &lines);
        if (buf_cstr(&line) == NULL) {
            rc = CONCLAVE_ENOMEM;
        } else if (split_line((char *)line.data, &key, &value)) {
            rc = fn(ctx, key, value, first);
        }
    }
    buf_finish(&line);
    return rc;
}
