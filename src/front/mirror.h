/*
 * A server of a mirror (state/mirror.h). Its clients may only read: they get read-only sessions that only this server knows.
 * A client that resumes another session is cut without an answer, because the session belongs to the source, and an answer
 * would end it. No session expires, and the leader changes nothing of its own. When the mirror ends, the read-only sessions end,
 * and the sessions of the tree have their full timeout from that moment.
 *
 * The functions below are for the program that follows the source, on the leader.
 */
#ifndef FRONT_MIRROR_H
#define FRONT_MIRROR_H

#include "base/slice.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct service;
struct state;

enum { MIRROR_BACKLOG_MAX = 16 << 20, MIRROR_TURN_MAX = 4 << 20 };

/* Proposes a transaction of the source, which follows previous_zxid: header, record and digest as the source sends them. All of one
 * turn are one entry of the log. 0; CONCLAVE_EBUSY: too much is on its way, read no further for now; CONCLAVE_ENOMEM. */
int mirror_propose(struct service *s, int64_t previous_zxid,
                   struct slice transaction) CONCLAVE_MUST_USE;

/* Bytes that were proposed and are not applied. */
size_t mirror_backlog(const struct service *s);

/* Replaces the mirror's state by one of the source, which it takes over unless it returns an error: over several turns. Propose nothing
 * until mirror_replacing is false. 0; CONCLAVE_NO_NODE: this is no mirror; CONCLAVE_EBUSY: one is under way; CONCLAVE_ENOMEM. */
int mirror_replace(struct service *s, struct state *state_take) CONCLAVE_MUST_USE;
bool mirror_replacing(const struct service *s);

/* Forgets what was proposed: this server has begun to lead, or follows the source anew. */
void mirror_reset(struct service *s);

/* For the files of this room: the state may have become a mirror, or have ended to be one. 0 or CONCLAVE_ENOMEM. */
int mirror_look(struct service *s) CONCLAVE_MUST_USE;

/* A transaction was applied, with this many bytes. */
void mirror_applied(struct service *s, size_t bytes);

#endif
