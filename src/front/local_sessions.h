/*
 * Sessions that only this server knows: they are in no log, and end with this process. Local sessions
 * (localSessionsEnabled) cost only memory here. When one is to own an ephemeral node, it becomes global, with the same
 * id. Read-only sessions belong to clients that may read here while there is no quorum; they end when there is a quorum
 * again.
 */
#ifndef FRONT_LOCAL_SESSIONS_H
#define FRONT_LOCAL_SESSIONS_H

#include "base/list.h"
#include "base/map.h"
#include "session/session.h"
#include "state/state.h"

struct local_session {
    struct map_node node; /* in local_sessions.by_id */
    struct list link;     /* in local_sessions.all */
    struct state_session session;
    bool read_only;
    bool upgrading; /* the command that makes it global is on its way */
};

struct local_sessions {
    struct map by_id;
    struct list all;
    struct session_tracker *alive; /* without those that are being upgraded */
};

/* 0 or CONCLAVE_ENOMEM; call local_sessions_finish in either case. */
int local_sessions_init(struct local_sessions *l, int32_t tick_ms) CONCLAVE_MUST_USE;
void local_sessions_finish(struct local_sessions *l);

size_t local_sessions_count(const struct local_sessions *l);

/* NULL: no such session. */
struct local_session *local_session_find(const struct local_sessions *l, int64_t id);

/* Adds a session, with its full timeout from now. NULL: out of memory. */
struct local_session *local_session_add(struct local_sessions *l,
                                        const struct state_session *session, bool read_only,
                                        int64_t now_ms);

/* The client is back: sets this timeout, from now. 0 or CONCLAVE_ENOMEM. */
int local_session_renew(struct local_sessions *l, struct local_session *session, int32_t timeout_ms,
                        int64_t now_ms) CONCLAVE_MUST_USE;

/* The session does not expire here any more. */
void local_session_upgrade(struct local_sessions *l, struct local_session *session);

/* Removes a session. Returns whether it existed. */
bool local_session_end(struct local_sessions *l, int64_t id);

/* Removes the sessions that are being upgraded, because their commands are lost. */
void local_sessions_forget_upgrades(struct local_sessions *l);

/* Calls fn for each read-only session; fn may end it. */
void local_sessions_each_read_only(struct local_sessions *l, void (*fn)(void *ctx, int64_t id),
                                   void *ctx);

#endif
