#include "front/login/kerberos.h"

#include "base/foreign/late_library.h"

#include <krb5.h>

#include <stdlib.h>
#include <string.h>

#define KRB5(F)                                                                                    \
    F(krb5_init_context) F(krb5_get_default_realm) F(krb5_free_default_realm) F(krb5_free_context)
LATE_LIBRARY(krb5, KRB5, "libkrb5.so.3")

/* An unreadable krb5.conf, or no library, is not an error here: the first login logs it. Without the file there is no
 * default realm, so every name keeps its realm. */
int kerberos_default_realm(char **ret)
{
    krb5_context context = NULL;
    char *realm = NULL;
    const struct krb5_functions *krb5 = krb5_load();
    if (krb5 != NULL && krb5->krb5_init_context(&context) == 0) {
        if (krb5->krb5_get_default_realm(context, &realm) != 0) {
            realm = NULL;
        }
    }
    char *copy = strdup(realm != NULL ? realm : "");
    if (realm != NULL) {
        krb5->krb5_free_default_realm(context, realm);
    }
    if (context != NULL) {
        krb5->krb5_free_context(context);
    }
    if (copy == NULL) {
        return CONCLAVE_ENOMEM;
    }
    *ret = copy;
    return 0;
}
