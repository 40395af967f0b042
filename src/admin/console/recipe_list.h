/*
 * The recipes in the tree, as JSON: elections, locks, queues and so on, with holders and line (layout.h says how they are
 * recognised). Two ways to find them: through the ephemeral nodes of the sessions, which finds what somebody holds or
 * waits for now; and by a walk through the tree, which also finds what persists, such as queues.
 *
 *   {"kind", "library", "path", "under": the node above the holders if that is not path, "children": N, "permits": N or absent, "open": bool (barriers),
 *    "holders": [..], "holding": N, "line": [..], "waiting": N, "data": text (Redis sets)}
 *
 * A holder or member of the line: {"label", "node", "since_ms", "session", "client" or null, "token", "shared", "weight"}; the
 * last ones are absent if they do not apply. "client" is known of clients of this server. "from_ms": it holds since then, if
 * that is known (handover_notes.h). In the list of all recipes and of one, with a session: {"server" (0: unknown), "timeout_ms",
 * "heard_ms" (age of its last sign of life), "left_ms" (until it expires without another one)}; the last two are known to the
 * leader, and of clients of this server.
 *
 * A plain barrier is a single node like any other. What may be one is found by its watches: a lasting node without data and children
 * whose end or change clients of this server wait for ("plain": true; "line" are those clients).
 *
 * Limits: below, each with a count or a mark in the answer when it is reached. Nodes that a client without ids may not
 * read are left out and counted.
 */
#ifndef ADMIN_CONSOLE_RECIPE_LIST_H
#define ADMIN_CONSOLE_RECIPE_LIST_H

#include "admin/answers/server_view.h"
#include "admin/console/handover_notes.h"

enum {
    RECIPES_EPHEMERALS_MAX = 20000, /* ephemeral nodes that one list looks at */
    RECIPES_NODES_MAX = 50000,      /* nodes that a walk looks at */
    RECIPES_SIBLINGS_MAX = 1000,    /* children of one node that a walk looks at */
    RECIPES_DEPTH_MAX = 64,         /* of a walk */
    RECIPES_PARENTS_MAX = 4000,     /* candidates */
    RECIPES_WATCHES_MAX = 20000,    /* watches that one list looks at */
    RECIPES_WATCH_MEMORY_MAX =
        16 << 20,                /* bytes of all watches; with more, no list looks at them */
    RECIPES_CHILDREN_MAX = 2000, /* children of one candidate that are read */
    RECIPES_HELD_MAX = 50,       /* recipes in the list of held ones */
    RECIPES_ALL_MAX = 500,       /* in the whole list */
    RECIPES_LINE_MAX = 5,        /* members of a line in the list of held ones */
    RECIPES_LINE_ALL_MAX = 50,   /* in the whole list */
    RECIPES_RECORD_MAX = 4096,   /* bytes of a Redis set's record */
};

/* Writes an object as a value: {"list": [..], "more": N, "hidden": N, "cut": bool}. `more`: recipes that were found and left
 * out; `hidden`: candidates that may not be read; `cut`: another limit was reached, so there may be more.
 *
 * The list ends where j has bytes_max bytes. held: only elections, locks, semaphores and pairs that somebody holds or waits for. Otherwise all recipes. */
void recipe_list_write(struct service *s, const struct handover_notes *notes, bool held,
                       size_t bytes_max, struct json *j);

/* Writes the one recipe at this path as a value, null if there is none that a client without ids may read. */
void recipe_write(struct service *s, const struct handover_notes *notes, struct slice path,
                  struct json *j);

#endif
