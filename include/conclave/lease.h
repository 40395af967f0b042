/*
 * A lease gives a set of nodes its own time to live; a program can have several leases. If no program keeps a lease
 * alive for its time, or a program revokes it, the servers delete all its nodes in one transaction.
 *
 * A lease is a session of its own, on a link of its own; its nodes are the ephemeral nodes of that session. This works
 * on Conclave and on Apache ZooKeeper, and the servers end the lease even if the holder dies, hangs or is cut off.
 * Leases do not use nodes with a TTL: Apache ZooKeeper has TTLs switched off by default, looks for expired nodes once a
 * minute, deletes node by node, and never deletes a node that has children. The costs of a session for each lease:
 * - A lease has a link, two threads and about 100 KB, also in a program with a loop of its own.
 * - Its time to live is a session timeout: the servers limit it (minSessionTimeout, maxSessionTimeout; by default 2
 *   to 20 ticks). conclave_lease_time_to_live returns the granted one.
 * - Asking renews: there is no way to look at a session's remaining time from outside without touching it.
 * - One link at a time: a program that keeps a lease alive by its id takes the link from the holder for a moment. The
 *   holder's link comes back by itself; requests that were under way get CONCLAVE_CONNECTION_LOSS.
 * - A holder that reached no server for the whole time ends (on_ended), even if another program kept the lease
 *   alive. It can take the lease again by its id.
 *
 * Everything that needs a session can use a lease: open recipes on conclave_lease_client, and a lock, an
 * election or a group has the lease's time to live, and ends when the lease is revoked.
 *
 * Functions block unless they say otherwise, and may be called in any thread, but not in a callback of the lease
 * (CONCLAVE_EDEADLK).
 */
#ifndef CONCLAVE_LEASE_H
#define CONCLAVE_LEASE_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_lease;

/* Bytes of an id with its NUL. */
#define CONCLAVE_LEASE_ID_MAX 80

/* Begin with CONCLAVE_LEASE_CALLBACKS_INIT. */
struct conclave_lease_callbacks {
    size_t size;
    /* The lease is over, as far as this handle can know; called once, in the lease's own thread, as soon as
     * conclave_lease_grant or _take has succeeded. Before that, the call returns why.
     * CONCLAVE_SESSION_EXPIRED: its time passed or somebody revoked it; CONCLAVE_AUTH_FAILED. Not called for
     * conclave_lease_close. */
    void (*on_ended)(struct conclave_lease *lease, int why, void *ctx);
};
#define CONCLAVE_LEASE_CALLBACKS_INIT CONCLAVE_INIT(conclave_lease_callbacks)

/* Grants a lease and keeps it alive until it is closed. client: how to connect (servers, TLS, SASL, ACL); its
 * session, timeout, on_state, new_session and read_only do not count; NULL: all by default. callbacks
 * may be NULL. 0, CONCLAVE_EINVAL, CONCLAVE_ENOMEM, CONCLAVE_EIO, CONCLAVE_ETIMEDOUT (no server within timeout_ms),
 * CONCLAVE_AUTH_FAILED, CONCLAVE_ETLS, CONCLAVE_ESASL. */
CONCLAVE_API int conclave_lease_grant(const struct conclave_client_options *client, int64_t ttl_ms,
                                      int64_t timeout_ms,
                                      const struct conclave_lease_callbacks *callbacks, void *ctx,
                                      struct conclave_lease **ret) CONCLAVE_MUST_USE;

/* Takes over an existing lease, in the same process or in another one, and keeps it alive from now on. Two handles of
 * one lease take the link from each other again and again, so close the other one with CONCLAVE_LEASE_LEAVE
 * first, or after its process died. As above, and CONCLAVE_SESSION_EXPIRED (it is over). */
CONCLAVE_API int conclave_lease_take(const struct conclave_client_options *client, const char *id,
                                     int64_t timeout_ms,
                                     const struct conclave_lease_callbacks *callbacks, void *ctx,
                                     struct conclave_lease **ret) CONCLAVE_MUST_USE;

/* The lease's id, for conclave_lease_take, _keep_alive and _revoke. It is a secret: it holds the session's password,
 * and whoever knows it has all rights of the lease. Does not block. */
CONCLAVE_API void conclave_lease_id(const struct conclave_lease *lease,
                                    char buf[CONCLAVE_LEASE_ID_MAX]);

/* The client of the lease's session: ephemeral nodes that it creates belong to the lease, in transactions, too.
 * Add credentials here. Valid until the lease is closed; do not close it. Does not block. */
CONCLAVE_API struct conclave_client *conclave_lease_client(struct conclave_lease *lease);

/* Attaches an existing persistent node: one transaction deletes it and creates it as a node of the lease, with
 * the same data and ACL, so nobody sees it missing in between; its token (czxid) and version are new, and its
 * watches fire. Nothing to do if it belongs to the lease already. 0, CONCLAVE_NO_NODE, CONCLAVE_NOT_EMPTY (it has
 * children, which a node of a lease cannot have), CONCLAVE_ENOTOWNER (a node of another session),
 * CONCLAVE_SESSION_EXPIRED, CONCLAVE_NO_AUTH, CONCLAVE_ETIMEDOUT, ... */
CONCLAVE_API int conclave_lease_attach(struct conclave_lease *lease, const char *path,
                                       int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Begin with CONCLAVE_LEASE_INFO_INIT; the library fills it. */
struct conclave_lease_info {
    size_t size;
    int64_t granted_ms; /* time to live, as the servers granted it */
    int64_t
        left_ms; /* that passes at least before the servers may end it; an Apache ensemble may be half a
                         * tick earlier */
};
#define CONCLAVE_LEASE_INFO_INIT CONCLAVE_INIT(conclave_lease_info)

/* Asks a quorum whether the lease lives, and renews it by that. 0, CONCLAVE_SESSION_EXPIRED, CONCLAVE_ETIMEDOUT, ... */
CONCLAVE_API int conclave_lease_time_to_live(struct conclave_lease *lease, int64_t timeout_ms,
                                             struct conclave_lease_info *ret) CONCLAVE_MUST_USE;

/* Renews a lease once, by its id; ret may be NULL. 0, CONCLAVE_SESSION_EXPIRED (it is over), CONCLAVE_EINVAL
 * (no id), CONCLAVE_ETIMEDOUT, or as conclave_lease_grant. */
CONCLAVE_API int conclave_lease_keep_alive(const struct conclave_client_options *client,
                                           const char *id, int64_t timeout_ms,
                                           struct conclave_lease_info *ret) CONCLAVE_MUST_USE;

/* Ends a lease by its id: when this returns 0, all its nodes are gone. CONCLAVE_SESSION_EXPIRED: it was over
 * already. Else as above. */
CONCLAVE_API int conclave_lease_revoke(const struct conclave_client_options *client, const char *id,
                                       int64_t timeout_ms) CONCLAVE_MUST_USE;

enum conclave_lease_end {
    CONCLAVE_LEASE_END_NOW, /* revokes it: all its nodes are deleted */
    CONCLAVE_LEASE_LEAVE,   /* it stays for its time to live, and longer if others keep it alive */
};

/* Closes and frees a handle, ended or not; close what was opened on its client first. NULL is allowed. 0,
 * CONCLAVE_EDEADLK (in a callback of the lease; nothing was done). */
CONCLAVE_API int conclave_lease_close(struct conclave_lease *lease, enum conclave_lease_end how,
                                      int64_t timeout_ms) CONCLAVE_MUST_USE;

/* --- a list of leases -------------------------------------------------------------------- */

/* A lease of a list. */
struct conclave_lease_entry {
    int64_t session_id; /* the id begins with it, in hexadecimal digits; it is no secret */
    int64_t ttl_ms;     /* time to live, as granted */
    int64_t since_ms;   /* when it was entered, by the servers' clock: milliseconds since 1970 */
    const char *name;   /* as it was given */
};

/* Enters a lease into a list, so that others see that it lives: a node of the lease below folder, which is made as a
 * container. name: at most 256 bytes without control characters, or "". Once more: changes the name. The list does not show the secret
 * id. 0, or as conclave_lease_acquire. */
CONCLAVE_API int conclave_lease_enlist(struct conclave_lease *lease, const char *folder,
                                       const char *name, int64_t timeout_ms) CONCLAVE_MUST_USE;

/* The leases in a list that live, by session id; none if there is no folder. client: any. 0, CONCLAVE_EINVAL,
 * CONCLAVE_ENOMEM, CONCLAVE_ETIMEDOUT, CONCLAVE_NO_AUTH, ... Free with conclave_lease_entries_free. */
CONCLAVE_API int conclave_lease_list(struct conclave_client *client, const char *folder,
                                     int64_t timeout_ms, struct conclave_lease_entry ***ret,
                                     size_t *ret_count) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_lease_entries_free(struct conclave_lease_entry **list, size_t count);

/* --- a value with a holder (Consul's key with a session) ------------------------------- */

/* What happens to the value when its holder's lease ends. */
enum conclave_lease_behaviour {
    CONCLAVE_LEASE_DELETE, /* it goes: the value's node is a node of the lease */
    CONCLAVE_LEASE_RELEASE, /* it stays: it is a persistent node, and the node <path>.holder of the lease names
                             * the holder by its owner */
};

/* Becomes the holder of a value and writes it, in one transaction; missing parents are made as containers. A holder
 * acquires it again to change the value. Does not wait for another holder: watch <path>.holder (RELEASE) or
 * <path> (DELETE). With RELEASE, no write of an earlier holder comes through once another has acquired: each write
 * checks the holder's node and the version. 0 and the token of the hold (ret may be NULL), CONCLAVE_EBUSY (another
 * lease holds it), CONCLAVE_ECONFLICT (the node has the other behaviour), CONCLAVE_SESSION_EXPIRED,
 * CONCLAVE_EINVAL, CONCLAVE_ETIMEDOUT, ... */
CONCLAVE_API int conclave_lease_acquire(struct conclave_lease *lease, const char *path,
                                        const void *data, size_t len,
                                        enum conclave_lease_behaviour behaviour, int64_t timeout_ms,
                                        struct conclave_token *ret) CONCLAVE_MUST_USE;

/* Gives a value up, as at the end of the lease. 0, CONCLAVE_ENOTOWNER (this lease does not hold it; also when somebody
 * deleted the holder's node, or the value), CONCLAVE_ECONFLICT (DELETE, and the value was written with RELEASE),
 * CONCLAVE_SESSION_EXPIRED, CONCLAVE_ETIMEDOUT, ... */
CONCLAVE_API int conclave_lease_release(struct conclave_lease *lease, const char *path,
                                        enum conclave_lease_behaviour behaviour,
                                        int64_t timeout_ms) CONCLAVE_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
