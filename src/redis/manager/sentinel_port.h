/*
 * A manager's port for Sentinel's protocol and HTTP probes: gives the server (redis/sentinel/sentinel_server.h) the manager's
 * knowledge, proves that the record is current (conclave/redis.h), publishes events, and stores requests for a fail-over.
 */
#ifndef REDIS_MANAGER_SENTINEL_PORT_H
#define REDIS_MANAGER_SENTINEL_PORT_H

#include "redis/manager/cluster_znodes.h"
#include "redis/manager/monitor.h"
#include "redis/sentinel/sentinel_server.h"

/* As the operator gives them. Strings and pointers outlive the port. */
struct sentinel_options {
    bool on;
    const char *name; /* of the cluster */
    const char *host; /* to listen at; "": every interface */
    int port;         /* 1 to 65535 */
    const char *
        announce; /* "host:port" by which clients reach it; "": by the address that it has towards the servers */
    int64_t stale_ms; /* no master is named if the last proof is older */
    bool failover_allowed;
    const struct sentinel_users *users; /* NULL: nobody logs in */
    struct tls_context *tls;            /* NULL: plain text */
};

struct sentinel_port;

struct sentinel_port_settings {
    uv_loop_t *loop;
    struct conclave_recipes *recipes;
    const struct sentinel_options *options;
    const struct redis_config *config; /* all of these outlive the port */
    const struct redis_monitor *monitor;
    const struct redis_store *store;
    const struct redis_managers *managers;
    const char *id;
    /* A client was sent away, or has to wait; at most once per minute, address and reason. */
    void (*refused)(void *ctx, const char *peer, const char *why);
    void *ctx;
};

/* Listens. 0, CONCLAVE_ENOMEM, or the errors of sentinel_server_open, with *ret_detail. */
int sentinel_port_open(const struct sentinel_port_settings *settings, struct sentinel_port **ret,
                       int *ret_detail) CONCLAVE_MUST_USE;

/* Something may have changed: publishes the events. */
void sentinel_port_look(struct sentinel_port *port);

/* Calls closed from the loop. Uses monitor, store and managers no more. */
void sentinel_port_close(struct sentinel_port *port, void (*closed)(void *ctx), void *ctx);

#endif
