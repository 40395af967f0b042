/* conclave queue take: one item, or with --follow one after the other; each printed, or given to a
 * command. The main thread waits for signals and for the queue's callbacks. */
#include "base/buf.h"
#include "cli/common/data_input.h"
#include "cli/recipes/queue.h"
#include "cli/run/item_command.h"

#include <conclave/error.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

enum {
    FAILURE_PAUSE_MS =
        1000, /* after an item that could not be dealt with: --follow does not spin */
    UNLEASED_GRACE_MS = 3000,
};

struct taking {
    const struct queue_cli *cli;
    struct conclave_client *client;
    struct conclave_queue *queue;
    struct waiter waiter;
    struct item_command handler;
    bool broken; /* its guardian is gone: nothing can be run any more */
    struct conclave_item *item;
    struct buf parts; /* of an item that has several */
    atomic_int error;
    atomic_bool answered;
    atomic_bool lost; /* the item's claim */
};

static void on_lost(struct conclave_queue *queue, struct conclave_item *item, void *ctx)
{
    struct taking *t = ctx;
    atomic_store(&t->lost, true);
    waiter_wake(&t->waiter);
}

static void on_taken(struct conclave_queue *queue, int error, struct conclave_item *item, void *ctx)
{
    struct taking *t = ctx;
    assert(!atomic_load(&t->answered) && (error == 0) == (item != NULL));
    t->item = item;
    atomic_store(&t->error, error);
    atomic_store(&t->answered, true);
    waiter_wake(&t->waiter);
}

/* Waits for an item, or for a signal. 0 and t->item, else the exit code. */
static int take_next(struct taking *t)
{
    int number = 0;
    t->item = NULL;
    atomic_store(&t->answered, false);
    atomic_store(&t->lost, false);
    int error = conclave_queue_take_async(t->queue, t->cli->common.timeout_ms, on_taken, t);
    if (error != 0) {
        return fail(QUEUE_USAGE.name, t->cli->path, error);
    }
    while (!atomic_load(&t->answered)) {
        enum waiter_event event = waiter_wait(&t->waiter, -1, -1, &number);
        if (event == WAITER_SIGNAL) {
            conclave_queue_close(t->queue); /* ends the take */
        }
    }
    error = atomic_load(&t->error);
    if (number != 0) {
        conclave_item_free(t->item);
        return 128 + number;
    }
    if (error == CONCLAVE_EEMPTY || error == CONCLAVE_ETIMEDOUT) {
        fprintf(stderr, "conclave %s: %s: no item was free within %" PRId64 " ms (--timeout)\n",
                QUEUE_USAGE.name, t->cli->path, t->cli->common.timeout_ms);
        return CLI_EXIT_TIMEOUT;
    }
    return error == 0 ? 0 : fail(QUEUE_USAGE.name, t->cli->path, error);
}

/* Ends what was taken: acknowledged, or given back. The exit code that follows from it. */
static int queue_take_settle(struct taking *t, bool ack, int code)
{
    int error = ack ? conclave_item_ack(t->item, CONCLAVE_FOREVER)
                    : conclave_item_nack(t->item, CONCLAVE_FOREVER);
    conclave_item_free(t->item);
    if (error == CONCLAVE_ELOST) {
        fprintf(stderr, "conclave %s: %s: the claim was lost: the item is handed out again\n",
                QUEUE_USAGE.name, t->cli->path);
        return CLI_EXIT_LOST;
    }
    if (error == CONCLAVE_SESSION_EXPIRED) {
        fprintf(
            stderr,
            "conclave %s: %s: the session ended before the answer came: the item was acknowledged, "
            "or is handed out again\n",
            QUEUE_USAGE.name, t->cli->path);
        connection_tell_loss(QUEUE_USAGE.name, t->client, false);
        return CLI_EXIT_LOST;
    }
    return error == 0 ? code : fail(QUEUE_USAGE.name, t->cli->path, error);
}

/* The item's bytes; those of several parts one behind the other, until the next call. */
static int item_bytes(struct taking *t, struct slice *ret)
{
    size_t count = conclave_item_count(t->item);
    const void *data = conclave_item_data(t->item, &ret->len);
    *ret = slice_make(data, ret->len);
    if (count < 2) {
        return 0;
    }
    buf_reset(&t->parts);
    for (size_t i = 0; i < count; i++) {
        size_t len;
        const void *part = conclave_item_part(t->item, i, &len);
        buf_append(&t->parts, part, len);
    }
    *ret = buf_slice(&t->parts);
    return t->parts.failed ? CONCLAVE_ENOMEM : 0;
}

static int print_item(struct taking *t)
{
    struct slice data = {0};
    int error = item_bytes(t, &data);
    if (error == 0) {
        error =
            queue_item_print(t->cli, conclave_item_name(t->item), conclave_item_priority(t->item),
                             conclave_item_attempt(t->item), data.data, data.len);
    }
    int code = error == 0 ? 0 : fail(QUEUE_USAGE.name, NULL, error);
    return queue_take_settle(t, error == 0, code);
}

static void queue_variables(const struct child_spec *spec, struct buf *out)
{
    const struct child_term *term = spec->term;
    const char *path = spec->program->path;
    buf_printf(out, "CONCLAVE_PATH=%s%c", path, 0);
    buf_printf(out, "CONCLAVE_NODE=%s%c", term->node, 0);
    buf_printf(out, "CONCLAVE_CLAIM=%s/%s%c", spec->program->id, term->node, 0);
    buf_printf(out, "CONCLAVE_ATTEMPT=%d%c", term->attempt, 0);
    buf_printf(out, "CONCLAVE_PRIORITY=%d%c", term->priority, 0);
    if (!term->unleased) {
        buf_printf(out, "CONCLAVE_LEASE_FD=%d%c", spec->lease_fd, 0);
        buf_printf(out, "CONCLAVE_LEASE_SHM_FD=%d%c", spec->page_fd, 0);
    }
}

static int64_t claim_until_ns(const void *item)
{
    return conclave_item_lease_until_ns(item);
}

/* Finds the grace that the session allows. The exit code, 0 to continue. */
static int find_grace(const struct taking *t, struct child_term *term)
{
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    conclave_client_session(t->client, &session);
    term->session_timeout_ms = session.timeout_ms;
    if (t->cli->at_most_once) {
        term->grace_ms = t->cli->grace_ms >= 0 ? t->cli->grace_ms : UNLEASED_GRACE_MS;
        return 0;
    }
    return grace_fit(&QUEUE_USAGE, t->cli->grace_ms, session.timeout_ms, &term->grace_ms)
               ? 0
               : CLI_EXIT_USAGE;
}

static int run_item(struct taking *t, int *ret_signal)
{
    struct item_command_end end;
    struct item_command_job job = {.lost = &t->lost};
    struct slice data = {0};
    int error = item_bytes(t, &data);
    if (error != 0) {
        return queue_take_settle(t, false, fail(QUEUE_USAGE.name, t->cli->path, error));
    }
    job.input = data.data;
    job.input_len = data.len;
    (void)snprintf(job.term.node, sizeof job.term.node, "%s", conclave_item_name(t->item));
    job.term.attempt = conclave_item_attempt(t->item);
    job.term.priority = conclave_item_priority(t->item);
    job.term.unleased = t->cli->at_most_once;
    if (!job.term.unleased) {
        job.lease_until_ns = claim_until_ns;
        job.holding = t->item;
    }
    int code = find_grace(t, &job.term);
    if (code != 0) {
        return queue_take_settle(t, false, code);
    }
    error = item_command_run(&t->handler, &job, &t->waiter, &end);
    if (error == CONCLAVE_ECLOSED) {
        t->broken = true;
        return queue_take_settle(t, false, end.denied ? CLI_EXIT_DENIED : CLI_EXIT_GUARDIAN);
    }
    if (error != 0) {
        return queue_take_settle(t, false, fail(QUEUE_USAGE.name, t->cli->command[0], error));
    }
    *ret_signal = end.signal;
    if (end.denied) {
        conclave_item_free(t->item); /* others may have it: it is neither done nor given back */
        t->broken = true;            /* it would not be better the next time */
        return CLI_EXIT_DENIED;
    }
    if (end.lost) {
        conclave_item_free(t->item);
        fprintf(stderr, "conclave %s: %s: the claim was lost, %s was ended\n", QUEUE_USAGE.name,
                t->cli->path, t->cli->command[0]);
        return CLI_EXIT_LOST;
    }
    return queue_take_settle(t, end.exit_code == 0, end.exit_code);
}

static int take_all(struct taking *t)
{
    int code;
    int number = 0;
    do {
        code = take_next(t);
        if (code != 0) {
            return code;
        }
        code = t->cli->command != NULL ? run_item(t, &number) : print_item(t);
        if (code != 0 && t->cli->follow && number == 0 && !t->broken) {
            /* Word of a lost claim may still be waiting: it is no end of the pause. */
            while (waiter_wait(&t->waiter, -1, FAILURE_PAUSE_MS, &number) == WAITER_WOKEN) {}
        }
    } while (t->cli->follow && number == 0 && !t->broken);
    return number != 0 && t->cli->follow ? 128 + number : code;
}

static int take_run(struct conclave_client *client, struct conclave_recipes *recipes, void *ctx)
{
    static const struct conclave_queue_callbacks callbacks = {.size = sizeof callbacks,
                                                              .on_lost = on_lost};
    struct taking *t = ctx;
    struct child_term term = {0};
    int code = queue_cli_open(t->cli, recipes, &callbacks, t, &t->queue);
    if (code != 0) {
        return code;
    }
    t->client = client;
    code = t->cli->command != NULL ? find_grace(t, &term) : 0; /* before it takes anything */
    code = code == 0 ? take_all(t) : code;
    queue_cli_close(t->queue);
    return code;
}

int queue_cli_take(const struct queue_cli *cli)
{
    struct common_options common = cli->common;
    struct taking t = {.cli = cli, .handler = ITEM_COMMAND_NONE};
    bool taken = cli->layout == CONCLAVE_QUEUE_LAYOUT_KAZOO_LOCKING;
    struct buf claims; /* their folder */
    sigset_t mask;
    buf_init(&t.parts, DATA_INPUT_MAX);
    buf_init(&claims, DATA_INPUT_MAX);
    buf_append_str(&claims, cli->claims != NULL ? cli->claims : cli->path);
    buf_append_str(&claims, cli->claims != NULL ? "" : taken ? "/taken" : ".claims");
    struct child_program program = {.command = QUEUE_USAGE.name,
                                    .argv = cli->command,
                                    .variables = queue_variables,
                                    .path = cli->path,
                                    .id = buf_cstr(&claims),
                                    .mask = &mask,
                                    .allow_setuid = cli->allow_setuid};
    common.timeout_ms = cli->connect_timeout_ms;
    (void)sigprocmask(SIG_SETMASK, NULL, &mask);
    int code = !buf_ok(&claims)       ? fail(QUEUE_USAGE.name, NULL, CONCLAVE_ENOMEM)
               : cli->command != NULL ? item_command_init(&t.handler, &program, true)
                                      : 0;
    if (code == 0) {
        code = connection_run_waiting(QUEUE_USAGE.name, &common, &t.waiter, WAITER_END_SIGNALS,
                                      take_run, &t);
    }
    item_command_finish(&t.handler);
    buf_finish(&t.parts);
    buf_finish(&claims);
    return code;
}
