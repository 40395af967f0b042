/*
 * The AdminServer's commands snapshot and restore: the newest state as a file, and back. Both off unless the
 * configuration says otherwise, for admitted identities only (http_login.h), each once in an interval, one at a time.
 *
 *   GET  snapshot[?streaming=false]   takes a snapshot; the file, or without streaming what it is called
 *   POST restore                      takes such a file; done when the replacement has come through the log
 *
 * Limits: a file that is taken back has at most RESTORE_MAX bytes, and is in memory. Reading a file to send it is work of
 * the loop's thread; what was just written is in the kernel's memory.
 */
#ifndef ADMIN_HTTP_SNAPSHOT_ROUTE_H
#define ADMIN_HTTP_SNAPSHOT_ROUTE_H

#include <uv.h>

#include "admin/answers/server_view.h"
#include "admin/http/http_exchange.h"
#include "admin/http/http_login.h"

enum { RESTORE_MAX = 400 << 20 };

struct backup;

/* NULL when memory is out. Borrows both. */
struct backup *backup_create(uv_loop_t *loop, struct view *v, struct admission *admission);

/* Whether a command of this name is one of the two, by any of its names; answers it, perhaps later. */
bool backup_answer(struct backup *b, const char *name, const struct http_request *request,
                   struct http_response *response);

/* Gives up what waits: it is answered. */
void backup_cancel(struct backup *b);

/* Cancels, frees b and calls cb from the loop. Takes NULL without a call. */
void backup_close(struct backup *b, void (*cb)(void *ctx), void *ctx);

#endif
