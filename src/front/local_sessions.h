/*
 * Sessions that this server alone knows: they are in no log, and end with this process. Local ones
 * (localSessionsEnabled) cost nothing but memory here; when one is to own an ephemeral node it becomes one of all
 * servers, under the same id. Read-only ones belong to clients that this server, without a quorum, lets in to read; they
 * end when there is a quorum again.
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
    bool upgrading; /* the command that tells all servers of it is on its way */
};

struct local_sessions {
    struct map by_id;
    struct list all;
    struct session_tracker *alive; /* those that are not being upgraded */
};

/* 0 or CONCLAVE_ENOMEM; local_sessions_finish is due in either case. */
int local_sessions_init(struct local_sessions *l, int32_t tick_ms) CONCLAVE_MUST_USE;
void local_sessions_finish(struct local_sessions *l);

size_t local_sessions_count(const struct local_sessions *l);

/* NULL when there is no such session. */
struct local_session *local_session_find(const struct local_sessions *l, int64_t id);

/* A new session, at full timeout from now. NULL when memory is out. */
struct local_session *local_session_add(struct local_sessions *l,
                                        const struct state_session *session, bool read_only,
                                        int64_t now_ms);

/* Its client is back, with this timeout from now. 0 or CONCLAVE_ENOMEM. */
int local_session_renew(struct local_sessions *l, struct local_session *session, int32_t timeout_ms,
                        int64_t now_ms) CONCLAVE_MUST_USE;

/* It does not expire here any more. */
void local_session_upgrade(struct local_sessions *l, struct local_session *session);

/* Forgets a session, if there is one of that id. Returns whether there was. */
bool local_session_end(struct local_sessions *l, int64_t id);

/* Forgets those that are being upgraded: their commands are lost. */
void local_sessions_forget_upgrades(struct local_sessions *l);

/* Calls fn for each read-only session; fn may end it. */
void local_sessions_each_read_only(struct local_sessions *l, void (*fn)(void *ctx, int64_t id),
                                   void *ctx);

#endif
