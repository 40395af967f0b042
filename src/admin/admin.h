/*
 * What operators and their tools ask the server: four-letter words on the client port, ZooKeeper's AdminServer routes,
 * metrics for Prometheus and probes over HTTP. Reads the server on its own loop thread and changes nothing of it but
 * counters, save for the command restore.
 *
 * Limits: the lists of an answer have at most VIEW_CONNECTIONS_MAX connections and VIEW_WATCHES_MAX watches (view.h) in
 * about answer_bytes; the answer says how many were left out. So no question stalls the clients; HTTP has its own limits (http.h). No log-in but for
 * snapshot and restore: listen on an address that only operators reach, or ask for their certificates (HTTPS).
 */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include "net/address.h"
#include "server/given.h"
#include "server/server.h"
#include "tls/context.h"

struct admin_options {
    const char *words;         /* words that are answered: "srvr,ruok", "*"; NULL: srvr only */
    bool read_only_word;       /* isro as well: readonlymode.enabled */
    bool http;                 /* serve HTTP on `listen` */
    struct net_address listen; /* port 0 takes a free one, host "" is every interface */
    bool https;                /* TLS on that port, by `tls` */
    bool plain_too;            /* and plain HTTP */
    struct tls_settings tls;
    bool tls_reload; /* read the certificate files again when they change */
    const char
        *allowed_hosts; /* names in the header Host, beside listen's: "a.example,b"; NULL: none */
    bool change_by_get; /* commands that change state take GET, too */
    bool memb;          /* the word memb needs no place in `words` */
    const char *command_url;    /* where the AdminServer's commands stand: "/commands" */
    bool snapshot;              /* the command snapshot is carried out */
    bool restore;               /* the command restore is */
    int64_t backup_interval_ms; /* least time between two of the same */
    const struct given *given;  /* what operators may see of it; NULL: nothing */
    int32_t answer_bytes;       /* most bytes of the lists in an answer */
    int32_t idle_ms;            /* an HTTP connection that says nothing for so long is closed */
    bool metrics;               /* serve /metrics on `metrics_listen`, too */
    struct net_address metrics_listen;
};

/* 127.0.0.1:8080, /commands, srvr. */
struct admin_options admin_options_default(void);

struct admin;

/*
 * Binds the ports and begins to answer: "not serving" until admin_attach. Borrows the strings of options. 0, or
 * CONCLAVE_ERESOLVE, CONCLAVE_EBUSY, CONCLAVE_EDISCONNECTED (a port cannot be had), CONCLAVE_ENOMEM with *ret_text (free
 * it). After an error the loop must be run until it has closed all handles.
 */
int admin_open(uv_loop_t *loop, const struct admin_options *options, struct admin **ret,
               char **ret_text) CONCLAVE_MUST_USE;

/* The server that is asked from now on; its four-letter words come here. NULL: none any more; call it before the server
 * is gone. */
void admin_attach(struct admin *a, struct server *s);

/* Reads the certificate files again, for connections from now on. */
void admin_reload(struct admin *a);

/* Numeric address of the HTTP port; false when there is none. */
bool admin_address(const struct admin *a, struct net_address *ret);

/* Ends all HTTP connections, frees a and calls cb from the loop. Takes NULL without a call. */
void admin_close(struct admin *a, void (*cb)(void *ctx), void *ctx);

#endif
