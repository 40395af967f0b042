#include "client/core/path.h"

#include "wire/codec.h"

/* Decodes one UTF-8 character at *p (NUL-terminated text) and advances *p; UINT32_MAX: malformed. */
static uint32_t utf8_next(const unsigned char **p)
{
    const unsigned char *s = *p;
    uint32_t c = s[0];
    unsigned more = c < 0x80 ? 0 : c < 0xc2 ? 4 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : 4;
    if (more == 4) {
        return UINT32_MAX;
    }
    c &= more == 0 ? 0x7fu : 0x3fu >> more;
    for (unsigned i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return UINT32_MAX;
        }
        c = c << 6 | (s[i] & 0x3fu);
    }
    bool overlong = (more == 2 && c < 0x800) || (more == 3 && c < 0x10000);
    *p = s + more + 1;
    return overlong ? UINT32_MAX : c;
}

/* Characters that PathUtils.validatePath forbids. Java represents characters beyond 16 bits as surrogates, which are
 * forbidden, too. */
static bool char_is_forbidden(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || (c >= 0xd800 && c <= 0xf8ff) || c >= 0xfff0;
}

bool path_is_valid(const char *path, bool sequential)
{
    if (path == NULL || path[0] != '/') {
        return false;
    }
    const unsigned char *p = (const unsigned char *)path + 1;
    if (*p == '\0') {
        return true;
    }
    const unsigned char *part = p;
    for (;;) {
        if (*p == '/' || *p == '\0') {
            size_t len = (size_t)(p - part);
            bool dots =
                (len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.');
            bool bare = len == 0 && !(*p == '\0' && sequential);
            if (dots || bare) {
                return false;
            }
            if (*p == '\0') {
                return true;
            }
            part = ++p;
            continue;
        }
        if (char_is_forbidden(utf8_next(&p))) {
            return false;
        }
    }
}

size_t path_full_len(struct slice chroot, const char *path)
{
    if (path_is_beyond(path)) {
        return strlen(path) - 1;
    }
    bool root = path[0] == '/' && path[1] == '\0' && chroot.len > 0;
    return chroot.len + (root ? 0 : strlen(path));
}

void path_write(struct buf *b, struct slice chroot, const char *path)
{
    size_t len = path_full_len(chroot, path);
    wire_write_i32(b, (int32_t)len);
    if (path_is_beyond(path)) {
        buf_append(b, path + 1, len);
        return;
    }
    buf_append_slice(b, chroot);
    buf_append(b, path, len - chroot.len);
}

bool path_strip(struct slice chroot, struct slice full, struct slice *ret)
{
    if (full.len == 0 || !slice_starts_with(full, chroot)) {
        return false;
    }
    struct slice rest = slice_make(full.data + chroot.len, full.len - chroot.len);
    if (rest.len == 0) {
        rest = slice_str("/");
    } else if (rest.data[0] != '/') {
        return false;
    }
    *ret = rest;
    return true;
}
