/* The log lines of the replication room, which does not log itself, with what the operator should do, and those about roles and links. */
#ifndef CLUSTER_REPLICATION_NOTES_H
#define CLUSTER_REPLICATION_NOTES_H

#include "replication/replication.h"

#include <stdbool.h>
#include <stdint.h>

/* The callback `note` of struct replication_callbacks. */
void replication_notes_log(void *ctx, bool warning, const char *event, const char *text);

/* leader: the number of a member, 0: unknown. */
void replication_notes_role(enum replication_role role, unsigned long long leader, uint64_t term);

/* member: its number. */
void replication_notes_link(unsigned long long member, bool up);

#endif
