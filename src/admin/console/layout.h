/*
 * Recognises a recipe by its nodes: the names and data of a node's children in, kind, holders and line out. It knows the
 * layouts of this library, of Curator and of kazoo, and calls a line of any other ephemeral sequential nodes a lock.
 * Pure.
 *
 * Layouts, children of the node unless said otherwise:
 *
 *   election      <guid>-n_N beside a node PATH.leader; _c_<uuid>-latch-N; the lowest number leads
 *   lock          <guid>-n_N, __READ__, __WRIT__; _c_<uuid>-lock-N (Curator's mutex or LeaderSelector); <guid>__lock__N
 *   semaphore     <guid>[-wN]-n_N, the node's data are the permits; PATH/leases/_c_<uuid>-lease-N; <guid> beside
 *                 PATH-__lock__ (kazoo)
 *   pair          ActiveStandbyElectorLock, ActiveBreadCrumb (ours and Hadoop's)
 *   queue         100-<guid>-q_N; queue-N; entry-100-N; qn-N
 *   barrier       `ready` beside ephemeral nodes; m-<guid>; <guid> alone (kazoo) (double barriers)
 *   config        PATH.acks: children acknowledge the configuration at PATH
 *   redis         current and managers (ours); `nodes` with JSON that names a master (the gem redis_failover)
 *   group         ephemeral nodes without numbers; `services` if their data are those of Curator's discovery
 *
 * A plain barrier and a configuration without PATH.acks are a single node, like any other: they are not recognised here
 * (recipe_list.h finds barriers by their watches). Nodes that serve another recipe (PATH.leader, the gates of semaphores) are LAYOUT_PART.
 */
#ifndef ADMIN_CONSOLE_LAYOUT_H
#define ADMIN_CONSOLE_LAYOUT_H

#include "base/slice.h"

enum layout_kind {
    LAYOUT_NONE,
    LAYOUT_PART, /* belongs to a recipe that is shown by another node */
    LAYOUT_ELECTION,
    LAYOUT_LOCK,
    LAYOUT_SEMAPHORE,
    LAYOUT_PAIR,
    LAYOUT_QUEUE,
    LAYOUT_BARRIER,
    LAYOUT_CONFIG,
    LAYOUT_REDIS,
    LAYOUT_GROUP,
    LAYOUT_SERVICES,
    LAYOUT_KINDS,
};

struct layout_child {
    struct slice name;
    struct slice data;  /* null: none, or not readable */
    int64_t session_id; /* 0: not ephemeral */
    int64_t czxid;
    int64_t since_ms; /* when it was created, wall clock; for the caller */
};

struct layout_input {
    struct slice path; /* of the node */
    struct slice data; /* null: none, or not readable */
    const struct layout_child *children;
    size_t count;
    /* Whether there is a node at the node's path with this suffix ("/x", ".leader"), or in its parent ("../x"). */
    bool (*exists)(void *ctx, const char *suffix);
    void *ctx;
};

/* A child's place. */
struct layout_place {
    size_t child; /* its number in the input */
    int32_t sequence;
    int32_t weight; /* permits that it has or wants */
    bool holds;     /* it has what the recipe gives; otherwise it waits */
    bool shared;    /* a read lock */
};

struct layout {
    enum layout_kind kind;
    const char
        *library; /* "Conclave", "Curator", "kazoo", "Hadoop", "redis_failover" or "" (unknown) */
    size_t path_len; /* the recipe's path is this long a beginning of the node's */
    int32_t permits; /* of a semaphore; 0: unknown */
    bool open;       /* a barrier that lets all pass */
    size_t count;    /* places: holders first, then the line in its order; members of a group */
    struct layout_place *places; /* room for all children, the caller's */
};

/* Fills *ret, whose `places` is set. */
void layout_recognise(const struct layout_input *in, struct layout *ret);

/* "election", "active/standby pair". Static. */
const char *layout_kind_name(enum layout_kind kind);

/* What a contender or member calls itself, from its node's data: the first line, or the one behind those that the library
 * writes, if it is short printable text. Empty otherwise. Borrows data. */
struct slice layout_label(struct slice data);

#endif
