/*
 * What the leading manager leaves behind for people: ROOT/events, ROOT/config and, by option, the Ruby gem's node. Its
 * folders do not grow without end: of events and results the newest REDIS_EVENTS_KEPT stay. Nothing here decides a
 * fail-over; what cannot be written is tried again with the next event, or left out.
 */
#ifndef REDIS_MANAGER_OPERATOR_NODES_H
#define REDIS_MANAGER_OPERATOR_NODES_H

#include "redis/manager/cluster_znodes.h"

struct redis_journal;

/* gem_root: NULL, no node for the gem. 0 or CONCLAVE_ENOMEM. */
int redis_journal_create(struct redis_store *store, const struct redis_config *config,
                         const char *gem_root, struct redis_journal **ret) CONCLAVE_MUST_USE;
/* What is under way ends by itself, before the store's on_closed. Takes NULL. */
void redis_journal_destroy(struct redis_journal *journal);

/* A term begins: what this manager goes by is written, folders are cut. */
void redis_journal_begin(struct redis_journal *journal);

void redis_journal_event(struct redis_journal *journal, const struct redis_event *event);

/* Has the gem's node follow `current`, if it does not yet. To be called again and again: what goes wrong is made again by the
 * next call. */
void redis_journal_current(struct redis_journal *journal, const struct redis_current *current);

/* Takes the gem's wish for a manual fail-over over into requests. */
void redis_journal_gem_request(struct redis_journal *journal, const struct redis_request *request,
                               int32_t version, int64_t wall_ms);

/* Answers a request that cannot be read, and removes it. */
void redis_journal_refuse(struct redis_journal *journal, const char *name);

/* A result was written: its folder grows. */
void redis_journal_result(struct redis_journal *journal);

#endif
