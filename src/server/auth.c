#include "server/auth.h"

#include <openssl/evp.h>

#include <stdlib.h>

void identity_init(struct identity *i, size_t max_bytes)
{
    buf_init(&i->ids, max_bytes);
    i->count = 0;
}

void identity_finish(struct identity *i)
{
    buf_finish(&i->ids);
    i->count = 0;
}

struct wire_vector identity_ids(const struct identity *i)
{
    return wire_vector_make(&i->ids, i->count);
}

static bool identity_has(const struct identity *i, struct slice scheme, struct slice id)
{
    struct wire_vector ids = identity_ids(i);
    struct wire_id known;
    while (wire_next_id(&ids, &known)) {
        if (slice_equal(known.scheme, scheme) && slice_equal(known.id, id)) {
            return true;
        }
    }
    return false;
}

int identity_add(struct identity *i, struct slice scheme, struct slice id)
{
    if (identity_has(i, scheme, id)) {
        return 0;
    }
    int rc = buf_reserve(&i->ids, 2 * sizeof(int32_t) + scheme.len + id.len);
    if (rc != 0) {
        i->ids.failed = false; /* nothing was appended */
        return rc;
    }
    struct wire_id record = {.scheme = scheme, .id = id};
    wire_encode_id(&i->ids, &record);
    i->count++;
    return 0;
}

bool auth_scheme_next(const char **list, struct slice *ret)
{
    const char *start = *list + strspn(*list, ", \t");
    size_t len = strcspn(start, ", \t");
    *list = start + len;
    *ret = slice_make(start, len);
    return len > 0;
}

bool auth_schemes_have(const char *list, const char *scheme)
{
    struct slice one;
    while (auth_scheme_next(&list, &one)) {
        if (slice_equal_str(one, scheme)) {
            return true;
        }
    }
    return false;
}

bool auth_scheme_known(struct slice scheme)
{
    return slice_equal_str(scheme, "ip") || slice_equal_str(scheme, "digest") ||
           slice_equal_str(scheme, "x509") || slice_equal_str(scheme, "sasl");
}

bool identity_has_any(const struct identity *i, const char *schemes)
{
    struct slice wanted;
    while (auth_scheme_next(&schemes, &wanted)) {
        struct wire_vector ids = identity_ids(i);
        struct wire_id id;
        while (wire_next_id(&ids, &id)) {
            if (slice_equal(id.scheme, wanted)) {
                return true;
            }
        }
    }
    return false;
}

void digest_id(struct buf *out, struct slice user_password)
{
    unsigned char sha[EVP_MAX_MD_SIZE];
    unsigned char text[2 * EVP_MAX_MD_SIZE];
    unsigned int sha_len = 0;
    const uint8_t *colon =
        user_password.len == 0 ? NULL : memchr(user_password.data, ':', user_password.len);
    size_t user = colon != NULL ? (size_t)(colon - user_password.data) : user_password.len;

    if (EVP_Digest(user_password.data, user_password.len, sha, &sha_len, EVP_sha1(), NULL) != 1) {
        out->failed = true;
        return;
    }
    EVP_EncodeBlock(text, sha, (int)sha_len);
    buf_append(out, user_password.data, user);
    buf_append_u8(out, ':');
    buf_append_str(out, (const char *)text);
}

static int identity_add_digest(struct identity *i, const char *super_digest, struct slice auth)
{
    struct buf id;
    int rc;
    buf_init(&id, i->ids.max);
    digest_id(&id, auth);
    if (!buf_ok(&id)) {
        rc = CONCLAVE_ETOOBIG;
        goto out;
    }
    if (super_digest != NULL && slice_equal_str(buf_slice(&id), super_digest)) {
        rc = identity_add(i, slice_str("super"), slice_str(""));
        if (rc != 0) {
            goto out;
        }
    }
    rc = identity_add(i, slice_str("digest"), buf_slice(&id));
out:
    buf_finish(&id);
    return rc;
}

int identity_add_x509(struct identity *i, const char *super, struct slice subject)
{
    if (super != NULL && slice_equal_str(subject, super)) {
        int rc = identity_add(i, slice_str("super"), subject);
        if (rc != 0) {
            return rc;
        }
    }
    return identity_add(i, slice_str("x509"), subject);
}

/* Whether any id of the scheme is there. */
static bool identity_has_scheme(const struct identity *i, struct slice scheme)
{
    struct wire_vector ids = identity_ids(i);
    struct wire_id known;
    while (wire_next_id(&ids, &known)) {
        if (slice_equal(known.scheme, scheme)) {
            return true;
        }
    }
    return false;
}

int identity_authenticate(struct identity *i, const char *host, const char *super_digest,
                          struct slice scheme, struct slice auth)
{
    if (slice_equal_str(scheme, "ip")) {
        return identity_add(i, scheme, slice_str(host));
    }
    if (slice_equal_str(scheme, "digest") && !slice_is_null(auth)) {
        return identity_add_digest(i, super_digest, auth);
    }
    if (slice_equal_str(scheme, "x509") && identity_has_scheme(i, scheme)) {
        return 0; /* the certificate spoke already; what the request says counts for nothing */
    }
    return CONCLAVE_AUTH_FAILED;
}
