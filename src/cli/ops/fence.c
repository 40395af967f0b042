/* conclave fence: binds parts of the tree to locks, and compares tokens. */
#include "base/clock.h"
#include "cli/common/client_command.h"
#include "cli/common/values.h"

#include <conclave/fencing.h>

#include <stdio.h>

struct fence_command {
    struct common_options common;
    int64_t lock_delay_ms;
};

static const struct option_row ROWS[] = {
    {"lock-delay", 0, OPTION_DURATION, offsetof(struct fence_command, lock_delay_ms), "TIME",
     "bind: time without any writer after a holder that did not release the lock. Default: 0."},
    OPTION_GROUP(ACL_ROWS, 0),
    {.name = NULL},
};

enum fence_verb { FENCE_BIND, FENCE_UNBIND, FENCE_LIST, FENCE_CHECK };
static const struct command_verb VERBS[] = {
    {"bind", 2, 2, false},  {"unbind", 1, 1, false}, {"list", 0, 0, false},
    {"check", 2, 2, false}, {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "fence",
    .forms = (const char *const[]){"bind PREFIX LOCK [options]", "unbind PREFIX [options]",
                                   "list [options]", "check LOCK TOKEN [options]", NULL},
    .about =
        "Restricts writes to a part of the tree to the holder of a lock or the leader of an "
        "election. bind binds the nodes at PREFIX and below to the lock or election at LOCK, unbind "
        "ends that, list shows the bindings: prefix, lock, lock-delay, and what is left of a running "
        "delay. Only servers with fencing.enabled=yes know this.\n\n"
        "check asks any server whether TOKEN is still the newest of the lock or election at LOCK. It "
        "ends with 0 if it is, with 76 if it is not.",
    .rows = ROWS,
    .verbs = VERBS,
    .more = "With --json: bind {\"prefix\":PREFIX,\"lock\":LOCK,\"lock_delay_ms\":N}; unbind "
            "{\"prefix\":PREFIX}; list an array of {\"prefix\",\"lock\",\"lock_delay_ms\","
            "\"closed_until_ms\"}, the last null where no delay is running; check "
            "{\"path\":LOCK,\"token\":N,\"current\":true}. Give --server without a chroot to bind, "
            "unbind and list.\n",
    .client = true,
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

static void binding_put(struct record *r, const char *prefix, const char *lock, int64_t delay_ms)
{
    char delay[DURATION_TEXT_MAX];
    record_string(r, "prefix", prefix);
    record_string(r, "lock", lock);
    record_string(r, NULL, duration_text(delay_ms, delay));
    if (r->json) {
        json_member_int(&r->j, "lock_delay_ms", delay_ms);
    }
}

static int fence_bind(struct conclave_client *client, const struct fence_command *o,
                      const char *prefix, const char *lock)
{
    struct record r;
    int error = conclave_fence_bind(client, prefix, lock, o->lock_delay_ms, o->common.timeout_ms);
    if (error == CONCLAVE_BAD_ARGUMENTS) {
        fprintf(
            stderr,
            "conclave fence: %s cannot be bound to %s: neither may be / or below /zookeeper, nor "
            "the prefix at or below the lock; the delay is a day at most\n",
            prefix, lock);
        return CLI_EXIT_FAILED;
    }
    if (error == 0 && o->common.json) {
        record_begin(&r, true);
        binding_put(&r, prefix, lock, o->lock_delay_ms);
        error = record_print(&r);
    }
    return error == 0 ? 0 : fence_fail(prefix, error);
}

static int fence_unbind(struct conclave_client *client, const struct fence_command *o,
                        const char *prefix)
{
    struct record r;
    int error = conclave_fence_unbind(client, prefix, o->common.timeout_ms);
    if (error == CONCLAVE_NO_NODE) {
        fprintf(stderr, "conclave fence: %s is not bound\n", prefix);
        return CLI_EXIT_FAILED;
    }
    if (error == 0 && o->common.json) {
        record_begin(&r, true);
        record_string(&r, "prefix", prefix);
        error = record_print(&r);
    }
    return error == 0 ? 0 : fence_fail(prefix, error);
}

/* By the clock of this machine, which should be about the leader's. */
static int64_t left_ms(const struct conclave_fence_binding *b)
{
    int64_t left = b->closed_until_ms - clock_wall_ms(clock_system());
    return left > 0 ? left : 0;
}

/* In JSON an array. */
static int fence_list(struct conclave_client *client, const struct fence_command *o)
{
    struct conclave_fence_binding **list = NULL;
    size_t count = 0;
    char left[DURATION_TEXT_MAX];
    struct record r = {.json = o->common.json};
    int error = conclave_fence_list(client, o->common.timeout_ms, &list, &count);
    if (error != 0) {
        return fence_fail(NULL, error);
    }
    json_init(&r.j);
    json_array_begin(&r.j);
    output_titles(&o->common, count, "PREFIX\tLOCK\tDELAY\tLEFT");
    for (size_t i = 0; i < count; i++) {
        const struct conclave_fence_binding *b = list[i];
        record_row_begin(&r);
        binding_put(&r, b->prefix, b->lock, b->lock_delay_ms);
        record_string(&r, NULL, duration_text(left_ms(b), left));
        if (r.json && left_ms(b) > 0) {
            json_member_int(&r.j, "closed_until_ms", b->closed_until_ms);
        } else if (r.json) {
            json_member_null(&r.j, "closed_until_ms");
        }
        record_row_end(&r);
    }
    json_array_end(&r.j);
    error = r.json ? json_print(&r.j, stdout) : 0;
    json_finish(&r.j);
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
    if (error == 0) {
        struct record r;
        record_begin(&r, o->common.json);
        record_add_path(&r, path);
        record_string(&r, NULL, current ? "current" : "stale");
        if (r.json) {
            json_member_int(&r.j, "token", token.czxid);
            json_member_bool(&r.j, "current", current);
        }
        error = record_print(&r);
    }
    return error != 0 ? fence_fail(path, error) : current ? 0 : CLI_EXIT_LOST;
}

static int fence_command_check(void *target, const struct operands *operands)
{
    const struct fence_command *o = target;
    int64_t token;
    bool check = operands->verb == FENCE_CHECK;
    int paths = check ? 1 : operands->count - 1;
    for (int i = 1; i <= paths; i++) {
        if (operands->words[i][0] != '/') {
            return usage_error(&USAGE, "\"%s\" is no path: it begins with /", operands->words[i]);
        }
    }
    if (check && !integer_parse(operands->words[2], 1, INT64_MAX, &token)) {
        return usage_error(&USAGE, "\"%s\" is no token: it is a number above 0",
                           operands->words[2]);
    }
    return o->lock_delay_ms != 0 && operands->verb != FENCE_BIND
               ? usage_error(&USAGE, "--lock-delay goes with bind")
               : OPTIONS_GO_ON;
}

static int fence_run(struct conclave_client *client, const void *target,
                     const struct operands *operands)
{
    const struct fence_command *o = target;
    char *const *words = operands->words;
    switch ((enum fence_verb)operands->verb) {
    case FENCE_BIND:
        return fence_bind(client, o, words[1], words[2]);
    case FENCE_UNBIND:
        return fence_unbind(client, o, words[1]);
    case FENCE_LIST:
        return fence_list(client, o);
    case FENCE_CHECK:
        break;
    }
    return fence_check_token(client, o, words[1], words[2]);
}

int command_fence(int argc, char **argv)
{
    static const struct client_command COMMAND = {
        .usage = &USAGE, .path = -1, .check = fence_command_check, .run = fence_run};
    struct fence_command options = {.common = COMMON_OPTIONS_INIT};
    return client_command_run(&COMMAND, argc, argv, &options);
}
