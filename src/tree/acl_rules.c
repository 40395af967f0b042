#include "tree/acl_rules.h"

#include "tree/acl.h"
#include "tree/distinguished.h"
#include "tree/ip_range.h"
#include "tree/principal.h"

#include <stdlib.h>

/* --- ip: addresses, with a prefix length in the entry ----------------------------------------- */

static bool ip_valid(struct slice id)
{
    struct ip_range range;
    return ip_range_parse(id, &range);
}

static bool ip_matches(struct slice caller, struct slice entry)
{
    struct ip_range range;
    struct ip_address address;
    return ip_range_parse(entry, &range) && ip_parse(caller, &address) &&
           ip_range_has(&range, &address);
}

/* --- digest: "user:digest" -------------------------------------------------------------------- */

/* Two parts as from Java's split: empty parts at the end do not count. */
static bool digest_valid(struct slice id)
{
    while (id.len > 0 && id.data[id.len - 1] == ':') {
        id.len--;
    }
    const uint8_t *colon = id.len > 0 ? memchr(id.data, ':', id.len) : NULL;
    return colon != NULL && memchr(colon + 1, ':', (size_t)(id.data + id.len - colon - 1)) == NULL;
}

/* --- sasl: a Kerberos name, or a name of that form ---------------------------------------------- */

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
    bool authenticates; /* its ids replace "auth" */
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

/* The scheme, if it is switched on. */
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

bool acl_scheme_exact(struct slice name)
{
    const struct scheme *scheme = scheme_find(name);
    return scheme != NULL && scheme->matches != ip_matches;
}

int32_t acl_granted(struct wire_vector acl, struct wire_vector ids)
{
    struct wire_vector callers = ids;
    struct wire_id caller;
    struct wire_acl entry;
    int32_t granted = acl.count <= 0 ? -1 : 0;
    while (granted != -1 && wire_next_id(&callers, &caller)) {
        granted = slice_equal_str(caller.scheme, "super") ? -1 : 0;
    }
    while (granted != -1 && wire_next_acl(&acl, &entry)) {
        if ((entry.perms & ~granted) != 0 && entry_matches(&entry.id, ids)) {
            granted |= entry.perms;
        }
    }
    return granted;
}

/* The entries so far, by their bytes: equal entries have equal bytes. */
struct seen {
    struct slice *slots; /* open addressing; NULL: there is only one entry */
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

/* Adds the entry; false: it was there already. */
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

/* "auth": one entry for each id of the caller that a scheme authenticates. */
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

enum { ENTRY_FIXED = 4 + 4 + 4 }; /* bytes of an entry besides scheme and id */

/* Measures the ids that replace "auth", as if all schemes were on. */
static void measure_ids(struct wire_vector ids, int64_t *ret_entries, int64_t *ret_bytes)
{
    struct wire_id caller;
    *ret_entries = 0;
    *ret_bytes = 0;
    while (wire_next_id(&ids, &caller)) {
        const struct scheme *scheme = scheme_find(caller.scheme);
        if (scheme != NULL && scheme->authenticates) {
            ++*ret_entries;
            *ret_bytes += ENTRY_FIXED + (int64_t)(caller.scheme.len + caller.id.len);
        }
    }
}

bool acl_measure(struct wire_vector asked, struct wire_vector ids, const struct acl_limits *limits,
                 int64_t *ret_bytes)
{
    int64_t ids_entries = -1; /* not counted yet */
    int64_t ids_bytes = 0;
    int64_t entries = 0;
    int64_t bytes = 0;
    struct wire_acl entry;
    if (acl_is_open(asked)) {
        *ret_bytes = (int64_t)asked.items.len;
        return limits->entries > 0 && *ret_bytes <= limits->bytes;
    }
    while (wire_next_acl(&asked, &entry)) {
        if (slice_equal_str(entry.id.scheme, "auth")) {
            if (ids_entries < 0) {
                measure_ids(ids, &ids_entries, &ids_bytes);
            }
            entries += ids_entries;
            bytes += ids_bytes;
        } else {
            entries++;
            bytes += ENTRY_FIXED + (int64_t)(entry.id.scheme.len + entry.id.id.len);
        }
        if (entries > limits->entries || bytes > limits->bytes) {
            return false;
        }
    }
    *ret_bytes = bytes;
    return true;
}

int acl_fixup(struct wire_vector asked, struct wire_vector ids, uint32_t on,
              const struct hash_key *key, struct buf *out, int32_t *ret_count)
{
    if (asked.count <= 0) {
        return CONCLAVE_INVALID_ACL;
    }
    if (acl_is_open(asked)) {
        buf_append_slice(out, asked.items);
        *ret_count = 1;
        return buf_ok(out) ? 0 : CONCLAVE_ENOMEM;
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
