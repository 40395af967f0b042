/*
 * The watches of a client: by kind and path, several functions each. One-shot watches leave the registry when they
 * fire; persistent ones stay, and each of their events is a separate struct.
 *
 * A struct client_watch is made with the request and registered when the reply comes, so nothing can fail then. Paths
 * are the caller's, without chroot.
 */
#ifndef CLIENT_CORE_WATCHES_H
#define CLIENT_CORE_WATCHES_H

#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"
#include "client/core/dispatcher.h"

#include <conclave/client.h>

/* The kinds of watches on the server. */
enum client_watch_kind {
    WATCH_DATA,  /* getData, exists of an existing node */
    WATCH_EXIST, /* exists of a missing node */
    WATCH_CHILD, /* getChildren */
    WATCH_ONE_SHOT_KINDS,
    WATCH_PERSISTENT = WATCH_ONE_SHOT_KINDS, /* addWatch: one path */
    WATCH_RECURSIVE,                         /* addWatch: a path and all below it */
    WATCH_KINDS,
};

static inline bool watch_kind_is_persistent(enum client_watch_kind kind)
{
    return kind >= WATCH_ONE_SHOT_KINDS;
}

struct client_watch {
    struct map_node node; /* only for the first watch of its kind and path */
    struct list same;     /* ring of all watches of its kind and path */
    struct list link;     /* for lists of watches to deliver */
    struct job job;       /* delivery */
    struct conclave_client *client;
    conclave_watch_fn fn;
    void *ctx;
    enum client_watch_kind kind;
    enum conclave_event_type type; /* the event to deliver */
    bool internal;                 /* fn is called on the loop, under the lock */
    uint32_t path_len;
    char path[];
};

/* One event of a persistent watch. */
struct client_event {
    struct list link; /* for lists of events to deliver */
    struct job job;   /* delivery */
    struct client_watch *watch;
    enum conclave_event_type type;
    char path[]; /* path of the node that changed */
};

struct watches {
    struct map map;             /* first watches */
    size_t counts[WATCH_KINDS]; /* paths of each kind */
};

/* 0 or CONCLAVE_ENOMEM. */
int watches_init(struct watches *ws) CONCLAVE_MUST_USE;

/* The registry must be empty. */
void watches_finish(struct watches *ws);

/* A watch that is not registered yet; free it with free. NULL: out of memory. */
struct client_watch *watch_create(const char *path, conclave_watch_fn fn, void *ctx);

/* Registers w as a watch of this kind. Takes w. */
void watches_add_take(struct watches *ws, struct client_watch *w, enum client_watch_kind kind);

/* Removes all one-shot watches that an event on path fires, and appends them to `ret` (by link), with w->type set. */
void watches_fire(struct watches *ws, enum conclave_event_type type, struct slice path,
                  struct list *ret);

/* Appends to `ret` (by link) an event, freed with free, for each persistent watch that an event on path concerns.
 * CONCLAVE_ENOMEM: some may be missing. */
int watches_notify(const struct watches *ws, enum conclave_event_type type, struct slice path,
                   struct list *ret) CONCLAVE_MUST_USE;

/* The same for all persistent watches, with their own paths. */
int watches_notify_all(const struct watches *ws, enum conclave_event_type type,
                       struct list *ret) CONCLAVE_MUST_USE;

/* Whether there is a watch of this kind on the path. */
bool watches_has(const struct watches *ws, enum client_watch_kind kind, struct slice path);

/* Removes all watches and appends them to `ret` as CONCLAVE_EVENT_LOST. */
void watches_take_all(struct watches *ws, struct list *ret);

/* Removes and returns one watch with this path, function, ctx and way of calling, or NULL. */
struct client_watch *watches_take(struct watches *ws, const char *path, conclave_watch_fn fn,
                                  void *ctx, bool internal);

/* Walks the kinds and paths: the first watch of each; start with NULL, ends with NULL. The registry must not change. */
struct client_watch *watches_next(const struct watches *ws, const struct client_watch *w);

static inline size_t watches_count(const struct watches *ws)
{
    return map_count(&ws->map);
}

#endif
