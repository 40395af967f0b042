/*
 * A client of the simulation: an application with one session at a time, through the product's client
 * core. It connects to servers by chance, does what the seed says, and writes down what it asked for,
 * when, and its answers: the checks judge them.
 */
#ifndef SIM_CLIENT_H
#define SIM_CLIENT_H

#include "sim/world.h"

#include <conclave/client.h>

struct sim;
struct cable;
struct core;

enum { KEYS = 4 };

/* The request. */
enum deed_kind {
    DEED_SET,       /* data of a key */
    DEED_SET_IF,    /* the same, if the version is the one read last */
    DEED_UNIQUE,    /* a node of a name of its own */
    DEED_SEQUENCE,  /* a sequential node */
    DEED_MULTI,     /* a key's data and a node of its own, both or none */
    DEED_DELETE,    /* of a node that it made */
    DEED_EPHEMERAL, /* an ephemeral node */
    DEED_GET,       /* a key's data, with a watch now and then */
    DEED_SYNC,
    DEED_CHILDREN, /* the ephemerals that are there */
    DEED_LASTING,  /* a persistent watch */
    DEED_RECONFIG, /* a server votes from now on, or no longer, or is no member any more */
    DEED_SETUP,    /* parents of all other nodes */
    DEED_PROBE,    /* a write at the end, to show that there is service */
    DEEDS,
};

struct deed {
    uint64_t id; /* place in the run's list, and the data written */
    enum deed_kind kind;
    struct client *client;
    unsigned key;
    int64_t asked_us;
    int64_t answered_us; /* 0: not yet */
    int error;
    int64_t zxid; /* of the answer */
    int64_t
        floor_zxid; /* the least it must see: the newest write acknowledged before the request */
    bool fresh;     /* and that is promised */
    struct deed *behind;  /* the sync that must have succeeded */
    int32_t expected;     /* version that it must find, -1: any */
    int32_t version;      /* of the key, as answered; -1: not known */
    int64_t owner;        /* session of an ephemeral */
    char path[64];        /* of the node that was made, or is to be */
    struct deed *removal; /* of that node */
    bool watched;         /* a watch was asked for */
    bool again;           /* it was sent on several links: its answer may be old */
    unsigned lasting;     /* which persistent watch */
};

/* Whether it may have been carried out or not. */
bool deed_is_open(const struct deed *d);

/* Whether it goes through the log. */
bool deed_is_write(const struct deed *d);

/* A one-shot watch on a key. */
struct watching {
    bool set;
    bool asked;
    int32_t version; /* that it was set on */
};

/* Persistent watches: one on each key, a recursive one on all of them, a recursive one on the ephemerals. */
enum { LASTING_ALL = KEYS, LASTING_NODES, LASTING };

struct lasting {
    bool set;
    bool asked;
    bool hears;             /* on this link: it was set here, or got RESUMED */
    bool based[KEYS];       /* a key's version is known since it hears */
    int32_t versions[KEYS]; /* as it was then, and one more for each event */
};

/* The ephemerals that are there as the recursive watch tells. */
struct told_nodes {
    bool based;  /* a list was seen since it hears */
    bool *there; /* by deed */
    size_t cap;
};

struct client {
    struct sim *sim;
    unsigned id;
    struct core *core;
    struct cable *cable; /* NULL: no link */
    bool connected;      /* it reaches a server */
    bool connecting;     /* an attempt is planned */
    int64_t wake_us;
    unsigned only;          /* the one server it connects to; 0: any */
    bool silent;            /* does nothing of its own */
    bool sits;              /* only reads, mostly at one server, and leaves now and then */
    bool reads_old;         /* without a session, a server without a quorum will do */
    bool gone;              /* has died: nothing is heard of it */
    bool ending;            /* its core's callbacks are ignored now */
    int64_t seen_zxid;      /* in this session */
    int64_t away_us;        /* it does not connect before */
    int64_t timeout_ms;     /* asked for */
    int32_t versions[KEYS]; /* seen in this session */
    struct watching watching[KEYS];
    struct lasting lasting[LASTING];
    struct told_nodes nodes;
    unsigned open;   /* deeds without an answer */
    uint64_t events; /* watches that got an event */
};

struct client *client_create(struct sim *s, unsigned id);

/* One that sits, with a short session. */
struct client *client_create_sitter(struct sim *s, unsigned id);
void client_destroy(struct client *c);

/* Begins to do things of its own. */
void client_begin(struct client *c);

/* The clock of its core; its link brought in line with the core, after every call of that. */
int64_t client_clock_ns(const struct client *c);
void client_settle(struct client *c);

/* Whether it has a session and a link now. */
bool client_is_up(const struct client *c);

/* Its link is to a server without a quorum. */
bool client_may_only_read(const struct client *c);

/* Its session as it knows it, 0: none that it believes in. */
int64_t client_session(const struct client *c);

/* Loses its link and does not connect for a while: its session may time out. */
void client_leave(struct client *c, int64_t us);

/* Ends that while: the client connects soon. */
void client_return(struct client *c);

/* Holds back for `us` all that the client sends from now on; sends a request. */
void client_stall(struct client *c, int64_t us);

/* The application is started again: its session must time out, and it begins one, or only reads. */
void client_anew(struct client *c);

/* Stops without a word: its session must time out. */
void client_die(struct client *c);

/* The frames from the cable. */
void client_connected(struct client *c);
void client_receive(struct client *c, struct slice bytes);
void client_disconnected(struct client *c);

#endif
