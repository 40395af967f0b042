#include "tls/tls.h"

#include "tls/certificate_name.h"
#include "tls/context_ssl.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ALERT_REASONS = 1000, /* from here on OpenSSL's reasons are alerts of the peer */
    ALERT_REASONS_END = 1256,
    SUBJECT_MAX = 200,
};

struct tls {
    SSL *ssl;
    struct slice in; /* inside tls_read: the rest of the bytes from the wire */
    struct buf out;
    bool server;
    bool secret; /* both sides prove a shared secret */
    bool failed;
    bool no_memory;             /* while writing to out */
    int bad_error;              /* first error of the peer's certificate, X509_V_OK: none */
    char bad[SUBJECT_MAX];      /* subject of the bad certificate */
    char host[256];             /* expected host of the peer, or "" */
    char problem[TLS_TEXT_MAX]; /* the reason of the failure */
};

/* The wire, for OpenSSL */

static int wire_read(BIO *bio, char *room, int len)
{
    struct tls *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (t->in.len == 0) {
        /* More bytes may arrive: this is not the end of the stream. */
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t n = t->in.len < (size_t)len ? t->in.len : (size_t)len;
    memcpy(room, t->in.data, n);
    t->in.data += n;
    t->in.len -= n;
    return (int)n;
}

static int wire_write(BIO *bio, const char *bytes, int len)
{
    struct tls *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    buf_append(&t->out, bytes, (size_t)len);
    if (!buf_ok(&t->out)) {
        t->no_memory = true;
        return -1;
    }
    return len;
}

/* OpenSSL flushes after each flight of a handshake and fails if that is not supported. */
static long wire_control(BIO *bio, int what, long n, void *p)
{
    return what == BIO_CTRL_FLUSH ? 1 : 0;
}

static int wire_open(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *wire_method;
static CRYPTO_ONCE wire_once = CRYPTO_ONCE_STATIC_INIT;

static void wire_make_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "wire");
    if (m != NULL && BIO_meth_set_read(m, wire_read) == 1 &&
        BIO_meth_set_write(m, wire_write) == 1 && BIO_meth_set_ctrl(m, wire_control) == 1 &&
        BIO_meth_set_create(m, wire_open) == 1) {
        wire_method = m;
    }
}

/* Certificates */

static int tls_on_certificate(int ok, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls *t = SSL_get_app_data(ssl);
    X509 *cert = X509_STORE_CTX_get_current_cert(store);
    /* The first error is the cause; the chain's later errors follow from it. */
    if (ok || t->bad_error != X509_V_OK) {
        return ok;
    }
    struct buf subject;
    buf_init(&subject, sizeof t->bad - 1);
    if (cert != NULL) {
        certificate_name_print(X509_get_subject_name(cert), &subject);
    }
    const char *text = buf_cstr(&subject);
    t->bad_error = X509_STORE_CTX_get_error(store);
    snprintf(t->bad, sizeof t->bad, "%s", text != NULL ? text : "?");
    buf_finish(&subject);
    return ok;
}

static bool tls_is_address(const char *host)
{
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(host);
    ASN1_OCTET_STRING_free(address);
    return address != NULL;
}

static bool tls_want_host(struct tls *t, const char *host, bool verify)
{
    bool numeric = tls_is_address(host);
    ERR_clear_error();
    /* SNI allows names only (RFC 6066). */
    if (!numeric && SSL_set_tlsext_host_name(t->ssl, host) != 1) {
        return false;
    }
    if (!verify) {
        return true;
    }
    snprintf(t->host, sizeof t->host, "%s", host);
    X509_VERIFY_PARAM *param = SSL_get0_param(t->ssl);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return (numeric ? X509_VERIFY_PARAM_set1_ip_asc(param, host)
                    : X509_VERIFY_PARAM_set1_host(param, host, 0)) == 1;
}

/* Failure */

static void tls_set_problem(struct tls *t, const char *before, const char *text)
{
    snprintf(t->problem, sizeof t->problem, "%s%s", before, text);
    certificate_name_clean(t->problem);
}

static void tls_explain_certificate(struct tls *t)
{
    bool host = t->bad_error == X509_V_ERR_HOSTNAME_MISMATCH ||
                t->bad_error == X509_V_ERR_IP_ADDRESS_MISMATCH;
    snprintf(t->problem, sizeof t->problem, "%s certificate '%s': %s%s",
             t->server ? "the client's" : "the server's", t->bad,
             host ? "it is not for " : X509_verify_cert_error_string(t->bad_error),
             host ? t->host : "");
    certificate_name_clean(t->problem);
}

static const char *tls_alert_text(int alert)
{
    /* OpenSSL 3.0 has no text for this alert. */
    return alert == SSL_AD_CERTIFICATE_REQUIRED ? "certificate required"
                                                : SSL_alert_desc_string_long(alert);
}

/* Takes OpenSSL's first error, which causes the others. Returns CONCLAVE_ETLS. */
static int tls_fail(struct tls *t)
{
    assert(!t->failed && t->problem[0] == '\0');
    unsigned long error = ERR_peek_error();
    int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
    const char *text = ERR_reason_error_string(error);
    t->failed = true;
    if (t->no_memory) {
        tls_set_problem(t, "", "out of memory");
    } else if (t->bad_error != X509_V_OK) {
        tls_explain_certificate(t);
    } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
        tls_set_problem(t, "", "the client sent no certificate");
    } else if (t->secret && !t->server && !tls_ready(t) && reason >= ALERT_REASONS) {
        tls_set_problem(t, "", "refused: the other side has another secret, or none");
    } else if (reason >= ALERT_REASONS && reason < ALERT_REASONS_END) {
        tls_set_problem(t, t->server ? "refused by the client: " : "refused by the server: ",
                        tls_alert_text(reason - ALERT_REASONS));
    } else if (t->secret && t->server && !tls_ready(t) && error != 0) {
        /* OpenSSL's reasons would be about certificates, which are not used here. */
        tls_set_problem(t, "",
                        reason == SSL_R_BINDER_DOES_NOT_VERIFY ? "the other side has another secret"
                                                               : "the other side proves no secret");
    } else if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
        tls_set_problem(t, "", "the other side does not use TLS");
    } else {
        tls_set_problem(t, "", text != NULL ? text : "the other side broke the protocol");
    }
    assert(t->problem[0] != '\0');
    ERR_clear_error();
    return CONCLAVE_ETLS;
}

/* The connection */

static bool tls_open(struct tls *t, struct tls_context *c, const char *host, bool verify_host)
{
    if (CRYPTO_THREAD_run_once(&wire_once, wire_make_method) != 1 || wire_method == NULL) {
        return false;
    }
    t->ssl = tls_context_new_ssl(c, &t->server, &t->secret);
    BIO *bio = BIO_new(wire_method);
    if (t->ssl == NULL || bio == NULL || SSL_set_app_data(t->ssl, t) != 1) {
        BIO_free(bio);
        return false;
    }
    BIO_set_data(bio, t);
    SSL_set_bio(t->ssl, bio, bio); /* SSL_set_bio takes ownership */
    SSL_set_verify(t->ssl, SSL_get_verify_mode(t->ssl), tls_on_certificate);
    if (t->server) {
        SSL_set_accept_state(t->ssl);
        return true;
    }
    SSL_set_connect_state(t->ssl);
    if (host != NULL && !tls_want_host(t, host, verify_host)) {
        return false;
    }
    ERR_clear_error();
    /* The client speaks first: this call writes its first message. */
    return SSL_get_error(t->ssl, SSL_do_handshake(t->ssl)) == SSL_ERROR_WANT_READ;
}

struct tls *tls_create(struct tls_context *c, const char *host, bool verify_host)
{
    struct tls *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    buf_init(&t->out, 0);
    t->bad_error = X509_V_OK;
    if (!tls_open(t, c, host, verify_host)) {
        ERR_clear_error();
        tls_destroy(t);
        return NULL;
    }
    return t;
}

void tls_destroy(struct tls *t)
{
    if (t == NULL) {
        return;
    }
    SSL_free(t->ssl);
    buf_finish(&t->out);
    free(t);
}

/* Bytes of the wire are lent to OpenSSL only during a call. */
static void tls_lend(struct tls *t, struct slice bytes)
{
    assert(slice_is_null(t->in));
    t->in = bytes;
}

/* The bytes that it left: the end of the lent bytes. */
static struct slice tls_take_back(struct tls *t, struct slice lent)
{
    struct slice left = t->in;
    assert(left.len <= lent.len && (size_t)(left.data - lent.data) == lent.len - left.len);
    t->in = SLICE_NULL;
    return left;
}

int tls_handshake(struct tls *t, struct slice *bytes)
{
    if (t->failed) {
        return CONCLAVE_ETLS;
    }
    ERR_clear_error();
    tls_lend(t, *bytes);
    int ok = SSL_do_handshake(t->ssl);
    *bytes = tls_take_back(t, *bytes);
    int error = ok == 1 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, ok);
    if (error == SSL_ERROR_NONE || error == SSL_ERROR_WANT_READ) {
        return 0;
    }
    return error == SSL_ERROR_ZERO_RETURN ? CONCLAVE_ECLOSED : tls_fail(t);
}

int tls_read(struct tls *t, struct slice *bytes, void *room, size_t len, size_t *ret_len)
{
    assert(len > 0);
    *ret_len = 0;
    if (t->failed) {
        return CONCLAVE_ETLS;
    }
    if (t->out.len > TLS_OUT_MAX) {
        t->failed = true;
        tls_set_problem(t, "", "the other side sends but does not read");
        return CONCLAVE_ETLS;
    }
    size_t before;
    int error;
    do {
        before = bytes->len;
        ERR_clear_error();
        tls_lend(t, *bytes);
        int ok = SSL_read_ex(t->ssl, room, len, ret_len);
        *bytes = tls_take_back(t, *bytes);
        if (ok == 1) {
            return 0;
        }
        *ret_len = 0;
        error = SSL_get_error(t->ssl, ok);
        /* It may stop after a record without stream data. */
    } while (error == SSL_ERROR_WANT_READ && bytes->len > 0 && bytes->len < before);
    if (error == SSL_ERROR_WANT_READ && bytes->len == 0) {
        return 0;
    }
    return error == SSL_ERROR_ZERO_RETURN ? CONCLAVE_ECLOSED : tls_fail(t);
}

int tls_write(struct tls *t, struct slice bytes)
{
    size_t written = 0;
    if (t->failed) { /* by what the other side sent: OpenSSL is no longer ready */
        return CONCLAVE_ETLS;
    }
    ERR_clear_error();
    if (bytes.len > 0 &&
        (SSL_write_ex(t->ssl, bytes.data, bytes.len, &written) != 1 || written != bytes.len)) {
        int rc = tls_fail(t);
        return t->no_memory ? CONCLAVE_ENOMEM : rc;
    }
    return 0;
}

void tls_end(struct tls *t)
{
    if (!t->failed && tls_ready(t)) {
        ERR_clear_error();
        if (SSL_shutdown(t->ssl) < 0) {
            t->failed = true; /* no room for the alert: the end of the socket replaces it */
        }
        ERR_clear_error();
    }
}

bool tls_ready(const struct tls *t)
{
    /* With a secret, the handshake must be a resumption; otherwise the secret played no part in it. */
    return SSL_is_init_finished(t->ssl) == 1 && (!t->secret || SSL_session_reused(t->ssl) == 1);
}

struct buf *tls_out(struct tls *t)
{
    return &t->out;
}

const char *tls_problem(const struct tls *t)
{
    return t->problem;
}

/* NULL: there is none, or it was not verified. */
static X509 *tls_verified_certificate(const struct tls *t)
{
    X509 *cert = SSL_get0_peer_certificate(t->ssl);
    bool good = SSL_get_verify_mode(t->ssl) != SSL_VERIFY_NONE &&
                SSL_get_verify_result(t->ssl) == X509_V_OK;
    return good ? cert : NULL;
}

bool tls_peer_is_for(const struct tls *t, const char *host)
{
    X509 *cert = tls_ready(t) ? tls_verified_certificate(t) : NULL;
    if (cert == NULL || host[0] == '\0') {
        return false;
    }
    if (tls_is_address(host)) {
        return X509_check_ip_asc(cert, host, 0) == 1;
    }
    return X509_check_host(cert, host, 0,
                           X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS,
                           NULL) == 1;
}

void tls_peer_subject(const struct tls *t, struct buf *out)
{
    X509 *cert = tls_verified_certificate(t);
    if (cert != NULL) {
        certificate_name_print(X509_get_subject_name(cert), out);
    }
}
