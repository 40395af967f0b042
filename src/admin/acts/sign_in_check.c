#include "admin/acts/sign_in_check.h"

#include "front/service.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <string.h>
#include <strings.h>

enum { BASE64_MAX = (CREDENTIALS_MAX + 2) / 3 * 4 };

static const char WRONG[] = "Wrong user or password.";

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

static int gather_ids(struct sign_in_check *c, struct service *s, struct slice user_password,
                      const char *peer)
{
    int rc = client_ids_add_digest(&c->ids, &s->digest, user_password);
    rc = rc == 0 ? client_ids_add(&c->ids, slice_str("ip"), slice_str(peer)) : rc;
    return rc == 0 && s->skip_acl ? client_ids_add(&c->ids, slice_str("super"), slice_str("")) : rc;
}

unsigned sign_in_check_begin(struct sign_in_check *c, struct admission *admission,
                             struct service *s, const struct http_request *request,
                             const char **ret_why)
{
    uint8_t text[BASE64_MAX];
    unsigned status = 0;
    client_ids_init(&c->ids, s->limits.identity_max, s->limits.command.ids);
    if (!admission_may_try(admission, request->peer, clock_monotonic_ms(s->clock))) {
        *ret_why = "Too many sign-ins from your address: try again in a minute.";
        return 429;
    }
    if (s->digest.off) {
        *ret_why = "This server takes no digest identities (DigestAuthenticationProvider.enabled).";
        return 403;
    }
    if (s->digest.tls_only && !request->secure) {
        *ret_why = "This server takes passwords only over TLS (digest.tlsOnly): open the console "
                   "by https.";
        return 403;
    }
    size_t len = read_credentials(request->authorization, text);
    struct slice user_password = slice_make(text, len);
    if (len == 0) {
        *ret_why = "Enter a user without a colon, and a password.";
        status = 400;
    } else if (gather_ids(c, s, user_password, request->peer) != 0) {
        *ret_why = "The user or password is too long, or memory is out.";
        status = 400;
    } else {
        status = check_password(c, s, user_password, ret_why);
    }
    OPENSSL_cleanse(text, sizeof text);
    return status;
}

void sign_in_check_finish(struct sign_in_check *c)
{
    if (c->check != NULL) {
        password_check_drop(c->check);
        c->check = NULL;
    }
    client_ids_finish(&c->ids);
}
