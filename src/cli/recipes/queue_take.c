/* conclave queue take: one item, or with --follow one after the other; each printed, or given to a
 * command. Waiting is in the main thread, for signals and for word of the queue's callbacks. */
#include "base/buf.h"
#include "cli/common/command.h"
#include "cli/recipes/queue.h"
#include "cli/run/grace.h"
#include "cli/run/item_command.h"

#include <conclave/error.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

enum {
    FAILURE_PAUSE_MS =
        1000, /* after an item that could not be dealt with: --follow does not spin */
    UNLEASED_GRACE_MS = 3000,
};

struct taking {
    const struct queue_cli *cli;
    struct queue_session session;
    struct waiter waiter;
    struct item_command handler;
    bool broken;   /* its guardian is gone: nothing can be run any more */
    sigset_t mask; /* of before the waiter */
    struct conclave_item *item;
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
    int error = conclave_queue_take_async(t->session.queue, t->cli->common.timeout_ms, on_taken, t);
    if (error != 0) {
        return fail(QUEUE_COMMAND, t->cli->path, error);
    }
    while (!atomic_load(&t->answered)) {
        enum waiter_event event = waiter_wait(&t->waiter, -1, -1, &number);
        if (event == WAITER_SIGNAL) {
            conclave_queue_close(t->session.queue); /* ends the take */
        }
    }
    error = atomic_load(&t->error);
    if (number != 0) {
        conclave_item_free(t->item);
        return 128 + number;
    }
    if (error == CONCLAVE_EEMPTY || error == CONCLAVE_ETIMEDOUT) {
        fprintf(stderr, "conclave %s: %s: no item was free within %" PRId64 " ms (--timeout)\n",
                QUEUE_COMMAND, t->cli->path, t->cli->common.timeout_ms);
        return CLI_EXIT_TIMEOUT;
    }
    return error == 0 ? 0 : fail(QUEUE_COMMAND, t->cli->path, error);
}

/* Ends what was taken: acknowledged, or given back. The exit code that follows from it. */
static int queue_take_settle(struct taking *t, bool ack, int code)
{
    int error = ack ? conclave_item_ack(t->item, CONCLAVE_FOREVER)
                    : conclave_item_nack(t->item, CONCLAVE_FOREVER);
    conclave_item_free(t->item);
    if (error == CONCLAVE_ELOST) {
        fprintf(stderr, "conclave %s: %s: the claim was lost: the item is handed out again\n",
                QUEUE_COMMAND, t->cli->path);
        return CLI_EXIT_LOST;
    }
    return error == 0 ? code : fail(QUEUE_COMMAND, t->cli->path, error);
}

static int print_item(struct taking *t)
{
    size_t len;
    const void *data = conclave_item_data(t->item, &len);
    int error = t->cli->common.json
                    ? queue_item_json(conclave_item_name(t->item), conclave_item_priority(t->item),
                                      conclave_item_attempt(t->item), data, len)
                    : queue_item_print(data, len);
    int code = error == 0 ? 0 : fail(QUEUE_COMMAND, NULL, error);
    return queue_take_settle(t, error == 0, code);
}

static void write_variables(const struct child_spec *spec, struct buf *out)
{
    const struct child_term *term = spec->term;
    buf_printf(out, "CONCLAVE_PATH=%s%c", spec->path, 0);
    buf_printf(out, "CONCLAVE_NODE=%s%c", term->node, 0);
    buf_printf(out, "CONCLAVE_CLAIM=%s.claims/%s%c", spec->path, term->node, 0);
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

/* What the session allows. The exit code, 0 to go on. */
static int find_grace(const struct taking *t, struct child_term *term)
{
    struct conclave_session session;
    conclave_client_session(t->session.client, &session);
    term->session_timeout_ms = session.timeout_ms;
    if (t->cli->at_most_once) {
        term->grace_ms = t->cli->grace_ms >= 0 ? t->cli->grace_ms : UNLEASED_GRACE_MS;
        return 0;
    }
    return grace_fit(t->cli->usage, t->cli->grace_ms, session.timeout_ms, &term->grace_ms)
               ? 0
               : CLI_EXIT_USAGE;
}

static int run_item(struct taking *t, int *ret_signal)
{
    struct item_command_end end;
    struct item_command_job job = {.lost = &t->lost};
    job.input = conclave_item_data(t->item, &job.input_len);
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
    int error = item_command_run(&t->handler, &job, &t->waiter, &end);
    if (error == CONCLAVE_ECLOSED) {
        t->broken = true;
        return queue_take_settle(t, false, end.denied ? CLI_EXIT_DENIED : CLI_EXIT_GUARDIAN);
    }
    if (error != 0) {
        return queue_take_settle(t, false, fail(QUEUE_COMMAND, t->cli->command[0], error));
    }
    *ret_signal = end.signal;
    if (end.denied) {
        conclave_item_free(t->item); /* others may have it: it is neither done nor given back */
        t->broken = true;            /* it would not be better the next time */
        return CLI_EXIT_DENIED;
    }
    if (end.lost) {
        conclave_item_free(t->item);
        fprintf(stderr, "conclave %s: %s: the claim was lost, %s was ended\n", QUEUE_COMMAND,
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

/* Before there are threads. */
static int queue_take_prepare(struct taking *t, struct item_command_spec *spec)
{
    (void)sigprocmask(SIG_SETMASK, NULL, &t->mask);
    if (waiter_init(&t->waiter, WAITER_END_SIGNALS, false) != 0) {
        return fail(QUEUE_COMMAND, NULL, CONCLAVE_EIO);
    }
    *spec = (struct item_command_spec){.command = QUEUE_COMMAND,
                                       .argv = t->cli->command,
                                       .path = t->cli->path,
                                       .variables = write_variables,
                                       .input = true,
                                       .mask = &t->mask,
                                       .allow_setuid = t->cli->allow_setuid};
    return t->cli->command != NULL ? item_command_init(&t->handler, spec) : 0;
}

int queue_cli_take(const struct queue_cli *cli)
{
    struct conclave_queue_callbacks callbacks = {.on_lost = on_lost};
    struct taking t = {.cli = cli, .waiter = {.signal_fd = -1, .wake_fd = -1}};
    struct item_command_spec spec;
    struct child_term term = {0};
    int code = queue_take_prepare(&t, &spec);
    if (code == 0) {
        code = queue_session_open(&t.session, cli, &callbacks, &t);
    }
    if (code == 0) {
        code = cli->command != NULL ? find_grace(&t, &term) : 0; /* before it takes anything */
        code = code == 0 ? take_all(&t) : code;
        queue_session_close(&t.session);
    }
    item_command_finish(&t.handler);
    waiter_finish(&t.waiter);
    return code;
}
