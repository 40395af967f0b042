/*
 * What signed-in pages of the web console do. Only with admin.console=on; every act, done or refused, is in the audit log.
 *
 *   GET  /console/me             who is signed in, and whether this console takes acts at all
 *   POST /console/sign-in        header Authorization (sign_in_check.h); answers {"name", "key", ..} and a cookie
 *   POST /console/sign-out
 *   POST /console/act/set, create, delete     node_acts.h: the ACLs decide, in the state machine
 *   POST /console/act/kill       id: ends a session          } of administrators: as /sessions/kill and
 *   POST /console/act/transfer   to: hands the lead over     } /members/transfer (http_login.h)
 *
 * Each but the first two needs the cookie and the header X-Console-Key (sign_ins.h). An act is answered when its outcome is known
 * here. A refusal is a sentence for the page.
 *
 * Limits: ACTS_MAX acts and checks of passwords wait at once, each ACT_WAIT_MS at most; data up to jute.maxbuffer.
 */
#ifndef ADMIN_ACTS_CONSOLE_ACTS_H
#define ADMIN_ACTS_CONSOLE_ACTS_H

#include "admin/http/console_route.h"
#include "admin/http/http_login.h"

enum { ACTS_MAX = 16, ACT_WAIT_MS = 10000 };

struct console_acts;

/* NULL: out of memory. Borrows the others. */
struct console_acts *console_acts_create(uv_loop_t *loop, struct view *v,
                                         struct admission *admission);

/* For the console's routes. a may be NULL. */
struct console_guests console_acts_guests(struct console_acts *a);

/* Ends all sign-ins and answers all acts that wait; the server goes. */
void console_acts_cancel(struct console_acts *a);

/* Frees a and calls cb from the loop. NULL does nothing. */
void console_acts_close(struct console_acts *a, void (*cb)(void *ctx), void *ctx);

#endif
