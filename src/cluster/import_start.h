/*
 * The first start of an ensemble on the folders of an Apache ZooKeeper: whose folder does it begin with? Each member reads
 * its own folder and shows the others a card of it. No I/O, no clock.
 *
 *   fewer than a majority of the voters have a readable folder ─────────> WAIT
 *   all voters are heard, or IMPORT_GRACE_MS passed without the rest ───> CHOOSE the newest: durable before others see it
 *   a majority of the voters chose this server ─────────────────────────> FOUND: alone; the others join it. Without a choice
 *                                                                         of its own it chooses itself first
 *   somebody has founded (PEER_GROWN) ──────────────────────────────────> they join: bootstrap.h
 *   two folders have different transactions under one zxid ─────────────> CONFLICT: they are of two ensembles
 *
 * A write that Apache acknowledged is in the logs of a majority, so the newest folder of any majority has it. A member has
 * one choice, and a majority must share it, so no two members found. A choice is taken back only when the chosen
 * member itself shows another folder than the one that was chosen: it cannot found with that one any more, and as
 * an ensemble serves nobody before a majority has joined (ensemble.h, `gathering`), nothing is lost.
 */
#ifndef CLUSTER_IMPORT_START_H
#define CLUSTER_IMPORT_START_H

#include "cluster/links/peer.h"
#include "replication/disk/configuration.h"

enum { IMPORT_GRACE_MS = 2000 };

/* What a folder holds, compared in this order. */
struct import_rank {
    int64_t epoch;
    int64_t zxid;    /* of the last transaction */
    uint64_t digest; /* of the state; it only tells whether two are the same */
};

bool import_rank_equal(const struct import_rank *a, const struct import_rank *b);

/* As Apache's election compares servers. */
bool import_rank_newer(const struct import_rank *a, const struct import_rank *b);

enum import_kind {
    IMPORT_NONE,    /* no folder, an empty one, or nothing is known */
    IMPORT_DAMAGED, /* it cannot be used */
    IMPORT_GOOD,
    IMPORT_BEGUN, /* the ensemble began with the sender's folder, which had this rank */
};

struct import_card {
    enum import_kind kind;
    struct import_rank rank;   /* if good */
    uint64_t print;            /* fingerprint of its last transaction; 0: unknown */
    uint64_t choice;           /* the member that this one chose; 0: none yet */
    struct import_rank chosen; /* that member's rank at the time */
    uint64_t conflict;         /* a member whose folder is of another ensemble; 0: none */
    uint64_t conflict_with;    /* the folder that it was compared with */
    int64_t conflict_zxid;     /* the transaction that differs */
};

/* The card as bytes; the buf records a failure. Reading: 0 or CONCLAVE_EPROTO. */
void import_card_encode(const struct import_card *card, struct buf *out);
int import_card_decode(struct slice bytes, struct import_card *ret) CONCLAVE_MUST_USE;

enum import_verdict {
    IMPORT_WAIT,
    IMPORT_CHOOSE, /* own.choice has changed, also to 0: make it durable, then tell all */
    IMPORT_FOUND, /* with the own folder; there is an own choice, which keeps `gathering` across a restart */
    IMPORT_CONFLICT, /* own.conflict is set */
};

struct import_start {
    uint64_t id;
    const struct configuration_member *founders; /* borrowed */
    size_t n_founders;
    struct import_card own;
    struct import_card cards[MEMBERS_MAX]; /* of the others, by place in founders */
    bool heard[MEMBERS_MAX];               /* by place: it told what it has */
    int64_t majority_ms; /* when a majority of readable folders was known, -1: not yet */
};

/* own: without a choice, or with the one of an earlier life. */
void import_start_init(struct import_start *x, uint64_t id,
                       const struct configuration_member *founders, size_t n,
                       const struct import_card *own);

/* Another server told its identity, or its card. */
void import_start_hello(struct import_start *x, const struct peer_identity *who);
void import_start_card(struct import_start *x, uint64_t from, const struct import_card *card);

/* Two folders have different transactions under one zxid. */
void import_start_conflict(struct import_start *x, uint64_t a, uint64_t b, int64_t zxid);

enum import_verdict import_start_decide(struct import_start *x, int64_t now_ms);

/* How many voters have a readable folder, and how many of them are needed. */
size_t import_start_good(const struct import_start *x);
size_t import_start_needed(const struct import_start *x);

#endif
