/* The names in certificates, as text. */
#ifndef TLS_CERTIFICATE_NAME_H
#define TLS_CERTIFICATE_NAME_H

#include "base/buf.h"

#include <openssl/x509.h>

/*
 * Appends a distinguished name as Java's X500Principal.getName prints it (RFC 2253: last part
 * first, "CN=…,O=…"), because that text is an id in ACLs: it must be the same whichever server
 * wrote it. Attributes without a keyword in RFC 2253 are printed as OID=#hex. Unlike Java, which
 * takes the bytes of T61 and BMP strings for UTF-8 and so makes different names alike, those are
 * decoded as what they are. A failed append shows in the buf's mark.
 */
void certificate_name_print(const X509_NAME *name, struct buf *out);

/* Makes a text from foreign bytes fit to stand between quotes in one log line: control characters
 * and quotes become '?'. */
void certificate_name_clean(char *text);

#endif
