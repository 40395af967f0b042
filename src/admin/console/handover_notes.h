/*
 * Fills the history of hand-overs (handovers.h) from the ephemeral nodes that commands delete: one that held what its
 * recipe gives has handed it over. The rules look only at the tree and the command, so every server comes to the same
 * records, also from the log when it starts; only the verdict about a session is one server's own.
 *
 * Costs: nothing for commands that delete no ephemeral node; otherwise a look at the node's name, and for the names of
 * contenders at its oldest HANDOVER_SIBLINGS_MAX siblings, HANDOVER_LOOKS_MAX times per second at most. Beyond that hand-overs
 * are not recorded, but counted. A semaphore with more permits than that has only the end of its oldest holds recorded.
 */
#ifndef ADMIN_CONSOLE_HANDOVER_NOTES_H
#define ADMIN_CONSOLE_HANDOVER_NOTES_H

#include "admin/console/handovers.h"
#include "admin/console/recipe_read.h"
#include "base/json.h"
#include "front/service.h"

enum { HANDOVER_SIBLINGS_MAX = 32, HANDOVER_LOOKS_MAX = 500, HANDOVER_LIST_MAX = 100 };

struct handover_notes {
    struct service *service; /* NULL: none is looked at */
    uint64_t generation;     /* of its state */
    struct handovers past;
    struct recipe_reader reader;
    int64_t since_ms;  /* what ended before is not known; wall clock */
    int64_t missed_ms; /* when one was last not recorded, or dropped; 0: never */
    uint64_t missed;   /* not recorded */
    int64_t second;    /* of the looks; seconds of the wall clock */
    unsigned looks;    /* in that second */
};

/* Looks at no service yet. */
void handover_notes_init(struct handover_notes *n);

/* Looks at this service from now on, and forgets what was; NULL: at none. The service before it must still exist. */
void handover_notes_attach(struct handover_notes *n, struct service *service);

/* Forgets what was if the whole state was replaced: what lies between the two is not known. */
void handover_notes_follow(struct handover_notes *n);

/* The service may be gone. */
void handover_notes_finish(struct handover_notes *n);

/* Since when the first in a line holds, who joined it at joined_ms; 0: not known. shared: a lock or semaphore with several holders. */
int64_t handover_notes_from_ms(const struct handover_notes *n, struct slice path, int64_t joined_ms,
                               bool shared);

/*
 * Writes the records of a recipe, newest first, as a list; path null: the newest of all that are no orderly end of a lock.
 * At most `most`. {"path", "kind", "label", "client", "session", "token", "joined_ms", "from_ms" or null, "until_ms",
 * "cause" (handover_cause_name), "by", "words", "next"}. Recipes whose node a client without ids may not read are left out.
 */
void handover_notes_write(const struct handover_notes *n, struct slice path, size_t most,
                          struct json *j);

#endif
