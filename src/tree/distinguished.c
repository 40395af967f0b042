#include "tree/distinguished.h"

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static struct slice trim(struct slice s)
{
    while (s.len > 0 && s.data[0] == ' ') {
        s.data++;
        s.len--;
    }
    while (s.len > 0 && s.data[s.len - 1] == ' ') {
        s.len--;
    }
    return s;
}

static bool equal_any_case(struct slice s, const char *upper)
{
    size_t i = 0;
    for (; i < s.len && upper[i] != '\0'; i++) {
        uint8_t c = s.data[i];
        if ((c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c) != (uint8_t)upper[i]) {
            return false;
        }
    }
    return i == s.len && upper[i] == '\0';
}

/* Digits with single dots between them, at least two numbers, the first from 0 to 2. */
static bool is_oid(struct slice s)
{
    int dots = 0;
    if (s.len == 0 || s.data[0] > '2' || (s.len > 1 && s.data[1] != '.')) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        bool dot = s.data[i] == '.';
        bool between = i > 0 && i + 1 < s.len && is_digit(s.data[i - 1]);
        if (!(dot ? between : is_digit(s.data[i]))) {
            return false;
        }
        dots += dot;
    }
    return dots > 0;
}

static bool is_keyword(struct slice s)
{
    static const char *const known[] = {
        "CN",          "C",           "L",         "S",        "ST",
        "O",           "OU",          "T",         "IP",       "STREET",
        "DC",          "DNQUALIFIER", "DNQ",       "EMAIL",    "EMAILADDRESS",
        "UID",         "SURNAME",     "GIVENNAME", "INITIALS", "GENERATION",
        "SERIALNUMBER"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (equal_any_case(s, known[i])) {
            return true;
        }
    }
    bool prefixed = s.len > 4 && equal_any_case(slice_make(s.data, 4), "OID.");
    return is_oid(prefixed ? slice_make(s.data + 4, s.len - 4) : s);
}

static bool is_hex_digit(uint8_t c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_hex(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!is_hex_digit(s.data[i])) {
            return false;
        }
    }
    return s.len >= 4 && s.len % 2 == 0; /* at least a type and a length */
}

/* A value that begins with a quote must end with one; '#' begins bytes in hex. */
static bool is_value(struct slice s)
{
    s = trim(s);
    if (s.len > 0 && s.data[0] == '#') {
        return is_hex(slice_make(s.data + 1, s.len - 1));
    }
    if (s.len > 0 && s.data[0] == '"') {
        return s.len > 1 && s.data[s.len - 1] == '"';
    }
    return true;
}

static bool is_part(struct slice s)
{
    const uint8_t *equals = s.len > 0 ? memchr(s.data, '=', s.len) : NULL;
    if (equals == NULL) {
        return false;
    }
    size_t at = (size_t)(equals - s.data);
    return is_keyword(trim(slice_make(s.data, at))) &&
           is_value(slice_make(equals + 1, s.len - at - 1));
}

/* Length of the escape at the front: a special character or two hex digits; 0: none. */
static size_t escape_len(struct slice s)
{
    if (s.len > 1 && s.data[1] != '\0' && strchr(" ,=+<>#;\"\\", s.data[1]) != NULL) {
        return 2;
    }
    return s.len > 2 && is_hex_digit(s.data[1]) && is_hex_digit(s.data[2]) ? 3 : 0;
}

bool distinguished_valid(struct slice text)
{
    bool quoted = false;
    size_t begin = 0;
    size_t step;
    if (text.len == 0) {
        return true;
    }
    for (size_t i = 0; i < text.len; i += step) {
        uint8_t c = text.data[i];
        step = 1;
        if (c == '\\') {
            step = escape_len(slice_make(text.data + i, text.len - i));
            if (step == 0) {
                return false;
            }
        } else if (c == '"') {
            struct slice before = trim(slice_make(text.data + begin, i - begin));
            if (!quoted && (before.len == 0 || before.data[before.len - 1] != '=')) {
                return false;
            }
            quoted = !quoted;
        } else if (!quoted && (c == '<' || c == '>')) {
            return false;
        } else if (!quoted && (c == ',' || c == ';' || c == '+')) {
            if (!is_part(slice_make(text.data + begin, i - begin))) {
                return false;
            }
            begin = i + 1;
        }
    }
    return !quoted && is_part(slice_make(text.data + begin, text.len - begin));
}
