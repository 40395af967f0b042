/*
 * The certificates of a port: read at the start, again on request, and optionally when a file changes. New files count
 * for new connections; existing connections keep theirs. If files are unusable, the old certificates stay in use, with
 * a log line, and the files are tried again when they change.
 */
#ifndef FRONT_LOGIN_PORT_CERTIFICATES_H
#define FRONT_LOGIN_PORT_CERTIFICATES_H

#include "tls/context.h"

#include <uv.h>

struct port_certificates;

/* Called with each new context, first inside port_certificates_open: share it to keep it. */
typedef void (*port_certificates_fn)(void *ctx, struct tls_context *context);

/*
 * Reads the files; with `watch` looks at them every two seconds. Borrows the strings of settings until
 * port_certificates_close. 0, or an error with *ret_text (free it): CONCLAVE_EINVAL, CONCLAVE_ENOMEM; after an error
 * nothing is open.
 */
int port_certificates_open(uv_loop_t *loop, const struct tls_settings *settings, bool watch,
                           port_certificates_fn fn, void *ctx, struct port_certificates **ret,
                           char **ret_text) CONCLAVE_MUST_USE;

/* When the certificate in use ends, in seconds since 1970; 0: there is none. */
int64_t port_certificates_until_s(const struct port_certificates *s);

/* Reads the files now. 0, or an error with *ret_text (free it), and a log line: the old certificates stay in use. */
int port_certificates_reload(struct port_certificates *s, char **ret_text) CONCLAVE_MUST_USE;

/* Frees s when the loop has closed its timer, then calls cb. NULL does nothing. */
void port_certificates_close(struct port_certificates *s, void (*cb)(void *ctx), void *ctx);

#endif
