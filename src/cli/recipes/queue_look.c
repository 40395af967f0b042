/* conclave queue put, peek, list, dead, requeue, remove. */
#include "base/clock.h"
#include "cli/common/data_input.h"
#include "cli/common/record.h"
#include "cli/recipes/queue.h"

#include <stdio.h>

enum { ANSWER_TIMEOUT_MS = 5000 };

int queue_cli_open(const struct queue_cli *cli, struct conclave_recipes *recipes,
                   const struct conclave_queue_callbacks *callbacks, void *ctx,
                   struct conclave_queue **ret)
{
    struct conclave_queue_options options = CONCLAVE_QUEUE_OPTIONS_INIT;
    options.path = cli->path;
    options.id = cli->id;
    options.max_items = cli->max_items;
    options.max_attempts = (int)cli->max_attempts;
    options.at_most_once = cli->at_most_once;
    options.layout = cli->layout;
    options.prefix = cli->prefix;
    options.claims_path = cli->claims;
    int error = conclave_queue_open(recipes, &options, callbacks, ctx, ret);
    return error == 0 ? 0 : fail(QUEUE_USAGE.name, cli->path, error);
}

void queue_cli_close(struct conclave_queue *queue)
{
    if (conclave_queue_close_wait(queue, CONCLAVE_FOREVER) == 0) {
        conclave_queue_destroy(queue);
    }
}

/* One call of the command. */
struct queue_look {
    const struct queue_cli *cli;
    enum queue_verb verb;
    struct slice data; /* of put */
};

static int64_t answer_timeout(const struct queue_cli *cli)
{
    return cli->common.timeout_ms == CONCLAVE_FOREVER ? ANSWER_TIMEOUT_MS : cli->common.timeout_ms;
}

/* --- printing ------------------------------------------------------------------------------ */

static int name_print(const struct queue_cli *cli, const char *name)
{
    struct record r;
    record_begin(&r, cli->common.json);
    record_string(&r, "name", name);
    return record_print(&r);
}

int queue_item_print(const struct queue_cli *cli, const char *name, int priority, int attempt,
                     const void *data, size_t len)
{
    struct json j;
    if (!cli->common.json) {
        bool all = len == 0 || fwrite(data, 1, len, stdout) == len;
        return all && fflush(stdout) == 0 ? 0 : CONCLAVE_EIO;
    }
    json_line_begin(&j);
    json_member_string(&j, "name", name);
    json_member_int(&j, "priority", priority);
    json_member_int(&j, "attempt", attempt);
    json_data(&j, data, len);
    return json_line_print(&j, stdout);
}

static int entry_print(const struct queue_cli *cli, const struct conclave_queue_entry *e)
{
    struct record r;
    bool held = e->session_id != 0;
    record_begin(&r, cli->common.json);
    record_string(&r, "name", e->name);
    if (r.json) {
        json_member_int(&r.j, "priority", e->priority);
    }
    record_int(&r, "attempts", e->attempts);
    record_int(&r, "bytes", (int64_t)e->data_len);
    if (r.json) {
        json_member_int(&r.j, "created_ms", e->ctime_ms);
    }
    if (r.json && e->not_before_ms != 0) {
        json_member_int(&r.j, "not_before_ms", e->not_before_ms);
    }
    if (r.json && e->id != NULL) {
        json_member_string(&r.j, "id", e->id);
    }
    record_string(&r, held ? "holder" : NULL, held ? e->holder : "-");
    if (r.json && held) {
        json_member_hex(&r.j, "session", e->session_id);
    }
    return record_print(&r);
}

/* --- the verbs ----------------------------------------------------------------------------- */

static int look_put(const struct queue_look *look, struct conclave_queue *queue)
{
    const struct queue_cli *cli = look->cli;
    struct conclave_put_options options = CONCLAVE_PUT_OPTIONS_INIT;
    char name[CONCLAVE_QUEUE_NAME_MAX] = "";
    options.priority = (int)cli->priority;
    options.id = cli->item;
    if (cli->delay_ms > 0) {
        options.not_before_ms = clock_wall_ms(clock_system()) + cli->delay_ms;
    }
    int error = conclave_queue_put_with(queue, &options, look->data.data, look->data.len,
                                        cli->common.timeout_ms, name);
    return error == 0 ? name_print(cli, name) : error;
}

static int look_remove(const struct queue_cli *cli, struct conclave_queue *queue)
{
    struct record r;
    size_t count = 0;
    int error = conclave_queue_remove(queue, cli->data, answer_timeout(cli), &count);
    if (error != 0) {
        return error;
    }
    record_begin(&r, cli->common.json);
    record_int(&r, "removed", (int64_t)count);
    return record_print(&r);
}

static int list(const struct queue_cli *cli, struct conclave_queue *queue,
                enum conclave_queue_part part)
{
    struct conclave_queue_entry **list = NULL;
    size_t count = 0;
    int error = conclave_queue_list(queue, part, (size_t)cli->number, false, answer_timeout(cli),
                                    &list, &count);
    output_titles(&cli->common, count, "NAME\tATTEMPTS\tBYTES\tHOLDER");
    for (size_t i = 0; i < count && error == 0; i++) {
        error = entry_print(cli, list[i]);
    }
    conclave_queue_entries_free(list, count);
    return error;
}

static int peek(const struct queue_cli *cli, struct conclave_queue *queue)
{
    struct conclave_queue_entry **e = NULL;
    size_t count = 0;
    int error =
        conclave_queue_list(queue, CONCLAVE_QUEUE_ITEMS, 1, true, answer_timeout(cli), &e, &count);
    if (error == 0) {
        error = count == 0 ? CONCLAVE_EEMPTY
                           : queue_item_print(cli, e[0]->name, e[0]->priority, e[0]->attempts,
                                              e[0]->data, e[0]->data_len);
    }
    conclave_queue_entries_free(e, count);
    return error;
}

static int verb_run(const struct queue_look *look, struct conclave_queue *queue)
{
    const struct queue_cli *cli = look->cli;
    switch (look->verb) {
    case QUEUE_PUT:
        return look_put(look, queue);
    case QUEUE_PEEK:
        return peek(cli, queue);
    case QUEUE_REMOVE:
        return look_remove(cli, queue);
    case QUEUE_REQUEUE:
        return conclave_queue_requeue(queue, cli->data, answer_timeout(cli));
    default:
        return list(cli, queue,
                    look->verb == QUEUE_DEAD ? CONCLAVE_QUEUE_DEAD : CONCLAVE_QUEUE_ITEMS);
    }
}

static int look_run(struct conclave_client *client, struct conclave_recipes *recipes, void *ctx)
{
    const struct queue_look *look = ctx;
    const struct queue_cli *cli = look->cli;
    struct conclave_queue *queue;
    int code = queue_cli_open(cli, recipes, NULL, NULL, &queue);
    if (code != 0) {
        return code;
    }
    int error = verb_run(look, queue);
    if (look->verb == QUEUE_PUT && (error == CONCLAVE_EBUSY || error == CONCLAVE_ETIMEDOUT)) {
        fprintf(stderr, "conclave %s: %s: no room, or no answer, in the time given\n",
                QUEUE_USAGE.name, cli->path);
        code = CLI_EXIT_TIMEOUT;
    } else if (error != 0) {
        code = fail(QUEUE_USAGE.name, look->verb == QUEUE_REQUEUE ? cli->data : cli->path, error);
    }
    queue_cli_close(queue);
    return code;
}

int queue_cli_look(const struct queue_cli *cli, enum queue_verb verb)
{
    struct common_options common = cli->common;
    struct queue_look look = {.cli = cli, .verb = verb};
    struct buf data;
    int code = 0;
    common.timeout_ms = cli->connect_timeout_ms;
    buf_init(&data, DATA_INPUT_MAX);
    if (verb == QUEUE_PUT) {
        if (cli->data != NULL) {
            buf_append_str(&data, cli->data);
        } else {
            code = data_read(QUEUE_USAGE.name, cli->file != NULL ? cli->file : "-", &data);
        }
        look.data = buf_slice(&data);
    }
    code = code == 0 ? connection_run_recipes(QUEUE_USAGE.name, &common, look_run, &look) : code;
    buf_finish(&data);
    return output_end(QUEUE_USAGE.name, code);
}
