/* The OpenSSL part of a context, only for tls.c. */
#ifndef TLS_CONTEXT_SSL_H
#define TLS_CONTEXT_SSL_H

#include "tls/context.h"

#include <openssl/ssl.h>

/* A new connection's SSL (SSL_free it); NULL: out of memory. Also returns whether it is a server's, and whether it uses
 * a shared secret. */
SSL *tls_context_new_ssl(struct tls_context *c, bool *ret_server, bool *ret_secret);

#endif
