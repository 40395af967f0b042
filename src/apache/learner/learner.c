#include "apache/learner/learner.h"

#include "apache/folder.h"
#include "apache/snapshot_records.h"
#include "base/list.h"
#include "base/random.h"
#include "tls/certificate_name.h"
#include "wire/codec.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum packet_type {
    PACKET_REQUEST = 1,
    PACKET_PROPOSAL = 2,
    PACKET_ACK = 3,
    PACKET_COMMIT = 4,
    PACKET_PING = 5,
    PACKET_SYNC = 7,
    PACKET_INFORM = 8,
    PACKET_NEWLEADER = 10,
    PACKET_UPTODATE = 12,
    PACKET_DIFF = 13,
    PACKET_TRUNC = 14,
    PACKET_SNAP = 15,
    PACKET_OBSERVERINFO = 16,
    PACKET_LEADERINFO = 17,
    PACKET_ACKEPOCH = 18,
    PACKET_INFORMANDACTIVATE = 19,
};

enum { PROTOCOL_VERSION = 0x10000, SIGNATURE_LEN = 10, PROBLEM_MAX = 300 };

#define SIGNATURE "BenWasHere"

enum learner_stage {
    STAGE_INFO,     /* waits for LEADERINFO */
    STAGE_SYNC,     /* waits for DIFF, TRUNC or SNAP */
    STAGE_SNAPSHOT, /* the whole state comes */
    STAGE_SNAPSHOT_END,
    STAGE_DIFF,  /* waits for NEWLEADER */
    STAGE_ACKED, /* waits for UPTODATE */
    STAGE_LIVE,
    STAGE_ENDED,
};

struct learner_packet {
    int32_t type;
    int64_t zxid;
    struct slice data;
};

/* A proposal that is not committed yet. */
struct proposal {
    struct list link;
    int64_t zxid;
    size_t len;
    uint8_t bytes[];
};

struct learner {
    struct learner_options options;
    struct learner_callbacks callbacks;
    enum learner_stage stage;
    struct buf out;
    struct adoption *adoption; /* the whole state under construction; NULL: none */
    struct snapshot_records records;
    bool has_digest;
    struct wire_file_digest digest; /* of the snapshot */
    struct list proposals;
    size_t proposal_bytes;
    int64_t zxid; /* of the last transaction */
    bool any;     /* a transaction has come */
    int64_t new_leader_zxid;
    int64_t barrier_session; /* 0: none is waited for */
    bool restart;
    char problem[PROBLEM_MAX];
};

/* Packets out */

static void packet_begin(struct learner *l, enum packet_type type, int64_t zxid, struct slice data)
{
    buf_append_i32(&l->out, type);
    buf_append_i64(&l->out, zxid);
    wire_write_buffer(&l->out, data);
    buf_append_i32(&l->out, -1); /* no ids */
}

static void send_info(struct learner *l)
{
    uint8_t room[8 + 4 + 8];
    struct buf data = {.data = room, .cap = sizeof room, .max = sizeof room};
    int64_t epoch = l->options.last_zxid >> 32;
    buf_append_i64(&data, l->options.server_id);
    buf_append_i32(&data, PROTOCOL_VERSION);
    buf_append_i64(&data, 0); /* version of the configuration: not above the leader's */
    packet_begin(l, PACKET_OBSERVERINFO, epoch << 32, buf_slice(&data));
}

struct learner *learner_create(const struct learner_options *options,
                               const struct learner_callbacks *callbacks)
{
    struct learner *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return NULL;
    }
    l->options = *options;
    l->callbacks = *callbacks;
    l->zxid = options->last_zxid;
    list_init(&l->proposals);
    buf_init(&l->out, 0);
    send_info(l);
    if (!buf_ok(&l->out)) {
        learner_destroy(l);
        return NULL;
    }
    return l;
}

/* Drops the oldest. */
static void drop_proposal(struct learner *l)
{
    struct proposal *first = CONTAINER_OF(l->proposals.next, struct proposal, link);
    /* The analyzer does not see list_remove. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    size_t len = sizeof *first + first->len;
    assert(l->proposal_bytes >= len);
    l->proposal_bytes -= len;
    list_remove(&first->link);
    free(first);
}

void learner_destroy(struct learner *l)
{
    if (l == NULL) {
        return;
    }
    while (!list_empty(&l->proposals)) {
        drop_proposal(l);
    }
    adoption_destroy(l->adoption);
    buf_finish(&l->out);
    free(l);
}

struct buf *learner_out(struct learner *l)
{
    return &l->out;
}

bool learner_is_live(const struct learner *l)
{
    return l->stage == STAGE_LIVE;
}

bool learner_must_restart(const struct learner *l)
{
    return l->restart;
}

const char *learner_problem(const struct learner *l)
{
    return l->problem;
}

__attribute__((format(printf, 3, 4))) static int learner_end(struct learner *l, int rc,
                                                             const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(l->problem, sizeof l->problem, fmt, args);
    va_end(args);
    certificate_name_clean(l->problem); /* it may quote the leader's bytes */
    l->stage = STAGE_ENDED;
    return rc;
}

/* Whether the state under construction has become too large. */
static bool is_too_large(const struct learner *l)
{
    return l->options.data_max != 0 && adoption_memory(l->adoption) > l->options.data_max;
}

static int end_too_large(struct learner *l)
{
    return learner_end(l, CONCLAVE_QUOTA_EXCEEDED,
                       "the tree and sessions of the source take more than the %zu bytes of "
                       "maxDataBytes: raise it on all servers of the mirror",
                       l->options.data_max);
}

/* Transactions */

static int apply_to_adoption(struct learner *l, const struct outcome *o)
{
    if (o->header.zxid <= adoption_zxid(l->adoption)) {
        return 0; /* the snapshot has it */
    }
    if (is_too_large(l)) {
        return end_too_large(l);
    }
    int rc = adoption_apply(l->adoption, o);
    return rc == CONCLAVE_ECORRUPT ? learner_end(l, rc, "%s", adoption_error(l->adoption)) : rc;
}

/* Whether a zxid may come after another one: within an epoch there are no gaps. */
static bool may_follow(int64_t before, int64_t zxid)
{
    bool same = before >> 32 == zxid >> 32;
    return same ? zxid == before + 1 : zxid > before && (zxid & 0xffffffff) == 1;
}

static void note_barrier(struct learner *l, const struct outcome *o)
{
    if (l->barrier_session != 0 && o->header.session_id == l->barrier_session) {
        l->barrier_session = 0;
        l->callbacks.barrier(l->callbacks.ctx, o->header.zxid);
    }
}

static int take_transaction(struct learner *l, struct slice bytes)
{
    struct outcome o;
    if (outcome_read(bytes, &o) != 0) {
        return learner_end(
            l, CONCLAVE_ECORRUPT,
            "a transaction of %zu bytes cannot be read: a newer ZooKeeper may have sent it",
            bytes.len);
    }
    int64_t zxid = o.header.zxid;
    if (l->adoption != NULL) {
        int rc = apply_to_adoption(l, &o);
        l->zxid = rc == 0 ? adoption_zxid(l->adoption) : l->zxid;
        return rc;
    }
    if (zxid <= l->zxid) {
        return 0; /* the caller has it */
    }
    if (zxid > OUTCOME_ZXID_MAX) {
        return learner_end(l, CONCLAVE_ECORRUPT,
                           "the zxid 0x%llx leaves none for later transactions",
                           (unsigned long long)zxid);
    }
    if (!may_follow(l->zxid, zxid)) {
        l->restart = true;
        return learner_end(l, CONCLAVE_ECLOSED, "transaction 0x%llx does not follow 0x%llx",
                           (unsigned long long)zxid, (unsigned long long)l->zxid);
    }
    int rc = l->callbacks.transaction(l->callbacks.ctx, l->zxid, zxid, bytes);
    if (rc == 0) {
        l->zxid = zxid;
        l->callbacks.seen(l->callbacks.ctx, zxid);
        note_barrier(l, &o);
    } else if (rc != CONCLAVE_EBUSY) {
        (void)learner_end(l, rc, "%s",
                          rc == CONCLAVE_QUOTA_EXCEEDED
                              ? "the data of the mirror reached maxDataBytes: raise it on all "
                                "servers of the mirror"
                              : conclave_strerror(rc));
    }
    return rc;
}

static int keep_proposal(struct learner *l, const struct learner_packet *p)
{
    size_t len = sizeof(struct proposal) + p->data.len; /* empty ones take memory, too */
    if (slice_is_null(p->data) || len > LEARNER_PACKET_MAX - l->proposal_bytes) {
        return learner_end(l, CONCLAVE_EPROTO, "an empty proposal, or too many without a commit");
    }
    struct proposal *kept = malloc(sizeof *kept + p->data.len);
    if (kept == NULL) {
        return learner_end(l, CONCLAVE_ENOMEM, "out of memory");
    }
    kept->zxid = p->zxid;
    kept->len = p->data.len;
    memcpy(kept->bytes, p->data.data, p->data.len);
    l->proposal_bytes += len;
    list_push_back(&l->proposals, &kept->link);
    return 0;
}

/* A commit of a proposal that the leader had sent before this learner came is no error. */
static int commit_proposal(struct learner *l, int64_t zxid)
{
    if (list_empty(&l->proposals)) {
        return 0;
    }
    struct proposal *first = CONTAINER_OF(l->proposals.next, struct proposal, link);
    if (first->zxid != zxid) {
        return 0;
    }
    int rc = take_transaction(l, slice_make(first->bytes, first->len));
    if (rc == 0) {
        drop_proposal(l);
    }
    return rc;
}

/* The whole state */

static int begin_adoption(struct learner *l)
{
    adoption_destroy(l->adoption);
    l->adoption = adoption_create(l->options.key);
    return l->adoption != NULL ? 0 : learner_end(l, CONCLAVE_ENOMEM, "out of memory");
}

/* An empty tree, which the transactions of a DIFF fill. */
static int begin_empty(struct learner *l)
{
    struct adopted_node root = {.path = slice_make("", 0),
                                .record = {.data = slice_make("", 0), .acl = -1}};
    int rc = begin_adoption(l);
    rc = rc == 0 ? adoption_node(l->adoption, &root) : rc;
    return rc == 0 ? adoption_nodes_end(l->adoption, 0) : rc;
}

static int end_adoption(struct learner *l)
{
    struct adoption_report report;
    struct state *state = NULL;
    if (l->adoption == NULL) {
        return 0;
    }
    int rc =
        adoption_end(l->adoption, l->has_digest ? &l->digest : NULL, apache_crc32, &report, &state);
    if (rc != 0) {
        return learner_end(l, rc, "%s",
                           rc == CONCLAVE_ECORRUPT ? adoption_error(l->adoption)
                                                   : conclave_strerror(rc));
    }
    adoption_destroy(l->adoption);
    l->adoption = NULL;
    l->zxid = state_zxid(state);
    l->callbacks.seen(l->callbacks.ctx, l->zxid);
    rc = l->callbacks.state(l->callbacks.ctx, state);
    return rc == 0 ? 0 : learner_end(l, rc, "%s", conclave_strerror(rc));
}

/* 1: a record was taken; 0: it is not complete. */
static int take_record(struct learner *l, struct slice bytes, size_t *ret_taken)
{
    struct snapshot_records *x = &l->records;
    struct wire_reader r = wire_reader_make(bytes);
    if (snapshot_records_decode(&r, x) != 0) {
        return bytes.len <= LEARNER_PACKET_MAX
                   ? 0
                   : learner_end(l, CONCLAVE_EPROTO, "a %s is too large", snapshot_records_next(x));
    }
    if (x->error != 0) {
        return learner_end(l, x->error, "%s",
                           x->why != NULL ? x->why : adoption_error(l->adoption));
    }
    if (is_too_large(l)) {
        return end_too_large(l);
    }
    if (x->phase == SNAPSHOT_COMPLETE) {
        l->stage = STAGE_SNAPSHOT_END;
    }
    *ret_taken = (size_t)(r.pos - bytes.data);
    return 1;
}

/* The digest (3.6 and later), the last zxid (3.9), and a signature; each of the first two may be missing. */
static int take_snapshot_end(struct learner *l, struct slice bytes, size_t *ret_taken)
{
    static const uint8_t signature[] = {0,   0,   0,   SIGNATURE_LEN, 'B', 'e', 'n',
                                        'W', 'a', 's', 'H',           'e', 'r', 'e'};
    enum { DIGEST_MIN = 8 + 4 + 4, ZXID_BYTES = 8 };
    size_t parts[] = {0, 0, ZXID_BYTES, ZXID_BYTES};
    struct wire_file_digest digest = {0};
    struct wire_reader r = wire_reader_make(bytes);
    assert(bytes.data != NULL);
    bool has_digest = snapshot_digest_decode(&r, &digest) == 0;
    size_t digest_len = has_digest ? (size_t)(r.pos - bytes.data) : 0;
    parts[1] = digest_len;
    parts[3] += digest_len;
    for (size_t i = 0; i < 4; i++) {
        size_t need = parts[i] + sizeof signature;
        if ((i % 2 == 1 && !has_digest) || bytes.len < need ||
            memcmp(bytes.data + parts[i], signature, sizeof signature) != 0) {
            continue;
        }
        l->has_digest = i % 2 == 1 && digest.zxid > 0;
        l->digest = digest;
        l->stage = STAGE_DIFF;
        *ret_taken = need;
        return 1;
    }
    size_t longest = DIGEST_MIN + 256 + ZXID_BYTES + sizeof signature;
    return bytes.len < longest
               ? 0
               : learner_end(l, CONCLAVE_EPROTO, "the snapshot does not end with its signature");
}

/* Packets in */

static int on_leader_info(struct learner *l, const struct learner_packet *p)
{
    uint8_t epoch[4] = {0xff, 0xff, 0xff, 0xff}; /* no vote for the epoch */
    struct wire_reader r = wire_reader_make(p->data);
    int32_t version = wire_read_i32(&r);
    if (p->type != PACKET_LEADERINFO || r.failed || version < PROTOCOL_VERSION) {
        return learner_end(l, CONCLAVE_EPROTO,
                           "the server does not answer as a leader of ZooKeeper 3.5 or later");
    }
    packet_begin(l, PACKET_ACKEPOCH, l->options.last_zxid, slice_make(epoch, sizeof epoch));
    l->stage = STAGE_SYNC;
    return 0;
}

static int on_sync(struct learner *l, const struct learner_packet *p)
{
    bool whole = l->options.last_zxid == 0;
    switch (p->type) {
    case PACKET_DIFF:
        l->stage = STAGE_DIFF;
        return whole ? begin_empty(l) : 0;
    case PACKET_SNAP: {
        int rc = begin_adoption(l);
        if (rc == 0) {
            const struct apache_snapshot_taker taker = apache_adoption_taker(l->adoption);
            snapshot_records_init(&l->records, &taker, p->zxid);
            l->stage = STAGE_SNAPSHOT;
        }
        return rc;
    }
    case PACKET_TRUNC:
        l->restart = true;
        return learner_end(l, CONCLAVE_ECLOSED,
                           "the source has nothing after 0x%llx, and this side has 0x%llx",
                           (unsigned long long)p->zxid, (unsigned long long)l->options.last_zxid);
    default:
        return learner_end(l, CONCLAVE_EPROTO, "packet %d instead of DIFF, TRUNC or SNAP", p->type);
    }
}

static int on_inform(struct learner *l, const struct learner_packet *p)
{
    struct slice bytes = p->data;
    if (p->type == PACKET_INFORMANDACTIVATE) {
        if (bytes.len < 8) {
            return learner_end(l, CONCLAVE_EPROTO, "a reconfiguration is cut off");
        }
        bytes = slice_make(bytes.data + 8, bytes.len - 8);
    }
    return take_transaction(l, bytes);
}

static int on_flow(struct learner *l, const struct learner_packet *p)
{
    switch (p->type) {
    case PACKET_PROPOSAL:
        return l->stage == STAGE_LIVE ? 0 : keep_proposal(l, p);
    case PACKET_COMMIT:
        return l->stage == STAGE_LIVE ? 0 : commit_proposal(l, p->zxid);
    case PACKET_INFORM:
    case PACKET_INFORMANDACTIVATE:
        return on_inform(l, p);
    case PACKET_PING:
        if (l->out.len > LEARNER_OUT_MAX) {
            return learner_end(l, CONCLAVE_EPROTO, "the leader sends, and does not read");
        }
        l->callbacks.seen(l->callbacks.ctx, p->zxid);
        packet_begin(l, PACKET_PING, p->zxid, slice_make("", 0));
        return 0;
    case PACKET_NEWLEADER: {
        if (l->stage != STAGE_DIFF) {
            return learner_end(l, CONCLAVE_EPROTO, "NEWLEADER comes twice");
        }
        int rc = end_adoption(l);
        if (rc == 0) {
            l->new_leader_zxid = p->zxid;
            packet_begin(l, PACKET_ACK, p->zxid, SLICE_NULL);
            l->stage = STAGE_ACKED;
        }
        return rc;
    }
    case PACKET_UPTODATE:
        if (l->stage != STAGE_ACKED) {
            return learner_end(l, CONCLAVE_EPROTO, "UPTODATE before NEWLEADER");
        }
        packet_begin(l, PACKET_ACK, l->new_leader_zxid & ~(int64_t)0xffffffff, SLICE_NULL);
        l->stage = STAGE_LIVE;
        l->callbacks.live(l->callbacks.ctx);
        return 0;
    default:
        return 0; /* SYNC, REVALIDATE: answers to what this learner never asks */
    }
}

static int on_packet(struct learner *l, const struct learner_packet *p)
{
    switch (l->stage) {
    case STAGE_INFO:
        return on_leader_info(l, p);
    case STAGE_SYNC:
        return on_sync(l, p);
    default:
        return on_flow(l, p);
    }
}

/* 1: a packet was taken; 0: it is not complete. */
static int take_packet(struct learner *l, struct slice bytes, size_t *ret_taken)
{
    struct wire_reader r = wire_reader_make(bytes);
    struct learner_packet p = {.type = wire_read_i32(&r)};
    p.zxid = wire_read_i64(&r);
    struct wire_reader ahead = r;
    int32_t len = wire_read_i32(&ahead);
    if (!ahead.failed && (len < -1 || len > LEARNER_PACKET_MAX)) {
        return learner_end(l, CONCLAVE_EPROTO,
                           "a packet of type %d has %d bytes: this is no leader of ZooKeeper",
                           p.type, len);
    }
    p.data = wire_read_buffer(&r);
    (void)wire_read_ids(&r);
    if (r.failed) {
        return bytes.len <= LEARNER_PACKET_MAX + 64
                   ? 0
                   : learner_end(l, CONCLAVE_EPROTO, "a packet is too large");
    }
    int rc = on_packet(l, &p);
    if (rc != 0) {
        return rc;
    }
    *ret_taken = (size_t)(r.pos - bytes.data);
    return 1;
}

int learner_input(struct learner *l, struct slice bytes, size_t *ret_taken)
{
    size_t taken = 0;
    int rc = 1;
    *ret_taken = 0;
    while (rc == 1 && taken < bytes.len) {
        struct slice rest = slice_make(bytes.data + taken, bytes.len - taken);
        size_t used = 0;
        if (l->stage == STAGE_ENDED) {
            return CONCLAVE_ECLOSED;
        }
        if (l->stage == STAGE_SNAPSHOT) {
            rc = take_record(l, rest, &used);
        } else if (l->stage == STAGE_SNAPSHOT_END) {
            rc = take_snapshot_end(l, rest, &used);
        } else {
            rc = take_packet(l, rest, &used);
        }
        assert(used <= rest.len);
        taken += used;
    }
    *ret_taken = taken;
    return rc < 0 ? rc : buf_ok(&l->out) ? 0 : learner_end(l, CONCLAVE_ENOMEM, "out of memory");
}

int learner_barrier(struct learner *l)
{
    uint8_t room[8 + 4 + 4];
    struct buf data = {.data = room, .cap = sizeof room, .max = sizeof room};
    assert(l->stage == STAGE_LIVE);
    /* No server gives such an id: its number is 0. */
    l->barrier_session = (int64_t)random_below((uint64_t)1 << 55) + 1;
    buf_append_i64(&data, l->barrier_session);
    buf_append_i32(&data, 1);
    buf_append_i32(&data, WIRE_CLOSE_SESSION);
    packet_begin(l, PACKET_REQUEST, -1, buf_slice(&data));
    return buf_ok(&l->out) ? 0 : CONCLAVE_ENOMEM;
}
