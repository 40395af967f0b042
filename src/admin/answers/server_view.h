/*
 * The data for the answers of this room, gathered from the server on each request: connections, sessions, watches,
 * metrics. Lists are bounded by number and by bytes; `more` counts the omitted items.
 */
#ifndef ADMIN_ANSWERS_SERVER_VIEW_H
#define ADMIN_ANSWERS_SERVER_VIEW_H

#include "base/slice.h"
#include "daemon/admin_options.h"
#include "front/connection.h"

struct server;

enum {
    VIEW_CONNECTIONS_MAX = 20000, /* connections, sessions or ephemerals in one answer */
    VIEW_WATCHES_MAX = 50000,
    VIEW_ADDRESS_MAX = 64, /* a socket address as text, with NUL */
    VIEW_PATH_MAX = 1024,  /* bytes of a path in a list */
};

struct view {
    const struct admin_options *options;
    struct server *server; /* NULL: not attached */
    bool has_http;
    struct net_address http; /* of the admin port, with has_http */
    int64_t https_until_s;   /* when the certificate of that port ends, since 1970; 0: none */
    int64_t trace_mask;      /* the value for gtmk; it has no effect */
};

/* How many bytes a list may still add to an answer. */
struct view_room {
    const struct buf *out;
    size_t end; /* length of out at which the list is full */
};

/* The room for one of `lists` lists of an answer, which begins at the end of out. */
struct view_room view_room(const struct view *v, const struct buf *out, unsigned lists);
bool view_has_room(const struct view_room *room);

/* A path as lists show it: longer than VIEW_PATH_MAX, it is cut and ends in "... (N bytes)", N being its full
 * length. */
struct view_path {
    size_t len;
    char text[VIEW_PATH_MAX + 40];
};
void view_path(struct slice path, struct view_path *ret);

/* Whether the server serves clients: what Apache ZooKeeper calls running. */
bool view_serving(const struct view *v);

/* Whether it serves only read-only clients, because there is no quorum. */
bool view_read_only(const struct view *v);

/* One connection, for the words stat and cons and the command connections. */
struct view_connection {
    char address
        [VIEW_ADDRESS_MAX]; /* "127.0.0.1:5000", "[0:0:0:0:0:0:0:1]:5000": as Java writes it */
    unsigned interest;      /* as in Java: 1: reading, 4: has output, 0: neither */
    size_t queued;
    int64_t session_id; /* 0: none */
    int32_t timeout_ms;
    int64_t established_ms;
    const char *last_op; /* "GETD", "NA" */
    struct connection_stats stats;
};

/* Calls fn for the connections, oldest first, while there is room (NULL: no limit). Returns the number of omitted
 * ones. */
size_t view_connections(const struct view *v, const struct view_room *room,
                        void (*fn)(void *ctx, const struct view_connection *c), void *ctx);

/* The code of an operation in a connection's line: FinalRequestProcessor's lastOp. */
const char *view_operation(int32_t type);

/* A watch of dataWatches. The path belongs to the table: valid until the next change. */
struct view_watch {
    int64_t session_id;
    struct slice path;
};

/* An array of the watches, sorted by path or by session; the caller frees it. NULL and 0: no watches, or out of memory.
 * The array ends where the text of the watches would fill the room. */
struct view_watch *view_watches(const struct view *v, const struct view_room *room, bool by_session,
                                size_t *ret_count, size_t *ret_more);

/* A session and when it expires (monotonic ms), or a connection and when it is closed for silence. */
struct view_expiry {
    int64_t due_ms;
    int64_t session_id;
    char address[VIEW_ADDRESS_MAX]; /* connections only */
};

/* Arrays in the order of due_ms; the caller frees them. NULL and 0 as above. */
struct view_expiry *view_sessions(const struct view *v, const struct view_room *room,
                                  size_t *ret_count, size_t *ret_more);
struct view_expiry *view_connection_expiries(const struct view *v, const struct view_room *room,
                                             size_t *ret_count, size_t *ret_more);

/* The wall time of a monotonic time, in ms. */
int64_t view_wall_ms(const struct view *v, int64_t monotonic_ms);

/* Calls session for each session that has ephemerals, then node for each of them, while there is room. Returns the
 * number of these sessions, and in *ret_more the number of omitted nodes. */
struct view_ephemerals {
    void (*session)(void *ctx, int64_t session_id);
    void (*node)(void *ctx, const struct view_path *path);
    void *ctx;
};
size_t view_ephemerals_each(const struct view *v, const struct view_room *room,
                            const struct view_ephemerals *callbacks, size_t *ret_more);

/* The number of ephemerals of a session, counted up to VIEW_CONNECTIONS_MAX. */
size_t view_ephemerals_count(const struct view *v, int64_t session_id);

/* One value of mntr: a text, a whole number or a fraction. */
struct view_figure {
    const char *key; /* without zk_ */
    enum { FIGURE_TEXT, FIGURE_WHOLE, FIGURE_FRACTION } kind;
    const char *text;
    int64_t whole;
    double fraction;
};

/* Calls fn for all values, in the order of mntr. */
void view_figures(const struct view *v, void (*fn)(void *ctx, const struct view_figure *f),
                  void *ctx);

/* The words srst and crst. */
void view_reset_server(const struct view *v);
void view_reset_connections(const struct view *v);

#endif
