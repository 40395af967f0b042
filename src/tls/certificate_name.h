/* The names in certificates, as text. */
#ifndef TLS_CERTIFICATE_NAME_H
#define TLS_CERTIFICATE_NAME_H

#include "base/buf.h"

#include <openssl/x509.h>

/*
 * Appends a distinguished name as Java's X500Principal.getName prints it (RFC 2253: last part first, "CN=…,O=…"). The
 * text is an id in ACLs, so it must be the same on every server. Attributes without a keyword in RFC 2253 are printed
 * as OID=#hex. T61 and BMP strings are decoded properly; Java takes their bytes for UTF-8, which makes different names
 * equal. The buf records a failure.
 */
void certificate_name_print(const X509_NAME *name, struct buf *out);

/* Makes foreign bytes fit for a quoted text in a log line: control characters and quotes become '?'. */
void certificate_name_clean(char *text);

#endif
