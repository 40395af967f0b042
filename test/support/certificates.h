/*
 * Certificates for tests, made in memory with keys of the curve P-256, written as PEM files into a
 * folder of the test. Any failure fails the test.
 */
#ifndef SUPPORT_CERTIFICATES_H
#define SUPPORT_CERTIFICATES_H

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <stdbool.h>

struct certificate {
    X509 *cert;
    EVP_PKEY *key;
};

/* CN=cn, valid from two days ago for `days` from now (negative: expired). issuer NULL:
 * self-signed. san as in openssl's configuration ("DNS:a,IP:127.0.0.1") or NULL. */
void certificate_make(struct certificate *ret, const struct certificate *issuer, const char *cn,
                      const char *san, int days, bool ca);
void certificate_finish(struct certificate *c);

/* Folder for the files, made once for the process; certificate_folder_remove removes it. */
const char *certificate_folder(void);
void certificate_folder_remove(void);

/* "folder/name"; valid for the next seven calls. */
const char *certificate_path(const char *name);

/* Writes into the folder; returns as certificate_path. */
const char *certificate_write_cert(const struct certificate *c, const char *name, bool append);
const char *certificate_write_key(const struct certificate *c, const char *name, bool append,
                                  const char *password);
const char *certificate_write_pkcs12(const struct certificate *c, const struct certificate *ca,
                                     const char *name, const char *password);
const char *certificate_write_crl(const struct certificate *ca, const struct certificate *revoked,
                                  const char *name);
const char *certificate_write_bytes(const void *bytes, size_t len, const char *name);

#endif
