/* conclave redis-failover run: runs a manager, and prints its events as lines. */
#include "base/json.h"

#include "base/environment.h"
#include "cli/common/command.h"
#include "cli/common/credentials.h"
#include "cli/common/node_output.h"
#include "cli/common/values.h"
#include "redis/command/redis_failover.h"
#include "redis/manager/manager.h"
#include "redis/manager/redis_login.h"

#include <conclave/uv.h>

#include <arpa/inet.h>
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

enum { UNREACHED_MS = 5000, CLOSE_MS = 2000 };

struct manager_run {
    const struct redis_cli *cli;
    uv_loop_t loop;
    uv_signal_t signals[2];
    uv_timer_t unreached; /* fires if no server of the ensemble was reached for a while */
    struct conclave_client *client;
    struct conclave_uv *uv;
    struct conclave_recipes *recipes;
    struct redis_manager *manager; /* NULL: none, or closed */
    const char *id;
    struct redis_config config;
    struct fence_options fence;
    struct redis_access access;
    struct sentinel_options sentinel;
    char announce[REDIS_ADDRESS_SIZE];
    int exit_code;
    bool ending;
};

/* --- lines --------------------------------------------------------------------------- */

static void redis_failover_run_on_event(void *ctx, const struct redis_event *event)
{
    struct manager_run *run = ctx;
    if (run->cli->common.json) {
        struct buf out;
        buf_init(&out, 0);
        record_write(&out, &REDIS_EVENT, event);
        printf("%.*s\n", (int)out.len, out.data != NULL ? (const char *)out.data : "");
        buf_finish(&out);
    } else {
        char when[TIME_TEXT_MAX];
        printf("%s ", time_text(event->at_ms, when));
        redis_cli_print_event(event);
    }
    (void)fflush(stdout);
}

static void redis_failover_run_on_ready(void *ctx)
{
    const struct manager_run *run = ctx;
    if (run->cli->common.json) {
        struct json j;
        json_line_begin(&j);
        json_member_string(&j, "event", "ready");
        json_member_string(&j, "cluster", run->cli->cluster);
        json_member_string(&j, "id", run->id);
        (void)json_line_print(&j, stdout);
    } else {
        printf("conclave: redis-failover ready cluster=%s id=%s\n", run->cli->cluster, run->id);
        (void)fflush(stdout);
    }
}

/* --- the end -------------------------------------------------------------------------- */

static void on_client_closed(void *ctx)
{
    struct manager_run *run = ctx;
    run->uv = NULL;
}

/* Ends what is left in the loop. */
static void run_close_rest(struct manager_run *run)
{
    conclave_recipes_destroy(run->recipes);
    run->recipes = NULL;
    conclave_uv_close(run->uv, CLOSE_MS, on_client_closed, run);
    uv_close((uv_handle_t *)&run->signals[0], NULL);
    uv_close((uv_handle_t *)&run->signals[1], NULL);
    uv_close((uv_handle_t *)&run->unreached, NULL);
}

static void on_manager_closed(void *ctx)
{
    struct manager_run *run = ctx;
    assert(run->ending);
    run->manager = NULL;
    run_close_rest(run);
}

static void run_end(struct manager_run *run, int exit_code)
{
    if (run->ending) {
        return;
    }
    assert(run->manager != NULL);
    run->ending = true;
    run->exit_code = exit_code;
    redis_manager_close(run->manager);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct manager_run *run = handle->data;
    if (run->ending) {
        _exit(128 + number); /* the second signal: the session expires by itself */
    }
    run_end(run, 128 + number);
}

/* --- the ensemble ---------------------------------------------------------------------- */

static void tell_unreached(struct manager_run *run)
{
    char why[512];
    conclave_client_last_error(run->client, why, sizeof why);
    fprintf(stderr,
            "conclave redis-failover: no server of the ensemble was reached%s%s; going on trying\n",
            why[0] != '\0' ? ": " : "", why);
}

static void on_unreached(uv_timer_t *timer)
{
    tell_unreached(timer->data);
}

static void on_state(struct conclave_client *client, enum conclave_state state, void *ctx)
{
    struct manager_run *run = ctx;
    switch (state) {
    case CONCLAVE_STATE_CONNECTED:
    case CONCLAVE_STATE_RECONNECTED:
    case CONCLAVE_STATE_NEW_SESSION:
        uv_timer_stop(&run->unreached);
        break;
    case CONCLAVE_STATE_SUSPENDED:
    case CONCLAVE_STATE_LOST:
        if (!run->ending) {
            uv_timer_start(&run->unreached, on_unreached, UNREACHED_MS, 0);
        }
        break;
    case CONCLAVE_STATE_AUTH_FAILED:
        fprintf(stderr, "conclave redis-failover: the ensemble refuses our credentials\n");
        run_end(run, CLI_EXIT_AUTH);
        break;
    case CONCLAVE_STATE_CONNECTING:
    case CONCLAVE_STATE_READ_ONLY: /* not requested */
    case CONCLAVE_STATE_CLOSED:
        break;
    }
}

/* --- settings ---------------------------------------------------------------------------- */

static int config_make(const struct redis_cli *cli, struct redis_config *config)
{
    const char *bad;
    *config = cli->config;
    if (cli->nodes == NULL) {
        return usage_error(&REDIS_USAGE, "run wants the servers: --nodes HOST:PORT,HOST:PORT,...");
    }
    if (redis_config_nodes(config, cli->nodes, &bad) != 0) {
        return usage_error(&REDIS_USAGE,
                           "--nodes wants 1 to %d different servers, HOST:PORT, not \"%.60s\"",
                           REDIS_NODES_MAX, bad);
    }
    if (config->managers < 1 || config->managers > REDIS_MANAGERS_MAX) {
        return usage_error(&REDIS_USAGE, "--managers wants a number from 1 to %d",
                           REDIS_MANAGERS_MAX);
    }
    if (config->required_managers < 0 || config->required_managers > config->managers) {
        return usage_error(&REDIS_USAGE, "--required-node-managers wants at most --managers");
    }
    if (config->period_ms < 100 || config->op_timeout_ms < 100) {
        return usage_error(&REDIS_USAGE, "--period and --op-timeout want 100ms or more");
    }
    if (config->max_failures < 1 || config->max_failures > 1000 || config->parallel_syncs < 1 ||
        config->parallel_syncs > REDIS_NODES_MAX) {
        return usage_error(&REDIS_USAGE, "--max-failures and --parallel-syncs want 1 or more");
    }
    if (config->min_replicas < 0 || config->min_replicas >= (int64_t)config->node_count ||
        config->min_replicas_lag_s < 1) {
        return usage_error(&REDIS_USAGE, "--min-replicas wants fewer than there are servers, "
                                         "--min-replicas-max-lag 1 or more");
    }
    return OPTIONS_GO_ON;
}

static int access_open(const struct redis_cli *cli, struct redis_access *access)
{
    char why[TLS_TEXT_MAX];
    struct redis_access_settings settings = {.user = cli->redis_user,
                                             .password_file = cli->redis_password_file,
                                             .password =
                                                 environment_secret("CONCLAVE_REDIS_PASSWORD"),
                                             .tls = cli->redis_tls,
                                             .ca_file = cli->redis_ca,
                                             .cert_file = cli->redis_cert,
                                             .key_file = cli->redis_key,
                                             .any_name = cli->redis_any_name};
    settings.password = cli->redis_password != NULL ? cli->redis_password : settings.password;
    if (cli->redis_password_file != NULL) {
        credentials_check_file(REDIS_USAGE.name, cli->redis_password_file);
    }
    if (redis_access_open(&settings, access, why) != 0) {
        fprintf(stderr, "conclave redis-failover: %s\n", why);
        return CLI_EXIT_USAGE;
    }
    return OPTIONS_GO_ON;
}

/* Whether a host is every interface, which is no address to reach. */
static bool is_any_address(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    return (inet_aton(host, &v4) != 0 && v4.s_addr == htonl(INADDR_ANY)) ||
           (inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6));
}

/* By which address other clients reach this manager: "" if only its connections can show. False: it is no address. */
static bool sentinel_announce(struct manager_run *run)
{
    const struct redis_cli *cli = run->cli;
    const char *host = cli->sentinel_address;
    struct redis_node_config at;
    char text[REDIS_ADDRESS_SIZE + 16];
    if (cli->sentinel_announce != NULL) {
        snprintf(text, sizeof text, "%s", cli->sentinel_announce);
    } else if (host != NULL && !is_any_address(host)) {
        snprintf(text, sizeof text, strchr(host, ':') != NULL ? "[%s]:%d" : "%s:%d", host,
                 (int)cli->sentinel_port);
    } else {
        return true;
    }
    if (redis_address_parse(text, strlen(text), &at) != 0 || is_any_address(at.host)) {
        return false;
    }
    memcpy(run->announce, at.address, sizeof run->announce);
    return true;
}

static void sentinel_close(struct manager_run *run)
{
    sentinel_users_close((struct sentinel_users *)run->sentinel.users);
    tls_context_release(run->sentinel.tls);
}

static int sentinel_open(struct manager_run *run)
{
    const struct redis_cli *cli = run->cli;
    struct tls_settings tls = {.server = true,
                               .peer = cli->sentinel_ca != NULL ? TLS_PEER_NEED : TLS_PEER_NONE,
                               .cert_file = cli->sentinel_cert,
                               .key_file = cli->sentinel_key,
                               .trust_file = cli->sentinel_ca};
    struct sentinel_users *users = NULL;
    char why[TLS_TEXT_MAX];
    if (cli->sentinel_port < 0 || cli->sentinel_port > UINT16_MAX) {
        return usage_error(&REDIS_USAGE, "--sentinel-port wants a number from 1 to 65535");
    }
    if (cli->sentinel_port == 0) {
        bool needless = cli->sentinel_address != NULL || cli->sentinel_announce != NULL ||
                        cli->sentinel_users != NULL || cli->sentinel_cert != NULL ||
                        cli->sentinel_key != NULL || cli->sentinel_ca != NULL ||
                        cli->sentinel_failover;
        return needless
                   ? usage_error(&REDIS_USAGE, "the options --sentinel-... want --sentinel-port")
                   : OPTIONS_GO_ON;
    }
    if (cli->sentinel_stale_ms < 100) {
        return usage_error(&REDIS_USAGE, "--sentinel-stale wants 100ms or more");
    }
    if (cli->sentinel_cert == NULL && (cli->sentinel_key != NULL || cli->sentinel_ca != NULL)) {
        return usage_error(&REDIS_USAGE, "--sentinel-key and --sentinel-ca want --sentinel-cert");
    }
    if (!sentinel_announce(run)) {
        return usage_error(&REDIS_USAGE,
                           "--sentinel-address wants a host, --sentinel-announce HOST:PORT that "
                           "clients can reach");
    }
    if (cli->sentinel_users != NULL) {
        credentials_check_file(REDIS_USAGE.name, cli->sentinel_users);
    }
    run->sentinel = (struct sentinel_options){
        .on = true,
        .name = cli->cluster,
        .host = cli->sentinel_address != NULL ? cli->sentinel_address : "",
        .port = (int)cli->sentinel_port,
        .announce = run->announce,
        .stale_ms = cli->sentinel_stale_ms,
        .failover_allowed = cli->sentinel_failover};
    if ((cli->sentinel_users != NULL &&
         sentinel_users_open(cli->sentinel_users, &users, why) != 0) ||
        (cli->sentinel_cert != NULL && tls_context_create(&tls, &run->sentinel.tls, why) != 0)) {
        fprintf(stderr, "conclave redis-failover: %s\n", why);
        sentinel_users_close(users);
        return CLI_EXIT_USAGE;
    }
    run->sentinel.users = users;
    return OPTIONS_GO_ON;
}

static int manager_open(struct manager_run *run)
{
    const struct redis_cli *cli = run->cli;
    const char *gem_root = cli->gem_path != NULL ? cli->gem_path : "/redis_failover";
    struct redis_manager_settings settings = {.loop = &run->loop,
                                              .client = run->client,
                                              .recipes = run->recipes,
                                              .config = &run->config,
                                              .access = &run->access,
                                              .root = cli->root,
                                              .id = run->id,
                                              .gem_root = cli->gem_layout ? gem_root : NULL,
                                              .methods = run->fence.methods,
                                              .method_count = run->fence.count,
                                              .dry_run = cli->dry_run,
                                              .sentinel = run->sentinel,
                                              .on_event = redis_failover_run_on_event,
                                              .on_ready = redis_failover_run_on_ready,
                                              .on_closed = on_manager_closed,
                                              .ctx = run};
    return redis_manager_open(&settings, &run->manager);
}

/* --- the command --------------------------------------------------------------------------- */

static void run_watch_signals(struct manager_run *run)
{
    static const int NUMBERS[] = {SIGINT, SIGTERM};
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < 2; i++) {
        uv_signal_init(&run->loop, &run->signals[i]);
        run->signals[i].data = run;
        uv_signal_start(&run->signals[i], on_signal, NUMBERS[i]);
    }
    uv_timer_init(&run->loop, &run->unreached);
    run->unreached.data = run;
    uv_timer_start(&run->unreached, on_unreached, UNREACHED_MS, 0);
}

/* Opens the client and the manager, and runs the loop to its end. */
static int run_loop(struct manager_run *run)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    options.on_state = on_state;
    options.ctx = run;
    options.exactly_once = true;
    options.request_timeout_ms = run->cli->common.session_ms;
    int code = connection_create(REDIS_USAGE.name, &run->cli->common, &options, &run->client);
    if (code != 0) {
        return code;
    }
    run_watch_signals(run);
    int error = conclave_uv_open(&run->loop, run->client, &run->uv);
    if (error != 0) {
        conclave_client_close(run->client, 0);
        return fail(REDIS_USAGE.name, NULL, error);
    }
    error = conclave_recipes_open(run->client, &run->recipes);
    if (error == 0) {
        error = manager_open(run);
    }
    if (error != 0) {
        run->exit_code = fail(REDIS_USAGE.name, run->cli->root, error);
        run->ending = true;
        if (run->manager == NULL) {
            run_close_rest(run);
        }
    }
    uv_run(&run->loop, UV_RUN_DEFAULT);
    return run->exit_code;
}

int redis_cli_run(const struct redis_cli *cli)
{
    char host_pid[HOST_PID_MAX];
    struct manager_run run = {.cli = cli, .fence = cli->fence};
    int code = fence_options_finish(&REDIS_USAGE, &run.fence);
    if (code == OPTIONS_GO_ON) {
        code = config_make(cli, &run.config);
    }
    if (code == OPTIONS_GO_ON) {
        code = access_open(cli, &run.access);
    }
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    code = sentinel_open(&run);
    if (code != OPTIONS_GO_ON) {
        redis_access_close(&run.access);
        return code;
    }
    assert(run.config.node_count > 0 && run.config.managers > 0);
    run.config.fence_methods = run.fence.count > 0;
    run.id = cli->id != NULL ? cli->id : host_pid_text(host_pid);
    if (run.id[0] == '\0' || strpbrk(run.id, "/\n") != NULL || strlen(run.id) >= REDIS_NAME_SIZE) {
        code = usage_error(&REDIS_USAGE, "--id wants a name without \"/\"");
    } else if (uv_loop_init(&run.loop) != 0) {
        code = fail(REDIS_USAGE.name, NULL, CONCLAVE_EIO);
    } else {
        code = run_loop(&run);
        (void)uv_loop_close(&run.loop);
    }
    sentinel_close(&run);
    redis_access_close(&run.access);
    return code;
}
