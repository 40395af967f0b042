/*
 * GET /backup: a backup of this server's data (backup/file/backup_format.h), for administrators (http_login.h). It has
 * all that the server had applied when the request came.
 *
 *   /backup                                             everything
 *   /backup?cluster=HEX&since=INDEX&term=N&zxid=0xN     only what came after that entry; 409: the log has it no more
 *
 *   WAITING (until the entry is on the disk) → OPENING → SENDING → ended
 *
 * A thread of its own with the lowest priority reads the disk and compresses; it is at most one piece ahead of the client,
 * and rests after each piece as long as that took. Limits: one backup at a time; two pieces in memory, of BACKUP_PIECE
 * bytes and one entry of the log.
 */
#ifndef ADMIN_HTTP_BACKUP_ROUTE_H
#define ADMIN_HTTP_BACKUP_ROUTE_H

#include <uv.h>

#include "admin/answers/server_view.h"
#include "admin/http/http_exchange.h"
#include "admin/http/http_login.h"

struct backup_route;

/* NULL: out of memory. Borrows both. */
struct backup_route *backup_route_create(uv_loop_t *loop, struct view *v,
                                         struct admission *admission);

/* Whether it is this path; if so answers the request, perhaps later. */
bool backup_route_answer(struct backup_route *b, const struct http_request *request,
                         struct http_response *response);

/* The server goes: answers a request that waits. */
void backup_route_cancel(struct backup_route *b);

/* Cancels, frees b and calls cb from the loop, when no exchange sends a backup any more. NULL does nothing. */
void backup_route_close(struct backup_route *b, void (*cb)(void *ctx), void *ctx);

#endif
