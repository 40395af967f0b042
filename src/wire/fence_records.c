#include "wire/fence_records.h"

#include <assert.h>
#include <string.h>

/* Digits only. */
static bool parse_digits(struct slice text, int64_t *ret)
{
    enum { DIGITS_MAX = 18 };
    int64_t value = 0;
    if (text.len == 0 || text.len > DIGITS_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        value = value * 10 + (text.data[i] - '0');
    }
    *ret = value;
    return true;
}

static bool parse_line(struct slice line, struct fence_terms *t)
{
    const uint8_t *equals = line.len > 0 ? memchr(line.data, '=', line.len) : NULL;
    if (equals == NULL) {
        return false;
    }
    struct slice key = slice_make(line.data, (size_t)(equals - line.data));
    struct slice value = slice_make(equals + 1, line.len - key.len - 1);
    if (slice_equal_str(key, "lock") && t->lock.len == 0) {
        t->lock = value;
        return value.len > 0;
    }
    if (slice_equal_str(key, "lock_delay_ms") && t->delay_ms < 0) {
        return parse_digits(value, &t->delay_ms) && t->delay_ms <= FENCE_DELAY_MAX_MS;
    }
    if (slice_equal_str(key, "until_ms") && t->until_ms < 0) {
        return parse_digits(value, &t->until_ms);
    }
    return false;
}

bool fence_terms_parse(struct slice text, struct fence_terms *ret)
{
    struct fence_terms t = {SLICE_NULL, -1, -1};
    for (size_t start = 0; start < text.len;) {
        const uint8_t *newline = memchr(text.data + start, '\n', text.len - start);
        size_t end = newline != NULL ? (size_t)(newline - text.data) : text.len;
        if (!parse_line(slice_make(text.data + start, end - start), &t)) {
            return false;
        }
        start = end + 1;
    }
    if (t.lock.len == 0) {
        return false;
    }
    t.delay_ms = t.delay_ms < 0 ? 0 : t.delay_ms;
    t.until_ms = t.until_ms < 0 ? 0 : t.until_ms;
    *ret = t;
    return true;
}

void fence_terms_print(const struct fence_terms *t, struct buf *out)
{
    assert(t->lock.len > 0);
    assert(t->delay_ms >= 0 && t->delay_ms <= FENCE_DELAY_MAX_MS &&
           t->until_ms <= FENCE_TIME_MAX_MS);
    buf_append_str(out, "lock=");
    buf_append_slice(out, t->lock);
    buf_printf(out, "\nlock_delay_ms=%lld\n", (long long)t->delay_ms);
    if (t->until_ms > 0) {
        buf_printf(out, "until_ms=%lld\n", (long long)t->until_ms);
    }
}

/* Accepts "%010d" of an int32: ten characters, eleven for the most negative ones. Returns the text before it; null:
 * none. With eleven characters the text before includes the sign. */
static struct slice before_sequence(struct slice name)
{
    enum { WIDTH = 10 };
    if (name.len < WIDTH) {
        return SLICE_NULL;
    }
    for (size_t i = name.len - WIDTH; i < name.len; i++) {
        bool sign = name.data[i] == '-' && i == name.len - WIDTH;
        if (!sign && (name.data[i] < '0' || name.data[i] > '9')) {
            return SLICE_NULL;
        }
    }
    return slice_make(name.data, name.len - WIDTH);
}

bool fence_name_contends(struct slice name, int64_t *ret_number)
{
    struct slice before = before_sequence(name);
    int64_t value = 0;
    if (slice_is_null(before)) {
        return false;
    }
    bool sign = name.data[before.len] == '-';
    struct slice digits = slice_make(name.data + before.len + sign, name.len - before.len - sign);
    bool dash = before.len > 0 && before.data[before.len - 1] == '-';
    if (!parse_digits(digits, &value) || value > (int64_t)INT32_MAX + dash) {
        return false;
    }
    *ret_number = sign ? -value : value;
    return true;
}

static bool ends_with(struct slice text, const char *end)
{
    size_t len = strlen(end);
    return text.len >= len && memcmp(text.data + text.len - len, end, len) == 0;
}

/* The markers of Curator, of kazoo and of Conclave. */
bool fence_name_reads(struct slice name)
{
    static const char *const between[] = {"", "n_", "n"};
    struct slice before = before_sequence(name);
    if (before.len > 0 && before.data[before.len - 1] == '-') {
        before.len--;
    }
    for (size_t i = 0; i < sizeof between / sizeof between[0]; i++) {
        struct slice marker = before;
        if (before.len > 0 && ends_with(before, between[i])) {
            marker.len -= strlen(between[i]);
            if (ends_with(marker, "__READ__") || ends_with(marker, "__rlock__")) {
                return true;
            }
        }
    }
    return false;
}
