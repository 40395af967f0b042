/*
 * The web console below /console: its files, and what they show. Only GET (and HEAD); off with admin.console=off.
 *
 *   /console, /console/NAME   the files of web/, with an ETag
 *   /console/events           server-sent events: the overview, whenever it changes (event_streams.h)
 *   /console/overview         the same once (console.h)
 *   /console/history          the samples of the last hour
 *   /console/recipes          the recipes in the tree (recipe_list.h)
 *   /console/line             one recipe and the history of its hand-overs: path (recipe_list.h, handover_notes.h)
 *   /console/sessions         the sessions: find (session_list.h)
 *   /console/node             a node and a page of its children: path, after or from, count (node_page.h)
 *
 * Every answer forbids the browser all that the pages do not need (Content-Security-Policy).
 */
#ifndef ADMIN_HTTP_CONSOLE_ROUTE_H
#define ADMIN_HTTP_CONSOLE_ROUTE_H

#include "admin/http/event_streams.h"

struct console_site {
    struct view *view; /* borrowed */
    struct console console;
    struct event_streams *events;
    int64_t look_left; /* children that pages may still look at; below 0: the last one took more */
    int64_t look_ms;   /* when that was so, monotonic */
};

/* Pages of nodes share this many children per second; beyond it they are answered with 503. */
enum { CONSOLE_LOOK_MAX = 500000 };

/* False: out of memory; c has nothing to close. Borrows v. */
bool console_site_init(struct console_site *c, uv_loop_t *loop, struct view *v);

/* Whether the request, a GET or HEAD, is for the console; if so answers it. */
bool console_answer(struct console_site *c, const struct http_request *request,
                    struct http_response *response);

/* As event_streams_close; c must stay until cb was called. Then call console_site_finish. */
void console_site_close(struct console_site *c, void (*cb)(void *ctx), void *ctx);
void console_site_finish(struct console_site *c);

#endif
