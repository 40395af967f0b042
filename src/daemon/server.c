#include "daemon/server.h"

#include "apache/follower/mirror_follower.h"
#include "apache/learner/source_access.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/transition.h"
#include "cluster/server_options.h"
#include "daemon/apache_import.h"
#include "daemon/drain.h"
#include "daemon/server_stats.h"
#include "front/login/port_certificates.h"
#include "front/traces/trace_export.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WRITE_LATE_MS = 10000, /* not ready when a write waits longer for its answer */
    DRAIN_MS = 1200,       /* when stopping: for writes that the disk has not stored yet */
    RESIGN_MS = 1000,      /* when stopping: for another server to become leader */
    STOP_LINGER_MS = 200,  /* when stopping: for clients to close their side */
};

enum server_stage {
    SERVER_STARTING, /* recovered, not yet leader of its ensemble of one */
    SERVER_SERVING,
    SERVER_RESIGNING, /* stopping: hands the lead over first */
    SERVER_FAILED,    /* waits for server_close */
    SERVER_DRAINING,  /* accepts nothing, waits for unanswered writes */
    SERVER_CLOSING,
};

struct server {
    uv_loop_t *loop;
    struct server_options options;
    struct server_callbacks callbacks;
    enum server_stage stage;
    struct service service;
    struct sasl_service *login;
    struct audit_log *audit;
    struct password_checker *verifier; /* NULL: digest has no users */
    struct trace_export *traces;       /* NULL: no endpoint */
    struct client_port *port;
    struct port_certificates *secure; /* NULL: no TLS */
    struct replica *node;
    struct apache_import *import; /* NULL: nothing to import */
    struct source_access source;  /* of the follower's link */
    struct mirror_follower *follower;
    uv_prepare_t prepare; /* runs the turn, last in an iteration of the loop */
    uv_timer_t timer;     /* service_deadline, or the end of draining */
    int64_t timer_at;     /* monotonic ms, INT64_MAX: not running */
    int64_t stop_at;      /* deadline of the current step of stopping, INT64_MAX: never */
    int64_t started_ms;   /* monotonic */
    int open_parts;       /* handles, port and replication that are not closed yet */
    struct drain drain;
    bool was_serving;
    bool failure_told;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

struct server_options server_options_default(void)
{
    return (struct server_options){
        .data_dir = "./conclave-data",
        .listen = {.host = "127.0.0.1", .port = 2181},
        .plain = true,
        .backlog = 511,
        .server_id = 1,
        .limits = client_limits_default(),
        .collector = ttl_collector_options_default(),
        .snapshot_writes = 100000,
        .snapshot_log_bytes = (size_t)4 << 30,
        .snapshots_kept = 3,
        .segment_bytes = (size_t)16 << 20,
        .sync = true,
        .clock = clock_system(),
        .traces = {.sample = 100},
        .ensemble = {.heal = true, .alone = -1},
    };
}

/* A failed server does not serve again: its log accepts no writes until a restart. */
static void server_enter(struct server *s, enum server_stage stage)
{
    enum { TO_STOP = TRANSITION_TO(SERVER_RESIGNING) | TRANSITION_TO(SERVER_DRAINING) };
    static const uint16_t NEXT[] = {
        [SERVER_STARTING] = TRANSITION_TO(SERVER_SERVING) | TRANSITION_TO(SERVER_FAILED) |
                            TRANSITION_TO(SERVER_DRAINING),
        [SERVER_SERVING] = TRANSITION_TO(SERVER_FAILED) | TO_STOP,
        [SERVER_RESIGNING] = TRANSITION_TO(SERVER_DRAINING),
        [SERVER_FAILED] = TRANSITION_TO(SERVER_DRAINING),
        [SERVER_DRAINING] = TRANSITION_TO(SERVER_CLOSING),
        [SERVER_CLOSING] = 0,
    };
    transition_check(NEXT, s->stage, stage);
    assert(s->node != NULL && s->open_parts > 0);
    s->stage = stage;
}

/* Failure */

static void server_fail(void *ctx, int error, const char *text)
{
    struct server *s = ctx;
    /* The first failure is the cause; later ones follow from it. */
    if (s->failure_told) {
        return;
    }
    s->failure_told = true;
    s->service.metrics->unrecoverable_error_count++;
    log_error_advice(
        "server", "failed",
        "read the text; when the disk or the data folder is at fault, mend it, then start the server again",
        "error=%s text=\"%s\"", conclave_errname(error), text);
    if (s->stage == SERVER_STARTING || s->stage == SERVER_SERVING) {
        server_enter(s, SERVER_FAILED);
        client_port_stop(s->port);
    }
    s->callbacks.failed(s->callbacks.ctx, error, text);
}

/* Callbacks from the replica */

static void server_on_serve(void *ctx)
{
    struct server *s = ctx;
    int detail = 0;
    /* A failure or server_close may have come first. */
    if (s->stage != SERVER_STARTING) {
        return;
    }
    int rc = service_begin(&s->service);
    if (rc == 0) {
        /* Clients may connect only now, because the state was not complete before. */
        rc = client_port_start(s->port, s->options.backlog, &detail);
    }
    if (rc != 0) {
        server_fail(s, rc, detail != 0 ? uv_strerror(detail) : conclave_strerror(rc));
        return;
    }
    server_enter(s, SERVER_SERVING);
    s->was_serving = true;
    log_always("server", "started", "id=%lld mode=%s data=\"%s\"",
               (long long)member_number(server_id(s)), replica_mode(s->node), s->options.data_dir);
    if (s->audit != NULL) {
        audit_log_server(s->audit, "serverStart", "success");
    }
    s->callbacks.ready(s->callbacks.ctx, s);
}

/* Turns */

static void server_close_parts(struct server *s);

/* Takes the next step of stopping when its deadline has passed, or when the condition that it waits for holds. */
static void server_stop_on(struct server *s)
{
    int64_t now_ms = clock_monotonic_ms(s->options.clock);
    if (s->stage == SERVER_RESIGNING && (now_ms >= s->stop_at || !replica_leads_others(s->node))) {
        server_enter(s, SERVER_DRAINING);
        s->stop_at = now_ms + DRAIN_MS;
    }
    bool late = now_ms >= s->stop_at;
    if (s->stage == SERVER_DRAINING &&
        (late || s->service.pipeline.error != 0 || list_empty(&s->service.pipeline.flight))) {
        if (s->service.pipeline.outstanding > 0) {
            log_warn_advice(
                "server", "stopped-early",
                "check the disk and the other members: clients ask again for what was not answered",
                "outstanding=%zu", s->service.pipeline.outstanding);
        }
        server_close_parts(s);
    } else if (s->stage == SERVER_CLOSING && late && s->port != NULL) {
        client_port_cut(s->port); /* a client that does not read must not delay the stop */
        s->stop_at = INT64_MAX;
    }
}

static void server_drain_tick(struct server *s)
{
    bool leads = replica_leads_others(s->node);
    if (drain_tick(&s->drain, &s->service, leads, clock_monotonic_ms(s->options.clock))) {
        int rc = ensemble_transfer(replica_ensemble(s->node), 0);
        log_info("server", "drain-transfer", "result=%s", rc == 0 ? "begun" : conclave_errname(rc));
    }
}

static void server_on_timer(uv_timer_t *timer)
{
    struct server *s = timer->data;
    s->timer_at = INT64_MAX;
    if (s->stage != SERVER_CLOSING && s->stage != SERVER_FAILED) {
        replica_tick(s->node);
    }
    if (s->stage == SERVER_SERVING) {
        service_tick(&s->service);
        server_drain_tick(s);
    }
    server_stop_on(s);
}

static void server_set_timer(struct server *s, int64_t at)
{
    if (at == s->timer_at) {
        return;
    }
    int64_t now = clock_monotonic_ms(s->options.clock);
    s->timer_at = at;
    /* The loop's cached time may be old, and then the timer would fire too early. */
    uv_update_time(s->loop);
    if (uv_timer_start(&s->timer, server_on_timer, at > now ? (uint64_t)(at - now) : 0, 0) != 0) {
        abort(); /* fails only for a handle that is closing */
    }
}

static void server_plan(struct server *s)
{
    int64_t at = s->stop_at;
    if (s->stage != SERVER_CLOSING && s->stage != SERVER_FAILED) {
        int64_t node = replica_deadline(s->node);
        at = node < at ? node : at;
    }
    if (s->stage == SERVER_SERVING) {
        int64_t service = service_deadline(&s->service);
        int64_t drain = drain_deadline(&s->drain);
        at = drain < at ? drain : at;
        at = service < at ? service : at;
    }
    if (at != INT64_MAX) {
        server_set_timer(s, at);
    }
}

/* Writes go first: the disk and the members work while replies go out. */
static void server_turn_parts(struct server *s)
{
    if (s->node != NULL) {
        replica_turn(s->node);
    }
    if (s->audit != NULL) {
        audit_log_flush(s->audit);
    }
    if (s->port != NULL) {
        client_port_turn(s->port);
    }
}

/* The end of an iteration of the loop. All events, timers and closed handles of this iteration were handled, and the
 * loop may wait now. So everything that can proceed does so here, also requests for which replies made room. */
static void server_turn(struct server *s)
{
    do {
        if (s->stage == SERVER_SERVING) {
            mirror_follower_turn(s->follower);
            service_turn(&s->service);
        } else if (s->stage == SERVER_RESIGNING || s->stage == SERVER_DRAINING) {
            pipeline_turn(&s->service.pipeline, true);
            server_stop_on(s); /* before the parts, because it may close them */
        }
        server_turn_parts(s);
    } while (s->stage == SERVER_SERVING && service_has_work(&s->service));
    assert(s->port == NULL || list_empty(&s->service.dirty));
    server_plan(s);
}

static void server_on_prepare(uv_prepare_t *handle)
{
    server_turn(handle->data);
}

/* Start */

static int server_check_options(const struct server_options *o, char **ret_text)
{
    const struct client_limits *l = &o->limits;
    if (o->server_id < 1 || o->server_id > STATE_MEMBER_ID_MAX) {
        return text_fail(ret_text, CONCLAVE_EINVAL, "the server id %lld is not from 0 to 255",
                         (long long)o->server_id);
    }
    if (l->tick_ms < 1 || l->session_min_ms < 1 || l->session_min_ms > l->session_max_ms) {
        return text_fail(ret_text, CONCLAVE_EINVAL,
                         "session timeouts from %d to %d ms: minSessionTimeout must not be above "
                         "maxSessionTimeout (defaults: 2 and 20 times tickTime)",
                         l->session_min_ms, l->session_max_ms);
    }
    return 0;
}

static int server_open_door(struct server *s, enum client_door door, const char *option,
                            char **ret_text)
{
    const struct net_address *address =
        door == PORT_SECURE ? &s->options.listen_secure : &s->options.listen;
    char text[NET_TEXT_MAX];
    int detail = 0;
    int rc = client_port_listen(s->port, door, address, &detail);
    net_address_format(address, text);
    switch (rc) {
    case 0:
        return 0;
    case CONCLAVE_ERESOLVE:
        return text_fail(ret_text, rc, "%s: no such host on this machine: choose another with %s",
                         text, option);
    case CONCLAVE_EBUSY:
        return text_fail(
            ret_text, rc,
            "%s: the port is in use: stop the other process, or choose another port with %s", text,
            option);
    case CONCLAVE_ENOMEM:
        return text_fail(ret_text, rc, "out of memory");
    default:
        return text_fail(ret_text, CONCLAVE_EDISCONNECTED,
                         "%s: cannot listen: %s: choose another address with %s", text,
                         uv_strerror(detail), option);
    }
}

static void server_on_certificates(void *ctx, struct tls_context *context)
{
    struct server *s = ctx;
    if (s->port != NULL) {
        client_port_set_tls(s->port, context, s->options.unified);
    }
}

static int server_open_port(struct server *s, char **ret_text)
{
    const struct server_options *o = &s->options;
    int rc = 0;
    s->port = client_port_create(s->loop, &s->service);
    if (s->port == NULL) {
        return text_fail(ret_text, CONCLAVE_ENOMEM, "out of memory");
    }
    s->open_parts++;
    if (o->secure || o->unified) {
        rc = port_certificates_open(s->loop, &o->tls, o->tls_reload, server_on_certificates, s,
                                    &s->secure, ret_text);
        s->open_parts += rc == 0;
    }
    if (rc == 0 && o->plain) {
        rc = server_open_door(s, PORT_CLIENT, "--listen", ret_text);
    }
    if (rc == 0 && o->secure) {
        rc = server_open_door(s, PORT_SECURE, "--secureClientPort", ret_text);
    }
    return rc;
}

static int server_open_node(struct server *s, char **ret_text)
{
    int rc = replica_open(s->node, ret_text);
    if (rc != 0 && *ret_text == NULL) {
        rc = text_fail(ret_text, rc, "%s", conclave_strerror(rc));
    }
    return rc;
}

static void server_init_handles(struct server *s)
{
    if (uv_prepare_init(s->loop, &s->prepare) != 0 || uv_timer_init(s->loop, &s->timer) != 0) {
        abort(); /* these calls allocate nothing and cannot fail */
    }
    s->prepare.data = s->timer.data = s;
    s->open_parts += 2;
    if (uv_prepare_start(&s->prepare, server_on_prepare) != 0) {
        abort();
    }
}

/* A write to a closed socket must fail with EPIPE instead of ending the process. */
static void server_block_sigpipe(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0) {
        abort();
    }
}

/* Opens what the service borrows, the logins and the audit log, and what the follower shows to its source. */
static int server_open_access(struct server *s, char **ret_text)
{
    const struct server_options *o = &s->options;
    const char *text = "out of memory";
    int detail = 0;
    int rc = 0;
    if (o->login != NULL) {
        rc = sasl_service_open(o->login, &s->login, &text);
        if (rc != 0) {
            return text_fail(ret_text, rc, "sasl: %s", text);
        }
    }
    if (o->source != NULL) {
        rc = source_access_init(&s->source, o->source, ret_text);
        if (rc != 0) {
            return rc;
        }
    }
    if (o->users_file != NULL) {
        rc = password_checker_open(s->loop, o->users_file, &s->verifier, ret_text);
        s->open_parts += rc == 0;
        if (rc == CONCLAVE_EINVAL) {
            return rc;
        }
    }
    if (rc == 0 && o->audit) {
        rc = audit_log_open(o->audit_file, o->clock, &s->audit, &detail);
    }
    if (rc == CONCLAVE_EIO) {
        return text_fail(ret_text, rc, "cannot write to audit.file %s: %s", o->audit_file,
                         strerror(detail));
    }
    return rc == 0 ? 0 : text_fail(ret_text, rc, "out of memory");
}

static int server_open_traces(struct server *s, char **ret_text)
{
    const struct trace_options *o = &s->options.traces;
    if (!o->on) {
        return 0;
    }
    int64_t id = member_number(server_id(s));
    int rc = trace_export_open(s->loop, o, id, &s->service.traces, &s->traces);
    s->open_parts += rc == 0;
    return rc == 0 ? 0 : text_fail(ret_text, rc, "out of memory");
}

int server_open(uv_loop_t *loop, const struct server_options *options,
                const struct server_callbacks *callbacks, struct server **ret, char **ret_text)
{
    int rc = server_check_options(options, ret_text);
    if (rc != 0) {
        return rc;
    }
    struct server *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return text_fail(ret_text, CONCLAVE_ENOMEM, "out of memory");
    }
    s->loop = loop;
    s->options = *options;
    client_limits_share(&s->options.limits, memory_limit());
    s->callbacks = *callbacks;
    s->timer_at = INT64_MAX;
    s->stop_at = INT64_MAX;
    s->started_ms = clock_monotonic_ms(options->clock);
    server_block_sigpipe();
    struct replica_callbacks node = {s, server_on_serve, server_fail};
    s->node = replica_create(loop, &s->options, &s->service, &node);
    if (s->node == NULL) {
        free(s);
        return text_fail(ret_text, CONCLAVE_ENOMEM, "out of memory");
    }
    s->open_parts++;
    struct service_options service = {
        .limits = s->options.limits,
        .server_id = options->server_id,
        .skip_acl = options->skip_acl,
        .digest = options->digest,
        .x509_super = options->x509_super,
        .auth_schemes = options->auth_schemes,
        .command_options = options->command_options,
        .read_only_mode = options->read_only_mode,
        .local_sessions = options->local_sessions,
        .local_upgrading = options->local_upgrading,
        .close_acls = options->close_acls,
        .local_only = options->local_only,
        .collector = options->collector,
        .traces = &s->options.traces,
        .test = options->test,
        .clock = options->clock,
        .sink = replica_sink(s->node),
    };
    server_init_handles(s);
    s->follower = mirror_follower_create(loop, &s->service, &s->source);
    s->open_parts++;
    int access = server_open_access(s, ret_text);
    service.login = s->login;
    service.audit = s->audit;
    service.verifier = s->verifier;
    /* Also after an error of the access, because server_close finishes the service. */
    rc = service_init(&s->service, &service);
    if (access != 0) {
        rc = access;
    } else if (rc != 0) {
        rc = text_fail(ret_text, rc, "out of memory");
    } else if (s->follower == NULL) {
        rc = text_fail(ret_text, CONCLAVE_ENOMEM, "out of memory");
    } else {
        rc = server_open_traces(s, ret_text);
    }
    if (rc == 0) {
        rc = server_open_port(s, ret_text);
    }
    /* With the client port in hand: an Apache ZooKeeper that still runs with this zoo.cfg has it. */
    if (rc == 0 && !options->test) {
        rc = apache_import_open(&s->options, &s->import, ret_text);
        replica_set_import(s->node, apache_import_source(s->import));
    }
    if (rc == 0) {
        rc = server_open_node(s, ret_text);
    }
    if (rc != 0) {
        /* Parts that are open already close asynchronously; the last one frees s. */
        server_close(s, NULL, NULL);
        return rc;
    }
    *ret = s;
    return 0;
}

bool server_address(const struct server *s, enum client_door door, struct net_address *ret)
{
    return client_port_address(s->port, door, ret);
}

int server_reload(struct server *s, enum server_files files, char **ret_text)
{
    const struct ensemble_options *e = &s->options.ensemble;
    switch (files) {
    case SERVER_FILES_CERTIFICATES:
        return s->secure != NULL ? port_certificates_reload(s->secure, ret_text)
                                 : CONCLAVE_EUNSUPPORTED;
    case SERVER_FILES_PEER_CERTIFICATES:
        return s->node != NULL ? replica_reload(s->node, ret_text) : CONCLAVE_EUNSUPPORTED;
    case SERVER_FILES_SECRETS:
        return s->node != NULL ? replica_set_secrets(s->node, e->secret, e->other_secret, ret_text)
                               : CONCLAVE_EUNSUPPORTED;
    case SERVER_FILES_USERS:
        return s->verifier != NULL ? password_checker_reload(s->verifier, ret_text)
                                   : CONCLAVE_EUNSUPPORTED;
    case SERVER_FILES_COUNT:
        break;
    }
    return CONCLAVE_EUNSUPPORTED;
}

int server_set_limits(struct server *s, const struct client_limits *limits)
{
    struct client_limits all = *limits;
    client_limits_share(&all, memory_limit());
    int rc = service_set_limits(&s->service, &all);
    if (rc == 0) {
        s->options.limits = all;
    }
    if (rc == 0 && s->port != NULL) {
        client_port_limit(s->port);
    }
    return rc;
}

void server_set_secrets(struct server *s, struct slice secret, struct slice other)
{
    s->options.ensemble.secret = secret;
    s->options.ensemble.other_secret = other;
}

int64_t server_id(const struct server *s)
{
    return s->options.server_id;
}

/* Stop */

static void server_part_closed(void *ctx)
{
    struct server *s = ctx;
    assert(s->open_parts > 0);
    if (--s->open_parts > 0) {
        return;
    }
    assert(s->stage == SERVER_CLOSING && s->port == NULL && s->node == NULL && s->secure == NULL);
    if (s->was_serving) {
        log_always("server", "stopped", "id=%lld", (long long)member_number(server_id(s)));
    }
    apache_import_close(s->import);
    service_finish(&s->service);
    sasl_service_close(s->login);
    audit_log_close(s->audit);
    source_access_finish(&s->source);
    if (s->closed != NULL) {
        s->closed(s->closed_ctx);
    }
    free(s);
}

static void server_on_handle_closed(uv_handle_t *handle)
{
    server_part_closed(handle->data);
}

/* Turns continue until port and replica are closed. */
static void server_close_handles(struct server *s)
{
    if (s->port != NULL || s->node != NULL) {
        return;
    }
    password_checker_close(s->verifier, server_part_closed, s);
    trace_export_close(s->traces, server_part_closed, s);
    s->traces = NULL;
    mirror_follower_close(s->follower, server_part_closed, s);
    s->follower = NULL;
    uv_close((uv_handle_t *)&s->prepare, server_on_handle_closed);
    uv_close((uv_handle_t *)&s->timer, server_on_handle_closed);
}

static void server_on_node_closed(void *ctx)
{
    struct server *s = ctx;
    assert(s->stage == SERVER_CLOSING && s->node != NULL);
    s->node = NULL;
    /* They were the replica's; a connection that ends later must not ask it what held up a client. */
    s->service.pipeline.sink.disk_wait = NULL;
    s->service.pipeline.sink.reporter_ages = NULL;
    server_close_handles(s);
    server_part_closed(s);
}

static void server_on_port_closed(void *ctx)
{
    struct server *s = ctx;
    assert(s->stage == SERVER_CLOSING && s->port != NULL);
    s->port = NULL;
    s->stop_at = INT64_MAX;
    server_close_handles(s);
    server_part_closed(s);
}

/* Replies were written or given up: closes all parts. */
static void server_close_parts(struct server *s)
{
    server_enter(s, SERVER_CLOSING);
    port_certificates_close(s->secure, server_part_closed, s);
    s->secure = NULL;
    replica_close(s->node, server_on_node_closed, s);
    if (s->port != NULL) {
        /* A failed server cuts its clients at once, so that they go to another server. */
        client_port_close(s->port, s->failure_told ? 0 : STOP_LINGER_MS, server_on_port_closed, s);
        s->stop_at = clock_monotonic_ms(s->options.clock) + STOP_LINGER_MS;
        server_set_timer(s, s->stop_at);
    }
}

void server_close(struct server *s, void (*cb)(void *ctx), void *ctx)
{
    if (s == NULL) {
        return;
    }
    assert(s->closed == NULL);
    s->closed = cb;
    s->closed_ctx = ctx;
    if (s->port != NULL) {
        client_port_stop(s->port);
    }
    /* Only a serving server has requests in progress to finish. */
    bool drain = s->stage == SERVER_SERVING;
    if (drain) {
        log_always("server", "stopping", "id=%lld", (long long)member_number(server_id(s)));
    }
    if (drain && s->audit != NULL) {
        audit_log_server(s->audit, "serverStop", "invoked");
    }
    /* The timer does it, because the caller may be a callback of a part that closes. */
    int64_t now_ms = clock_monotonic_ms(s->options.clock);
    if (drain && replica_resign(s->node)) {
        server_enter(s, SERVER_RESIGNING);
        s->stop_at = now_ms + RESIGN_MS;
    } else {
        server_enter(s, SERVER_DRAINING);
        s->stop_at = now_ms + (drain ? DRAIN_MS : 0);
    }
    server_set_timer(s, now_ms);
}

/* Answers for operators */

const char *server_warning(const struct server *s)
{
    return s->stage == SERVER_SERVING ? data_limit_warning(&s->service) : NULL;
}

const char *server_why_not_ready(const struct server *s)
{
    switch (s->stage) {
    case SERVER_STARTING:
        return "starting";
    case SERVER_FAILED:
        return "the log accepts no writes";
    case SERVER_RESIGNING:
    case SERVER_DRAINING:
    case SERVER_CLOSING:
        return "stopping";
    case SERVER_SERVING:
        break;
    }
    const char *node = replica_why_not_ready(s->node);
    if (node != NULL) {
        return node;
    }
    if (s->drain.on) {
        return "emptied for a restart: it takes no clients";
    }
    return service_oldest_write_ms(&s->service) > WRITE_LATE_MS ? "writes are not answered in time"
                                                                : NULL;
}

void server_drain(struct server *s, int64_t within_ms)
{
    drain_begin(&s->drain, &s->service, clock_monotonic_ms(s->options.clock), within_ms);
}

void server_undrain(struct server *s)
{
    drain_end(&s->drain, &s->service);
}

bool server_is_drained(const struct server *s)
{
    return s->drain.on;
}

void server_connections_each(const struct server *s, bool (*fn)(void *ctx, struct connection *c),
                             void *ctx)
{
    if (s->port != NULL) {
        client_port_each(s->port, fn, ctx);
    }
}

struct service *server_service(struct server *s)
{
    return &s->service;
}

const struct server_options *server_options(const struct server *s)
{
    return &s->options;
}

void server_snapshot(const struct server *s, struct server_snapshot *ret)
{
    snapshot_schedule_newest(replica_snapshots(s->node), ret);
}

void server_take_snapshot(struct server *s)
{
    if (replica_log(s->node) != NULL) {
        replication_snapshot(replica_log(s->node));
    }
}

struct mirror_follower *server_follower(struct server *s)
{
    return s->follower;
}

struct replica *server_node(struct server *s)
{
    return s->node;
}

static void server_latency(const struct server_metrics *m, struct server_stats *ret)
{
    const struct summary *r = &m->readlatency;
    const struct summary *u = &m->updatelatency;
    uint64_t count = r->count + u->count;
    if (count == 0) {
        return;
    }
    uint64_t min = r->count == 0 || (u->count > 0 && u->min < r->min) ? u->min : r->min;
    ret->latency_min_ms = (int64_t)min / 1000;
    ret->latency_max_ms = (int64_t)(r->max > u->max ? r->max : u->max) / 1000;
    ret->latency_avg_ms = (double)(r->sum + u->sum) / 1000 / (double)count;
}

int64_t server_certificate_until_s(const struct server *s, bool of_peers)
{
    if (of_peers) {
        const struct peers *peers = s->node != NULL ? replica_peers(s->node) : NULL;
        return peers != NULL ? peers_certificate_until_s(peers) : 0;
    }
    return s->secure != NULL ? port_certificates_until_s(s->secure) : 0;
}

void server_stats(const struct server *s, struct server_stats *ret)
{
    *ret = (struct server_stats){
        .service = s->service.stats,
        .sessions = session_tracker_count(s->service.sessions),
        .local_sessions = local_sessions_count(&s->service.locals),
        .fence_bindings = state_fence_bindings(s->service.state),
        .outstanding = s->service.pipeline.outstanding,
        .outstanding_bytes = s->service.account.bytes[ACCOUNT_REQUESTS],
        .zxid = state_zxid(s->service.state),
        .uptime_ms = clock_monotonic_ms(s->options.clock) - s->started_ms,
        .oldest_write_ms = service_oldest_write_ms(&s->service),
        .limits = &s->service.limits,
        .account = &s->service.account,
        .data_level = (int)s->service.data_level,
        .metrics = s->service.metrics,
    };
    server_latency(s->service.metrics, ret);
    if (s->port != NULL) {
        client_port_stats(s->port, &ret->port);
    }
    ret->mode = s->node != NULL ? replica_mode(s->node) : "standalone";
    if (s->node != NULL && replica_log(s->node) != NULL) {
        replication_stats(replica_log(s->node), &ret->replication);
    }
    if (s->node != NULL) {
        ret->ensemble = replica_ensemble(s->node)->stats;
        quorum_stats(s->node, s->options.clock, &ret->quorum);
    }
    state_stats(s->service.state, &ret->state);
    watch_stats(s->service.watches, &ret->watches);
}
