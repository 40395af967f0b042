#include "front/login/client_ids.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <assert.h>
#include <stdlib.h>
#include <strings.h>

void client_ids_init(struct client_ids *i, size_t max_bytes, int64_t max_count)
{
    buf_init(&i->ids, max_bytes);
    i->count = 0;
    i->count_max = max_count;
    i->account = NULL;
}

void client_ids_finish(struct client_ids *i)
{
    buf_finish(&i->ids);
    i->count = 0;
    account_hold(i->account, ACCOUNT_IDS, 0);
}

struct wire_vector client_ids_list(const struct client_ids *i)
{
    return wire_vector_make(&i->ids, i->count);
}

bool client_ids_has(const struct client_ids *i, struct slice scheme, struct slice id)
{
    struct wire_vector ids = client_ids_list(i);
    struct wire_id known;
    while (wire_next_id(&ids, &known)) {
        if (slice_equal(known.scheme, scheme) && slice_equal(known.id, id)) {
            return true;
        }
    }
    return false;
}

int client_ids_add(struct client_ids *i, struct slice scheme, struct slice id)
{
    if (client_ids_has(i, scheme, id)) {
        return 0;
    }
    if (i->count >= i->count_max) {
        return CONCLAVE_ETOOBIG;
    }
    int rc = buf_reserve(&i->ids, 2 * sizeof(int32_t) + scheme.len + id.len);
    if (rc != 0) {
        i->ids.failed = false; /* nothing was appended */
        return rc;
    }
    struct wire_id record = {.scheme = scheme, .id = id};
    wire_encode_id(&i->ids, &record);
    i->count++;
    assert(buf_ok(&i->ids) && i->ids.len >= (size_t)i->count * 2 * sizeof(int32_t));
    account_hold(i->account, ACCOUNT_IDS, i->ids.len);
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

bool client_ids_has_any(const struct client_ids *i, const char *schemes)
{
    struct slice wanted;
    while (auth_scheme_next(&schemes, &wanted)) {
        struct wire_vector ids = client_ids_list(i);
        struct wire_id id;
        while (wire_next_id(&ids, &id)) {
            if (slice_equal(id.scheme, wanted)) {
                return true;
            }
        }
    }
    return false;
}

const char *digest_algorithm_find(const char *name)
{
    static const char *const known[][2] = {
        {"SHA", "SHA1"},          {"SHA1", "SHA1"},         {"SHA-1", "SHA1"},
        {"SHA-224", "SHA224"},    {"SHA224", "SHA224"},     {"SHA-256", "SHA256"},
        {"SHA256", "SHA256"},     {"SHA-384", "SHA384"},    {"SHA384", "SHA384"},
        {"SHA-512", "SHA512"},    {"SHA512", "SHA512"},     {"SHA3-224", "SHA3-224"},
        {"SHA3-256", "SHA3-256"}, {"SHA3-384", "SHA3-384"}, {"SHA3-512", "SHA3-512"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcasecmp(known[i][0], name) == 0) {
            return known[i][1];
        }
    }
    return NULL;
}

static struct slice digest_user(struct slice user_password)
{
    const uint8_t *colon =
        user_password.len == 0 ? NULL : memchr(user_password.data, ':', user_password.len);
    return slice_make(user_password.data,
                      colon != NULL ? (size_t)(colon - user_password.data) : user_password.len);
}

int digest_id(struct buf *out, const char *algorithm, struct slice user_password)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned char text[2 * EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    const EVP_MD *md = algorithm != NULL ? EVP_get_digestbyname(algorithm) : EVP_sha1();
    if (md == NULL ||
        EVP_Digest(user_password.data, user_password.len, hash, &len, md, NULL) != 1) {
        return CONCLAVE_ENOMEM;
    }
    int text_len = EVP_EncodeBlock(text, hash, (int)len);
    assert(text_len >= 0 && (size_t)text_len < sizeof text);
    struct slice user = digest_user(user_password);
    int rc = buf_reserve(out, user.len + 1 + (size_t)text_len);
    if (rc == 0) {
        buf_append_slice(out, user);
        buf_append_u8(out, ':');
        buf_append(out, text, (size_t)text_len);
    }
    return rc;
}

/* Compares in constant time, so that the time does not show how much of a secret is correct. */
static bool digest_equal(struct slice id, const char *super)
{
    return id.len == strlen(super) && CRYPTO_memcmp(id.data, super, id.len) == 0;
}

enum digest_super digest_super_is(const struct digest_rules *digest, struct slice user_password)
{
    struct slice user = digest_user(user_password);
    struct buf id;
    enum digest_super is = DIGEST_OTHER;
    if (digest->super == NULL ||
        !slice_equal(user, slice_make(digest->super, strcspn(digest->super, ":")))) {
        return DIGEST_OTHER;
    }
    buf_init(&id, 0);
    if (digest_id(&id, digest->algorithm, user_password) != 0) {
        is = DIGEST_NO_MEMORY;
    } else {
        is = digest_equal(buf_slice(&id), digest->super) ? DIGEST_SUPER : DIGEST_WRONG;
    }
    buf_finish(&id);
    return is;
}

int client_ids_add_digest(struct client_ids *i, const struct digest_rules *digest,
                          struct slice user_password)
{
    struct buf id;
    buf_init(&id, i->ids.max);
    int rc = digest_id(&id, digest->algorithm, user_password);
    if (rc == 0 && digest->super != NULL && digest_equal(buf_slice(&id), digest->super)) {
        rc = client_ids_add(i, slice_str("super"), slice_str(""));
    }
    if (rc == 0) {
        rc = client_ids_add(i, slice_str("digest"), buf_slice(&id));
    }
    buf_finish(&id);
    return rc;
}

int client_ids_add_x509(struct client_ids *i, const char *super, struct slice subject)
{
    if (super != NULL && slice_equal_str(subject, super)) {
        int rc = client_ids_add(i, slice_str("super"), subject);
        if (rc != 0) {
            return rc;
        }
    }
    return client_ids_add(i, slice_str("x509"), subject);
}

/* Whether the list has an id of the scheme. */
static bool identity_has_scheme(const struct client_ids *i, struct slice scheme)
{
    struct wire_vector ids = client_ids_list(i);
    struct wire_id known;
    while (wire_next_id(&ids, &known)) {
        if (slice_equal(known.scheme, scheme)) {
            return true;
        }
    }
    return false;
}

int client_ids_authenticate(struct client_ids *i, const char *host,
                            const struct digest_rules *digest, struct slice scheme,
                            struct slice auth)
{
    if (slice_equal_str(scheme, "ip")) {
        return client_ids_add(i, scheme, slice_str(host));
    }
    if (slice_equal_str(scheme, "digest") && !slice_is_null(auth) && !digest->off) {
        return client_ids_add_digest(i, digest, auth);
    }
    if (slice_equal_str(scheme, "x509") && identity_has_scheme(i, scheme)) {
        return 0; /* the certificate decided already; the request is ignored */
    }
    return CONCLAVE_AUTH_FAILED;
}
