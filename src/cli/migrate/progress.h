/* How far a command is, on stderr if that is a terminal. */
#ifndef CLI_MIGRATE_PROGRESS_H
#define CLI_MIGRATE_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

struct node_progress {
    const char *doing; /* "writing" */
    size_t total;      /* nodes; 0: unknown */
    int64_t shown_ms;  /* when it was shown last; 0: never */
};

/* Begins a step: shows it at once. */
void progress_begin(struct node_progress *p, const char *doing, size_t total);

/* Callback: so many nodes are done. ctx: struct node_progress. */
void progress_told(void *ctx, size_t nodes);

/* Takes the line back. */
void progress_end(struct node_progress *p);

#endif
