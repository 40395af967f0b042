#define _DEFAULT_SOURCE /* timegm */
#include "tls/context.h"

#include "base/buf.h"
#include "tls/certificate_name.h"
#include "tls/certificate_store.h"
#include "tls/context_ssl.h"
#include "tls/psk.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tls_context {
    SSL_CTX *ctx;
    size_t holders;
    bool server;
    bool secret; /* it uses a shared secret */
    char about[TLS_TEXT_MAX];
    int64_t until_s; /* when the own certificate ends, since 1970; 0: none */
};

/* Cipher suites */

/* For TLS 1.2, unless settings name others: no static RSA, no CBC, no finite-field Diffie-Hellman. */
#define SUITES_12 "ECDHE+AESGCM:ECDHE+CHACHA20"

static bool suite_is_13(const char *name)
{
    return strncmp(name, "TLS_AES_", 8) == 0 || strncmp(name, "TLS_CHACHA20_", 13) == 0;
}

/* OpenSSL's name of a TLS 1.2 suite, by either name; NULL: unknown. */
static const char *suite_find(STACK_OF(SSL_CIPHER) * known, const char *name)
{
    for (int i = 0; i < sk_SSL_CIPHER_num(known); i++) {
        const SSL_CIPHER *cipher = sk_SSL_CIPHER_value(known, i);
        const char *standard = SSL_CIPHER_standard_name(cipher);
        if (strcmp(SSL_CIPHER_get_name(cipher), name) == 0 ||
            (standard != NULL && strcmp(standard, name) == 0)) {
            return SSL_CIPHER_get_name(cipher);
        }
    }
    return NULL;
}

static int context_set_suites(SSL_CTX *ctx, struct buf *list12, struct buf *list13,
                              char why[TLS_TEXT_MAX])
{
    const char *names12 = buf_cstr(list12);
    const char *names13 = buf_cstr(list13);
    if (names12 == NULL || names13 == NULL) {
        return CONCLAVE_ENOMEM;
    }
    /* A version without suites would be offered and then fail. */
    bool ok = (list13->len > 0 ? SSL_CTX_set_ciphersuites(ctx, names13)
                               : SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION)) == 1 &&
              (list12->len > 0 ? SSL_CTX_set_cipher_list(ctx, names12)
                               : SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION)) == 1;
    if (!ok) {
        const char *reason = ERR_reason_error_string(ERR_peek_last_error());
        return certificate_store_fail(why, "cipher suites: %s",
                                      reason != NULL ? reason : "not usable");
    }
    return 0;
}

static int context_set_ciphers(SSL_CTX *ctx, const char *ciphers, char why[TLS_TEXT_MAX])
{
    struct buf list12;
    struct buf list13;
    int rc = 0;
    buf_init(&list12, 0);
    buf_init(&list13, 0);
    /* So that SSL_CTX_get_ciphers returns every suite that OpenSSL knows. */
    if (SSL_CTX_set_cipher_list(ctx, "ALL") != 1) {
        rc = CONCLAVE_ENOMEM;
    }
    const char *at = ciphers;
    while (rc == 0 && *at != '\0') {
        char name[80];
        size_t len = strcspn(at, ",: ");
        if (len >= sizeof name) {
            rc = certificate_store_fail(why, "cipher suites: '%.60s…' is not the name of a suite",
                                        at);
            break;
        }
        memcpy(name, at, len);
        name[len] = '\0';
        at += len + (at[len] != '\0');
        if (len == 0) {
            continue;
        }
        bool new = suite_is_13(name);
        const char *found = new ? name : suite_find(SSL_CTX_get_ciphers(ctx), name);
        if (found == NULL) {
            rc = certificate_store_fail(why, "cipher suites: OpenSSL does not know '%s': remove it",
                                        name);
            break;
        }
        struct buf *list = new ? &list13 : &list12;
        buf_printf(list, "%s%s", list->len > 0 ? ":" : "", found);
    }
    if (rc == 0 && list12.len + list13.len == 0) {
        rc = certificate_store_fail(why, "cipher suites: the list is empty");
    }
    if (rc == 0) {
        rc = context_set_suites(ctx, &list12, &list13, why);
    }
    buf_finish(&list12);
    buf_finish(&list13);
    return rc;
}

/* The context */

static int context_set_versions(SSL_CTX *ctx, const struct tls_settings *s)
{
    int min = s->version_min == TLS_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION;
    int max = s->version_max == TLS_1_2 ? TLS1_2_VERSION : 0;
    bool ok = SSL_CTX_set_min_proto_version(ctx, min) == 1 &&
              SSL_CTX_set_max_proto_version(ctx, max) == 1;
    return ok ? 0 : CONCLAVE_EINVAL;
}

static int context_set_peer(SSL_CTX *ctx, const struct tls_settings *s, char why[TLS_TEXT_MAX])
{
    static const int modes[] = {
        [TLS_PEER_NONE] = SSL_VERIFY_NONE,
        [TLS_PEER_WANT] = SSL_VERIFY_PEER,
        [TLS_PEER_NEED] = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
    };
    assert((size_t)s->peer < sizeof modes / sizeof modes[0]);
    SSL_CTX_set_verify(ctx, modes[s->peer], NULL); /* tls.c sets a function per connection */
    if (s->trust_file != NULL) {
        int rc = certificate_store_load_trust(ctx, s, why);
        if (rc != 0) {
            return rc;
        }
    } else if (s->peer != TLS_PEER_NONE && s->server) {
        return certificate_store_fail(
            why, "clients' certificates must be checked, but there is no file of "
                 "trusted certificates");
    } else if (s->peer != TLS_PEER_NONE && SSL_CTX_set_default_verify_paths(ctx) != 1) {
        return certificate_store_fail(
            why, "the system's trusted certificates cannot be read: name a CA file");
    }
    /* As in Java, a certificate in the trust file is trusted itself, even if it is not a CA. */
    X509_STORE_set_flags(SSL_CTX_get_cert_store(ctx), X509_V_FLAG_PARTIAL_CHAIN);
    return s->crl_file != NULL ? certificate_store_load_crl(ctx, s, why) : 0;
}

static int context_fill(struct tls_context *c, const struct tls_settings *s, char why[TLS_TEXT_MAX])
{
    static const unsigned char id[] = "conclave";
    SSL_CTX *ctx = c->ctx;
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE);
    /* Most connections are idle: frees their 34 KB of record buffers. */
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    if (SSL_CTX_set_num_tickets(ctx, 0) != 1 || SSL_CTX_set_dh_auto(ctx, 1) != 1 ||
        SSL_CTX_set_session_id_context(ctx, id, sizeof id - 1) != 1 ||
        SSL_CTX_set_cipher_list(ctx, SUITES_12) != 1 || context_set_versions(ctx, s) != 0) {
        return certificate_store_fail(why,
                                      "OpenSSL refuses the TLS versions: see its configuration");
    }
    if (c->secret) {
        return psk_use(ctx, s->secret, s->other_secret);
    }
    if (s->server && s->cert_file == NULL) {
        return certificate_store_fail(
            why, "there is no certificate: name the file of the server's certificate");
    }
    int rc = s->ciphers != NULL ? context_set_ciphers(ctx, s->ciphers, why) : 0;
    if (rc == 0 && s->cert_file != NULL) {
        rc = certificate_store_load_own(ctx, s, why);
    }
    return rc == 0 ? context_set_peer(ctx, s, why) : rc;
}

static void context_note(struct tls_context *c)
{
    X509 *cert = SSL_CTX_get0_certificate(c->ctx);
    struct buf subject;
    struct tm tm;
    char until[40] = "?";
    if (cert == NULL) {
        return;
    }
    buf_init(&subject, TLS_TEXT_MAX / 2);
    certificate_name_print(X509_get_subject_name(cert), &subject);
    const char *text = buf_cstr(&subject);
    if (ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) == 1) {
        c->until_s = (int64_t)timegm(&tm);
        strftime(until, sizeof until, "%Y-%m-%dT%H:%M:%SZ", &tm);
    }
    char clean[TLS_TEXT_MAX / 2 + 1];
    snprintf(clean, sizeof clean, "%s", text != NULL ? text : "?");
    certificate_name_clean(clean);
    snprintf(c->about, sizeof c->about, "subject=\"%s\" not_after=%s", clean, until);
    buf_finish(&subject);
}

int tls_context_create(const struct tls_settings *settings, struct tls_context **ret,
                       char why[TLS_TEXT_MAX])
{
    struct tls_context *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return CONCLAVE_ENOMEM;
    }
    ERR_clear_error();
    why[0] = '\0';
    c->holders = 1;
    c->server = settings->server;
    c->secret = !slice_is_null(settings->secret);
    c->ctx = SSL_CTX_new(settings->server ? TLS_server_method() : TLS_client_method());
    int rc = c->ctx == NULL ? CONCLAVE_ENOMEM : context_fill(c, settings, why);
    ERR_clear_error();
    if (rc != 0) {
        if (why[0] == '\0') {
            snprintf(why, TLS_TEXT_MAX, "out of memory");
        }
        tls_context_release(c);
        return rc;
    }
    context_note(c);
    *ret = c;
    return 0;
}

struct tls_context *tls_context_share(struct tls_context *c)
{
    assert(c->holders > 0);
    c->holders++;
    return c;
}

void tls_context_release(struct tls_context *c)
{
    if (c == NULL) {
        return;
    }
    assert(c->holders > 0);
    if (--c->holders == 0) {
        SSL_CTX_free(c->ctx);
        free(c);
    }
}

int64_t tls_context_until_s(const struct tls_context *c)
{
    return c->until_s;
}

const char *tls_context_describe(const struct tls_context *c)
{
    return c->about;
}

SSL *tls_context_new_ssl(struct tls_context *c, bool *ret_server, bool *ret_secret)
{
    *ret_server = c->server;
    *ret_secret = c->secret;
    return SSL_new(c->ctx);
}
