/*
 * The limit on the memory of the replicated state (maxDataBytes). A server that comes near it says so; one that
 * reaches it refuses the writes of its own clients that add to the state, before they go into the log, until
 * enough was deleted. What removes or shrinks, and everything about sessions, goes on.
 *
 *   NORMAL ──4/5──> NEAR ──all, or a write would pass it──> REACHED
 *          <──7/10──     <──────────9/10───────────────────
 *
 * The server that takes a write in decides, by its own state and its own limit; apply never does, so members may
 * have different limits. What other members take in counts once it is applied here.
 */
#ifndef FRONT_DATA_LIMIT_H
#define FRONT_DATA_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct request;
struct service;

enum data_level { DATA_NORMAL, DATA_NEAR, DATA_REACHED };

/* The state has changed: the level follows, with a log line when it changes. */
void data_limit_follow(struct service *s);

/* Whether a client's write is to be refused. */
bool data_limit_refuses(struct service *s, const struct request *r);

/* What operators should know, as a fixed text; NULL: nothing. */
const char *data_limit_warning(const struct service *s);

#endif
