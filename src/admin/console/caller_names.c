#include "admin/console/caller_names.h"

#include "base/json.h"

#include <assert.h>
#include <stdio.h>

enum { NAME_MAX_BYTES = 63 };

void name_copy(char *to, size_t room, struct slice text)
{
    size_t len = text.len < room ? text.len : room - 1;
    while (len < text.len && len > 0 && (text.data[len] & 0xc0) == 0x80) {
        len--;
    }
    if (len > 0) { /* the data of an empty text may be NULL */
        memcpy(to, text.data, len);
    }
    to[len] = '\0';
}

/* The next id besides the address; false: that was all. Consumes *ids. */
static bool caller_next(struct wire_vector *ids, char *to, size_t room)
{
    struct wire_id id;
    while (wire_next_id(ids, &id)) {
        const uint8_t *colon = id.id.len > 0 && slice_equal_str(id.scheme, "digest")
                                   ? memchr(id.id.data, ':', id.id.len)
                                   : NULL;
        size_t len = colon != NULL ? (size_t)(colon - id.id.data) : id.id.len;
        if (slice_equal_str(id.scheme, "ip") || !utf8_valid(slice_make(id.id.data, len))) {
            continue;
        }
        char text[2 * NAME_MAX_BYTES];
        (void)snprintf(text, sizeof text, "%.*s:%.*s", SLICE_FMT(id.scheme),
                       SLICE_FMT(slice_make(id.id.data, len)));
        name_copy(to, room, slice_str(text));
        return true;
    }
    return false;
}

bool caller_name(struct wire_vector ids, char *to, size_t room)
{
    return caller_next(&ids, to, room);
}

void caller_names(struct wire_vector ids, char *to, size_t room)
{
    char name[NAME_MAX_BYTES + 1];
    size_t len = 0;
    to[0] = '\0';
    while (caller_next(&ids, name, sizeof name)) {
        size_t comma = len > 0 ? 2 : 0;
        if (len + comma + strlen(name) >= room) {
            return;
        }
        len += (size_t)snprintf(to + len, room - len, "%s%s", comma > 0 ? ", " : "", name);
        assert(len < room);
    }
}

void caller_address(struct wire_vector ids, char *to, size_t room)
{
    struct wire_id id;
    to[0] = '\0';
    while (to[0] == '\0' && wire_next_id(&ids, &id)) {
        if (slice_equal_str(id.scheme, "ip") && utf8_valid(id.id)) {
            name_copy(to, room, id.id);
        }
    }
}
