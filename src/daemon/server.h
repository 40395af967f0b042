/*
 * A whole server on a libuv loop: client ports, service and replica. Used by `conclave server`, by `conclave demo` (in
 * its own thread) and by tests.
 *
 * Call all functions in the loop's thread. SIGPIPE is blocked in that thread. Log lines go to base/log.
 */
#ifndef DAEMON_SERVER_H
#define DAEMON_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "front/client_door.h"
#include "net/address.h"

#include <conclave/error.h>

struct client_limits;
struct connection;
struct mirror_follower;
struct replica;
struct server;
struct server_options;
struct server_snapshot;
struct service;
struct uv_loop_s;

struct server_callbacks {
    void *ctx;

    /* The server serves clients from now on. */
    void (*ready)(void *ctx, struct server *s);

    /* The server cannot continue and has disconnected its clients; called once. Call server_close. text says what
     * happened and where. */
    void (*failed)(void *ctx, int error, const char *text);
};

/*
 * Binds the port, recovers the data folder and starts; the loop calls `ready` later. Borrows the strings of options
 * until server_close is done. 0, or an error with *ret_text (free it), which says what happened, where and what to do:
 * CONCLAVE_EINVAL (a bad option), CONCLAVE_ERESOLVE, CONCLAVE_EBUSY and CONCLAVE_EDISCONNECTED (the port is not
 * available), the errors of replication_open (the data folder). After an error run the loop until all handles are
 * closed.
 */
int server_open(struct uv_loop_s *loop, const struct server_options *options,
                const struct server_callbacks *callbacks, struct server **ret,
                char **ret_text) CONCLAVE_MUST_USE;

/* Numeric address of a client port; false: the port is off. */
bool server_address(const struct server *s, enum client_door door, struct net_address *ret);

/* What can be read again while the server runs. */
enum server_files {
    SERVER_FILES_CERTIFICATES,      /* for clients */
    SERVER_FILES_PEER_CERTIFICATES, /* for links to the other servers */
    SERVER_FILES_SECRETS,           /* those of server_set_secrets: for new links */
    SERVER_FILES_USERS,             /* digest.users.file */
    SERVER_FILES_COUNT,
};

/* Reads these again, for new connections. 0; CONCLAVE_EUNSUPPORTED: there are none; or an error with *ret_text (free it) and
 * a log line: the old ones stay in use. */
int server_reload(struct server *s, enum server_files files, char **ret_text) CONCLAVE_MUST_USE;

/* Other limits, as in server_options. CONCLAVE_ENOMEM: nothing changed. */
int server_set_limits(struct server *s, const struct client_limits *limits) CONCLAVE_MUST_USE;

/* Other secrets of the ensemble, borrowed until server_close is done; SERVER_FILES_SECRETS gives them to the links. */
void server_set_secrets(struct server *s, struct slice secret, struct slice other);

int64_t server_id(const struct server *s);

/* Stops accepting, finishes unanswered writes, sends their replies, closes everything (within about a second when the
 * disk works) and calls cb. Then s is freed. */
void server_close(struct server *s, void (*cb)(void *ctx), void *ctx);

/* NULL while the server serves clients and answers writes; otherwise the reason, as a fixed text. */
const char *server_why_not_ready(const struct server *s);

/* A warning for operators about a server that serves, as a fixed text; NULL: none. */
const char *server_warning(const struct server *s);

/* When a port's certificate ends, in seconds since 1970; 0: there is none. */
int64_t server_certificate_until_s(const struct server *s, bool of_peers);

/* Empties the server before a restart, or takes that back: see drain.h. */
void server_drain(struct server *s, int64_t within_ms);
void server_undrain(struct server *s);
bool server_is_drained(const struct server *s);

/* For the admin room: the connections (as client_port_each), and other state to show. */
void server_connections_each(const struct server *s, bool (*fn)(void *ctx, struct connection *c),
                             void *ctx);
struct service *server_service(struct server *s);
struct replica *server_node(struct server *s);
struct mirror_follower *server_follower(struct server *s);
const struct server_options *server_options(const struct server *s);

/* The newest durable snapshot and its contents. */
void server_snapshot(const struct server *s, struct server_snapshot *ret);

/* Takes a snapshot soon, unless one is in progress or nothing has changed since the newest. */
void server_take_snapshot(struct server *s);

#endif
