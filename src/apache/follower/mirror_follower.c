#include "apache/follower/mirror_follower.h"

#include "apache/learner/learner_link.h"
#include "base/log.h"
#include "front/mirror.h"
#include "state/adopt/outcome.h"
#include "state/memory_estimate.h"
#include "state/mirror.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIGESTS_KEPT = 4096,
    STUCK_MS = 10000, /* proposals that are not applied for so long are lost */
    TROUBLE_MAX = 400,
    FIRST_ID = 0x10000, /* learners have ids that no configuration uses */
};

struct told_digest {
    int64_t zxid;
    uint64_t digest;
};

struct mirror_follower {
    uv_loop_t *loop;
    struct service *service;
    const struct source_access *access;
    struct learner_link *link; /* NULL: it does not follow now */
    int64_t id;                /* of the mirror that the link is for */
    bool closing_link;
    bool closing;
    void (*closed)(void *ctx);
    void *closed_ctx;
    bool waits;           /* a callback said CONCLAVE_EBUSY */
    int64_t zxid;         /* of the last transaction that was proposed, or of the state */
    int64_t progress_ms;  /* when something was proposed or applied last */
    size_t backlog;       /* at that time */
    int64_t behind_since; /* 0: not behind */
    int64_t heard_at;     /* -1: never */
    char trouble[TROUBLE_MAX];
    struct follower_view view;
    struct told_digest *digests; /* DIGESTS_KEPT, by zxid modulo; NULL: none */
};

const char *mirror_stage_name(enum mirror_stage stage)
{
    static const char *const names[] = {"none", "connecting", "loading", "catching up",
                                        "following"};
    return names[stage];
}

struct mirror_follower *mirror_follower_create(uv_loop_t *loop, struct service *service,
                                               const struct source_access *access)
{
    struct mirror_follower *f = calloc(1, sizeof *f);
    if (f != NULL) {
        f->loop = loop;
        f->service = service;
        f->access = access;
        f->heard_at = -1;
    }
    return f;
}

static int64_t follower_now_ms(const struct mirror_follower *f)
{
    return clock_monotonic_ms(f->service->clock);
}

/* Callbacks of the link */

static int64_t follower_last_zxid(void *ctx)
{
    struct mirror_follower *f = ctx;
    struct state_mirror m;
    if (mirror_backlog(f->service) > 0 || mirror_replacing(f->service) ||
        !state_mirror(f->service->state, &m)) {
        return -1;
    }
    f->waits = false;
    f->zxid = m.synced ? state_zxid(f->service->state) : 0;
    return f->zxid;
}

static void note_heard(struct mirror_follower *f)
{
    f->heard_at = follower_now_ms(f);
}

static int follower_state(void *ctx, struct state *state_take)
{
    struct mirror_follower *f = ctx;
    int64_t zxid = state_zxid(state_take);
    struct state_stats stats;
    state_stats(state_take, &stats);
    int rc = mirror_replace(f->service, state_take);
    if (rc != 0) {
        state_destroy(state_take);
        return rc;
    }
    f->zxid = zxid;
    f->view.states++;
    note_heard(f);
    log_always("server", "mirror-state", "zxid=0x%llx nodes=%zu sessions=%zu",
               (unsigned long long)zxid, stats.nodes, stats.sessions);
    return 0;
}

static void keep_digest(struct mirror_follower *f, struct slice bytes)
{
    struct outcome o;
    if (f->digests == NULL) {
        f->digests = calloc(DIGESTS_KEPT, sizeof *f->digests);
    }
    if (f->digests != NULL && outcome_read(bytes, &o) == 0 && o.has_digest &&
        o.digest.version == OUTCOME_DIGEST_VERSION) {
        f->digests[(uint64_t)o.header.zxid % DIGESTS_KEPT] =
            (struct told_digest){o.header.zxid, (uint64_t)o.digest.digest};
    }
}

static int follower_transaction(void *ctx, int64_t previous_zxid, int64_t zxid, struct slice bytes)
{
    struct mirror_follower *f = ctx;
    struct service *s = f->service;
    assert(zxid > previous_zxid);
    if (state_memory(s->state) + mirror_backlog(s) > s->limits.data_max) {
        return CONCLAVE_QUOTA_EXCEEDED;
    }
    int rc = mirror_replacing(s) ? CONCLAVE_EBUSY : mirror_propose(s, previous_zxid, bytes);
    f->waits = rc == CONCLAVE_EBUSY;
    if (rc == 0) {
        keep_digest(f, bytes);
        f->zxid = zxid;
        f->view.transactions++;
        note_heard(f);
    }
    return rc;
}

static void follower_live(void *ctx)
{
    struct mirror_follower *f = ctx;
    char server[NET_TEXT_MAX];
    f->trouble[0] = '\0';
    note_heard(f);
    log_always("server", "mirror-follows", "source=%s zxid=0x%llx",
               net_address_format(learner_link_server(f->link), server),
               (unsigned long long)f->zxid);
}

static void follower_seen(void *ctx, int64_t zxid)
{
    struct mirror_follower *f = ctx;
    /* A new leader names its epoch before its first transaction. */
    if ((zxid & 0xffffffff) != 0 && zxid > f->view.source_zxid) {
        f->view.source_zxid = zxid;
    }
    note_heard(f);
}

static void follower_barrier(void *ctx, int64_t zxid)
{
    struct mirror_follower *f = ctx;
    f->view.barrier_zxid = zxid;
}

static void follower_trouble(void *ctx, const struct net_address *server, const char *why)
{
    struct mirror_follower *f = ctx;
    char text[NET_TEXT_MAX];
    net_address_format(server, text);
    (void)snprintf(f->trouble, sizeof f->trouble, "%s: %s", text, why);
    f->view.breaks++;
    f->view.source_zxid = 0;
    log_cause(
        LOG_WARN, "server", "mirror-break", text, why,
        "nothing to do while the source elects a leader; when it repeats, check the addresses and its "
        "servers",
        "source=%s reason=\"%s\"", text, why);
}

/* Begins and ends */

static void open_link(struct mirror_follower *f, const struct state_mirror *m)
{
    struct net_address servers[LEARNER_SERVERS_MAX];
    size_t count = learner_servers_parse(m->source, servers);
    const struct learner_link_callbacks callbacks = {
        .learner = {f, follower_state, follower_transaction, follower_live, follower_seen,
                    follower_barrier},
        .last_zxid = follower_last_zxid,
        .trouble = follower_trouble,
    };
    const struct learner_link_options options = {
        .servers = servers,
        .count = count,
        .server_id = FIRST_ID + (int64_t)f->service->server_id,
        .key = &f->service->key,
        .access = f->access,
        .data_max = f->service->limits.data_max,
    };
    if (count == 0) {
        return; /* the command checks it */
    }
    mirror_reset(f->service);
    f->view = (struct follower_view){0};
    f->id = m->id;
    f->backlog = 0;
    f->progress_ms = follower_now_ms(f);
    f->link = learner_link_open(f->loop, &options, &callbacks);
    log_always("server", "mirror-connects", "source=\"%.*s\"", SLICE_FMT(m->source));
}

static void on_link_closed(void *ctx)
{
    struct mirror_follower *f = ctx;
    assert(f->link == NULL);
    f->closing_link = false;
    if (f->closing) {
        void (*cb)(void *ctx) = f->closed;
        void *cb_ctx = f->closed_ctx;
        free(f->digests);
        free(f);
        cb(cb_ctx);
    }
}

static void close_link(struct mirror_follower *f)
{
    struct learner_link *link = f->link;
    assert(link != NULL && !f->closing_link);
    f->link = NULL;
    f->closing_link = true;
    f->view.stage = MIRROR_NONE;
    learner_link_close(link, on_link_closed, f);
}

void mirror_follower_close(struct mirror_follower *f, void (*cb)(void *ctx), void *ctx)
{
    if (f == NULL) {
        cb(ctx);
        return;
    }
    f->closing = true;
    f->closed = cb;
    f->closed_ctx = ctx;
    if (f->link != NULL) {
        close_link(f);
    } else if (!f->closing_link) {
        on_link_closed(f);
    }
}

/* Turns */

/* Whether what was proposed is lost: then the link begins anew behind what the state has. */
static bool is_lost(struct mirror_follower *f)
{
    struct service *s = f->service;
    int64_t now = follower_now_ms(f);
    size_t backlog = mirror_backlog(s);
    if (backlog != f->backlog || mirror_replacing(s)) {
        f->backlog = backlog;
        f->progress_ms = now;
        return false;
    }
    bool stuck = backlog > 0 && now - f->progress_ms > STUCK_MS;
    /* The state refused a transaction, or a whole state was given up. */
    bool other = backlog == 0 && learner_link_is_live(f->link) && state_zxid(s->state) != f->zxid;
    return stuck || other;
}

void mirror_follower_turn(struct mirror_follower *f)
{
    struct state_mirror m;
    struct service *s = f->service;
    bool wanted = !f->closing && s->serving && s->standing.leads && !s->standing.gathering &&
                  state_mirror(s->state, &m);
    if (f->link != NULL && (!wanted || m.id != f->id)) {
        close_link(f);
    }
    if (!wanted || f->closing_link) {
        return;
    }
    if (f->link == NULL) {
        open_link(f, &m);
        return;
    }
    if (is_lost(f)) {
        mirror_reset(s);
        f->backlog = 0;
        f->progress_ms = follower_now_ms(f);
        learner_link_restart(f->link);
    } else if (f->waits && !mirror_replacing(s) && mirror_backlog(s) < MIRROR_BACKLOG_MAX / 2) {
        f->waits = false;
        learner_link_resume(f->link);
    }
    bool behind = f->view.source_zxid > state_zxid(s->state);
    f->behind_since = !behind ? 0 : f->behind_since != 0 ? f->behind_since : follower_now_ms(f);
}

void mirror_follower_view(const struct mirror_follower *f, struct follower_view *ret)
{
    struct state_mirror m;
    struct service *s = f->service;
    int64_t zxid = state_zxid(s->state);
    int64_t now = follower_now_ms(f);
    *ret = f->view;
    ret->trouble = f->trouble;
    ret->stage = MIRROR_NONE;
    if (f->link == NULL || !state_mirror(s->state, &m)) {
        return;
    }
    net_address_format(learner_link_server(f->link), ret->server);
    ret->heard_ms = f->heard_at < 0 ? -1 : now - f->heard_at;
    ret->behind_ms = f->behind_since != 0 ? now - f->behind_since : 0;
    ret->stage = mirror_replacing(s) || !m.synced ? MIRROR_LOADING : MIRROR_CATCHING_UP;
    if (!learner_link_is_live(f->link)) {
        ret->stage = ret->stage == MIRROR_LOADING && f->trouble[0] == '\0' ? MIRROR_LOADING
                                                                           : MIRROR_CONNECTING;
    } else if (ret->stage == MIRROR_CATCHING_UP && ret->source_zxid <= zxid) {
        ret->stage = MIRROR_FOLLOWING;
    }
    const struct told_digest *d =
        f->digests != NULL ? &f->digests[(uint64_t)zxid % DIGESTS_KEPT] : NULL;
    ret->digest_known = d != NULL && d->zxid == zxid && zxid > 0;
    ret->source_digest = ret->digest_known ? d->digest : 0;
}

int mirror_follower_barrier(struct mirror_follower *f)
{
    f->view.barrier_zxid = 0;
    return f->link != NULL ? learner_link_barrier(f->link) : CONCLAVE_EBUSY;
}
