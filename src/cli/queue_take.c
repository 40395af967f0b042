/* conclave queue take: one item, or with --follow one after the other; each printed, or given to a
 * command. Waiting is in the main thread, for signals and for word of the queue's callbacks. */
#include "cli/command.h"
#include "cli/queue.h"
#include "cli/queue_worker.h"

#include <conclave/error.h>

#include <stdatomic.h>
#include <stdio.h>

/* After an item that could not be dealt with, so that --follow does not spin on it. */
enum { FAILURE_PAUSE_MS = 1000 };

struct taking {
    const struct queue_cli *cli;
    struct queue_session session;
    struct waiter waiter;
    sigset_t mask; /* of before the waiter */
    struct conclave_item *item;
    atomic_int error;
    atomic_bool answered;
    atomic_bool lost; /* the item's claim */
};

static void on_lost(struct conclave_queue *queue, struct conclave_item *item, void *ctx)
{
    struct taking *t = ctx;
    (void)queue;
    (void)item;
    atomic_store(&t->lost, true);
    waiter_wake(&t->waiter);
}

static void on_taken(struct conclave_queue *queue, int error, struct conclave_item *item, void *ctx)
{
    struct taking *t = ctx;
    (void)queue;
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
        return CLI_EXIT_TIMEOUT;
    }
    return error == 0 ? 0 : fail(QUEUE_COMMAND, t->cli->path, error);
}

/* Ends what was taken: acknowledged, or given back. The exit code that follows from it. */
static int settle(struct taking *t, bool ack, int code)
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
    return settle(t, error == 0, code);
}

static int run_item(struct taking *t, int *ret_signal)
{
    char path[512];
    char node[128];
    char claim[640];
    char attempt[48];
    char priority[48];
    const char *environment[] = {path, node, claim, attempt, priority, NULL};
    struct worker_end end;
    struct worker_spec spec = {.argv = t->cli->command,
                               .environment = environment,
                               .mask = &t->mask,
                               .grace_ms = t->cli->grace_ms};
    spec.input = conclave_item_data(t->item, &spec.input_len);
    (void)snprintf(path, sizeof path, "CONCLAVE_PATH=%s", t->cli->path);
    (void)snprintf(node, sizeof node, "CONCLAVE_NODE=%s", conclave_item_name(t->item));
    (void)snprintf(claim, sizeof claim, "CONCLAVE_CLAIM=%s", conclave_item_claim(t->item));
    (void)snprintf(attempt, sizeof attempt, "CONCLAVE_ATTEMPT=%d", conclave_item_attempt(t->item));
    (void)snprintf(priority, sizeof priority, "CONCLAVE_PRIORITY=%d",
                   conclave_item_priority(t->item));
    int error = worker_run(&spec, &t->waiter, &t->lost, &end);
    if (error != 0) {
        return settle(t, false, fail(QUEUE_COMMAND, t->cli->command[0], error));
    }
    *ret_signal = end.signal;
    if (end.lost) {
        conclave_item_free(t->item);
        fprintf(stderr, "conclave %s: %s: the claim was lost, %s was ended\n", QUEUE_COMMAND,
                t->cli->path, t->cli->command[0]);
        return CLI_EXIT_LOST;
    }
    return settle(t, end.exit_code == 0, end.exit_code);
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
        if (code != 0 && t->cli->follow && number == 0) {
            /* Word of a lost claim may still be waiting: it is no end of the pause. */
            while (waiter_wait(&t->waiter, -1, FAILURE_PAUSE_MS, &number) == WAITER_WOKEN) {}
        }
    } while (t->cli->follow && number == 0);
    return number != 0 && t->cli->follow ? 128 + number : code;
}

int queue_cli_take(const struct queue_cli *cli)
{
    struct conclave_queue_callbacks callbacks = {.on_lost = on_lost};
    struct taking t = {.cli = cli};
    (void)sigprocmask(SIG_SETMASK, NULL, &t.mask);
    if (waiter_init(&t.waiter, WAITER_END_SIGNALS, false) != 0) {
        return fail(QUEUE_COMMAND, NULL, CONCLAVE_EIO);
    }
    int code = queue_session_open(&t.session, cli, &callbacks, &t);
    if (code == 0) {
        code = take_all(&t);
        queue_session_close(&t.session);
    }
    waiter_finish(&t.waiter);
    return code;
}
