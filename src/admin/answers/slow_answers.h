/*
 * The slow log (front/limits/slow_log.h) in JSON:
 *
 *   {"server", "time_ms", "threshold_ms" (0: off), "total" (slow requests since the start), "requests": [...]}
 *
 * The newest request comes first: {"at_ms" (wall time of its answer), "ms", "slowest" (the part that took longest),
 * "parts_ms": {"queue", "forward", "disk", "quorum", "apply", "send"}, "operation", "session", "xid", "client", "path",
 * "path_cut", "count"}. client is null if it was gone, path is null if the request has none or it is not known. count: so
 * many requests were answered together, and this is the last of them.
 */
#ifndef ADMIN_ANSWERS_SLOW_ANSWERS_H
#define ADMIN_ANSWERS_SLOW_ANSWERS_H

#include "admin/answers/server_view.h"
#include "base/json.h"

void slow_answer(const struct view *v, struct json *j);

#endif
