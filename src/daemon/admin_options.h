/* The options of the admin port: from zoo.cfg and the command line, or from a test. */
#ifndef DAEMON_ADMIN_OPTIONS_H
#define DAEMON_ADMIN_OPTIONS_H

#include "daemon/effective_config.h"
#include "net/address.h"
#include "tls/context.h"

struct admin_options {
    const char *words;         /* allowed words: "srvr,ruok", "*"; NULL: srvr only */
    bool read_only_word;       /* isro, too: readonlymode.enabled */
    bool test;                 /* a server for tests: take the orders of tests */
    bool http;                 /* serve HTTP on `listen` */
    struct net_address listen; /* port 0: a free one, host "": every interface */
    bool https;                /* TLS on that port, with `tls` */
    bool plain_too;            /* plain HTTP, too */
    struct tls_settings tls;
    bool tls_reload; /* read the certificate files again when they change */
    /* names in the header Host, besides listen's: "a.example,b"; NULL: none */
    const char *allowed_hosts;
    bool console;                         /* serve the web console, if http */
    bool console_acts;                    /* it takes sign-ins and actions, too */
    bool change_by_get;                   /* commands that change state take GET, too */
    bool memb;                            /* the word memb is allowed without being in `words` */
    const char *command_url;              /* path of the AdminServer's commands: "/commands" */
    bool snapshot;                        /* the command snapshot is on */
    bool restore;                         /* the command restore is on */
    int64_t backup_interval_ms;           /* least time between two runs of one of them */
    const struct effective_config *given; /* the configuration to show; NULL: nothing */
    int32_t answer_bytes;                 /* limit of the bytes of the lists in an answer */
    int32_t idle_ms;                      /* an idle HTTP connection is closed after this time */
    bool metrics;                         /* serve /metrics on `metrics_listen`, too */
    struct net_address metrics_listen;
};

/* 127.0.0.1:8080, /commands, srvr. */
struct admin_options admin_options_default(void);

#endif
