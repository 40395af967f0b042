/*
 * The web console below /console: its files, and what they show. Only GET (and HEAD), except what signed-in
 * operators do with admin.console=on (struct console_guests); off with admin.console=off.
 *
 *   /console, /console/NAME   the files of web/, with an ETag
 *   /console/events           server-sent events: the overview, whenever it changes (event_streams.h)
 *   /console/overview         the same once (console.h)
 *   /console/history          the samples of the last hour
 *   /console/recipes          the recipes in the tree (recipe_list.h)
 *   /console/line             one recipe and the history of its hand-overs: path (recipe_list.h, handover_notes.h)
 *   /console/sessions         the sessions: find (session_list.h)
 *   /console/node             a node and a page of its children: path, after or from, count (node_page.h); with the rights
 *                             of the caller if it is signed in, otherwise with those of a client without ids
 *   /console/search           nodes whose path has a text in it: find, path, after, count (node_search.h); with the same rights
 *
 * Every answer forbids the browser all that the pages do not need (Content-Security-Policy).
 */
#ifndef ADMIN_HTTP_CONSOLE_ROUTE_H
#define ADMIN_HTTP_CONSOLE_ROUTE_H

#include "admin/http/event_streams.h"

/* The people who are signed in and what they do, of a room above (admin/acts). */
struct console_guests {
    /* Answers a request below /console/ that signs in or acts; false: it is none. NULL: nobody can. */
    bool (*answer)(void *ctx, const struct http_request *request, struct http_response *response);
    /* The ids of the caller, borrowed for the request; NULL: it is not signed in. */
    const struct client_ids *(*reader)(void *ctx, const struct http_request *request);
    void *ctx;
};

struct console_site {
    struct view *view; /* borrowed */
    struct console_guests guests;
    struct console console;
    struct event_streams *events;
    int64_t look_left; /* nodes that pages may still look at; below 0: the last one took more */
    int64_t look_ms;   /* when that was so, monotonic */
};

/* Pages of nodes and searches share this many looks at nodes per second; beyond it they are answered with 503. */
enum { CONSOLE_LOOK_MAX = 500000 };

/* False: out of memory; c has nothing to close. Borrows v. */
bool console_site_init(struct console_site *c, uv_loop_t *loop, struct view *v,
                       struct console_guests guests);

/* Whether the request signs in to the console or acts there; if so answers it. */
bool console_guest_answer(struct console_site *c, const struct http_request *request,
                          struct http_response *response);

/* Adds the fields that every answer of the console has. */
void console_protect(struct http_response *response);

/* Whether the request, a GET or HEAD, is for the console; if so answers it. */
bool console_answer(struct console_site *c, const struct http_request *request,
                    struct http_response *response);

/* As event_streams_close; c must stay until cb was called. Then call console_site_finish. */
void console_site_close(struct console_site *c, void (*cb)(void *ctx), void *ctx);
void console_site_finish(struct console_site *c);

#endif
