/* The log lines of the replication room, which does not log itself, with what the operator should do. */
#ifndef CLUSTER_REPLICATION_NOTES_H
#define CLUSTER_REPLICATION_NOTES_H

#include <stdbool.h>

/* The callback `note` of struct replication_callbacks. */
void replication_notes_log(void *ctx, bool warning, const char *event, const char *text);

#endif
