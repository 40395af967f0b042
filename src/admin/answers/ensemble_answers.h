/*
 * Answers about the ensemble: those of the AdminServer, as JSON members of an open object, and two words of our own,
 * whose lines have fields separated by tabs.
 *
 * memb: this server's own state, "key<TAB>value", then the members as it knows them. Answered in any state.
 *
 *   id, mode, state (ok, or why the server does not serve), version, zxid, term, leader (id, 0: none), last, commit,
 *   applied (entries of the log), connections, sessions, uptime_ms, contact_ms
 *   member<TAB>ID<TAB>voter|observer<TAB>self|up|down<TAB>MATCH<TAB>CLIENT<TAB>ADDRESS<TAB>SNAPSHOT
 *
 * MATCH: log entries that it is known to have, only on a leader; CLIENT: its address for clients; SNAPSHOT: bytes that
 * it has received of the snapshot being sent to it, "SENT/ALL"; "-": unknown, or none.
 *
 * sess: "ID<TAB>OWNER<TAB>TIMEOUT_MS<TAB>IDLE_MS<TAB>EPHEMERALS<TAB>CLIENT" for each session: OWNER is the server that
 * the client is connected to (0: none yet), CLIENT the client's address if that is this server, else "-".
 */
#ifndef ADMIN_ANSWERS_ENSEMBLE_ANSWERS_H
#define ADMIN_ANSWERS_ENSEMBLE_ANSWERS_H

#include "admin/answers/server_view.h"
#include "base/json.h"

void ensemble_answer_text(const struct view *v, struct buf *out);
void ensemble_answer_sessions_text(const struct view *v, struct buf *out);

/* The part of the word conf that only members have. */
void ensemble_answer_conf(const struct view *v, struct buf *out);

/* False: this server is not a member of an ensemble, and nothing was written. */
bool ensemble_answer_leader(const struct view *v, struct json *j);
bool ensemble_answer_voting_view(const struct view *v, struct json *j);
bool ensemble_answer_zabstate(const struct view *v, struct json *j);
void ensemble_answer_observers(const struct view *v, struct json *j);

#endif
