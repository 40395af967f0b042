/* ACLs from programs. */
#ifndef CLIENT_CORE_ACL_H
#define CLIENT_CORE_ACL_H

#include <conclave/node.h>

#include <stdbool.h>
#include <stddef.h>

/* Whether every entry has its strings; NULL without entries is valid, too. */
bool acl_is_valid(const struct conclave_acl *acl, size_t count);

/* The list with its strings in one block: free it with free. count is not 0. NULL: out of memory. */
struct conclave_acl *acl_copy(const struct conclave_acl *acl, size_t count);

/* The same for the ACL of an option, which may be missing: then *ret is NULL and *ret_count 0. False: out of memory,
 * and both are as if it were missing. */
bool acl_copy_option(const struct conclave_acl *acl, size_t count, struct conclave_acl **ret,
                     size_t *ret_count);

#endif
