/* conclave semaphore: arguments, help, and what it holds (hold_command.h). */
#include "cli/common/command.h"
#include "cli/common/values.h"
#include "cli/recipes/holders_output.h"
#include "cli/run/hold_command.h"

#include <conclave/semaphore.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ANSWER_TIMEOUT_MS = 5000 };

struct semaphore_options {
    struct hold_options turn;
    bool try;
    bool list;
    int64_t permits;
};

#define FIELD(name) offsetof(struct semaphore_options, name)
#define TURN_FIELD(name) offsetof(struct semaphore_options, turn.name)

static const struct option_row ROWS[] = {
    {"permits", 'n', OPTION_INTEGER, FIELD(permits), "N",
     "How many may hold it at a time; required. All give the same number, or the others are refused with exit code 78.",
     NULL},
    {"try", 0, OPTION_FLAG, FIELD(try), NULL,
     "Do not wait. Give up, with exit code 75, when no place is free now.", NULL},
    {"timeout", 0, OPTION_DURATION, TURN_FIELD(common.timeout_ms), "DURATION",
     "Give up after this time, with exit code 75. Default: wait forever.", NULL},
    {"conflict-exit-code", 'E', OPTION_INTEGER, TURN_FIELD(timeout_exit), "N",
     "Exit code instead of 75.", NULL},
    {"list", 'l', OPTION_FLAG, FIELD(list), NULL, "Print holders and waiters in order, and end.",
     NULL},
    TURN_ROWS(TURN_FIELD),
    {.name = NULL},
};

static const char ABOUT[] =
    "Runs CMD only while this process has one of the N places of the semaphore on PATH. They are "
    "given in the order in which the contenders came. When the place is lost, CMD and all that came "
    "from it are ended before anybody else gets it, even if this process is stopped or killed. CMD "
    "is executed directly, not by a shell.\n"
    "\n"
    "N stands in the data of PATH, from the first contender on; when the last one has left, the "
    "server removes PATH after a while, and N with it.\n"
    "\n"
    "Without CMD: prints node and token and holds the place until its input ends or a signal "
    "comes. Signals, environment and exit codes are those of \"conclave lock\"; CONCLAVE_ROLE is "
    "holder.";

static const char MORE[] =
    "--list prints a line for each: role, node, token, since when it has been there, id, tabs "
    "between; with --json an object, with the number of places.\n"
    "\n"
    "Exit codes: as of \"conclave lock\", and 78 when the semaphore has another N.\n";

static const struct command_usage USAGE = {
    .name = "semaphore",
    .forms = (const char *const[]){"PATH -n N [options] -- CMD [ARGS...]", "PATH -n N [options]",
                                   "--list PATH", NULL},
    .about = ABOUT,
    .rows = ROWS,
    .more = MORE,
    .client = true,
    .runs_command = true,
    .operands_min = 1,
    .operands_max = 1,
};

/* --- holding ---------------------------------------------------------------------------------- */

static void on_acquired(struct conclave_semaphore *semaphore, int error,
                        struct conclave_token token, void *ctx)
{
    if (error == 0) {
        hold_granted(ctx, token.czxid, conclave_semaphore_lease_until_ns(semaphore));
    } else {
        hold_failed(ctx, error);
    }
}

static void on_lost(struct conclave_semaphore *semaphore, int why, int64_t stop_within_ms,
                    void *ctx)
{
    (void)semaphore;
    hold_revoked(ctx, why, stop_within_ms);
}

static void on_closed(struct conclave_semaphore *semaphore, int why, void *ctx)
{
    (void)semaphore;
    hold_closed(ctx, why);
}

static int start(struct hold *r, void **ret_holding)
{
    static const struct conclave_semaphore_callbacks callbacks = {.on_lost = on_lost,
                                                                  .on_closed = on_closed};
    const struct semaphore_options *own = r->options->own;
    struct conclave_semaphore_options options = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
    struct conclave_semaphore *semaphore;
    options.path = r->options->path;
    options.id = r->options->id;
    options.permits = (int32_t)own->permits;
    options.lease.grace_ms = r->options->grace_ms > 0 ? r->options->grace_ms : 0;
    int error = conclave_semaphore_create(r->recipes, &options, &callbacks, r, &semaphore);
    if (error != 0) {
        return error;
    }
    *ret_holding = semaphore;
    int64_t timeout = own->try ? 0 : CONCLAVE_FOREVER; /* --timeout is counted by the turn */
    error = conclave_semaphore_acquire_async(semaphore, timeout, on_acquired, r);
    if (error != 0) {
        hold_failed(r, error); /* the handle has to be closed */
    }
    return 0;
}

static void close_semaphore(void *holding)
{
    conclave_semaphore_close(holding);
}

static void destroy_semaphore(void *holding)
{
    conclave_semaphore_destroy(holding);
}

static int64_t lease_until_ns(const void *holding)
{
    return conclave_semaphore_lease_until_ns(holding);
}

static void node(const void *holding, char *buf, size_t len)
{
    conclave_semaphore_node(holding, buf, len);
}

static void tell_timeout(const struct hold *r)
{
    const struct semaphore_options *own = r->options->own;
    char timeout[DURATION_TEXT_MAX];
    if (own->try) {
        fprintf(stderr,
                "conclave semaphore: %s: no place is free; see who holds them with "
                "\"conclave semaphore --list %s\"\n",
                r->options->path, r->options->path);
    } else {
        fprintf(
            stderr,
            "conclave semaphore: %s: no place got within %s; see who holds them with \"conclave "
            "semaphore --list %s\"\n",
            r->options->path, duration_text(r->options->common.timeout_ms, timeout),
            r->options->path);
    }
}

/* With another number than the semaphore has: names both. */
static int tell_failure(const struct hold *r, int error)
{
    const struct semaphore_options *own = r->options->own;
    const char *path = r->options->path;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, path, 0);
    struct conclave_reply *reply = NULL;
    int64_t places = 0;
    op.timeout_ms = ANSWER_TIMEOUT_MS;
    if (error != CONCLAVE_ECONFLICT || conclave_call(r->client, &op, &reply) != 0 ||
        reply->data_len == 0) {
        conclave_reply_free(reply);
        return fail(r->options->usage->name, path, error);
    }
    char text[24] = "";
    memcpy(text, reply->data, reply->data_len < sizeof text ? reply->data_len : sizeof text - 1);
    conclave_reply_free(reply);
    if (integer_parse(text, 1, INT32_MAX, &places)) {
        fprintf(stderr,
                "conclave semaphore: %s: it has %" PRId64 " places, not %" PRId64
                " (ECONFLICT); all have to give the same -n\n",
                path, places, own->permits);
    } else {
        fprintf(stderr,
                "conclave semaphore: %s: no semaphore: its data is not the number of places, as of "
                "-n %" PRId64 " (ECONFLICT)\n",
                path, own->permits);
    }
    return CLI_EXIT_CONFIG;
}

static const struct hold_kind PLACE = {
    .thing = "semaphore",
    .role = "holder",
    .lost = "place lost",
    .withdrawn = "the place is given back",
    .start = start,
    .close = close_semaphore,
    .destroy = destroy_semaphore,
    .lease_until_ns = lease_until_ns,
    .node = node,
    .tell_timeout = tell_timeout,
    .tell_failure = tell_failure,
};

/* --- arguments -------------------------------------------------------------------------------- */

int command_semaphore(int argc, char **argv)
{
    struct semaphore_options options = {.turn = TURN_OPTIONS_INIT};
    struct operands operands;
    int code = options_parse(&USAGE, argc, argv, &options, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    options.turn.usage = &USAGE;
    options.turn.kind = &PLACE;
    options.turn.own = &options;
    code = hold_options_finish(&options.turn, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    if (options.list && options.turn.command != NULL) {
        return usage_error(&USAGE, "--list runs no command");
    }
    if (options.list) {
        return holders_output(&options.turn, true);
    }
    if (options.permits < 1) {
        return usage_error(&USAGE, "-n wants how many may hold it, 1 or more");
    }
    if (options.try && options.turn.common.timeout_ms != CONCLAVE_FOREVER) {
        return usage_error(&USAGE, "give --try or --timeout, not both");
    }
    return hold_run(&options.turn);
}
