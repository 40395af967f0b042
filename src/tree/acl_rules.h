/*
 * Who may do what, and which lists may be stored: the rules of Apache ZooKeeper's checkACL,
 * fixupACL and its built-in providers (world, ip, digest, super, auth). One place for all of it.
 */
#ifndef TREE_ACL_RULES_H
#define TREE_ACL_RULES_H

#include "tree/acl.h"
#include "wire/ops.h"

/*
 * Whether a caller with these ids has one of the permissions `perms` (enum wire_perm bits) by the
 * list. An empty list permits all, as does the id with scheme "super".
 */
bool acl_permits(struct wire_vector acl, struct wire_vector ids, int32_t perms);

/*
 * Makes the list that is stored of the list that was asked for: duplicates removed, "auth" replaced
 * by the caller's authenticated ids. Appends the entries to out and counts them. 0,
 * CONCLAVE_INVALID_ACL, CONCLAVE_MARSHALLING_ERROR for a null where ZooKeeper meets none, or
 * CONCLAVE_ENOMEM.
 */
int acl_fixup(struct wire_vector asked, struct wire_vector ids, struct buf *out,
              int32_t *ret_count) CONCLAVE_MUST_USE;

/* Appends the list with the digests of its digest entries hidden ("user:x"): for who may not see
 * them. */
void acl_redact(struct wire_vector acl, struct buf *out);

#endif
