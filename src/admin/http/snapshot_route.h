/*
 * The AdminServer's commands snapshot and restore: download the newest state as a file, and upload it again. Both are
 * off by default, and only for admitted identities (http_login.h); each runs once per interval, one at a time.
 *
 *   GET  snapshot[?streaming=false]   takes a snapshot; the answer is the file, or without streaming its name
 *   POST restore                      uploads such a file; answered when the replacement was applied from the log
 *
 * Limits: an uploaded file has at most RESTORE_MAX bytes, and is in memory as a whole until a thread has made a state of
 * it; that goes through the log in pieces, and all members replace their state between the same two writes. The
 * loop's thread reads the file that is sent; a file that was just written is still in the kernel's memory.
 */
#ifndef ADMIN_HTTP_SNAPSHOT_ROUTE_H
#define ADMIN_HTTP_SNAPSHOT_ROUTE_H

#include <uv.h>

#include "admin/answers/server_view.h"
#include "admin/http/http_exchange.h"
#include "admin/http/http_login.h"

#define RESTORE_MAX ((size_t)8 << 30)

struct backup;

/* NULL: out of memory. Borrows both. */
struct backup *backup_create(uv_loop_t *loop, struct view *v, struct admission *admission);

/* Whether this is one of the two commands, by any of its names; if so answers it, perhaps later. */
bool backup_answer(struct backup *b, const char *name, const struct http_request *request,
                   struct http_response *response);

/* Cancels a waiting command: it is answered. */
void backup_cancel(struct backup *b);

/* Cancels, frees b and calls cb from the loop. NULL does nothing. */
void backup_close(struct backup *b, void (*cb)(void *ctx), void *ctx);

#endif
