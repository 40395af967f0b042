/*
 * Converts a member between the log's configuration and the state, or from the options. The first two number the roles differently, each as in its
 * files; only this file knows both numberings.
 */
#ifndef CLUSTER_MEMBER_ROLES_H
#define CLUSTER_MEMBER_ROLES_H

#include "base/buf.h"
#include "cluster/ensemble_options.h"
#include "replication/disk/configuration.h"
#include "state/members/members.h"

/* The address is borrowed. */
struct state_member member_of_log(const struct configuration_member *member);
struct configuration_member member_of_state(const struct state_member *member);

/* The configured members in the log's form; their addresses are in `text`, which the caller has initialised. 0 or
 * CONCLAVE_ENOMEM. */
int members_of_options(const struct ensemble_options *e, struct buf *text,
                       struct configuration_member ret[MEMBERS_MAX],
                       size_t *ret_count) CONCLAVE_MUST_USE;

#endif
