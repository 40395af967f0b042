#include "tree/path.h"

/* Length of the UTF-8 character at p, and its code point; 0: malformed, overlong, a surrogate or beyond U+10FFFF. */
static size_t path_decode(const uint8_t *p, size_t left, uint32_t *ret_char)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = p[0] >= 0xf0 && p[0] < 0xf8 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc0 || p[0] >= 0xf8 || left < n) {
        return 0;
    }
    uint32_t c = p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
        return 0;
    }
    *ret_char = c;
    return n;
}

/* A Java string encodes characters beyond U+FFFF as surrogates, which are forbidden. */
static bool path_char_allowed(uint32_t c)
{
    return c > 0x1f && (c < 0x7f || c > 0x9f) && (c < 0xd800 || c > 0xf8ff) && c < 0xfff0;
}

static bool path_component_valid(const uint8_t *name, size_t len)
{
    return len > 0 && !(len == 1 && name[0] == '.') &&
           !(len == 2 && name[0] == '.' && name[1] == '.');
}

bool path_valid(struct slice path)
{
    if (path.len == 0 || path.data[0] != '/') {
        return false;
    }
    if (path.len == 1) {
        return true;
    }
    size_t start = 1;
    for (size_t i = 1; i < path.len;) {
        uint8_t byte = path.data[i];
        if (byte == '/') {
            if (!path_component_valid(path.data + start, i - start)) {
                return false;
            }
            start = ++i;
        } else if (byte > 0x1f && byte < 0x7f) {
            i++;
        } else {
            uint32_t c;
            size_t n = path_decode(path.data + i, path.len - i, &c);
            if (n == 0 || !path_char_allowed(c)) {
                return false;
            }
            i += n;
        }
    }
    return path_component_valid(path.data + start, path.len - start);
}

bool path_plausible(struct slice path)
{
    return path.len > 0 && memchr(path.data, '/', path.len) != NULL &&
           memchr(path.data, '\0', path.len) == NULL;
}

size_t path_last_slash(struct slice path)
{
    size_t i = path.len;
    while (i > 0 && path.data[i - 1] != '/') {
        i--;
    }
    return i > 0 ? i - 1 : 0;
}

size_t path_chars(struct slice path)
{
    size_t n = 0;
    for (size_t i = 0; i < path.len; i++) {
        n += (path.data[i] & 0xc0) != 0x80;
    }
    return n;
}

bool path_special(struct slice path)
{
    return slice_equal_str(path, "/") || slice_equal_str(path, "/zookeeper") ||
           slice_equal_str(path, "/zookeeper/quota") || slice_equal_str(path, "/zookeeper/config");
}
