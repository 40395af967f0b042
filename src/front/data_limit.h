/*
 * The limit on the memory of the replicated state (maxDataBytes). Near the limit a server warns. At the limit it
 * refuses writes of its own clients that add to the state, before they go into the log, until enough was deleted.
 * Writes that remove or shrink data, and all session requests, still work.
 *
 *   NORMAL ──4/5──> NEAR ──all, or a write would pass it──> REACHED
 *          <──7/10──     <──────────9/10───────────────────
 *
 * The server that receives a write decides, by its own state and its own limit. apply never decides, so members may
 * have different limits. Writes of other members count when they are applied here.
 */
#ifndef FRONT_DATA_LIMIT_H
#define FRONT_DATA_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct request;
struct service;

enum data_level { DATA_NORMAL, DATA_NEAR, DATA_REACHED };

/* Sets the level after a change of the state, with a log line when the level changes. */
void data_limit_follow(struct service *s);

/* Whether to refuse a client's write. */
bool data_limit_refuses(struct service *s, const struct request *r);

/* A warning for operators, as a fixed text; NULL: none. */
const char *data_limit_warning(const struct service *s);

#endif
