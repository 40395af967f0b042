/*
 * Why sessions ended, as this server knows it (session/cause.h), in JSON.
 *
 * One session: {"server", "mode", "time_ms", "session", "recording", "lives", "record"}: `recording` is false with
 * maxEndedSessions=0; `lives`: this server knows the session as alive; `record` is null without one, else
 * {"cause", "weight", "verdict", "at_ms", "client", "by", "facts", "notes"}. Of the records of several servers, the one
 * with the greatest weight says most. `facts` are numbers (null: unknown), `notes` the same as sentences.
 *
 * All: {"server", "time_ms", "recording", "lost": [...], "orderly": [...], "left_out"}, newest first; the items have
 * "session", "cause", "verdict", "at_ms", "client". `orderly` are those that clients closed or moved.
 */
#ifndef ADMIN_ANSWERS_SESSION_ANSWERS_H
#define ADMIN_ANSWERS_SESSION_ANSWERS_H

#include "admin/answers/server_view.h"
#include "base/json.h"

void session_answer_why(const struct view *v, int64_t id, struct json *j);
void session_answer_ended(const struct view *v, struct json *j);

#endif
