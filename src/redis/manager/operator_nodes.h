/*
 * The nodes that the leading manager writes for people: ROOT/events, ROOT/config and, by option, the Ruby gem's node.
 * It keeps the newest REDIS_EVENTS_KEPT events and results. No fail-over depends on it: a failed write is tried again
 * with the next event, or left out.
 */
#ifndef REDIS_MANAGER_OPERATOR_NODES_H
#define REDIS_MANAGER_OPERATOR_NODES_H

#include "redis/manager/cluster_znodes.h"

struct redis_journal;

/* gem_root: NULL, no node for the gem. 0 or CONCLAVE_ENOMEM. */
int redis_journal_create(struct redis_store *store, const struct redis_config *config,
                         const char *gem_root, struct redis_journal **ret) CONCLAVE_MUST_USE;
/* Requests under way end before the store's on_closed. Takes NULL. */
void redis_journal_destroy(struct redis_journal *journal);

/* A term begins: writes the configuration and trims the folders. */
void redis_journal_begin(struct redis_journal *journal);

void redis_journal_event(struct redis_journal *journal, const struct redis_event *event);

/* Brings the gem's node up to date with `current`. Call it again and again: a call repeats what failed before. */
void redis_journal_current(struct redis_journal *journal, const struct redis_current *current);

/* Turns the gem's request for a manual fail-over into one of ours. */
void redis_journal_gem_request(struct redis_journal *journal, const struct redis_request *request,
                               int32_t version, int64_t wall_ms);

/* Answers a request that cannot be read, and removes it. */
void redis_journal_refuse(struct redis_journal *journal, const char *name);

/* A result was written: its folder has grown. */
void redis_journal_result(struct redis_journal *journal);

#endif
