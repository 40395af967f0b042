/*
 * Names in Kerberos' form: NAME, NAME@REALM or NAME/HOST@REALM, as ids of the scheme sasl have. Source: KerberosName of
 * Apache ZooKeeper 3.9.
 */
#ifndef TREE_PRINCIPAL_H
#define TREE_PRINCIPAL_H

#include "base/slice.h"

struct principal {
    struct slice name;  /* the first component; the whole name if there is no realm */
    struct slice host;  /* the second component, or null */
    struct slice realm; /* or null */
};

/* Splits a name; the parts borrow from it. False: it has an @, but none of the forms above. */
bool principal_parse(struct slice text, struct principal *ret);

#endif
