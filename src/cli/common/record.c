#include "cli/common/record.h"

#include <inttypes.h>
#include <stdio.h>

void record_begin(struct record *r, bool as_json)
{
    r->json = as_json;
    r->column = false;
    if (as_json) {
        json_line_begin(&r->j);
    }
}

void record_add_path(struct record *r, const char *path)
{
    if (r->json) {
        json_member_string(&r->j, "path", path);
    }
}

/* Before a value. False: it is no member. */
static bool value_begin(struct record *r, const char *key)
{
    if (!r->json && r->column) {
        putchar('\t');
    }
    r->column = true;
    return key != NULL;
}

void record_string(struct record *r, const char *key, const char *text)
{
    bool member = value_begin(r, key);
    if (!r->json) {
        fputs(text, stdout);
    } else if (member) {
        json_member_string(&r->j, key, text);
    }
}

void record_int_or_none(struct record *r, const char *key, bool known, int64_t value)
{
    if (known) {
        record_int(r, key, value);
    } else if (!r->json) {
        record_string(r, NULL, "-");
    } else if (key != NULL) {
        json_member_null(&r->j, key);
    }
}

void record_int(struct record *r, const char *key, int64_t value)
{
    bool member = value_begin(r, key);
    if (!r->json) {
        printf("%" PRId64, value);
    } else if (member) {
        json_member_int(&r->j, key, value);
    }
}

void record_data(struct record *r, const void *data, size_t len)
{
    const unsigned char *bytes = data;
    if (r->json) {
        json_data(&r->j, data, len);
        return;
    }
    value_begin(r, NULL);
    for (size_t i = 0; i < len; i++) {
        putchar(bytes[i] < 0x20 || bytes[i] == 0x7f ? '?' : bytes[i]);
    }
}

void record_list_begin(struct record *r, const char *key, size_t rows, const char *titles)
{
    if (r->json) {
        json_key(&r->j, key);
        json_array_begin(&r->j);
    } else if (rows > 0) {
        puts(titles);
    }
}

void record_row_begin(struct record *r)
{
    if (r->json) {
        json_object_begin(&r->j);
    }
    r->column = false;
}

void record_row_end(struct record *r)
{
    if (r->json) {
        json_object_end(&r->j);
    } else {
        putchar('\n');
    }
    r->column = false;
}

void record_list_end(struct record *r)
{
    if (r->json) {
        json_array_end(&r->j);
    }
}

void record_names(struct record *r, const char *key, const char *const *names, size_t count)
{
    record_list_begin(r, key, 0, NULL);
    for (size_t i = 0; i < count; i++) {
        if (r->json) {
            json_string(&r->j, names[i]);
        } else {
            puts(names[i]);
        }
    }
    record_list_end(r);
}

int record_print(struct record *r)
{
    if (r->json) {
        return json_line_print(&r->j, stdout);
    }
    if (r->column) {
        putchar('\n');
    }
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : CONCLAVE_EIO;
}
