/* conclave semaphore: arguments, help, and how to hold a place of a semaphore (hold_command.h). */
#include "cli/common/values.h"
#include "cli/recipes/acquire.h"
#include "cli/recipes/hold_functions.h"

#include <conclave/semaphore.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct semaphore_options {
    struct hold_options hold;
    int64_t permits;
    int64_t take; /* 0: 1 */
    int naming;   /* index of semaphore_namings */
};

static const enum conclave_naming semaphore_namings[] = {
    CONCLAVE_NAMING_NATIVE, CONCLAVE_NAMING_CURATOR_LOCK, CONCLAVE_NAMING_KAZOO};

#define FIELD(name) offsetof(struct semaphore_options, name)

static const struct option_row ROWS[] = {
    {"permits", 'n', OPTION_INTEGER, FIELD(permits), "N",
     "Number of places; required. All contenders give the same number, or the others are refused "
     "with exit code 78."},
    {"take", 0, OPTION_INTEGER, FIELD(take), "K", "Take K places at once, all or none; default 1."},
    {"naming", 0, OPTION_CHOICE, FIELD(naming), "native|curator|kazoo",
     "Layout below PATH, to share it with Curator's InterProcessSemaphoreV2 or kazoo's Semaphore. "
     "native, the default: Conclave's."},
    OPTION_GROUP(ACQUIRE_ROWS, FIELD(hold)),
    OPTION_GROUP(HOLD_ROWS, FIELD(hold)),
    {.name = NULL},
};

static const char ABOUT[] =
    "Runs CMD only while this process has one of the N places of the semaphore on PATH. Contenders "
    "get places in the order of their arrival. When the place is lost, CMD and all its descendants "
    "are ended before another contender gets it, even if this process is stopped or killed. CMD is "
    "executed directly, not by a shell.\n"
    "\n"
    "The first contender writes N into the data of PATH. When the last one has left, the server "
    "removes PATH after a while, and N with it.\n"
    "\n"
    "Without CMD: prints node and token and holds the place until its input ends or a signal comes. "
    "Signals, environment and exit codes are those of \"conclave lock\"; CONCLAVE_ROLE is holder.";

static const char MORE[] =
    "--list prints titles, then a line for each contender: role, node, token, time of its arrival, "
    "id, with tabs between; with --json an object, with the number of places.\n"
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
    .operands = {1, 1},
};

/* --- holding ---------------------------------------------------------------------------------- */

HOLD_FUNCTIONS(semaphore)

static void semaphore_on_acquired(struct conclave_semaphore *semaphore, int error,
                                  struct conclave_token token, void *ctx)
{
    hold_answered(ctx, error, token.czxid,
                  error == 0 ? conclave_semaphore_lease_until_ns(semaphore) : 0);
}

static int semaphore_start(struct hold *r, void **ret_holding)
{
    static const struct conclave_semaphore_callbacks callbacks = {.size = sizeof callbacks,
                                                                  .on_lost = semaphore_hold_lost,
                                                                  .on_closed =
                                                                      semaphore_hold_closed};
    const struct semaphore_options *own = r->options->own;
    struct conclave_semaphore_options options = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
    struct conclave_semaphore *semaphore;
    options.path = r->options->path;
    options.id = r->options->id;
    options.permits = (int32_t)own->permits;
    options.take = (int32_t)own->take;
    options.naming = semaphore_namings[own->naming];
    options.lease.grace_ms = hold_lease_grace_ms(r);
    int error = conclave_semaphore_open(r->recipes, &options, &callbacks, r, &semaphore);
    if (error != 0) {
        return error;
    }
    *ret_holding = semaphore;
    error =
        conclave_semaphore_acquire_async(semaphore, hold_acquire_ms(r), semaphore_on_acquired, r);
    if (error != 0) {
        hold_failed(r, error); /* the handle has to be closed */
    }
    return 0;
}

/* Of a semaphore with another number of places: names both numbers. */
static int semaphore_tell_failure(const struct hold *r, int error)
{
    const struct semaphore_options *own = r->options->own;
    const char *path = r->options->path;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, path, 0);
    struct conclave_reply *reply = NULL;
    int64_t places = 0;
    char text[24] = "";
    op.timeout_ms = HOLD_ANSWER_TIMEOUT_MS;
    if (error != CONCLAVE_ECONFLICT || conclave_call(r->client, &op, &reply) != 0 ||
        reply->data_len == 0) {
        conclave_reply_free(reply);
        return fail(r->options->usage->name, path, error);
    }
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
    .role = "holder",
    .lost = "place lost",
    .withdrawn = "the place is given back",
    .busy = "no place is free",
    .late = "no place became free",
    .see = "who holds them",
    .start = semaphore_start,
    HOLD_FUNCTIONS_OF(semaphore),
    .tell_failure = semaphore_tell_failure,
};

/* --- arguments -------------------------------------------------------------------------------- */

int command_semaphore(int argc, char **argv)
{
    struct semaphore_options o = {.hold = HOLD_OPTIONS_INIT};
    struct operands operands;
    int code = options_parse(&USAGE, argc, argv, &o, &operands);
    if (code == OPTIONS_GO_ON) {
        code = hold_options_finish(&o.hold, &USAGE, &PLACE, &o, &operands);
    }
    if (code == OPTIONS_GO_ON && !o.hold.list && o.permits < 1) {
        code = usage_error(&USAGE, "-n wants the number of places, 1 or more");
    }
    return code != OPTIONS_GO_ON ? code : acquire_run(&o.hold, true);
}
