#include "tree/acl_rules.h"

#include "tree/distinguished.h"
#include "tree/principal.h"

#include <stdlib.h>

/* --- ip: addresses, with a prefix length in the entry ----------------------------------------- */

enum { IP_MAX = 16 };

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

/* As Java's Integer.parseInt over ASCII: an optional sign, digits. Bounded far below overflow. */
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

/* The part of *rest before the next separator; *rest becomes what follows it, null after the
 * last. */
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

/* Groups of an IPv6 address up to the end or to "::". Returns their number, -1 when one is
 * malformed. */
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

/* Bytes of an address, 4 or 16; 0 when it is none. */
static int parse_ip(struct slice s, uint8_t out[IP_MAX])
{
    if (s.len > 0 && memchr(s.data, ':', s.len) != NULL) {
        return parse_ip6(s, out) ? 16 : 0;
    }
    return s.len > 0 && parse_ip4(s, out) ? 4 : 0;
}

/* An entry's id: address, optionally "/" and how many bits count. Returns the address' bytes or
 * 0. */
static int parse_ip_prefix(struct slice s, uint8_t out[IP_MAX], int *ret_bits)
{
    struct slice rest = s;
    int len = parse_ip(next_part(&rest, '/'), out);
    *ret_bits = len * 8;
    if (len == 0 || slice_is_null(rest)) {
        return len;
    }
    bool good = parse_number(rest, 10, ret_bits) && *ret_bits >= 0 && *ret_bits <= len * 8;
    return good ? len : 0;
}

static bool ip_valid(struct slice id)
{
    uint8_t address[IP_MAX];
    int bits;
    return parse_ip_prefix(id, address, &bits) != 0;
}

static bool ip_matches(struct slice caller, struct slice entry)
{
    uint8_t want[IP_MAX];
    uint8_t have[IP_MAX];
    int bits;
    int len = parse_ip_prefix(entry, want, &bits);
    if (len == 0 || parse_ip(caller, have) != len || memcmp(want, have, (size_t)bits / 8) != 0) {
        return false;
    }
    int rest = bits % 8;
    return rest == 0 || ((want[bits / 8] ^ have[bits / 8]) >> (8 - rest)) == 0;
}

/* --- digest: "user:digest" -------------------------------------------------------------------- */

/* Two parts as Java's split gives them: empty parts at the end do not count. */
static bool digest_valid(struct slice id)
{
    while (id.len > 0 && id.data[id.len - 1] == ':') {
        id.len--;
    }
    const uint8_t *colon = id.len > 0 ? memchr(id.data, ':', id.len) : NULL;
    return colon != NULL && memchr(colon + 1, ':', (size_t)(id.data + id.len - colon - 1)) == NULL;
}

/* --- sasl: a Kerberos name, or what looks like one ---------------------------------------------- */

static bool sasl_valid(struct slice id)
{
    struct principal p;
    return principal_parse(id, &p);
}

/* As SASLAuthenticationProvider.matches. */
static bool sasl_matches(struct slice caller, struct slice entry)
{
    return slice_equal_str(caller, "super") || slice_equal(caller, entry);
}

/* --- the schemes ------------------------------------------------------------------------------ */

struct scheme {
    const char *name;
    bool authenticates; /* its ids are what "auth" stands for */
    uint32_t bit;       /* in enum acl_schemes, or 0: always on */
    bool (*valid)(struct slice id);
    bool (*matches)(struct slice caller, struct slice entry);
};

static const struct scheme schemes[] = {
    {"digest", true, 0, digest_valid, slice_equal},
    {"ip", false, 0, ip_valid, ip_matches},
    {"sasl", true, ACL_SCHEME_SASL, sasl_valid, sasl_matches},
    {"x509", true, ACL_SCHEME_X509, distinguished_valid, slice_equal},
};

static const struct scheme *scheme_find(struct slice name)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (slice_equal_str(name, schemes[i].name)) {
            return &schemes[i];
        }
    }
    return NULL;
}

/* The scheme, if it is on. */
static const struct scheme *scheme_find_on(struct slice name, uint32_t on)
{
    const struct scheme *scheme = scheme_find(name);
    bool off = (on & ACL_NO_DIGEST) != 0 && slice_equal_str(name, "digest");
    return scheme != NULL && (scheme->bit & ~on) == 0 && !off ? scheme : NULL;
}

static bool is_anyone(const struct wire_id *id)
{
    return slice_equal_str(id->scheme, "world") && slice_equal_str(id->id, "anyone");
}

static bool is_grant(const struct wire_id *caller, const struct wire_id *entry)
{
    return slice_equal_str(caller->scheme, ACL_SCHEME_SASL_GRANT) &&
           slice_equal_str(entry->scheme, "sasl") && slice_equal(caller->id, entry->id);
}

static bool entry_matches(const struct wire_id *entry, struct wire_vector ids)
{
    if (is_anyone(entry)) {
        return true;
    }
    const struct scheme *scheme = scheme_find(entry->scheme);
    struct wire_id caller;
    while (scheme != NULL && wire_next_id(&ids, &caller)) {
        if (slice_equal(caller.scheme, entry->scheme) && scheme->matches(caller.id, entry->id)) {
            return true;
        }
        if (is_grant(&caller, entry)) {
            return true;
        }
    }
    return false;
}

bool acl_permits(struct wire_vector acl, struct wire_vector ids, int32_t perms)
{
    if (acl.count <= 0) {
        return true;
    }
    struct wire_acl entry;
    while (wire_next_acl(&acl, &entry)) {
        if ((entry.perms & perms) != 0 && entry_matches(&entry.id, ids)) {
            return true;
        }
    }
    struct wire_id caller;
    while (wire_next_id(&ids, &caller)) {
        if (slice_equal_str(caller.scheme, "super")) {
            return true;
        }
    }
    return false;
}

/* The entries seen so far, by their bytes: equal entries have equal bytes. */
struct seen {
    struct slice *slots; /* open addressing; NULL when there is one entry only */
    size_t mask;
    const struct hash_key *key;
};

static int seen_init(struct seen *seen, int32_t count, const struct hash_key *key)
{
    *seen = (struct seen){NULL, 0, key};
    if (count > 1) {
        seen->mask = 3;
        while (seen->mask < 2 * (size_t)count) {
            seen->mask = seen->mask * 2 + 1;
        }
        seen->slots = calloc(seen->mask + 1, sizeof *seen->slots);
        return seen->slots != NULL ? 0 : CONCLAVE_ENOMEM;
    }
    return 0;
}

/* Adds the entry; false when it is there already. */
static bool seen_add(struct seen *seen, struct slice entry)
{
    if (seen->slots == NULL) {
        return true;
    }
    size_t i = hash_keyed(seen->key, entry.data, entry.len) & seen->mask;
    while (seen->slots[i].data != NULL) {
        if (slice_equal(seen->slots[i], entry)) {
            return false;
        }
        i = (i + 1) & seen->mask;
    }
    seen->slots[i] = entry;
    return true;
}

/* "auth": one entry for each id of the caller that some scheme vouches for. */
static int fixup_auth(int32_t perms, struct wire_vector ids, uint32_t on, struct buf *out,
                      int32_t *count)
{
    int32_t before = *count;
    struct wire_id caller;
    while (wire_next_id(&ids, &caller)) {
        const struct scheme *scheme = scheme_find_on(caller.scheme, on);
        if (scheme != NULL && scheme->authenticates) {
            wire_encode_acl(out, &(struct wire_acl){perms, caller});
            ++*count;
        }
    }
    return *count > before ? 0 : CONCLAVE_INVALID_ACL;
}

static int fixup_entry(const struct wire_acl *entry, struct wire_vector ids, uint32_t on,
                       struct buf *out, int32_t *count)
{
    if (slice_is_null(entry->id.scheme)) {
        return CONCLAVE_INVALID_ACL;
    }
    if (slice_equal_str(entry->id.scheme, "auth")) {
        return fixup_auth(entry->perms, ids, on, out, count);
    }
    const struct scheme *scheme = scheme_find_on(entry->id.scheme, on);
    bool world = slice_equal_str(entry->id.scheme, "world");
    if (slice_is_null(entry->id.id) && (world || scheme != NULL)) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    if (!is_anyone(&entry->id) && (scheme == NULL || !scheme->valid(entry->id.id))) {
        return CONCLAVE_INVALID_ACL;
    }
    wire_encode_acl(out, entry);
    ++*count;
    return 0;
}

int acl_fixup(struct wire_vector asked, struct wire_vector ids, uint32_t on,
              const struct hash_key *key, struct buf *out, int32_t *ret_count)
{
    if (asked.count <= 0) {
        return CONCLAVE_INVALID_ACL;
    }
    struct seen seen;
    int rc = seen_init(&seen, asked.count, key);
    int32_t count = 0;
    struct wire_acl entry;
    const uint8_t *start = asked.items.data;
    while (rc == 0 && wire_next_acl(&asked, &entry)) {
        if (seen_add(&seen, slice_make(start, (size_t)(asked.items.data - start)))) {
            rc = fixup_entry(&entry, ids, on, out, &count);
        }
        start = asked.items.data;
    }
    free(seen.slots);
    if (rc == 0 && !buf_ok(out)) {
        rc = CONCLAVE_ENOMEM;
    }
    if (rc == 0) {
        *ret_count = count;
    }
    return rc;
}

/* The user, its colon and an x. */
static void redact_entry(const struct wire_acl *entry, struct buf *out)
{
    struct slice id = entry->id.id;
    const uint8_t *colon = id.len > 0 ? memchr(id.data, ':', id.len) : NULL;
    if (colon == NULL) {
        wire_encode_acl(out, entry);
        return;
    }
    size_t user = (size_t)(colon - id.data) + 1;
    wire_write_i32(out, entry->perms);
    wire_write_string(out, entry->id.scheme);
    wire_write_i32(out, (int32_t)user + 1);
    buf_append(out, id.data, user);
    buf_append_u8(out, 'x');
}

void acl_redact(struct wire_vector acl, struct buf *out)
{
    struct wire_acl entry;
    wire_write_i32(out, acl.count);
    while (wire_next_acl(&acl, &entry)) {
        if (slice_equal_str(entry.id.scheme, "digest")) {
            redact_entry(&entry, out);
        } else {
            wire_encode_acl(out, &entry);
        }
    }
}
