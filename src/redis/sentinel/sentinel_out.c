#include "redis/sentinel/sentinel_out.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ERROR_MAX = 512 };

void out_status(struct sentinel_out *out, const char *text)
{
    assert(strpbrk(text, "\r\n") == NULL);
    buf_printf(out->buf, "+%s\r\n", text);
}

void out_error(struct sentinel_out *out, const char *fmt, ...)
{
    char text[ERROR_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (char *c = text; *c != '\0'; c++) {
        *c = (unsigned char)*c < ' ' ? ' ' : *c;
    }
    buf_printf(out->buf, "-%s\r\n", text);
}

void out_number(struct sentinel_out *out, int64_t number)
{
    buf_printf(out->buf, ":%lld\r\n", (long long)number);
}

void out_slice(struct sentinel_out *out, struct slice text)
{
    buf_printf(out->buf, "$%zu\r\n", text.len);
    buf_append_slice(out->buf, text);
    buf_append_str(out->buf, "\r\n");
}

void out_text(struct sentinel_out *out, const char *text)
{
    out_slice(out, slice_str(text));
}

void out_null(struct sentinel_out *out)
{
    buf_append_str(out->buf, out->resp3 ? "_\r\n" : "$-1\r\n");
}

void out_null_array(struct sentinel_out *out)
{
    buf_append_str(out->buf, out->resp3 ? "_\r\n" : "*-1\r\n");
}

void out_array(struct sentinel_out *out, size_t count)
{
    buf_printf(out->buf, "*%zu\r\n", count);
}

void out_map(struct sentinel_out *out, size_t count)
{
    buf_printf(out->buf, out->resp3 ? "%%%zu\r\n" : "*%zu\r\n", out->resp3 ? count : 2 * count);
}

void out_push(struct sentinel_out *out, size_t count)
{
    buf_printf(out->buf, out->resp3 ? ">%zu\r\n" : "*%zu\r\n", count);
}

void fields_begin(struct out_fields *fields)
{
    buf_init(&fields->text, 0);
    fields->count = 0;
}

void field_text(struct out_fields *fields, const char *name, const char *value)
{
    struct sentinel_out out = {.buf = &fields->text};
    out_text(&out, name);
    out_text(&out, value);
    fields->count++;
}

void field_number(struct out_fields *fields, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    field_text(fields, name, text);
}

void fields_end(struct out_fields *fields, struct sentinel_out *out)
{
    out_map(out, fields->count);
    buf_append_slice(out->buf, buf_slice(&fields->text));
    if (!buf_ok(&fields->text)) {
        out->buf->failed = true;
    }
    buf_finish(&fields->text);
}
