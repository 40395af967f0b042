/*
 * A member as the log's configuration has it and as the state has it. The two number the roles differently, each as its
 * files have them on disk; only this file knows both.
 */
#ifndef CLUSTER_MEMBER_ROLES_H
#define CLUSTER_MEMBER_ROLES_H

#include "replication/disk/configuration.h"
#include "state/members/members.h"

/* The address is borrowed. */
struct state_member member_of_log(const struct configuration_member *member);
struct configuration_member member_of_state(const struct state_member *member);

#endif
