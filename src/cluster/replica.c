#define _GNU_SOURCE /* asprintf */
#include "cluster/replica.h"

#include "base/backoff.h"
#include "base/log.h"
#include "base/random.h"
#include "base/transition.h"
#include "cluster/bootstrap.h"
#include "cluster/import_founding.h"
#include "cluster/member_roles.h"
#include "cluster/peer_credentials.h"
#include "cluster/peer_members.h"
#include "cluster/reconfig.h"
#include "cluster/repair.h"
#include "cluster/replication_notes.h"
#include "replication/disk/memory_files.h"
#include "replication/replication_uv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    TRAILING_ENTRIES = 1024,
    CHANNEL_LOG = 1,
    CHANNEL_ENSEMBLE = 2,
    CHANNEL_IMPORT = 3, /* cards of import_founding.h */
    ASIDE_MS = 1000,    /* until a folder is opened again after its log failed */
    ASIDE_MAX_MS = 30000,
    FOUNDING_BEAT_MS = 50,
    GATHERING_BEAT_MS = 10, /* while clients wait for a majority to join */
};

struct replica {
    uv_loop_t *loop;
    const struct server_options *options;
    struct service *service;
    struct replica_callbacks callbacks;
    enum replica_stage stage;
    struct ensemble ensemble;
    struct snapshot_schedule snapshots;
    struct reconfig reconfig;
    struct bootstrap founding;
    const struct import_source *source; /* files of Apache's to begin with; NULL: none */
    struct import_founding import;
    struct repair healing;
    struct configuration_member founders[MEMBERS_MAX]; /* the configured members */
    size_t n_founders;
    struct buf founder_text;     /* their addresses */
    struct memory_files *memory; /* the data folder of a server for tests; NULL: on disk */
    struct replication_loop *log_loop;
    struct replication *log; /* owned by log_loop; NULL: not open */
    struct peers *peers;
    struct peer_identity identity;
    int64_t at;                 /* next check while founding, next try while aside */
    int64_t aside_wait_ms;      /* waits this long before the next try */
    int64_t tried_ms;           /* when the last try ended, monotonic */
    char *failure;              /* why the log failed */
    enum replication_role role; /* as the log last reported it */
    uint64_t leader;
    bool serve_told;
    bool failed_told;
    bool closing;
    int parts; /* open parts: log, peers, and the call of replica_close */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

static bool grouped(const struct replica *n)
{
    return n->options->ensemble.enabled;
}

static int64_t replica_now_ms(const struct replica *n)
{
    return clock_monotonic_ms(n->options->clock);
}

static void replica_enter(struct replica *n, enum replica_stage stage)
{
    static const uint16_t NEXT[] = {
        [NODE_FOUNDING] =
            TRANSITION_TO(NODE_RUNNING) | TRANSITION_TO(NODE_ASIDE) | TRANSITION_TO(NODE_DAMAGED),
        [NODE_RUNNING] = TRANSITION_TO(NODE_ASIDE),
        [NODE_ASIDE] =
            TRANSITION_TO(NODE_ASIDE) | TRANSITION_TO(NODE_RUNNING) | TRANSITION_TO(NODE_DAMAGED),
        [NODE_DAMAGED] = TRANSITION_TO(NODE_RUNNING) | TRANSITION_TO(NODE_ASIDE),
    };
    transition_check(NEXT, n->stage, stage);
    assert((n->log != NULL) == (stage == NODE_RUNNING) && n->ensemble.replication == n->log);
    n->stage = stage;
}

/* Failure */

static void replica_fail(struct replica *n, int error, const char *text)
{
    if (!n->failed_told) {
        n->failed_told = true;
        n->callbacks.failed(n->callbacks.ctx, error, text);
    }
}

static void part_closed(void *ctx);

static void on_log_closed(void *ctx)
{
    struct replica *n = ctx;
    assert(n->log == NULL && n->parts > 0);
    n->log_loop = NULL;
    if (n->closing) {
        part_closed(n);
        return;
    }
    n->parts--;
    n->at = replica_now_ms(n) + n->aside_wait_ms;
}

/* Tells the others that the data are out of use, until the log is open again. */
static void tell_aside(struct replica *n)
{
    n->identity.age = repair_age_aside(n->identity.age);
    if (n->peers != NULL) {
        peers_set_identity(n->peers, &n->identity);
    }
}

/* Lets the others continue without this member; it tries again later. */
static void step_aside(struct replica *n, int error, const char *text)
{
    n->log = NULL;
    n->ensemble.replication = NULL;
    n->reconfig.log = NULL;
    n->snapshots.log = NULL;
    replica_enter(n, NODE_ASIDE);
    if (replica_now_ms(n) - n->tried_ms > n->aside_wait_ms) {
        n->aside_wait_ms = 0; /* it had recovered, so the back-off starts again */
    }
    n->aside_wait_ms =
        n->aside_wait_ms == 0 ? ASIDE_MS : backoff_next(n->aside_wait_ms, ASIDE_MAX_MS);
    n->at = INT64_MAX; /* set when the log is closed */
    free(n->failure);
    n->failure = strdup(text);
    n->ensemble.stats.steps_aside++;
    if (n->ensemble.beyond_repair && repair_is_possible(&n->healing)) {
        n->healing.wanted = true;
    }
    log_error_advice("server", "stepped-aside",
                     "read the text; the server tries again by itself once the cause is gone",
                     "error=%s retry_ms=%lld text=\"%s\"", conclave_errname(error),
                     (long long)n->aside_wait_ms, text);
    n->role = REPLICATION_FOLLOWER;
    n->leader = 0;
    tell_aside(n);
    ensemble_suspend(&n->ensemble);
    if (n->log_loop != NULL) {
        replication_loop_close(n->log_loop, on_log_closed, n);
    }
}

static void on_log_failed(void *ctx, int error, const char *text)
{
    struct replica *n = ctx;
    if (grouped(n) && !n->ensemble.sole) {
        if (n->stage != NODE_ASIDE && !n->closing) {
            step_aside(n, error, text);
        }
    } else {
        replica_fail(n, error, text);
    }
}

/* A member that could not apply an entry would have another state than the log describes. */
static void must_apply(int rc, const char *what, uint64_t index)
{
    if (rc != 0) {
        log_error_advice("server", "apply-failed",
                         "keep the data folder, start the server again, and report this line",
                         "what=%s index=%llu error=%s", what, (unsigned long long)index,
                         conclave_errname(rc));
        abort();
    }
}

/* The log's callbacks */

/* The identity that others see may have changed: this member may have data now. */
static void grow(struct replica *n)
{
    struct replication_stats stats;
    if (n->peers == NULL || n->log == NULL || n->identity.age == PEER_GROWN ||
        !replication_may_vote(n->log)) {
        return;
    }
    replication_stats(n->log, &stats);
    /* The first entry is only the configuration, and every founder has it. */
    if (stats.last_index <= 1) {
        return;
    }
    n->identity.age = PEER_GROWN;
    peers_set_identity(n->peers, &n->identity);
    if (n->healing.wanted) {
        n->healing.wanted = false;
        n->ensemble.stats.healed++;
        log_info("server", "healed", "last_index=%llu", (unsigned long long)stats.last_index);
    }
}

static void on_apply(void *ctx, uint64_t index, struct slice payload)
{
    struct replica *n = ctx;
    uint64_t generation = n->service->generation;
    must_apply(ensemble_apply(&n->ensemble, index, payload), "command", index);
    snapshot_schedule_applied(&n->snapshots, generation);
    if (index > 1) {
        grow(n);
    }
}

static void on_skip(void *ctx, uint64_t index, struct slice payload)
{
    struct replica *n = ctx;
    must_apply(ensemble_skip(&n->ensemble, index, payload), "skip", index);
}

static void on_apply_done(void *ctx)
{
    (void)ctx; /* the end of the turn sends the output */
}

static int on_snapshot_begin(void *ctx)
{
    struct replica *n = ctx;
    return snapshot_schedule_begin(&n->snapshots);
}

static int on_snapshot_step(void *ctx, size_t max_bytes, struct buf *out)
{
    struct replica *n = ctx;
    return snapshot_schedule_step(&n->snapshots, max_bytes, out);
}

static void on_snapshot_abort(void *ctx)
{
    struct replica *n = ctx;
    snapshot_schedule_abort(&n->snapshots);
}

static int on_restore(void *ctx, struct slice snapshot)
{
    struct replica *n = ctx;
    int rc = ensemble_restore(&n->ensemble, snapshot);
    if (rc == 0) {
        n->snapshots.begun.zxid = state_zxid(n->service->state);
        grow(n);
    }
    return rc;
}

static void serve(struct replica *n)
{
    if (n->serve_told || n->closing) {
        return;
    }
    n->serve_told = true;
    n->service->standing.leads = false; /* until the log reports the role */
    if (n->log == NULL) {
        leadership_lose_contact(n->service);
    }
    n->callbacks.serve(n->callbacks.ctx);
    must_apply(ensemble_role(&n->ensemble, n->role, n->leader), "role", 0);
}

static void on_role_changed(void *ctx, enum replication_role role, uint64_t leader, uint64_t term)
{
    struct replica *n = ctx;
    n->role = role;
    n->leader = leader;
    if (n->log == NULL) {
        return;
    }
    if (!n->ensemble.sole) {
        replication_notes_role(role, (unsigned long long)member_number((int64_t)leader), term);
    }
    if (n->serve_told) {
        must_apply(ensemble_role(&n->ensemble, role, leader), "role", 0);
    } else if (role == REPLICATION_LEADER) {
        serve(n);
    }
}

static void set_peers(struct replica *n, const struct configuration_member *members, size_t count)
{
    int rc = peer_members_set(n->peers, members, count, n->founders, n->n_founders);
    if (rc != 0) {
        log_error_advice("server", "members-refused", "give the server more memory", "error=%s",
                         conclave_errname(rc));
    }
}

static void on_configuration(void *ctx, uint64_t index, const struct configuration_member *members,
                             size_t count)
{
    struct replica *n = ctx;
    must_apply(ensemble_configuration(&n->ensemble, index, members, count), "configuration", index);
    reconfig_configuration(&n->reconfig, members, count);
    if (grouped(n)) {
        repair_configuration(&n->healing, n->identity.cluster, index, members, count);
    }
    if (n->peers != NULL) {
        set_peers(n, members, count);
    }
    if (grouped(n) && import_founding_members(&n->import, members, count)) {
        n->service->standing.gathering = false;
        must_apply(leadership_full_timeouts(n->service, replica_now_ms(n)), "timeouts", index);
    }
}

static void on_confirmed(void *ctx, uint64_t ticket)
{
    struct replica *n = ctx;
    ensemble_confirmed(&n->ensemble, ticket);
}

static bool is_linked(void *ctx, uint64_t id)
{
    struct replica *n = ctx;
    return n->peers != NULL && peers_linked(n->peers, id);
}

static bool link_is_refused(void *ctx, uint64_t id)
{
    struct replica *n = ctx;
    return n->peers != NULL && peers_refuses(n->peers, id);
}

/* Messages */

static void send_channel(struct replica *n, uint64_t to, uint8_t channel, struct buf *take)
{
    int rc = n->peers == NULL ? CONCLAVE_EDISCONNECTED : peers_send(n->peers, to, channel, take);
    (void)rc; /* the peers count dropped messages; the senders repeat them */
}

static void send_log(void *ctx, uint64_t to, struct buf *message_take)
{
    send_channel(ctx, to, CHANNEL_LOG, message_take);
}

static void send_ensemble(void *ctx, uint64_t to, struct buf *message_take)
{
    send_channel(ctx, to, CHANNEL_ENSEMBLE, message_take);
}

static void send_import(void *ctx, uint64_t to, struct buf *message_take)
{
    send_channel(ctx, to, CHANNEL_IMPORT, message_take);
}

static void on_link(void *ctx, uint64_t id, bool up)
{
    struct replica *n = ctx;
    replication_notes_link((unsigned long long)member_number((int64_t)id), up);
    if (up) {
        import_founding_link(&n->import, id);
    }
    if (n->log == NULL) {
        return;
    }
    replication_link(n->log, id, up);
    if (up) {
        ensemble_link(&n->ensemble, id);
    }
}

static void on_hello(void *ctx, const struct peer_identity *who)
{
    struct replica *n = ctx;
    repair_hello(&n->healing, who);
    reconfig_hello(&n->reconfig, who);
    if (n->stage == NODE_FOUNDING) {
        bootstrap_hello(&n->founding, who);
        import_founding_hello(&n->import, who);
        n->at = 0;
    }
}

static void on_message(void *ctx, uint64_t from, uint8_t channel, struct slice bytes)
{
    struct replica *n = ctx;
    if (channel == CHANNEL_IMPORT) {
        import_founding_message(&n->import, from, bytes);
        n->at = n->stage == NODE_FOUNDING ? 0 : n->at;
    }
    if (n->log == NULL) {
        return;
    }
    if (channel == CHANNEL_LOG) {
        replication_receive(n->log, from, bytes);
    } else if (channel == CHANNEL_ENSEMBLE && n->serve_told) {
        ensemble_message(&n->ensemble, from, bytes);
    }
}

static void on_refused(void *ctx, const char *address, const char *reason, uint64_t count)
{
    peer_credentials_tell_refused(address, reason, count);
}

/* Opening */

static int open_log(struct replica *n, bool join, char **ret_text)
{
    const struct server_options *o = n->options;
    struct server_metrics *m = n->service->metrics;
    struct replication_options options = {
        .dir = o->data_dir,
        .server_id = o->server_id,
        .segment_bytes = o->segment_bytes,
        .snapshot_entries = o->snapshot_writes,
        .snapshot_log_bytes = o->snapshot_log_bytes,
        .trailing_entries = TRAILING_ENTRIES,
        .snapshots_kept = o->snapshots_kept,
        .sync = o->sync,
        .clock = o->clock,
        .sync_time = &m->fsynctime,
        .sync_histogram = &m->fsync_duration,
        .snapshot_time = &m->snapshottime,
        .election_ms = o->ensemble.election_ms,
        .heartbeat_ms = o->ensemble.heartbeat_ms,
        .skip = (uint64_t)o->ensemble.skip_entry,
    };
    struct replication_callbacks callbacks = {
        .ctx = n,
        .apply = on_apply,
        .skip = on_skip,
        .apply_done = on_apply_done,
        .snapshot_begin = on_snapshot_begin,
        .snapshot_step = on_snapshot_step,
        .snapshot_abort = on_snapshot_abort,
        .restore = on_restore,
        .role_changed = on_role_changed,
        .configuration = on_configuration,
        .confirmed = on_confirmed,
        .failed = on_log_failed,
        .note = replication_notes_log,
    };
    struct replication_sender sender = {n, send_log};
    assert(n->log_loop == NULL && n->log == NULL && !n->closing);
    random_bytes(&options.seed, sizeof options.seed);
    if (grouped(n)) {
        options.founders = n->founders;
        options.n_founders = n->n_founders;
        options.cluster_given = true;
        memcpy(options.cluster, n->identity.cluster, sizeof options.cluster);
        options.join = join;
        options.go_alone = o->ensemble.alone >= 0 && !n->serve_told;
        options.alone = (uint64_t)o->ensemble.alone;
    }
    int64_t began_ms = replica_now_ms(n);
    if (o->test && n->memory == NULL && memory_files_create(&n->memory) != 0) {
        return CONCLAVE_ENOMEM;
    }
    const struct file_ops *files = n->memory != NULL ? memory_files_ops(n->memory) : NULL;
    int rc = replication_loop_open(n->loop, &options, &callbacks, &sender, files, &n->log_loop,
                                   ret_text);
    if (rc != 0) {
        return rc;
    }
    n->parts++;
    n->log = replication_loop_log(n->log_loop);
    n->ensemble.replication = n->log;
    n->reconfig.log = n->log;
    replica_enter(n, NODE_RUNNING);
    summary_add(&m->dbinittime, (uint64_t)(replica_now_ms(n) - began_ms));
    summary_add(&m->startup_txns_loaded, n->service->stats.applied);
    snapshot_schedule_opened(&n->snapshots, n->log);
    struct replication_stats stats;
    replication_stats(n->log, &stats);
    n->identity.age = !replication_may_vote(n->log) ? PEER_LOST
                      : stats.last_index > 1        ? PEER_GROWN
                                                    : PEER_FOUNDED;
    replication_cluster(n->log, n->identity.cluster);
    if (n->peers != NULL) {
        peers_set_identity(n->peers, &n->identity);
    }
    return 0;
}

static int open_peers(struct replica *n, char **ret_text)
{
    const struct ensemble_options *e = &n->options->ensemble;
    struct peer_options options = {
        .listen = e->listen,
        .n_listen = e->n_listen,
        .identity = n->identity,
        .host = e->members[e->me].hosts[0].host,
        .security = e->security,
        .secret = e->secret,
        .other_secret = e->other_secret,
        .certificates = &e->tls,
        .verify_hosts = e->verify_hosts,
        .silence_ms = 2 * e->election_ms,
    };
    struct peer_callbacks callbacks = {
        .ctx = n,
        .link = on_link,
        .hello = on_hello,
        .message = on_message,
        .refused = on_refused,
    };
    assert(n->peers == NULL && e->me < e->n_members);
    int rc = peers_open(n->loop, &options, &callbacks, &n->peers, ret_text);
    if (rc != 0) {
        n->peers = NULL;
        return rc;
    }
    n->parts++;
    return 0;
}

/* Until the log names the members, the links go to the members of the last run, or to the configured ones. */
static int link_members(struct replica *n, char **ret_text)
{
    int rc = open_peers(n, ret_text);
    if (rc != 0) {
        return rc;
    }
    if (n->log != NULL && n->reconfig.n_now > 0) {
        set_peers(n, n->reconfig.now, n->reconfig.n_now);
    } else {
        set_peers(n, n->healing.members, n->healing.n_members);
    }
    return 0;
}

struct replica *replica_create(uv_loop_t *loop, const struct server_options *options,
                               struct service *service, const struct replica_callbacks *callbacks)
{
    struct replica *n = calloc(1, sizeof *n);
    if (n == NULL) {
        return NULL;
    }
    n->loop = loop;
    n->options = options;
    n->service = service;
    n->callbacks = *callbacks;
    n->stage = NODE_FOUNDING;
    n->identity.id = (uint64_t)options->server_id;
    n->at = INT64_MAX;
    struct ensemble_links links = {send_ensemble, n};
    ensemble_init(&n->ensemble, service, options->server_id, options->clock, &links);
    n->ensemble.failed = on_log_failed;
    n->ensemble.failed_ctx = n;
    n->import.send = send_import;
    n->import.send_ctx = n;
    reconfig_init(&n->reconfig, &n->ensemble);
    n->reconfig.links = (struct reconfig_links){is_linked, link_is_refused, n};
    return n;
}

void replica_set_import(struct replica *n, const struct import_source *source)
{
    n->source = source;
}

struct pipeline_sink replica_sink(struct replica *n)
{
    return ensemble_sink(&n->ensemble);
}

/* Damage */

static void await_healing(struct replica *n, const struct damage_look *look, const char *text)
{
    n->ensemble.beyond_repair = false;
    n->ensemble.doubted = false;
    repair_want(&n->healing, look);
    n->ensemble.stats.damaged++;
    replica_enter(n, NODE_DAMAGED);
    n->role = REPLICATION_FOLLOWER;
    n->leader = 0;
    n->identity.age = PEER_LOST;
    memset(n->identity.cluster, 0, sizeof n->identity.cluster);
    if (look->cluster_known) {
        memcpy(n->identity.cluster, look->cluster, sizeof n->identity.cluster);
    }
    if (n->peers != NULL) {
        peers_set_identity(n->peers, &n->identity);
    }
    n->at = replica_now_ms(n);
    log_error_advice(
        "server", "damaged", "wait for a majority of the other members, or restore a backup",
        "text=\"%s\" heal=\"when a majority of the others is reachable, this member moves its data "
        "aside and receives all data from them\"",
        text);
}

/* Moves the folder's content aside and joins the ensemble with an empty folder. */
static int join_anew(struct replica *n, char **ret_text)
{
    int rc = repair_put_aside(&n->healing, clock_wall_ms(n->options->clock), ret_text);
    memcpy(n->identity.cluster, n->healing.cluster, sizeof n->identity.cluster);
    return rc == 0 ? open_log(n, true, ret_text) : rc;
}

/* Opens a folder that is not new. An emptied folder of a former member joins. A damaged one waits for repair, if other
 * members can repair it. */
static int open_folder(struct replica *n, const struct damage_look *look, char **ret_text)
{
    int rc;
    if (look->healing && look->cluster_known) {
        repair_want(&n->healing, look);
        return join_anew(n, ret_text);
    }
    rc = look->healing ? CONCLAVE_ECORRUPT : open_log(n, look->fresh, ret_text);
    if (rc == CONCLAVE_ECORRUPT && repair_is_possible(&n->healing)) {
        await_healing(n, look, *ret_text != NULL ? *ret_text : conclave_strerror(rc));
        free(*ret_text);
        *ret_text = NULL;
        return 0;
    }
    return rc;
}

/* Looks at the folder before it is opened. */
static int look_at_folder(struct replica *n, struct damage_look *ret, char **ret_text)
{
    const char *dir = n->options->data_dir;
    int rc = damage_look(dir, NULL, ret, ret_text);
    if (rc == CONCLAVE_ECORRUPT && repair_is_possible(&n->healing)) {
        ret->healing = false;
        ret->fresh = false; /* opening the folder reports the damage again */
        free(*ret_text);
        *ret_text = NULL;
        return 0;
    }
    return rc;
}

int replica_open(struct replica *n, char **ret_text)
{
    struct damage_look look;
    snapshot_schedule_init(&n->snapshots, n->service, n->options->snapshot_writes);
    if (!grouped(n)) {
        return open_log(n, false, ret_text);
    }
    n->service->standing.linearizable = n->options->ensemble.linearizable_reads;
    buf_init(&n->founder_text, 0);
    int rc =
        members_of_options(&n->options->ensemble, &n->founder_text, n->founders, &n->n_founders);
    rc = rc == 0
             ? import_founding_init(&n->import, n->source, n->options->data_dir, n->options->clock,
                                    n->identity.id, n->founders, n->n_founders, ret_text)
             : rc;
    if (rc != 0) {
        return rc;
    }
    n->service->standing.gathering = n->import.gathering;
    n->reconfig.configured = n->founders;
    n->reconfig.n_configured = n->n_founders;
    repair_init(&n->healing, n->identity.id, n->options->ensemble.heal, n->options->data_dir,
                n->founders, n->n_founders);
    rc = look_at_folder(n, &look, ret_text);
    if (rc != 0) {
        return rc;
    }
    if (look.fresh && !look.healing && n->n_founders == 1) {
        bootstrap_cluster(n->founders, 1, n->identity.cluster); /* no other server to ask */
        rc = open_log(n, false, ret_text);
    } else if (look.fresh && !look.healing) {
        ensemble_expect(&n->ensemble, n->founders, n->n_founders);
        bootstrap_init(&n->founding, n->identity.id, n->founders, n->n_founders);
        n->identity.age = n->source != NULL ? PEER_IMPORTING : PEER_FRESH;
        log_info("server", "founding", "members=%zu text=\"the folder is %s: asking the others\"",
                 n->n_founders, n->source != NULL ? "that of a ZooKeeper" : "empty");
    } else {
        rc = open_folder(n, &look, ret_text);
    }
    if (rc == 0 && n->stage == NODE_DAMAGED) {
        ensemble_expect(&n->ensemble, n->healing.members, n->healing.n_members);
    }
    if (rc == 0) {
        rc = link_members(n, ret_text);
    }
    n->at = replica_now_ms(n); /* the loop's next turn calls serve */
    return rc;
}

/* Turns */

void replica_turn(struct replica *n)
{
    do {
        if (n->log_loop != NULL) { /* also while it is closing */
            replication_loop_turn(n->log_loop);
        }
    } while (n->peers != NULL && peers_turn(n->peers));
}

/* Reports to the log the links that are already up. A server that joins does not know the members: all may count. */
static void tell_links(struct replica *n)
{
    for (size_t i = 0; i < n->n_founders + n->healing.n_members; i++) {
        const struct configuration_member *m =
            i < n->n_founders ? &n->founders[i] : &n->healing.members[i - n->n_founders];
        if (peers_linked(n->peers, m->id)) {
            replication_link(n->log, m->id, true);
        }
    }
}

/* Opens the log of a new folder: as a founder, or to join; or of one that was made from other data. */
static int open_new(struct replica *n, enum bootstrap_verdict verdict, char **ret_text)
{
    bool join = verdict == FOUNDING_JOIN;
    int rc = 0;
    if (join) {
        memcpy(n->identity.cluster, n->founding.cluster, sizeof n->identity.cluster);
        rc = import_founding_join(&n->import, ret_text);
    } else if (n->source == NULL) {
        bootstrap_cluster(n->founders, n->n_founders, n->identity.cluster);
    }
    n->source = NULL;
    log_info("server", join ? "joining" : "founded", "members=%zu", n->n_founders);
    return rc == 0 ? open_log(n, join, ret_text) : rc;
}

static void found(struct replica *n)
{
    char *text = NULL;
    int rc = 0;
    enum bootstrap_verdict verdict = bootstrap_decide(&n->founding, replica_now_ms(n));
    n->at = replica_now_ms(n) + FOUNDING_BEAT_MS;
    if (verdict != FOUNDING_JOIN && n->source != NULL) {
        rc = import_founding_tick(&n->import, &text);
        verdict = rc == 1 ? FOUNDING_FOUND : FOUNDING_WAIT;
        n->service->standing.gathering = n->import.gathering;
    }
    if (rc >= 0 && verdict == FOUNDING_WAIT) {
        return;
    }
    rc = rc >= 0 ? open_new(n, verdict, &text) : rc;
    if (rc != 0) {
        replica_fail(n, rc, text != NULL ? text : conclave_strerror(rc));
        free(text);
        return;
    }
    n->at = replica_now_ms(n); /* NODE_RUNNING's own work */
    tell_links(n);
}

/* The folder could not be opened: tries again later. */
static void stay_aside(struct replica *n, int error, char *text)
{
    n->tried_ms = replica_now_ms(n);
    step_aside(n, error, text != NULL ? text : conclave_strerror(error));
    n->at = replica_now_ms(n) + n->aside_wait_ms;
    free(text);
}

static void came_back(struct replica *n, const char *text)
{
    n->at = INT64_MAX;
    n->tried_ms = replica_now_ms(n);
    log_info("server", "came-back", "text=\"%s\"", text);
    tell_links(n);
}

static void come_back(struct replica *n)
{
    struct damage_look look;
    char *text = NULL;
    int rc = ensemble_resume(&n->ensemble);
    if (rc == 0) {
        rc = look_at_folder(n, &look, &text);
    }
    if (rc == 0 && n->healing.wanted && !look.healing) {
        await_healing(n, &look, n->failure != NULL ? n->failure : conclave_strerror(rc));
        return;
    }
    if (rc == 0) {
        rc = open_folder(n, &look, &text);
    }
    if (rc != 0) {
        stay_aside(n, rc, text);
    } else if (n->stage == NODE_RUNNING) {
        came_back(n, "the log accepts writes again");
    }
}

static void heal(struct replica *n)
{
    char *text = NULL;
    n->at = replica_now_ms(n) + FOUNDING_BEAT_MS;
    if (!repair_may_begin(&n->healing, is_linked, n)) {
        return;
    }
    int rc = ensemble_resume(&n->ensemble);
    if (rc == 0) {
        rc = join_anew(n, &text);
    }
    if (rc != 0) {
        stay_aside(n, rc, text);
    } else {
        came_back(n, "the folder is empty now: receiving all data from the others");
    }
}

/* Whether the state is one that the ensemble had at some time, so that read-only clients may see it. */
static bool is_readable(const struct replica *n)
{
    return n->stage == NODE_FOUNDING ||
           (n->stage == NODE_RUNNING && n->log != NULL && replication_may_vote(n->log));
}

void replica_tick(struct replica *n)
{
    if (n->closing) {
        return;
    }
    if (replica_now_ms(n) >= n->at) {
        switch (n->stage) {
        case NODE_FOUNDING:
            serve(n); /* clients get the answer to wait, operators the reason */
            found(n);
            break;
        case NODE_ASIDE:
            come_back(n);
            break;
        case NODE_DAMAGED:
            serve(n);
            heal(n);
            break;
        case NODE_RUNNING:
            n->at = n->import.gathering ? replica_now_ms(n) + GATHERING_BEAT_MS : INT64_MAX;
            serve(n);
            break;
        }
    }
    if (n->serve_told) {
        n->service->standing.readable = is_readable(n);
        ensemble_tick(&n->ensemble);
    }
    if (n->stage == NODE_RUNNING && n->serve_told) {
        reconfig_tick(&n->reconfig);
    }
    if (n->identity.age == PEER_LOST) {
        grow(n);
    }
}

int64_t replica_deadline(const struct replica *n)
{
    int64_t at = n->at;
    if (n->serve_told) {
        int64_t beat = ensemble_deadline(&n->ensemble);
        at = beat < at ? beat : at;
    }
    return at;
}

/* Stop */

bool replica_leads_others(const struct replica *n)
{
    return n->log != NULL && !n->ensemble.sole && n->ensemble.role == REPLICATION_LEADER;
}

bool replica_resign(struct replica *n)
{
    n->snapshots.at = UINT64_MAX; /* begins no more snapshots */
    return replica_leads_others(n) && replication_transfer(n->log, 0) == 0;
}

static void part_closed(void *ctx)
{
    struct replica *n = ctx;
    assert(n->closing && n->parts > 0);
    if (--n->parts > 0) {
        return;
    }
    void (*cb)(void *ctx) = n->closed;
    void *cb_ctx = n->closed_ctx;
    ensemble_finish(&n->ensemble);
    reconfig_finish(&n->reconfig);
    buf_finish(&n->founder_text);
    memory_files_destroy(n->memory);
    repair_finish(&n->healing);
    free(n->failure);
    free(n);
    cb(cb_ctx);
}

void replica_close(struct replica *n, void (*cb)(void *ctx), void *ctx)
{
    assert(!n->closing);
    n->closing = true;
    n->closed = cb;
    n->closed_ctx = ctx;
    n->parts++; /* for this call */
    n->ensemble.replication = NULL;
    n->reconfig.log = NULL;
    n->snapshots.log = NULL;
    n->log = NULL; /* log_loop still needs its turns until it is closed */
    if (n->log_loop != NULL && n->stage != NODE_ASIDE) {
        replication_loop_close(n->log_loop, on_log_closed, n);
    }
    if (n->peers != NULL) {
        peers_close(n->peers, part_closed, n);
        n->peers = NULL;
    }
    part_closed(n);
}

int replica_reload(struct replica *n, char **ret_text)
{
    return n->peers != NULL ? peer_credentials_reload(n->peers, &n->options->ensemble, ret_text)
                            : CONCLAVE_EUNSUPPORTED;
}

int replica_set_secrets(struct replica *n, struct slice secret, struct slice other, char **ret_text)
{
    return n->peers != NULL
               ? peer_credentials_set(n->peers, &n->options->ensemble, secret, other, ret_text)
               : CONCLAVE_EUNSUPPORTED;
}

const char *replica_mode(const struct replica *n)
{
    const struct reconfig *r = &n->reconfig;
    const struct configuration_member *self = configuration_find(r->now, r->n_now, n->identity.id);
    if (n->ensemble.sole) {
        return "standalone";
    }
    if (n->service->standing.read_only) {
        return "read-only";
    }
    if (self != NULL && self->role != MEMBER_VOTER) {
        return "observer";
    }
    return n->ensemble.role == REPLICATION_LEADER ? "leader" : "follower";
}

const char *replica_why_not_ready(const struct replica *n)
{
    if ((n->stage == NODE_FOUNDING && grouped(n)) || n->service->standing.gathering) {
        return "waiting for the other members";
    }
    if (n->stage == NODE_ASIDE) {
        return "stepped aside: the log accepts no writes";
    }
    if (n->stage == NODE_DAMAGED) {
        return "the data are damaged: waiting for a majority of the others";
    }
    if (n->log != NULL && n->identity.age == PEER_LOST) {
        return "no data: waiting for a leader to admit this server";
    }
    if (n->service->standing.leaving) {
        return "removed from the ensemble by a reconfig";
    }
    return leadership_in_contact(n->service) ? NULL : "no leader with a quorum";
}

size_t replica_members(const struct replica *n, const struct configuration_member **ret)
{
    bool known = n->reconfig.n_now > 0;
    *ret = known ? n->reconfig.now : n->healing.members;
    return known ? n->reconfig.n_now : n->healing.n_members;
}

enum replica_stage replica_stage(const struct replica *n)
{
    return n->stage;
}

bool replica_is_damaged(const struct replica *n)
{
    return n->healing.wanted;
}

struct replication *replica_log(const struct replica *n)
{
    return n->log;
}

struct ensemble *replica_ensemble(struct replica *n)
{
    return &n->ensemble;
}

const struct peers *replica_peers(const struct replica *n)
{
    return n->peers;
}

struct snapshot_schedule *replica_snapshots(struct replica *n)
{
    return &n->snapshots;
}
