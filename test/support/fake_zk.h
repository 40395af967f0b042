/*
 * A small ZooKeeper in memory, for tests of client and recipes: one thread, loopback sockets,
 * the real protocol. On command it does what an ensemble does on its worst days: it loses a
 * reply, cuts a link, expires a session, lags, stops answering.
 *
 * It has several endpoints (ports) for one tree, like servers of an ensemble. Give a client its own
 * endpoint to cause trouble for that client only. The fake accepts any session timeout and looks
 * for expired sessions every few milliseconds. No ACLs, no quotas,
 * no persistence; zxids, sequence numbers, ephemerals, watches, set_watches and transactions
 * as in ZooKeeper.
 */
#ifndef SUPPORT_FAKE_ZK_H
#define SUPPORT_FAKE_ZK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_ENDPOINTS = 4, FAKE_ANY_ENDPOINT = -1, FAKE_ANY_OP = 10000 };

struct fake_zk;

/* The fate of a request that a hook catches. */
enum fake_action {
    FAKE_CUT_BEFORE, /* the link is cut, the request never arrived */
    FAKE_DROP_REPLY, /* executed, then the link is cut: the answer is lost */
    FAKE_ERROR,      /* answered with `error`, not executed */
    /* fn runs first, then the request is executed, unless fn ended its session; fn may use the
     * functions with _locked */
    FAKE_CALL,
    FAKE_EXPIRE_BEFORE, /* the session expires and the link is cut; not executed */
    FAKE_EXPIRE_AFTER,  /* executed, then the session expires and the link is cut */
    FAKE_OVERSIZED,     /* executed; the answer is longer than clients accept */
};

struct fake_hook {
    int endpoint; /* or FAKE_ANY_ENDPOINT */
    int32_t op;   /* enum wire_op, or FAKE_ANY_OP (pings are never caught) */
    /* suffix of the request's path (multi: of its first part); NULL: any. Borrowed. */
    const char *path;
    int nth; /* 1: the next request that matches */
    enum fake_action action;
    int error; /* FAKE_ERROR */
    void (*fn)(struct fake_zk *zk, void *ctx);
    void *ctx;
};

/* State of an endpoint. */
enum fake_link {
    FAKE_UP,
    FAKE_REFUSE, /* links are cut, also new ones */
    FAKE_SILENT, /* links stay, nothing is read or answered */
};

struct fake_zk *fake_zk_start(void); /* NULL: no socket or thread */
void fake_zk_stop(struct fake_zk *zk);

/* "127.0.0.1:port" of an endpoint; lives as long as zk. */
const char *fake_zk_address(const struct fake_zk *zk, int endpoint);

/* Adds a hook; it is removed when it has caught its request. */
void fake_zk_hook(struct fake_zk *zk, const struct fake_hook *hook);
void fake_zk_hook_locked(struct fake_zk *zk, const struct fake_hook *hook);
/* The number of hooks that have not caught a request. */
size_t fake_zk_hooks_left(struct fake_zk *zk);
void fake_zk_hooks_clear(struct fake_zk *zk);

void fake_zk_link(struct fake_zk *zk, int endpoint, enum fake_link link);
void fake_zk_link_locked(struct fake_zk *zk, int endpoint, enum fake_link link);
/* Runs fn as one atomic step; it may use the functions with _locked. */
void fake_zk_do(struct fake_zk *zk, void (*fn)(struct fake_zk *zk, void *ctx), void *ctx);
/* The longest session timeout that the fake grants. */
void fake_zk_session_max(struct fake_zk *zk, int64_t timeout_ms);
/* Cuts all links of the endpoint once. */
void fake_zk_cut(struct fake_zk *zk, int endpoint);
/* Keeps requests of this op (and all that follow them on their link) unanswered, though pings
 * are answered. */
void fake_zk_hold(struct fake_zk *zk, int endpoint, int32_t op);
void fake_zk_release(struct fake_zk *zk, int endpoint);
bool fake_zk_holds(struct fake_zk *zk, int endpoint); /* a request has come and is held */
/* The endpoint shows the present tree until a client syncs there or it is thawed. */
void fake_zk_freeze(struct fake_zk *zk, int endpoint);
void fake_zk_freeze_locked(struct fake_zk *zk, int endpoint);
void fake_zk_thaw(struct fake_zk *zk, int endpoint);
/* Writes are refused with NOT_READ_ONLY on this endpoint. */
void fake_zk_read_only(struct fake_zk *zk, int endpoint, bool read_only);
/* The endpoint does not know persistent watches, as servers before 3.6. */
void fake_zk_old(struct fake_zk *zk, int endpoint, bool old);
/* Credentials are refused. */
void fake_zk_refuse_auth(struct fake_zk *zk, bool refuse);

/* Expires the session (0: all of them) as if its timeout had passed, and cuts its link. */
void fake_zk_expire(struct fake_zk *zk, int64_t session_id);
void fake_zk_expire_locked(struct fake_zk *zk, int64_t session_id);
/* Deletes tree and sessions, like a new ensemble with empty data folders. */
void fake_zk_reset(struct fake_zk *zk);

/* Look at the tree. */
bool fake_zk_exists(struct fake_zk *zk, const char *path);
bool fake_zk_exists_locked(struct fake_zk *zk, const char *path);
int64_t fake_zk_owner(struct fake_zk *zk, const char *path); /* -1: no node */
int64_t fake_zk_czxid(struct fake_zk *zk, const char *path); /* -1: no node */
size_t fake_zk_child_count(struct fake_zk *zk, const char *path);
/* Name of a child by its index in the order of creation; false: no such child. buf has 256 bytes. */
bool fake_zk_child(struct fake_zk *zk, const char *path, size_t index, char *buf);
/* Data with a NUL at the end; false: no node, or more than len - 1 bytes. */
bool fake_zk_data(struct fake_zk *zk, const char *path, char *buf, size_t len);
/* "scheme:id:perms" of the first entry of the node's ACL; false: no node. buf has 256 bytes. */
bool fake_zk_acl(struct fake_zk *zk, const char *path, char *buf);
void fake_zk_create(struct fake_zk *zk, const char *path, const char *data, int64_t owner);
void fake_zk_create_locked(struct fake_zk *zk, const char *path, const char *data, int64_t owner);
void fake_zk_write_locked(struct fake_zk *zk, const char *path, const char *data);
void fake_zk_delete(struct fake_zk *zk, const char *path);
void fake_zk_delete_locked(struct fake_zk *zk, const char *path);
void fake_zk_delete_children_locked(struct fake_zk *zk, const char *path);
void fake_zk_write(struct fake_zk *zk, const char *path, const char *data);
/* The node's data version. */
void fake_zk_set_version(struct fake_zk *zk, const char *path, int32_t version);
/* Sets the time of the last write; until this call it is the real time. */
void fake_zk_set_mtime(struct fake_zk *zk, const char *path, int64_t mtime_ms);
int32_t fake_zk_version(struct fake_zk *zk, const char *path); /* -2: no node */
/* The number that the next sequential child gets. */
void fake_zk_set_sequence(struct fake_zk *zk, const char *path, int32_t next);
/* The number stays at 2147483647 when it gets there, as in servers since 3.6. */
void fake_zk_stick_sequence(struct fake_zk *zk, bool stick);
size_t fake_zk_ephemerals(struct fake_zk *zk); /* nodes with an owner */
size_t fake_zk_sessions(struct fake_zk *zk);

/* Counts since the start or the last fake_zk_count_reset: requests of an op (FAKE_ANY_OP: all but
 * pings), watch events sent, watches set. */
size_t fake_zk_count(struct fake_zk *zk, int endpoint, int32_t op);
size_t fake_zk_count_events(struct fake_zk *zk);
size_t fake_zk_watches(struct fake_zk *zk);
void fake_zk_count_reset(struct fake_zk *zk);

#endif
