/* conclave fence: which parts of the tree are written by the holder of a lock only, and whether a token is the newest. */
#include "base/json.h"
#include "cli/common/client_command.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/options.h"
#include "cli/common/values.h"

#include <conclave/fencing.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct fence_command {
    struct common_options common;
    int64_t lock_delay_ms;
};

static const struct option_row ROWS[] = {
    {"lock-delay", 0, OPTION_DURATION, offsetof(struct fence_command, lock_delay_ms), "TIME",
     "bind: how long nobody may write after a holder has gone without letting go. Default: 0.",
     NULL},
    ACL_ROW,
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "fence",
    .forms = (const char *const[]){"bind PREFIX LOCK [options]", "unbind PREFIX [options]",
                                   "list [options]", "check LOCK TOKEN [options]", NULL},
    .about =
        "Has a part of the tree written only by whoever holds a lock or leads an election. bind "
        "binds what stands at PREFIX and below to the lock or election at LOCK, unbind ends that, "
        "list shows what is bound: prefix, lock, lock-delay, and what is left of a running one. "
        "Only servers with fencing.enabled=yes know this.\n\n"
        "check asks whether TOKEN is still the newest of the lock or election at LOCK, of any "
        "server: it ends with 0 if it is, with 76 if it is not.",
    .rows = ROWS,
    .more = "With --json: bind {\"prefix\":PREFIX,\"lock\":LOCK,\"lock_delay_ms\":N}; unbind "
            "{\"prefix\":PREFIX}; list an array of {\"prefix\",\"lock\",\"lock_delay_ms\","
            "\"closed_until_ms\"}, the last null where none is running; check "
            "{\"path\":LOCK,\"token\":N,\"current\":true}. Give --server without a chroot to bind, "
            "unbind and list.\n",
    .client = true,
    .operands_min = 1,
    .operands_max = 3,
};

static int fence_fail(const char *path, int error)
{
    if (error == CONCLAVE_EUNSUPPORTED) {
        fprintf(stderr,
                "conclave fence: the servers do not fence: set fencing.enabled=yes on them; only "
                "Conclave's servers can\n");
        return CLI_EXIT_FAILED;
    }
    return fail(USAGE.name, path, error);
}

/* Prints and frees; 0 or the error. */
static int print_json(struct json *j)
{
    int error = json_print(j, stdout);
    json_finish(j);
    return error;
}

static void put_binding(struct json *j, const char *prefix, const char *lock, int64_t delay_ms)
{
    json_object_begin(j);
    json_member_string(j, "prefix", prefix);
    json_member_string(j, "lock", lock);
    json_member_int(j, "lock_delay_ms", delay_ms);
}

static int fence_bind(struct conclave_client *client, const struct fence_command *o,
                      const char *prefix, const char *lock)
{
    int error = conclave_fence_bind(client, prefix, lock, o->lock_delay_ms, o->common.timeout_ms);
    if (error == CONCLAVE_BAD_ARGUMENTS) {
        fprintf(stderr,
                "conclave fence: %s cannot be bound to %s: neither may be / or stand in "
                "/zookeeper, nor the prefix at or below the lock; the delay is a day at "
                "most\n",
                prefix, lock);
        return CLI_EXIT_FAILED;
    }
    if (error == 0 && o->common.json) {
        struct json j;
        json_init(&j);
        put_binding(&j, prefix, lock, o->lock_delay_ms);
        json_object_end(&j);
        error = print_json(&j);
    }
    return error == 0 ? 0 : fence_fail(prefix, error);
}

static int fence_unbind(struct conclave_client *client, const struct fence_command *o,
                        const char *prefix)
{
    int error = conclave_fence_unbind(client, prefix, o->common.timeout_ms);
    if (error == CONCLAVE_NO_NODE) {
        fprintf(stderr, "conclave fence: %s is not bound\n", prefix);
        return CLI_EXIT_FAILED;
    }
    if (error == 0 && o->common.json) {
        struct json j;
        json_line_begin(&j);
        json_member_string(&j, "prefix", prefix);
        json_object_end(&j);
        error = print_json(&j);
    }
    return error == 0 ? 0 : fence_fail(prefix, error);
}

/* By the wall clock here, which should be about the leader's. */
static int64_t left_ms(const struct conclave_fence_binding *b)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now); /* it is always there */
    int64_t left = b->closed_until_ms - (int64_t)now.tv_sec * 1000 - now.tv_nsec / 1000000;
    return left > 0 ? left : 0;
}

static int fence_list_json(const struct conclave_fence_binding *list, size_t count)
{
    struct json j;
    json_init(&j);
    json_array_begin(&j);
    for (size_t i = 0; i < count; i++) {
        put_binding(&j, list[i].prefix, list[i].lock, list[i].lock_delay_ms);
        json_key(&j, "closed_until_ms");
        if (left_ms(&list[i]) > 0) {
            json_int(&j, list[i].closed_until_ms);
        } else {
            json_null(&j);
        }
        json_object_end(&j);
    }
    json_array_end(&j);
    return print_json(&j);
}

static int fence_list(struct conclave_client *client, const struct fence_command *o)
{
    struct conclave_fence_binding *list = NULL;
    size_t count = 0;
    char delay[DURATION_TEXT_MAX];
    char left[DURATION_TEXT_MAX];
    int error = conclave_fence_list(client, o->common.timeout_ms, &list, &count);
    if (error != 0) {
        return fence_fail(NULL, error);
    }
    if (o->common.json) {
        error = fence_list_json(list, count);
    } else {
        output_titles(&o->common, count, "PREFIX\tLOCK\tDELAY\tLEFT");
        for (size_t i = 0; i < count; i++) {
            printf("%s\t%s\t%s\t%s\n", list[i].prefix, list[i].lock,
                   duration_text(list[i].lock_delay_ms, delay),
                   duration_text(left_ms(&list[i]), left));
        }
    }
    conclave_fence_list_free(list, count);
    return error == 0 ? 0 : fence_fail(NULL, error);
}

static int fence_check_token(struct conclave_client *client, const struct fence_command *o,
                             const char *path, const char *text)
{
    struct conclave_token token = {0};
    bool current = false;
    int error = integer_parse(text, 1, INT64_MAX, &token.czxid) ? 0 : CONCLAVE_EINVAL;
    if (error == 0) {
        error = conclave_token_is_current(client, path, token, o->common.timeout_ms, &current);
    }
    if (error == 0 && o->common.json) {
        struct json j;
        json_line_begin(&j);
        json_member_string(&j, "path", path);
        json_member_int(&j, "token", token.czxid);
        json_member_bool(&j, "current", current);
        json_object_end(&j);
        error = print_json(&j);
    } else if (error == 0) {
        printf("%s\n", current ? "current" : "stale");
    }
    if (error != 0) {
        return fence_fail(path, error);
    }
    return current ? 0 : CLI_EXIT_LOST;
}

/* What follows each verb. */
static const struct verb {
    const char *name;
    int operands;
} VERBS[] = {{"bind", 2}, {"unbind", 1}, {"list", 0}, {"check", 2}};

static int fence_command_check(void *target, const struct operands *operands)
{
    const struct fence_command *o = target;
    int64_t token;
    const struct verb *verb = NULL;
    for (size_t i = 0; i < sizeof VERBS / sizeof VERBS[0]; i++) {
        if (strcmp(VERBS[i].name, operands->words[0]) == 0) {
            verb = &VERBS[i];
        }
    }
    if (verb == NULL) {
        return usage_error(&USAGE, "\"%s\" is none of bind, unbind, list and check",
                           operands->words[0]);
    }
    if (operands->count != verb->operands + 1) {
        return usage_error(&USAGE, "%s takes %d arguments", verb->name, verb->operands);
    }
    if (o->lock_delay_ms != 0 && verb->name[0] != 'b') {
        return usage_error(&USAGE, "--lock-delay goes with bind");
    }
    for (int i = 1; i <= verb->operands && i < (verb->name[0] == 'c' ? 2 : 3); i++) {
        if (operands->words[i][0] != '/') {
            return usage_error(&USAGE, "\"%s\" is no path: it begins with /", operands->words[i]);
        }
    }
    if (verb->name[0] == 'c' && !integer_parse(operands->words[2], 1, INT64_MAX, &token)) {
        return usage_error(&USAGE, "\"%s\" is no token: it is a number above 0",
                           operands->words[2]);
    }
    return OPTIONS_GO_ON;
}

static int fence_run(struct conclave_client *client, const void *target,
                     const struct operands *operands)
{
    const struct fence_command *o = target;
    char *const *words = operands->words;
    switch (words[0][0]) {
    case 'b':
        return fence_bind(client, o, words[1], words[2]);
    case 'u':
        return fence_unbind(client, o, words[1]);
    case 'l':
        return fence_list(client, o);
    default:
        return fence_check_token(client, o, words[1], words[2]);
    }
}

int command_fence(int argc, char **argv)
{
    static const struct client_command COMMAND = {&USAGE, -1, fence_command_check, fence_run};
    struct fence_command options = {.common = COMMON_OPTIONS_INIT};
    return client_command_run(&COMMAND, argc, argv, &options);
}
