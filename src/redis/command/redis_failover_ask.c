/* conclave redis-failover failover, pause, resume and forget: sends a request to the leading manager, and waits for its
 * result. */
#include "base/clock.h"
#include "base/json.h"
#include "cli/common/command.h"
#include "cli/common/values.h"
#include "redis/command/redis_failover.h"
#include "redis/manager/cluster_znodes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOK_MS = 50, GRACE_MS = 500 };

struct manager_query {
    const struct redis_cli *cli;
    struct conclave_client *client;
    char name[REDIS_NAME_SIZE]; /* of the request's node */
    int64_t until_ms;           /* wall clock */
};

static const char *below(const struct manager_query *a, const char *folder, const char *name,
                         char path[REDIS_PATH_MAX])
{
    char text[REDIS_PATH_MAX];
    snprintf(text, sizeof text, "%s/%.120s", folder, name);
    return redis_path(a->cli->root, text, path);
}

static int put_request(struct manager_query *a, enum redis_request_kind kind)
{
    const struct redis_cli *cli = a->cli;
    struct redis_request request = {.kind = kind, .force = cli->force};
    struct conclave_reply *reply = NULL;
    char by[HOST_PID_MAX];
    char path[REDIS_PATH_MAX];
    struct buf out;
    host_pid_text(by);
    a->until_ms = clock_wall_ms(clock_system()) + cli->common.timeout_ms;
    request.timeout_ms = cli->common.timeout_ms;
    request.expires_ms = a->until_ms;
    snprintf(request.target, sizeof request.target, "%s", cli->target != NULL ? cli->target : "");
    snprintf(request.by, sizeof request.by, "%.100s", by);
    snprintf(request.id, sizeof request.id, "%.100s:%lld", by, (long long)a->until_ms);
    buf_init(&out, 0);
    record_write(&out, &REDIS_REQUEST, &request);
    struct conclave_op op = conclave_op_create(below(a, "requests", "req-", path), out.data,
                                               out.len, CONCLAVE_PERSISTENT_SEQUENTIAL);
    int error = buf_ok(&out) ? conclave_call(a->client, &op, &reply) : CONCLAVE_ENOMEM;
    if (error == 0) {
        assert(reply->path != NULL && strrchr(reply->path, '/') != NULL);
        snprintf(a->name, sizeof a->name, "%s", strrchr(reply->path, '/') + 1);
    }
    conclave_reply_free(reply);
    buf_finish(&out);
    return error;
}

static int read_result(const struct manager_query *a, struct redis_result *ret)
{
    char path[REDIS_PATH_MAX];
    struct conclave_reply *reply = NULL;
    struct conclave_op op =
        conclave_op_path(CONCLAVE_OP_GET, below(a, "results", a->name, path), 0);
    int error = conclave_call(a->client, &op, &reply);
    if (error == 0) {
        error = record_read(&REDIS_RESULT, reply->data, reply->data_len, ret);
    }
    conclave_reply_free(reply);
    return error;
}

static int show_result(const struct manager_query *a, const struct redis_result *result)
{
    if (a->cli->common.json) {
        struct json j;
        json_line_begin(&j);
        json_member_string(&j, "request", a->name);
        redis_cli_json_record(&j, "result", &REDIS_RESULT, result);
        int error = json_line_print(&j, stdout);
        if (error != 0) {
            return fail(REDIS_USAGE.name, NULL, error);
        }
    } else if (result->ok) {
        bool named = result->master[0] == '\0' || strstr(result->text, result->master) != NULL;
        printf("%s%s%s\n", result->text, named ? "" : "; master ", named ? "" : result->master);
        if (result->lost_bytes > 0) {
            printf("lost: %lld bytes of what the old master had\n", (long long)result->lost_bytes);
        }
    }
    if (!result->ok) {
        fprintf(stderr, "conclave redis-failover: refused: %s\n", result->text);
        return output_end(REDIS_USAGE.name, CLI_EXIT_FAILED);
    }
    return output_end(REDIS_USAGE.name, 0);
}

/* Deletes the request if no manager has answered it. */
static void withdraw(const struct manager_query *a)
{
    char path[REDIS_PATH_MAX];
    struct conclave_op op =
        conclave_op_path(CONCLAVE_OP_DELETE, below(a, "requests", a->name, path), -1);
    int error = conclave_call(a->client, &op, NULL);
    if (error != 0 && error != CONCLAVE_NO_NODE) {
        (void)fail(REDIS_USAGE.name, a->name, error);
    }
}

static int wait_result(const struct manager_query *a)
{
    struct redis_result result;
    int error;
    assert(a->name[0] != '\0');
    while ((error = read_result(a, &result)) == CONCLAVE_NO_NODE &&
           clock_wall_ms(clock_system()) < a->until_ms + GRACE_MS) {
        struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
        nanosleep(&pause, NULL);
    }
    if (error == 0) {
        return show_result(a, &result);
    }
    if (error != CONCLAVE_NO_NODE) {
        return fail(REDIS_USAGE.name, a->cli->root, error);
    }
    withdraw(a);
    fprintf(
        stderr,
        "conclave redis-failover: no manager has answered in time: see \"conclave redis-failover "
        "status %s\"\n",
        a->cli->cluster);
    return CLI_EXIT_TIMEOUT;
}

static int show_name(const struct manager_query *a)
{
    if (a->cli->common.json) {
        struct json j;
        json_line_begin(&j);
        json_member_string(&j, "request", a->name);
        (void)json_line_print(&j, stdout);
    } else {
        printf("%s\tasked for; --wait waits for the result\n", a->name);
    }
    return output_end(REDIS_USAGE.name, 0);
}

int redis_cli_ask(const struct redis_cli *cli, enum redis_request_kind kind)
{
    struct manager_query a = {.cli = cli};
    struct redis_node_config node;
    if (cli->target != NULL && redis_address_parse(cli->target, strlen(cli->target), &node) != 0) {
        return usage_error(&REDIS_USAGE, "\"%.60s\" is no server: HOST:PORT", cli->target);
    }
    int code = connection_open(REDIS_USAGE.name, &cli->common, NULL, NULL, &a.client);
    if (code != 0) {
        return code;
    }
    int error = put_request(&a, kind);
    if (error == CONCLAVE_NO_NODE) {
        fprintf(stderr, "conclave redis-failover: there is no cluster at %s\n", cli->root);
        code = CLI_EXIT_FAILED;
    } else if (error != 0) {
        code = fail(REDIS_USAGE.name, cli->root, error);
    } else {
        code = cli->wait ? wait_result(&a) : show_name(&a);
    }
    connection_close(a.client);
    return code;
}
