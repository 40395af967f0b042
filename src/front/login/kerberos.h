/* The machine's Kerberos settings that the server needs besides Cyrus SASL. */
#ifndef FRONT_LOGIN_KERBEROS_H
#define FRONT_LOGIN_KERBEROS_H

#include <conclave/error.h>

/* The default realm of krb5.conf; "": none; free it. 0 or CONCLAVE_ENOMEM. */
int kerberos_default_realm(char **ret) CONCLAVE_MUST_USE;

#endif
