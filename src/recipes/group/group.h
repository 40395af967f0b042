/* A group's view as the public structs have it, made from a mirror's: shared by group.c, by the
 * acknowledgements of a configuration and by group_members.c. */
#ifndef RECIPES_GROUP_GROUP_H
#define RECIPES_GROUP_GROUP_H

#include "recipes/engine/tree_mirror.h"

#include <conclave/group.h>

/* The members of a view, pointing into it; self: path of the own node below the group and the
 * session that owns it, or NULL. *ret is freed with free. 0 or CONCLAVE_ENOMEM. */
int members_of_view(const struct mirror_view *view, const char *self, int64_t self_czxid,
                    struct conclave_member ***ret, size_t *ret_count) CONCLAVE_MUST_USE;

#endif
