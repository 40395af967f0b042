#include "recipes/standby/breadcrumb.h"

#include "recipes/standby/protobuf_fields.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TITLE "conclave elector\n"

enum { FIELD = 2047 /* of the message, for our lines */ };

/* --- writing --------------------------------------------------------------------- */

static void write_lines(struct buf *out, const struct conclave_breadcrumb *crumb)
{
    buf_printf(out, TITLE "id=%s\nincarnation=%s\ntoken=%" PRId64 "\nclean=%d\n\n", crumb->id,
               crumb->incarnation, crumb->token.czxid, crumb->clean ? 1 : 0);
}

void breadcrumb_write(struct buf *out, enum conclave_elector_layout layout,
                      const struct conclave_breadcrumb *crumb)
{
    if (layout == CONCLAVE_ELECTOR_LAYOUT_NATIVE) {
        write_lines(out, crumb);
        buf_append(out, crumb->data, crumb->data_len);
        return;
    }
    struct buf lines;
    buf_init(&lines, out->max);
    write_lines(&lines, crumb);
    buf_append(out, crumb->data, crumb->data_len);
    protobuf_write_bytes(out, FIELD, lines.data, lines.len);
    out->failed = out->failed || !buf_ok(&lines);
    buf_finish(&lines);
}

/* --- reading --------------------------------------------------------------------- */

const char *breadcrumb_line(char **at, const char *end, const char *name)
{
    size_t len = strlen(name);
    char *value = *at + len + 1;
    if (value > end || strncmp(*at, name, len) != 0 || (*at)[len] != '=') {
        return NULL;
    }
    char *stop = memchr(value, '\n', (size_t)(end - value));
    if (stop == NULL) {
        return NULL;
    }
    *stop = '\0';
    *at = stop + 1;
    return value;
}

/* Reads our lines from at; the place behind their empty line, NULL when they are not ours. */
static char *read_lines(char *at, char *end, struct conclave_breadcrumb *ret)
{
    size_t title = strlen(TITLE);
    if ((size_t)(end - at) < title || memcmp(at, TITLE, title) != 0) {
        return NULL;
    }
    at += title;
    const char *id = breadcrumb_line(&at, end, "id");
    const char *incarnation = id == NULL ? NULL : breadcrumb_line(&at, end, "incarnation");
    const char *token = incarnation == NULL ? NULL : breadcrumb_line(&at, end, "token");
    const char *clean = token == NULL ? NULL : breadcrumb_line(&at, end, "clean");
    if (clean == NULL || at >= end || *at != '\n') {
        return NULL;
    }
    char *rest;
    errno = 0;
    int64_t czxid = strtoll(token, &rest, 10);
    if (errno != 0 || rest == token || *rest != '\0') {
        return NULL;
    }
    ret->id = id;
    ret->incarnation = incarnation;
    ret->token.czxid = czxid;
    ret->clean = strcmp(clean, "1") == 0;
    return at + 1;
}

/* Our field at the end of a protobuf message, as Hadoop's layout has it; NULL: not there. *ret_field
 * is where it begins. */
static char *find_field(char *text, size_t len, char **ret_field)
{
    const uint8_t *at = (const uint8_t *)text;
    const uint8_t *end = at + len;
    struct protobuf_field field;
    while (at < end) {
        if (!protobuf_read(&at, end, &field)) {
            return NULL;
        }
        if (field.number == FIELD && field.type == PROTOBUF_BYTES && at == end) {
            *ret_field = text + (field.begin - (const uint8_t *)text);
            return text + len - field.value;
        }
    }
    return NULL;
}

void breadcrumb_read(char *text, size_t len, struct conclave_breadcrumb *ret)
{
    char *end = text + len;
    char *field;
    *ret = (struct conclave_breadcrumb){.id = "", .incarnation = "", .data = text, .data_len = len};
    *end = '\0';
    char *data = read_lines(text, end, ret);
    if (data != NULL) {
        ret->data = data;
        ret->data_len = (size_t)(end - data);
        return;
    }
    char *lines = find_field(text, len, &field);
    if (lines != NULL && read_lines(lines, end, ret) == end) {
        ret->data_len = (size_t)(field - text);
    }
}

/* --- an override ------------------------------------------------------------------ */

size_t override_write(char buf[OVERRIDE_MAX], int64_t token)
{
    return (size_t)snprintf(buf, OVERRIDE_MAX, "%" PRId64, token);
}

bool override_confirms(const void *data, size_t len, int64_t token)
{
    char text[OVERRIDE_MAX];
    return slice_equal(slice_make(data, len), slice_make(text, override_write(text, token)));
}
