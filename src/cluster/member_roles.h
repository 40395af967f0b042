/*
 * Converts a member between the log's configuration and the state. The two number the roles differently, each as in its
 * files; only this file knows both numberings.
 */
#ifndef CLUSTER_MEMBER_ROLES_H
#define CLUSTER_MEMBER_ROLES_H

#include "replication/disk/configuration.h"
#include "state/members/members.h"

/* The address is borrowed. */
struct state_member member_of_log(const struct configuration_member *member);
struct configuration_member member_of_state(const struct state_member *member);

#endif
