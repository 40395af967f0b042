#include "tls/scrypt.h"

#include "base/random.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    SALT_SIZE = 16,
    SALT_MAX = 64,
    LOG_N = 15, /* with BLOCKS: 32 MiB */
    LOG_N_MAX = 20,
    BLOCKS = 8,
};

struct scrypt_form {
    unsigned log_n;
    unsigned r;
    unsigned p;
    uint8_t salt[SALT_MAX];
    size_t salt_len;
    uint8_t key[SCRYPT_KEY_SIZE];
};

static int scrypt_run(struct slice password, const struct scrypt_form *f,
                      uint8_t ret_key[SCRYPT_KEY_SIZE])
{
    static const char none[1] = "";
    assert(f->salt_len <= sizeof f->salt && f->log_n <= LOG_N_MAX);
    const char *text = password.len > 0 ? (const char *)password.data : none;
    int ok =
        EVP_PBE_scrypt(text, password.len, f->salt, f->salt_len, UINT64_C(1) << f->log_n, f->r,
                       f->p, (uint64_t)SCRYPT_MEMORY_MAX + (1 << 20), ret_key, SCRYPT_KEY_SIZE);
    return ok == 1 ? 0 : CONCLAVE_ENOMEM;
}

/* base64 without '=' */

static void scrypt_encode(struct buf *out, const uint8_t *bytes, size_t len)
{
    unsigned char text[4 * (SALT_MAX + 2) / 3 + 4];
    assert(len <= SALT_MAX);
    int n = EVP_EncodeBlock(text, bytes, (int)len);
    while (n > 0 && text[n - 1] == '=') {
        n--;
    }
    buf_append(out, text, (size_t)n);
}

/* False: not base64, or too long. */
static bool decode(struct slice text, uint8_t *out, size_t room, size_t *ret_len)
{
    unsigned char padded[128];
    unsigned char bytes[128];
    size_t len = text.len;
    if (len == 0 || len > 4 * ((room + 2) / 3) || len % 4 == 1 || len + 3 > sizeof padded) {
        return false;
    }
    memcpy(padded, text.data, len);
    while (len % 4 != 0) {
        padded[len++] = '=';
    }
    int n = EVP_DecodeBlock(bytes, padded, (int)len);
    *ret_len = text.len / 4 * 3 + (text.len % 4 == 0 ? 0 : text.len % 4 - 1);
    /* OpenSSL skips white space at both ends. */
    if (n < 0 || (size_t)n < *ret_len || *ret_len > room) {
        return false;
    }
    memcpy(out, bytes, *ret_len);
    return true;
}

static bool scrypt_parse(const char *text, struct scrypt_form *ret)
{
    int at = 0;
    size_t key_len;
    if (strlen(text) >= SCRYPT_TEXT_MAX ||
        /* NOLINTNEXTLINE(cert-err34-c): two digits do not overflow */
        sscanf(text, "$scrypt$ln=%2u,r=%2u,p=%2u$%n", &ret->log_n, &ret->r, &ret->p, &at) != 3 ||
        at == 0) {
        return false;
    }
    const char *salt = text + at;
    size_t len = strcspn(salt, "$");
    bool cheap = ret->log_n < 10 || ret->r < 1 || ret->p < 1;
    bool costly = ret->log_n > LOG_N_MAX || ret->p > 16 ||
                  ((uint64_t)128 * ret->r << ret->log_n) > SCRYPT_MEMORY_MAX;
    return !cheap && !costly && salt[len] == '$' &&
           decode(slice_make(salt, len), ret->salt, sizeof ret->salt, &ret->salt_len) &&
           decode(slice_str(salt + len + 1), ret->key, sizeof ret->key, &key_len) &&
           key_len == sizeof ret->key;
}

bool scrypt_is_hash(const char *text)
{
    struct scrypt_form f;
    return scrypt_parse(text, &f);
}

int scrypt_hash(struct slice password, struct buf *out)
{
    struct scrypt_form f = {.log_n = LOG_N, .r = BLOCKS, .p = 1, .salt_len = SALT_SIZE};
    random_bytes(f.salt, SALT_SIZE);
    int rc = scrypt_run(password, &f, f.key);
    if (rc == 0) {
        buf_printf(out, "$scrypt$ln=%u,r=%u,p=%u$", f.log_n, f.r, f.p);
        scrypt_encode(out, f.salt, f.salt_len);
        buf_append_u8(out, '$');
        scrypt_encode(out, f.key, sizeof f.key);
    }
    OPENSSL_cleanse(&f, sizeof f);
    return rc == 0 && !buf_ok(out) ? CONCLAVE_ENOMEM : rc;
}

int scrypt_check(const char *text, struct slice password)
{
    struct scrypt_form f;
    uint8_t key[SCRYPT_KEY_SIZE];
    if (!scrypt_parse(text, &f)) {
        return CONCLAVE_EINVAL;
    }
    int rc = scrypt_run(password, &f, key);
    if (rc == 0 && CRYPTO_memcmp(key, f.key, sizeof key) != 0) {
        rc = CONCLAVE_AUTH_FAILED;
    }
    OPENSSL_cleanse(key, sizeof key);
    return rc;
}

int scrypt_stretch(struct slice secret, const char *purpose, uint8_t ret_key[SCRYPT_KEY_SIZE])
{
    struct scrypt_form f = {.log_n = LOG_N, .r = BLOCKS, .p = 1};
    f.salt_len = strnlen(purpose, SALT_MAX);
    memcpy(f.salt, purpose, f.salt_len);
    return scrypt_run(secret, &f, ret_key);
}
