/* What the admin port is told at its start: from zoo.cfg and the command line, or by a test. */
#ifndef ADMIN_ANSWERS_ADMIN_OPTIONS_H
#define ADMIN_ANSWERS_ADMIN_OPTIONS_H

#include "daemon/effective_config.h"
#include "net/address.h"
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
    /* names in the header Host, beside listen's: "a.example,b"; NULL: none */
    const char *allowed_hosts;
    bool change_by_get;                   /* commands that change state take GET, too */
    bool memb;                            /* the word memb needs no place in `words` */
    const char *command_url;              /* where the AdminServer's commands stand: "/commands" */
    bool snapshot;                        /* the command snapshot is carried out */
    bool restore;                         /* the command restore is */
    int64_t backup_interval_ms;           /* least time between two of the same */
    const struct effective_config *given; /* what operators may see of it; NULL: nothing */
    int32_t answer_bytes;                 /* most bytes of the lists in an answer */
    int32_t idle_ms; /* an HTTP connection that says nothing for so long is closed */
    bool metrics;    /* serve /metrics on `metrics_listen`, too */
    struct net_address metrics_listen;
};

/* 127.0.0.1:8080, /commands, srvr. */
struct admin_options admin_options_default(void);

#endif
