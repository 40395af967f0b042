/*
 * Names as Kerberos writes them: NAME, NAME@REALM or NAME/HOST@REALM. What ids of the scheme sasl
 * look like. Source: KerberosName of Apache ZooKeeper 3.9.
 */
#ifndef TREE_PRINCIPAL_H
#define TREE_PRINCIPAL_H

#include "base/slice.h"

struct principal {
    struct slice name;  /* the first component; all of it when there is no realm */
    struct slice host;  /* the second, or null */
    struct slice realm; /* or null */
};

/* Takes a name apart; the parts borrow from it. False when it has an @ but is none of the forms
 * above. */
bool principal_parse(struct slice text, struct principal *ret);

#endif
