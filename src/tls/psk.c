#include "tls/psk.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>

#include <assert.h>
#include <string.h>

enum { KEY_SIZE = 32, KEYS_MAX = 2, NAME_SIZE = 8 };

/* The suite whose hash belongs to the key; no other is offered. */
#define SUITE "TLS_AES_128_GCM_SHA256"
static const unsigned char suite_id[] = {0x13, 0x01};

/* The name of the key on the wire: public, the same for all. Also the context of sessions. */
static const unsigned char identity[] = {'c', 'o', 'n', 'c', 'l', 'a', 'v', 'e', ' ', '2'};

/* What a context knows. The name of a key tells which of two it is, and nothing else about it. */
struct psk_keys {
    unsigned char keys[KEYS_MAX][KEY_SIZE];
    unsigned char names[KEYS_MAX][sizeof identity + NAME_SIZE];
    size_t count;
};

/* OpenSSL's context owns the keys, because connections may outlive our context. */
static int key_index = -1;
static CRYPTO_ONCE key_once = CRYPTO_ONCE_STATIC_INIT;

static void key_free(void *parent, void *key, CRYPTO_EX_DATA *data, int index, long n, void *p)
{
    OPENSSL_clear_free(key, sizeof(struct psk_keys));
}

static void key_make_index(void)
{
    key_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, key_free);
}

static const struct psk_keys *psk_keys_of(SSL *ssl)
{
    const struct psk_keys *keys = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), key_index);
    assert(keys != NULL && keys->count > 0); /* psk_use has set it before the callbacks */
    return keys;
}

/* A session that looks resumed: OpenSSL takes external keys in this form. */
static SSL_SESSION *psk_session(SSL *ssl, const unsigned char *key)
{
    const SSL_CIPHER *suite = SSL_CIPHER_find(ssl, suite_id);
    SSL_SESSION *session = SSL_SESSION_new();
    if (session == NULL || suite == NULL ||
        SSL_SESSION_set1_master_key(session, key, KEY_SIZE) != 1 ||
        SSL_SESSION_set_cipher(session, suite) != 1 ||
        SSL_SESSION_set1_id_context(session, identity, sizeof identity) != 1 ||
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
        SSL_SESSION_free(session);
        return NULL;
    }
    return session;
}

static int psk_on_client(SSL *ssl, const EVP_MD *md, const unsigned char **ret_id, size_t *ret_len,
                         SSL_SESSION **ret)
{
    const struct psk_keys *keys = psk_keys_of(ssl);
    SSL_SESSION *session = psk_session(ssl, keys->keys[0]);
    *ret = NULL;
    if (session == NULL) {
        return 0;
    }
    if (md != NULL && md != SSL_CIPHER_get_handshake_digest(SSL_SESSION_get0_cipher(session))) {
        SSL_SESSION_free(session); /* the server wants another hash, for which there is no key */
        return 1;
    }
    *ret = session;
    *ret_id = keys->count > 1 ? keys->names[0] : identity;
    *ret_len = keys->count > 1 ? sizeof keys->names[0] : sizeof identity;
    return 1;
}

static int psk_on_server(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **ret)
{
    const struct psk_keys *keys = psk_keys_of(ssl);
    size_t at =
        0; /* also for a name that is not known: the proof fails then, and the error says why */
    *ret = NULL;
    bool named = len == sizeof keys->names[0];
    if ((!named && len != sizeof identity) || memcmp(id, identity, sizeof identity) != 0) {
        return 1; /* not found: the handshake fails, because there is no certificate */
    }
    for (size_t i = 0; named && i < keys->count; i++) {
        at = memcmp(id, keys->names[i], len) == 0 ? i : at;
    }
    *ret = psk_session(ssl, keys->keys[at]);
    return *ret != NULL;
}

static bool psk_add(struct psk_keys *keys, struct slice secret)
{
    static const unsigned char purpose[] = "conclave: key of the link between servers";
    static const unsigned char naming[] = "conclave: name of that key";
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    unsigned char *key = keys->keys[keys->count];
    unsigned char *name = keys->names[keys->count];
    assert(keys->count < KEYS_MAX);
    if (HMAC(EVP_sha256(), secret.data, (int)secret.len, purpose, sizeof purpose - 1, key, &len) ==
            NULL ||
        len != KEY_SIZE ||
        HMAC(EVP_sha256(), key, KEY_SIZE, naming, sizeof naming - 1, hash, &len) == NULL) {
        return false;
    }
    memcpy(name, identity, sizeof identity);
    memcpy(name + sizeof identity, hash, NAME_SIZE);
    keys->count++;
    return true;
}

int psk_use(SSL_CTX *ctx, struct slice secret, struct slice other)
{
    if (CRYPTO_THREAD_run_once(&key_once, key_make_index) != 1 || key_index < 0) {
        return CONCLAVE_ENOMEM;
    }
    struct psk_keys *keys = OPENSSL_zalloc(sizeof *keys);
    if (keys == NULL || SSL_CTX_set_ex_data(ctx, key_index, keys) != 1) {
        OPENSSL_free(keys);
        return CONCLAVE_ENOMEM;
    }
    SSL_CTX_set_psk_use_session_callback(ctx, psk_on_client);
    SSL_CTX_set_psk_find_session_callback(ctx, psk_on_server);
    /* A peer with a certificate instead of the secret fails, because no certificate is trusted. */
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    bool ok = psk_add(keys, secret) && (slice_is_null(other) || psk_add(keys, other)) &&
              SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
              SSL_CTX_set_ciphersuites(ctx, SUITE) == 1 &&
              SSL_CTX_set_session_id_context(ctx, identity, sizeof identity) == 1;
    return ok ? 0 : CONCLAVE_ENOMEM;
}
