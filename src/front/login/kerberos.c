#include "front/login/kerberos.h"

#include <krb5.h>

#include <stdlib.h>
#include <string.h>

/* An unreadable krb5.conf is not an error here: the first login logs it. Without the file there is no default realm, so
 * every name keeps its realm. */
int kerberos_default_realm(char **ret)
{
    krb5_context context = NULL;
    char *realm = NULL;
    if (krb5_init_context(&context) == 0) {
        if (krb5_get_default_realm(context, &realm) != 0) {
            realm = NULL;
        }
    }
    char *copy = strdup(realm != NULL ? realm : "");
    if (realm != NULL) {
        krb5_free_default_realm(context, realm);
    }
    if (context != NULL) {
        krb5_free_context(context);
    }
    if (copy == NULL) {
        return CONCLAVE_ENOMEM;
    }
    *ret = copy;
    return 0;
}
