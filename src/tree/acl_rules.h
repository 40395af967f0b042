/*
 * The rules for permissions and for storing lists: those of Apache ZooKeeper's checkACL, fixupACL and its built-in
 * providers (world, ip, digest, sasl, x509, super, auth), all in one place.
 *
 * The configuration decides nothing here, so that all servers decide alike: what a server permits comes with the call,
 * as stamped on the command or among the caller's ids.
 */
#ifndef TREE_ACL_RULES_H
#define TREE_ACL_RULES_H

#include "tree/acl.h"
#include "wire/ops.h"

/* Schemes whose ids are allowed in new lists only where they are switched on, as bits. Existing entries stay valid. */
enum acl_schemes {
    ACL_SCHEME_SASL = 1,
    ACL_SCHEME_X509 = 2,
    ACL_NO_DIGEST = 4, /* digest, which is on by default, is off */
};

/*
 * Scheme of an id that the server gives a caller besides the proved ones, for letAnySaslUserDoX; no request can add it.
 * It has the permissions of the entries sasl:ID, but "auth" does not include it, so that it never gets into a list.
 */
#define ACL_SCHEME_SASL_GRANT "sasl-grant"

/*
 * Whether the list gives a caller with these ids one of the permissions `perms` (enum wire_perm bits). An empty list
 * permits everything, and so does the id with scheme "super".
 */
bool acl_permits(struct wire_vector acl, struct wire_vector ids, int32_t perms);

/* The permissions of a caller with these ids by the list, as bits; all bits are set if acl_permits is true for every
 * perms. */
int32_t acl_granted(struct wire_vector acl, struct wire_vector ids);

/* Whether entries of the scheme match only equal ids (and in sasl, the id "super"). */
bool acl_scheme_exact(struct slice scheme);

/* Limits of one list, counted before duplicates are removed and with "auth" replaced. */
struct acl_limits {
    int64_t entries;
    int64_t bytes;
};

/* Counts a requested list as it would be stored. False: it exceeds the limits, and *ret_bytes is not set; acl_fixup
 * reports all other errors of the list. */
bool acl_measure(struct wire_vector asked, struct wire_vector ids, const struct acl_limits *limits,
                 int64_t *ret_bytes);

/*
 * Makes the list to store from the requested one: without duplicates, and with "auth" replaced by the caller's
 * authenticated ids. on: the bits of enum acl_schemes that are on; an entry of another scheme is invalid, and "auth"
 * does not include such ids. Appends the entries to out and counts them. key: for the table that finds duplicates.
 * Permissions are stored as given, also none and unknown ones, as in ZooKeeper. 0, CONCLAVE_INVALID_ACL,
 * CONCLAVE_MARSHALLING_ERROR (a null where ZooKeeper expects none), or CONCLAVE_ENOMEM.
 */
int acl_fixup(struct wire_vector asked, struct wire_vector ids, uint32_t on,
              const struct hash_key *key, struct buf *out, int32_t *ret_count) CONCLAVE_MUST_USE;

/* Appends the list with hidden digests ("user:x"), for callers that must not see them. */
void acl_redact(struct wire_vector acl, struct buf *out);

#endif
