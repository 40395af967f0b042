/*
 * What the web console shows, as JSON: the overview, the history of figures, the recipes. Everything is read from the server's own
 * state on its loop thread, by console_look from time to time and on each request. It shows data and names of nodes only
 * if a client without any id may read them.
 *
 * Limits: OVERVIEW_MEMBERS_MAX members; the history of an hour (samples.h).
 */
#ifndef ADMIN_CONSOLE_CONSOLE_H
#define ADMIN_CONSOLE_CONSOLE_H

#include "admin/answers/server_view.h"
#include "admin/console/handover_notes.h"
#include "admin/console/last_writers.h"
#include "admin/console/samples.h"

enum { OVERVIEW_MEMBERS_MAX = 64, OVERVIEW_HANDOVERS_MAX = 8, HELD_SHARE = 50 };

struct console {
    struct view *view;           /* borrowed */
    const struct server *server; /* that the rest is about; NULL: none yet */
    struct samples samples;
    struct handover_notes handovers;
    struct last_writers writers;
    int64_t started_ms; /* wall clock, as all times here */
    uint64_t leader;    /* when last looked; 0: none */
    int64_t leader_ms;  /* since when it leads */
    bool leader_exact;  /* this server saw it begin; otherwise it may have led before */
    struct buf held;    /* what is held now, as JSON; empty: not looked yet */
    int64_t held_zxid;  /* it shows the state of this zxid */
    int64_t held_at_ns; /* when that was, monotonic */
    int64_t held_took_ns;
};

/* Borrows v. */
void console_init(struct console *c, struct view *v);
void console_finish(struct console *c);

/* Looks at the hand-overs and writes of another server from now on; NULL: of no server. The previous server must still exist. */
void console_attach(struct console *c, struct server *server);

/* Takes a sample when it is time, and notes a change of leader. Call it every second or oftener. True: the leader, or
 * whether the server serves, has changed since the last call. */
bool console_look(struct console *c);

/* The overview, the samples of the last hour and all recipes, each as one JSON object on one line. The overview's list of
 * what is held is made again after a change of the state, but takes at most a part in HELD_SHARE of the time. The recipes
 * need a server. */
void console_write_overview(struct console *c, struct buf *out);
void console_write_history(const struct console *c, struct buf *out);
void console_write_recipes(const struct console *c, struct buf *out);

/* One recipe and the history of its hand-overs, {"recipe", "history", "since_ms", "missed"}; null if this server shows no nodes.
 * Needs a server. */
void console_write_line(const struct console *c, struct slice path, struct buf *out);

#endif
