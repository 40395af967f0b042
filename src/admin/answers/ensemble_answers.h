/*
 * Answers about the ensemble: the AdminServer's, as JSON members of an object that is open, and two words of our own, whose
 * lines have fields divided by tabs.
 *
 * memb: what this server says of itself, "key<TAB>value", then the members as it knows them. Answered in any state.
 *
 *   id, mode, state (ok, or why clients are not served), version, zxid, term, leader (id, 0: none), last, commit,
 *   applied (entries of the log), connections, sessions, uptime_ms, contact_ms
 *   member<TAB>ID<TAB>voter|observer<TAB>self|up|down<TAB>MATCH<TAB>CLIENT<TAB>ADDRESS<TAB>SNAPSHOT
 *
 * MATCH: entries it is known to have, told by a leader; CLIENT: where clients reach it; SNAPSHOT: bytes that it took of the
 * snapshot that it is being sent, "SENT/ALL"; "-": not known, or none.
 *
 * sess: "ID<TAB>OWNER<TAB>TIMEOUT_MS<TAB>IDLE_MS<TAB>EPHEMERALS<TAB>CLIENT" for each session: OWNER is the server that its
 * client is connected to (0: none yet), CLIENT its address where this server is the one, else "-".
 */
#ifndef ADMIN_ANSWERS_ENSEMBLE_ANSWERS_H
#define ADMIN_ANSWERS_ENSEMBLE_ANSWERS_H

#include "admin/answers/server_view.h"
#include "base/json.h"

void ensemble_answer_text(const struct view *v, struct buf *out);
void ensemble_answer_sessions_text(const struct view *v, struct buf *out);

/* What the word conf says of a member beside the rest. */
void ensemble_answer_conf(const struct view *v, struct buf *out);

/* False when this server is no member of an ensemble: nothing was told. */
bool ensemble_answer_leader(const struct view *v, struct json *j);
bool ensemble_answer_voting_view(const struct view *v, struct json *j);
bool ensemble_answer_zabstate(const struct view *v, struct json *j);
void ensemble_answer_observers(const struct view *v, struct json *j);

#endif
