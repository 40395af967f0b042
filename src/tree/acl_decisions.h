/*
 * Permissions of callers by lists, decided once for each list and caller and remembered during a command. Without that
 * a command would cost its parts times the entries of a list times the ids of its caller. A long list is first sorted
 * into a table, so that a further caller costs only its ids. The answers are those of acl_rules.h.
 *
 * Limits: 1,024 answers and 4 sorted lists are kept; the rest is decided again. Out of memory, a list is searched
 * unsorted.
 */
#ifndef TREE_ACL_DECISIONS_H
#define TREE_ACL_DECISIONS_H

#include "base/hash.h"
#include "wire/ops.h"

struct acl_decisions;

/* NULL: out of memory. The key is random, because callers choose the contents of the tables. */
struct acl_decisions *acl_decisions_create(const struct hash_key *key);
void acl_decisions_destroy(struct acl_decisions *d);

/* Forgets everything: for another command, or if ids changed. */
void acl_decisions_begin(struct acl_decisions *d);

/* As acl_permits. number: number of the list in its table; caller: identifies the caller until the next begin. */
bool acl_decisions_permit(struct acl_decisions *d, uint32_t number, struct wire_vector acl,
                          uint64_t caller, struct wire_vector ids, int32_t perms);

#endif
