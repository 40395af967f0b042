#include "admin/console/layout_names.h"

#include <assert.h>

enum { GUID = 32, UUID = 36, DIGITS = 10, WEIGHT_MAX = 9 };

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(uint8_t c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static struct slice slice_from(struct slice s, size_t at)
{
    assert(at <= s.len);
    return slice_make(s.data + at, s.len - at);
}

bool layout_name_is_hex(struct slice name, size_t n)
{
    for (size_t i = 0; i < name.len; i++) {
        if (!is_hex(name.data[i])) {
            return false;
        }
    }
    return name.len == n;
}

/* Takes the number off the end as the server prints it ("%010d"): ten digits, or a dash and nine or ten of them. */
static bool sequence_take(struct slice *name, bool negative, int32_t *ret)
{
    size_t digits = 0;
    int64_t value = 0;
    while (digits < DIGITS && digits < name->len && is_digit(name->data[name->len - digits - 1])) {
        digits++;
    }
    size_t at = name->len - digits;
    for (size_t i = at; i < name->len; i++) {
        value = value * 10 + (name->data[i] - '0');
    }
    if (negative) {
        bool exact = digits == DIGITS - 1 || (digits == DIGITS && name->data[at] != '0');
        if (!exact || value == 0 || at == 0 || name->data[at - 1] != '-') {
            return false;
        }
        value = -value;
    }
    if ((!negative && digits != DIGITS) || value > INT32_MAX || value < INT32_MIN) {
        return false;
    }
    *ret = (int32_t)value;
    name->len = at - negative;
    return true;
}

/* Takes a text off the end. */
static bool suffix_take(struct slice *s, const char *suffix)
{
    size_t len = strlen(suffix);
    if (s->len < len || memcmp(s->data + s->len - len, suffix, len) != 0) {
        return false;
    }
    s->len -= len;
    return true;
}

static bool is_curators(struct slice stem)
{
    static const char PREFIX[] = "_c_";
    size_t len = sizeof PREFIX - 1;
    return stem.len == 0 || (stem.len == len + UUID + 1 && memcmp(stem.data, PREFIX, len) == 0 &&
                             stem.data[stem.len - 1] == '-');
}

/* "<guid>-", or with a weight "<guid>-w3-". */
static bool is_native(struct slice stem, int32_t *ret_weight)
{
    if (stem.len <= GUID || stem.data[GUID] != '-' ||
        !layout_name_is_hex(slice_make(stem.data, GUID), GUID)) {
        return false;
    }
    struct slice rest = slice_from(stem, GUID + 1);
    if (rest.len == 0) {
        return true;
    }
    if (rest.data[0] != 'w' || !suffix_take(&rest, "-") || rest.len < 2 || rest.len > WEIGHT_MAX) {
        return false;
    }
    int32_t weight = 0;
    for (size_t i = 1; i < rest.len; i++) {
        if (!is_digit(rest.data[i])) {
            return false;
        }
        weight = weight * 10 + (rest.data[i] - '0');
    }
    *ret_weight = weight;
    return weight > 0;
}

/* Contenders: the marker at the end of the stem, and who may stand before it. */
static enum layout_stem contender_stem(struct slice stem, int32_t *ret_weight)
{
    static const struct {
        const char *marker;
        enum layout_stem native;
        enum layout_stem curator;
    } MARKERS[] = {
        {"n_", STEM_NATIVE, STEM_NONE},
        {"__READ__", STEM_NATIVE_READ, STEM_CURATOR_READ},
        {"__WRIT__", STEM_NATIVE_WRITE, STEM_CURATOR_WRITE},
        {"latch-", STEM_NONE, STEM_CURATOR_LATCH},
        {"lock-", STEM_NONE, STEM_CURATOR_LOCK},
        {"lease-", STEM_NONE, STEM_CURATOR_LEASE},
    };
    for (size_t i = 0; i < sizeof MARKERS / sizeof MARKERS[0]; i++) {
        struct slice before = stem;
        if (!suffix_take(&before, MARKERS[i].marker)) {
            continue;
        }
        if (MARKERS[i].native != STEM_NONE && is_native(before, ret_weight)) {
            return MARKERS[i].native;
        }
        if (MARKERS[i].curator != STEM_NONE && is_curators(before)) {
            return MARKERS[i].curator;
        }
    }
    struct slice before = stem;
    if (suffix_take(&before, "__lock__") && layout_name_is_hex(before, GUID)) {
        return STEM_KAZOO_LOCK;
    }
    before = stem;
    return suffix_take(&before, "__rlock__") && layout_name_is_hex(before, GUID) ? STEM_KAZOO_READ
                                                                                 : STEM_OTHER;
}

/* "100-" at the beginning; what is behind it. */
static bool priority_take(struct slice *s)
{
    if (s->len < 4 || !is_digit(s->data[0]) || !is_digit(s->data[1]) || !is_digit(s->data[2]) ||
        s->data[3] != '-') {
        return false;
    }
    *s = slice_from(*s, 4);
    return true;
}

static bool is_native_item(struct slice stem)
{
    enum { DUE = 11 }; /* hex digits of the time of a delayed item, behind "d" */
    if (!suffix_take(&stem, "-q_")) {
        return false;
    }
    if (stem.len > DUE + 2 && stem.data[0] == 'd' && stem.data[DUE + 1] == '-') {
        stem = slice_from(stem, DUE + 2);
    }
    return priority_take(&stem) && stem.len >= GUID &&
           layout_name_is_hex(slice_make(stem.data, GUID), GUID);
}

static enum layout_stem item_stem(struct slice stem)
{
    static const char CURATOR[] = "queue-";
    static const char KAZOO[] = "entry-";
    if (is_native_item(stem)) {
        return STEM_NATIVE_ITEM;
    }
    if (slice_equal_str(stem, "qn-")) {
        return STEM_PLAIN_ITEM;
    }
    if (slice_starts_with(stem, slice_str(CURATOR))) {
        return STEM_CURATOR_ITEM;
    }
    if (slice_starts_with(stem, slice_str(KAZOO))) {
        struct slice rest = slice_from(stem, sizeof KAZOO - 1);
        return priority_take(&rest) && rest.len == 0 ? STEM_KAZOO_ITEM : STEM_OTHER;
    }
    return STEM_OTHER;
}

/* The dash before a number may belong to the text, too: the meaning that is known counts. */
void layout_name_parse(struct slice name, struct layout_name *ret)
{
    *ret = (struct layout_name){.weight = 1};
    for (int negative = 0; negative <= 1 && ret->stem <= STEM_OTHER; negative++) {
        struct slice stem = name;
        struct layout_name n = {.weight = 1};
        if (!sequence_take(&stem, negative == 1, &n.sequence)) {
            continue;
        }
        n.stem = contender_stem(stem, &n.weight);
        n.stem = n.stem == STEM_OTHER ? item_stem(stem) : n.stem;
        assert(n.stem > STEM_NONE && n.stem < STEM_COUNT);
        *ret = n.stem > ret->stem ? n : *ret;
    }
}
