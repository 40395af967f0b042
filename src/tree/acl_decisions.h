/*
 * What callers may do by which lists, decided once for each list and caller and remembered while a command lasts: without
 * it a command costs its parts times the entries of a list times the ids of its caller. A long list is sorted into tables
 * before it is asked, so that one more caller costs its ids and no longer the entries. The answers are those of
 * acl_rules.h.
 *
 * Limits: 1,024 answers and 4 sorted lists are kept; what does not fit is decided again. Out of memory, a list is
 * asked as it is.
 */
#ifndef TREE_ACL_DECISIONS_H
#define TREE_ACL_DECISIONS_H

#include "base/hash.h"
#include "wire/ops.h"

struct acl_decisions;

/* NULL when memory is out. The key is random, because callers choose the contents of the tables. */
struct acl_decisions *acl_decisions_create(const struct hash_key *key);
void acl_decisions_destroy(struct acl_decisions *d);

/* Forgets everything: another command, or ids that changed. */
void acl_decisions_begin(struct acl_decisions *d);

/* As acl_permits. number: of the list in its table; caller: distinguishes the callers between two begins. */
bool acl_decisions_permit(struct acl_decisions *d, uint32_t number, struct wire_vector acl,
                          uint64_t caller, struct wire_vector ids, int32_t perms);

#endif
