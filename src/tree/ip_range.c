#include "tree/ip_range.h"

static int digit_value(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
}

/* As Java's Integer.parseInt for ASCII: an optional sign, then digits. The limit prevents overflow. */
static bool parse_number(struct slice s, int base, int *ret)
{
    bool minus = s.len > 0 && s.data[0] == '-';
    size_t i = minus || (s.len > 0 && s.data[0] == '+') ? 1 : 0;
    if (i == s.len) {
        return false;
    }
    int value = 0;
    for (; i < s.len; i++) {
        int digit = digit_value(s.data[i]);
        if (digit >= base || value > 0x100000) {
            return false;
        }
        value = value * base + digit;
    }
    *ret = minus ? -value : value;
    return true;
}

/* The part of *rest before the next separator; *rest becomes the text after it, null after the last part. */
static struct slice next_part(struct slice *rest, uint8_t separator)
{
    const uint8_t *end = rest->len > 0 ? memchr(rest->data, separator, rest->len) : NULL;
    struct slice part = *rest;
    if (end == NULL) {
        *rest = SLICE_NULL;
        return part;
    }
    part.len = (size_t)(end - part.data);
    *rest = slice_make(end + 1, rest->len - part.len - 1);
    return part;
}

static bool parse_ip4(struct slice s, uint8_t *out)
{
    int n = 0;
    while (!slice_is_null(s)) {
        int value;
        if (n == 4 || !parse_number(next_part(&s, '.'), 10, &value) || value < 0 || value > 255) {
            return false;
        }
        out[n++] = (uint8_t)value;
    }
    return n == 4;
}

/* Groups of an IPv6 address up to the end or to "::". Returns their number; -1: malformed. */
static int parse_groups(struct slice s, uint8_t *out)
{
    int n = 0;
    if (s.len == 0) {
        return 0;
    }
    while (!slice_is_null(s)) {
        int value;
        struct slice group = next_part(&s, ':');
        if (n == 8 || group.len > 4 || !parse_number(group, 16, &value)) {
            return -1;
        }
        out[2 * n] = (uint8_t)((unsigned)value >> 8);
        out[2 * n + 1] = (uint8_t)value;
        n++;
    }
    return n;
}

static bool parse_ip6(struct slice s, uint8_t *out)
{
    size_t gap = 0;
    while (gap + 1 < s.len && (s.data[gap] != ':' || s.data[gap + 1] != ':')) {
        gap++;
    }
    if (gap + 1 >= s.len) {
        return parse_groups(s, out) == 8;
    }
    uint8_t tail[IP_MAX];
    int before = parse_groups(slice_make(s.data, gap), out);
    int after = parse_groups(slice_make(s.data + gap + 2, s.len - gap - 2), tail);
    if (before < 0 || after < 0 || before + after >= 8) {
        return false;
    }
    size_t head_len = 2 * (size_t)before;
    size_t tail_len = 2 * (size_t)after;
    memset(out + head_len, 0, IP_MAX - head_len);
    memcpy(out + IP_MAX - tail_len, tail, tail_len);
    return true;
}

bool ip_parse(struct slice text, struct ip_address *ret)
{
    struct ip_address a = {.len = 0};
    if (text.len > 0 && memchr(text.data, ':', text.len) != NULL) {
        a.len = parse_ip6(text, a.bytes) ? 16 : 0;
    } else {
        a.len = text.len > 0 && parse_ip4(text, a.bytes) ? 4 : 0;
    }
    *ret = a;
    return a.len != 0;
}

bool ip_range_parse(struct slice text, struct ip_range *ret)
{
    struct slice rest = text;
    struct ip_range range;
    if (!ip_parse(next_part(&rest, '/'), &range.address)) {
        return false;
    }
    range.bits = range.address.len * 8;
    if (!slice_is_null(rest) && (!parse_number(rest, 10, &range.bits) || range.bits < 0 ||
                                 range.bits > range.address.len * 8)) {
        return false;
    }
    *ret = range;
    return true;
}

bool ip_range_has(const struct ip_range *range, const struct ip_address *address)
{
    const uint8_t *want = range->address.bytes;
    const uint8_t *have = address->bytes;
    int bits = range->bits;
    if (range->address.len != address->len || memcmp(want, have, (size_t)bits / 8) != 0) {
        return false;
    }
    int rest = bits % 8;
    return rest == 0 || ((want[bits / 8] ^ have[bits / 8]) >> (8 - rest)) == 0;
}
