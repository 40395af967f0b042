#include "recipes/group/uri_spec.h"

#include "base/buf.h"

#include <conclave/registry.h>

#include <assert.h>
#include <inttypes.h>

bool uri_spec_valid(const char *text)
{
    bool inside = false;
    for (const char *at = text + strcspn(text, "{}"); *at != '\0'; at += strcspn(at, "{}")) {
        if (inside == (*at == '{')) {
            return false;
        }
        inside = *at++ == '{';
    }
    return !inside;
}

static bool uri_spec_is_blank(char c)
{
    return c > '\0' && c <= ' ';
}

bool uri_spec_next(const char **at, struct slice *ret_part, bool *ret_field)
{
    while (**at != '\0') {
        bool field = **at == '{';
        const char *first = *at + (field ? 1 : 0);
        const char *end = first + strcspn(first, "{}");
        assert(!field || *end == '}'); /* the text is valid */
        *at = end + (field ? 1 : 0);
        if (end == first) {
            continue; /* "{}" */
        }
        while (field && first < end && uri_spec_is_blank(*first)) {
            first++;
        }
        while (field && first < end && uri_spec_is_blank(end[-1])) {
            end--;
        }
        *ret_part = slice_make(first, (size_t)(end - first));
        *ret_field = field;
        return true;
    }
    return false;
}

void uri_spec_json(struct json *j, const char *text)
{
    struct slice part;
    bool field;
    if (text == NULL) {
        json_null(j);
        return;
    }
    json_object_begin(j);
    json_key(j, "parts");
    json_array_begin(j);
    while (uri_spec_next(&text, &part, &field)) {
        json_object_begin(j);
        json_member_text(j, "value", part);
        json_member_bool(j, "variable", field);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

/* --- the URI ------------------------------------------------------------------------ */

static void append_small(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        buf_append_u8(out, (uint8_t)(*text >= 'A' && *text <= 'Z' ? *text - 'A' + 'a' : *text));
    }
}

static bool named(struct slice name, const char *text)
{
    return slice_equal(name, slice_str(text));
}

/* The program's values come first; unknown fields are left out. */
static void append_field(struct buf *out, struct slice name, const struct conclave_instance *i,
                         const char *const *variables)
{
    for (; variables != NULL && variables[0] != NULL && variables[1] != NULL; variables += 2) {
        if (named(name, variables[0])) {
            buf_append_str(out, variables[1]);
            return;
        }
    }
    if (named(name, "scheme")) {
        buf_append_str(out, i->ssl_port != 0 ? "https" : "http");
    } else if (named(name, "name")) {
        buf_append_str(out, i->name);
    } else if (named(name, "id")) {
        buf_append_str(out, i->id);
    } else if (named(name, "address")) {
        buf_append_str(out, i->address);
    } else if (named(name, "port") && i->port != 0) {
        buf_printf(out, "%d", i->port);
    } else if (named(name, "ssl-port") && i->ssl_port != 0) {
        buf_printf(out, "%d", i->ssl_port);
    } else if (named(name, "registration-time-utc")) {
        buf_printf(out, "%" PRId64, i->registered_ms);
    } else if (named(name, "service-type")) {
        append_small(out, i->type);
    } else if (named(name, "[") || named(name, "]")) {
        buf_append_str(out, named(name, "[") ? "{" : "}");
    }
}

enum { URI_MAX = 1024 * 1024 };

int conclave_instance_uri(const struct conclave_instance *instance, const char *const *variables,
                          char **ret)
{
    struct buf out;
    struct slice part;
    bool field;
    const char *at = instance->uri_spec;
    if (at == NULL) {
        return CONCLAVE_EEMPTY;
    }
    if (!uri_spec_valid(at)) {
        return CONCLAVE_EINVAL;
    }
    buf_init(&out, URI_MAX);
    while (uri_spec_next(&at, &part, &field)) {
        if (field) {
            append_field(&out, part, instance, variables);
        } else {
            buf_append_slice(&out, part);
        }
    }
    buf_append_u8(&out, 0);
    if (!buf_ok(&out)) {
        buf_finish(&out);
        return CONCLAVE_ENOMEM;
    }
    *ret = (char *)out.data; /* the caller's from here on */
    return 0;
}
