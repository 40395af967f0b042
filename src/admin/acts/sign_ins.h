/*
 * Who is signed in to the web console. A sign-in has two secrets of 32 random bytes: the browser keeps one as a cookie,
 * and pages send the other in a header with each action, so that a cookie alone changes nothing. Both count only from
 * the address that signed in.
 *
 * Limits: SIGN_INS_MAX at once, SIGN_INS_ADDRESS_MAX of one address (the one that rested longest gives way); each ends
 * after SIGN_IN_IDLE_MS without an action or SIGN_IN_MAX_MS in all, with the process, and when the server is replaced.
 * Reads no clock.
 */
#ifndef ADMIN_ACTS_SIGN_INS_H
#define ADMIN_ACTS_SIGN_INS_H

#include "front/login/client_ids.h"
#include "net/address.h"
#include "session/cause.h"

enum {
    SIGN_INS_MAX = 64,
    SIGN_INS_ADDRESS_MAX = 8,
    SIGN_IN_IDLE_MS = 15 * 60 * 1000,
    SIGN_IN_MAX_MS = 8 * 60 * 60 * 1000,
    SIGN_IN_SECRET = 65, /* hex digits and the end */
};

struct sign_in {
    bool used;
    char cookie[SIGN_IN_SECRET];
    char key[SIGN_IN_SECRET];
    char address[NET_NETWORK_MAX]; /* only requests from there count */
    char name[SESSION_NAME_MAX];   /* "digest:anna from 127.0.0.1" */
    struct client_ids ids;
    int64_t session_id; /* of its acts, in the audit log; no such session exists */
    bool checked;       /* the server could check the password */
    int64_t begun_ms;   /* monotonic */
    int64_t acted_ms;   /* its newest action */
};

struct sign_ins {
    char cookie_name[24]; /* cookies do not know ports: each process has a name of its own */
    struct sign_in rows[SIGN_INS_MAX];
};

void sign_ins_init(struct sign_ins *s);
void sign_ins_finish(struct sign_ins *s);

/* Ends all. */
void sign_ins_clear(struct sign_ins *s);

/* Adds one. NULL: all places are taken by other addresses, and *ids stays the caller's. */
struct sign_in *sign_ins_add(struct sign_ins *s, const char *peer, struct client_ids *ids_take,
                             int64_t now_ms);

/* The sign-in that the header Cookie (or NULL) names; NULL: none that lives, or another address. */
struct sign_in *sign_ins_find(struct sign_ins *s, const char *cookies, const char *peer,
                              int64_t now_ms);

/* Whether the key (or NULL) is that of the sign-in. */
bool sign_in_proves(const struct sign_in *n, const char *key);

/* It was used now, for an action. */
void sign_in_use(struct sign_in *n, int64_t now_ms);

void sign_in_end(struct sign_in *n);

#endif
