/*
 * The port of Sentinel's protocol: accepts connections, gives their bytes to sessions (sentinel_session.h), sends the answers, and
 * publishes events to subscribers. Runs in a libuv loop and never blocks: each client gets one call of its session per turn of
 * the loop, and a worker does the TLS handshakes. What a client has sent before its end is answered.
 *
 * Limits: SENTINEL_CLIENTS_MAX connections, half of the descriptors that a process usually has. If they are used up, the
 * address with the most connections makes room with the one that was silent longest, one without a subscription first. A
 * client that does not read SENTINEL_UNSENT_MAX bytes is disconnected. So is one that needs longer than patience_ms for its
 * TLS handshake and log-in, or reads nothing for that time while bytes wait for it. TCP keep-alive ends connections whose
 * peer is gone. Bounds of all clients and rates per address: sentinel_limits.h. Beyond a bound, a client of the address that
 * uses the most is disconnected; an address that connects too often is, too; the requests of one that asks too often wait.
 */
#ifndef REDIS_SENTINEL_SENTINEL_SERVER_H
#define REDIS_SENTINEL_SENTINEL_SERVER_H

#include "net/listener.h"
#include "redis/sentinel/sentinel_limits.h"
#include "redis/sentinel/sentinel_session.h"

enum {
    SENTINEL_CLIENTS_MAX = 512,
    SENTINEL_UNSENT_MAX = 256 * 1024,
    SENTINEL_PATIENCE_MS = 10000,
};

struct sentinel_server;

struct sentinel_server_settings {
    uv_loop_t *loop;
    const char *host;                /* "": every interface */
    int port;                        /* 0: a free one */
    struct tls_context *tls;         /* outlives the server; NULL: plain text */
    int64_t patience_ms;             /* usually SENTINEL_PATIENCE_MS */
    struct sentinel_rates rates;     /* usually SENTINEL_RATES */
    struct sentinel_backend backend; /* its pointers outlive the server */
    /* A client is sent away, or has to wait; once per minute, address and reason. ctx is the backend's. May be NULL. */
    void (*refused)(void *ctx, const char *peer, const char *why);
};

/* Listens. 0, CONCLAVE_ENOMEM, CONCLAVE_EIO (no thread), CONCLAVE_EINVAL (host), or the errors of listener_open with
 * *ret_detail. */
int sentinel_server_open(const struct sentinel_server_settings *settings,
                         struct sentinel_server **ret, int *ret_detail) CONCLAVE_MUST_USE;

int sentinel_server_port(const struct sentinel_server *server);

/* Sends an event to all sessions that subscribed to it. */
void sentinel_server_publish(struct sentinel_server *server, const char *channel,
                             const char *message);

/* The outcome of backend.failover. A session that has ended meanwhile is ignored. */
void sentinel_server_requested(struct sentinel_server *server, uint64_t session_id, int error);

/* Ends all connections; closed (may be NULL) is called from the loop, then the server is freed. */
void sentinel_server_close(struct sentinel_server *server, void (*closed)(void *ctx), void *ctx);

#endif
