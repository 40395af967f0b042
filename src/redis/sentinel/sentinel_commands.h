/* The table of commands of Sentinel's protocol. */
#ifndef REDIS_SENTINEL_SENTINEL_COMMANDS_H
#define REDIS_SENTINEL_SENTINEL_COMMANDS_H

#include "redis/sentinel/sentinel_request.h"
#include "redis/sentinel/sentinel_session.h"

/* Answers one request of at least one word. */
void sentinel_command(struct sentinel_session *s, const struct sentinel_request *request,
                      struct sentinel_out *out);

#endif
