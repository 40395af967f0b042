/*
 * Who may do what, and which lists may be stored: the rules of Apache ZooKeeper's checkACL,
 * fixupACL and its built-in providers (world, ip, digest, sasl, x509, super, auth). One place for
 * all of it.
 *
 * Configuration decides nothing here, so that all servers decide alike: what a server is configured
 * to permit comes with the call, as it was stamped on the command or put among the caller's ids.
 */
#ifndef TREE_ACL_RULES_H
#define TREE_ACL_RULES_H

#include "tree/acl.h"
#include "wire/ops.h"

/* Schemes whose ids may stand in lists only where they are switched on, as bits. An entry that
 * stands there already goes on to count. */
enum acl_schemes {
    ACL_SCHEME_SASL = 1,
    ACL_SCHEME_X509 = 2,
    ACL_NO_DIGEST = 4, /* digest, which is on elsewhere, is off */
};

/*
 * Scheme of an id that a caller may have beside those that it proved: it gives what the entries
 * sasl:ID give, but "auth" does not stand for it, so that it never gets into a list. The server
 * adds it for letAnySaslUserDoX; no request can.
 */
#define ACL_SCHEME_SASL_GRANT "sasl-grant"

/*
 * Whether a caller with these ids has one of the permissions `perms` (enum wire_perm bits) by the
 * list. An empty list permits all, as does the id with scheme "super".
 */
bool acl_permits(struct wire_vector acl, struct wire_vector ids, int32_t perms);

/* The permissions that a caller with these ids has by the list, as bits; all bits are set when acl_permits is true for
 * every perms. */
int32_t acl_granted(struct wire_vector acl, struct wire_vector ids);

/* Whether entries of the scheme match the ids that are equal to theirs (and in sasl, the id "super"). */
bool acl_scheme_exact(struct slice scheme);

/* What one list may grow to, counted before duplicates go and with "auth" replaced. */
struct acl_limits {
    int64_t entries;
    int64_t bytes;
};

/* Counts a list that was asked for as it would be stored. False when it passes the limits, *ret_bytes is not set then;
 * acl_fixup reports all other errors of the list. */
bool acl_measure(struct wire_vector asked, struct wire_vector ids, const struct acl_limits *limits,
                 int64_t *ret_bytes);

/*
 * Makes the list that is stored of the list that was asked for: duplicates removed, "auth" replaced
 * by the caller's authenticated ids. on: the bits of enum acl_schemes that are on; an entry of
 * another is invalid, and "auth" does not stand for ids of it. Appends the entries to out and
 * counts them. key: of the table that looks for duplicates. Permissions are stored as they come, none and unknown ones
 * too, as in ZooKeeper. 0, CONCLAVE_INVALID_ACL, CONCLAVE_MARSHALLING_ERROR for a null where ZooKeeper meets none, or
 * CONCLAVE_ENOMEM.
 */
int acl_fixup(struct wire_vector asked, struct wire_vector ids, uint32_t on,
              const struct hash_key *key, struct buf *out, int32_t *ret_count) CONCLAVE_MUST_USE;

/* Appends the list with the digests of its digest entries hidden ("user:x"): for who may not see
 * them. */
void acl_redact(struct wire_vector acl, struct buf *out);

#endif
