#include "admin/acts/sign_in_check.h"

#include "front/service.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <assert.h>
#include <string.h>
#include <strings.h>

enum { BASE64_MAX = (CREDENTIALS_MAX + 2) / 3 * 4 };

static const char WRONG[] = "Wrong user or password.";
static const char TOO_LONG[] = "The identity is too long, or memory is out.";

/* "user:password" of "Basic BASE64" in ret; its length, 0: it is malformed. */
static size_t read_credentials(const char *header, uint8_t ret[BASE64_MAX])
{
    static const char SCHEME[] = "Basic ";
    if (header == NULL || strncasecmp(header, SCHEME, strlen(SCHEME)) != 0) {
        return 0;
    }
    const char *text = header + strlen(SCHEME);
    size_t len = strlen(text);
    if (len == 0 || len > BASE64_MAX || len % 4 != 0) {
        return 0;
    }
    int got = EVP_DecodeBlock(ret, (const uint8_t *)text, (int)len);
    size_t padding = text[len - 1] != '=' ? 0 : text[len - 2] != '=' ? 1 : 2;
    if (got < 0 || (size_t)got <= padding) {
        return 0;
    }
    size_t count = (size_t)got - padding;
    const uint8_t *colon = memchr(ret, ':', count);
    bool whole = colon != NULL && colon > ret && memchr(ret, '\0', count) == NULL;
    return whole && count <= CREDENTIALS_MAX ? count : 0;
}

static void on_verified(void *ctx, int error)
{
    struct sign_in_check *c = ctx;
    c->check = NULL;
    c->checked = error == 0;
    c->done(c,
            error == 0                      ? 0
            : error == CONCLAVE_AUTH_FAILED ? 401
                                            : 503,
            error == CONCLAVE_AUTH_FAILED ? WRONG : "The server is out of memory: try again.");
}

/* The password against the superuser's, or the file of users. */
static unsigned check_password(struct sign_in_check *c, struct service *s,
                               struct slice user_password, const char **ret_why)
{
    *ret_why = WRONG;
    switch (digest_super_is(&s->digest, user_password)) {
    case DIGEST_WRONG:
        return 401;
    case DIGEST_NO_MEMORY:
        *ret_why = "The server is out of memory: try again.";
        return 503;
    case DIGEST_SUPER:
        c->checked = true;
        return 0;
    case DIGEST_OTHER:
        break;
    }
    if (s->verifier == NULL) {
        return 0;
    }
    switch (password_checker_begin(s->verifier, user_password, on_verified, c, &c->check)) {
    case VERIFIED:
        c->checked = true;
        return 0;
    case VERIFYING:
        return SIGN_IN_LATER;
    case VERIFIER_BUSY:
        break;
    }
    *ret_why = "The server checks many passwords now: try again.";
    return 503;
}

/* The ids that the caller has besides those of the scheme. */
static int add_common_ids(struct sign_in_check *c, const struct service *s, const char *peer)
{
    int rc = client_ids_add(&c->ids, slice_str("ip"), slice_str(peer));
    return rc == 0 && s->skip_acl ? client_ids_add(&c->ids, slice_str("super"), slice_str("")) : rc;
}

static unsigned check_digest(struct sign_in_check *c, struct service *s, const char *peer,
                             struct slice user_password, const char **ret_why)
{
    if (client_ids_add_digest(&c->ids, &s->digest, user_password) != 0 ||
        add_common_ids(c, s, peer) != 0) {
        *ret_why = TOO_LONG;
        return 400;
    }
    return check_password(c, s, user_password, ret_why);
}

/* Whether both are the same, in a time that shows nothing of either; a wrong hash is "no". */
static bool secret_equal(struct slice a, struct slice b)
{
    uint8_t hashes[2][EVP_MAX_MD_SIZE] = {{0}};
    unsigned len = 0;
    return EVP_Digest(a.data, a.len, hashes[0], &len, EVP_sha256(), NULL) == 1 &&
           EVP_Digest(b.data, b.len, hashes[1], &len, EVP_sha256(), NULL) == 1 &&
           CRYPTO_memcmp(hashes[0], hashes[1], sizeof hashes[0]) == 0;
}

static unsigned check_sasl(struct sign_in_check *c, struct service *s, const char *peer,
                           struct slice user_password, const char **ret_why)
{
    const struct sasl_options *o = sasl_service_options(s->login);
    char name[CREDENTIALS_MAX + 1];
    const uint8_t *colon = memchr(user_password.data, ':', user_password.len);
    assert(colon != NULL && user_password.len <= CREDENTIALS_MAX);
    size_t len = (size_t)(colon - user_password.data);
    struct slice user = slice_make(user_password.data, len);
    struct slice password = slice_make(colon + 1, user_password.len - len - 1);
    memcpy(name, user.data, len);
    name[len] = '\0';
    const char *known = sasl_options_password(o, name);
    bool equal = secret_equal(password, slice_str(known != NULL ? known : ""));
    if (known == NULL || !equal) {
        *ret_why = WRONG;
        return 401;
    }
    c->checked = true;
    *ret_why = TOO_LONG;
    return sasl_login_add_ids(o, user, &c->ids) != 0 || add_common_ids(c, s, peer) != 0 ? 400 : 0;
}

static bool offers_digest(const struct service *s, const struct http_request *request)
{
    return !s->digest.off;
}

static bool offers_sasl(const struct service *s, const struct http_request *request)
{
    return s->login != NULL && sasl_service_options(s->login)->mechanism == LOGIN_DIGEST_MD5;
}

static bool offers_x509(const struct service *s, const struct http_request *request)
{
    return request->subject.len > 0;
}

static const struct sign_in_scheme {
    const char *name;
    bool (*offered)(const struct service *s, const struct http_request *request);
    const char *missing; /* the answer if it is not offered */
    unsigned (*check)(struct sign_in_check *c, struct service *s, const char *peer,
                      struct slice user_password, const char **ret_why); /* NULL: no password */
} schemes[SIGN_IN_SCHEMES] = {
    {"digest", offers_digest,
     "This server takes no digest identities (DigestAuthenticationProvider.enabled).",
     check_digest},
    {"sasl", offers_sasl,
     "This server has no users of SASL with passwords (sasl.users.file, sasl.jaas.file).",
     check_sasl},
    {"x509", offers_x509,
     "Your browser proved no certificate: open the console by https with a client certificate that "
     "the server's CA signed.",
     NULL},
};

size_t sign_in_schemes(const struct service *s, const struct http_request *request,
                       const char *ret[SIGN_IN_SCHEMES])
{
    size_t count = 0;
    for (size_t i = 0; i < SIGN_IN_SCHEMES; i++) {
        if (schemes[i].offered(s, request)) {
            ret[count++] = schemes[i].name;
        }
    }
    return count;
}

/* name NULL: the first. NULL: there is no such scheme. */
static const struct sign_in_scheme *scheme_find(const char *name)
{
    for (size_t i = 0; i < SIGN_IN_SCHEMES; i++) {
        if (name == NULL || strcmp(schemes[i].name, name) == 0) {
            return &schemes[i];
        }
    }
    return NULL;
}

static unsigned check_certificate(struct sign_in_check *c, const struct service *s,
                                  const struct http_request *request, const char **ret_why)
{
    c->checked = true;
    *ret_why = TOO_LONG;
    return client_ids_add_x509(&c->ids, s->x509_super, request->subject) != 0 ||
                   add_common_ids(c, s, request->peer) != 0
               ? 400
               : 0;
}

static unsigned check_credentials(struct sign_in_check *c, struct service *s,
                                  const struct sign_in_scheme *scheme,
                                  const struct http_request *request, const char **ret_why)
{
    uint8_t text[BASE64_MAX];
    unsigned status = 400;
    if (s->digest.tls_only && !request->secure) {
        *ret_why = "This server takes passwords only over TLS (digest.tlsOnly): open the console "
                   "by https.";
        return 403;
    }
    size_t len = read_credentials(request->authorization, text);
    *ret_why = "Enter a user without a colon, and a password.";
    if (len > 0) {
        status = scheme->check(c, s, request->peer, slice_make(text, len), ret_why);
    }
    OPENSSL_cleanse(text, sizeof text);
    assert(status != 0 || c->ids.count > 0);
    return status;
}

unsigned sign_in_check_begin(struct sign_in_check *c, struct admission *admission,
                             struct service *s, const struct http_request *request,
                             const char *scheme_name, const char **ret_why)
{
    const struct sign_in_scheme *scheme = scheme_find(scheme_name);
    client_ids_init(&c->ids, s->limits.identity_max, s->limits.command.ids);
    if (!admission_may_try(admission, request->peer, clock_monotonic_ms(s->clock))) {
        *ret_why = "Too many sign-ins from your address: try again in a minute.";
        return 429;
    }
    if (scheme == NULL) {
        *ret_why = "There is no such scheme: digest, sasl, x509.";
        return 400;
    }
    if (!scheme->offered(s, request)) {
        *ret_why = scheme->missing;
        return 403;
    }
    return scheme->check == NULL ? check_certificate(c, s, request, ret_why)
                                 : check_credentials(c, s, scheme, request, ret_why);
}

void sign_in_check_finish(struct sign_in_check *c)
{
    if (c->check != NULL) {
        password_check_drop(c->check);
        c->check = NULL;
    }
    client_ids_finish(&c->ids);
}
