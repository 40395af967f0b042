/* conclave queue put, peek, list, dead, requeue. */
#include "base/json.h"
#include "cli/common/command.h"
#include "cli/common/data_input.h"
#include "cli/common/node_output.h"
#include "cli/recipes/queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ANSWER_TIMEOUT_MS = 5000 };

int queue_session_open(struct queue_session *s, const struct queue_cli *cli,
                       const struct conclave_queue_callbacks *callbacks, void *ctx)
{
    struct common_options common = cli->common;
    struct conclave_queue_options options = CONCLAVE_QUEUE_OPTIONS_INIT;
    memset(s, 0, sizeof *s);
    common.timeout_ms = cli->connect_timeout_ms;
    int code = connection_open_own(QUEUE_COMMAND, &common, NULL, NULL, &s->client);
    if (code != 0) {
        return code;
    }
    options.path = cli->path;
    options.id = cli->id;
    options.max_items = cli->max_items;
    options.max_attempts = (int)cli->max_attempts;
    options.at_most_once = cli->at_most_once;
    int error = conclave_recipes_open(s->client, &s->recipes);
    if (error == 0) {
        error = conclave_queue_open(s->recipes, &options, callbacks, ctx, &s->queue);
    }
    if (error != 0) {
        code = fail(QUEUE_COMMAND, cli->path, error);
        queue_session_close(s);
    }
    return code;
}

void queue_session_close(struct queue_session *s)
{
    if (s->queue != NULL) {
        /* What is still to be given back is waited for as long as the session lives. */
        if (conclave_queue_close_wait(s->queue, CONCLAVE_FOREVER) == 0) {
            conclave_queue_destroy(s->queue);
        }
    }
    conclave_recipes_destroy(s->recipes);
    connection_close(s->client);
}

static int64_t answer_timeout(const struct queue_cli *cli)
{
    return cli->common.timeout_ms == CONCLAVE_FOREVER ? ANSWER_TIMEOUT_MS : cli->common.timeout_ms;
}

/* --- put ---------------------------------------------------------------------------------- */

static int name_print(const struct queue_cli *cli, const char *name)
{
    struct json j;
    if (!cli->common.json) {
        return puts(name) >= 0 && fflush(stdout) == 0 ? 0 : CONCLAVE_EIO;
    }
    json_line_begin(&j);
    json_member_string(&j, "name", name);
    return json_line_print(&j, stdout);
}

static int put_data(const struct queue_cli *cli, struct slice data)
{
    struct queue_session s;
    char name[CONCLAVE_QUEUE_NAME_MAX] = "";
    int code = queue_session_open(&s, cli, NULL, NULL);
    if (code != 0) {
        return code;
    }
    int error = conclave_queue_put(s.queue, (int)cli->priority, data.data, data.len,
                                   cli->common.timeout_ms, name);
    if (error == 0) {
        error = name_print(cli, name);
    }
    if (error == CONCLAVE_EBUSY || error == CONCLAVE_ETIMEDOUT) {
        fprintf(stderr, "conclave %s: %s: no room, or no answer, in the time given\n",
                QUEUE_COMMAND, cli->path);
        code = CLI_EXIT_TIMEOUT;
    } else if (error != 0) {
        code = fail(QUEUE_COMMAND, cli->path, error);
    }
    queue_session_close(&s);
    return code;
}

int queue_cli_put(const struct queue_cli *cli)
{
    if (cli->data != NULL) {
        return put_data(cli, slice_str(cli->data));
    }
    struct buf data;
    buf_init(&data, DATA_INPUT_MAX);
    int code = data_read(QUEUE_COMMAND, cli->file != NULL ? cli->file : "-", &data);
    if (code == 0) {
        code = put_data(cli, buf_slice(&data));
    }
    buf_finish(&data);
    return code;
}

/* --- looking ------------------------------------------------------------------------------- */

int queue_item_json(const char *name, int priority, int attempt, const void *data, size_t len)
{
    struct json j;
    json_line_begin(&j);
    json_member_string(&j, "name", name);
    json_member_int(&j, "priority", priority);
    json_member_int(&j, "attempt", attempt);
    json_data(&j, data, len);
    return json_line_print(&j, stdout);
}

int queue_item_print(const void *data, size_t len)
{
    bool all = len == 0 || fwrite(data, 1, len, stdout) == len;
    return all && fflush(stdout) == 0 ? 0 : CONCLAVE_EIO;
}

static int entry_print(const struct queue_cli *cli, const struct conclave_queue_entry *e)
{
    struct json j;
    if (!cli->common.json) {
        int n = printf("%s\t%d\t%zu\t%s\n", e->name, e->attempts, e->data_len,
                       e->session_id != 0 ? e->holder : "-");
        return n < 0 ? CONCLAVE_EIO : 0;
    }
    json_line_begin(&j);
    json_member_string(&j, "name", e->name);
    json_member_int(&j, "priority", e->priority);
    json_member_int(&j, "attempts", e->attempts);
    json_member_uint(&j, "bytes", e->data_len);
    json_member_int(&j, "created_ms", e->ctime_ms);
    if (e->session_id != 0) {
        json_member_string(&j, "holder", e->holder);
        json_member_hex(&j, "session", e->session_id);
    }
    return json_line_print(&j, stdout);
}

static int list_part(const struct queue_cli *cli, enum conclave_queue_part part)
{
    struct queue_session s;
    struct conclave_queue_entry *list = NULL;
    size_t count = 0;
    int code = queue_session_open(&s, cli, NULL, NULL);
    if (code != 0) {
        return code;
    }
    int error = conclave_queue_list(s.queue, part, (size_t)cli->number, false, answer_timeout(cli),
                                    &list, &count);
    output_titles(&cli->common, count, "NAME\tATTEMPTS\tBYTES\tHOLDER");
    for (size_t i = 0; i < count && error == 0; i++) {
        error = entry_print(cli, &list[i]);
    }
    conclave_queue_entries_free(list, count);
    code = error != 0 ? fail(QUEUE_COMMAND, cli->path, error) : 0;
    queue_session_close(&s);
    return output_end(QUEUE_COMMAND, code);
}

int queue_cli_list(const struct queue_cli *cli)
{
    return list_part(cli, CONCLAVE_QUEUE_ITEMS);
}

int queue_cli_dead(const struct queue_cli *cli)
{
    return list_part(cli, CONCLAVE_QUEUE_DEAD);
}

int queue_cli_peek(const struct queue_cli *cli)
{
    struct queue_session s;
    struct conclave_queue_entry *list = NULL;
    size_t count = 0;
    int code = queue_session_open(&s, cli, NULL, NULL);
    if (code != 0) {
        return code;
    }
    int error = conclave_queue_list(s.queue, CONCLAVE_QUEUE_ITEMS, 1, true, answer_timeout(cli),
                                    &list, &count);
    if (error == 0 && count == 0) {
        error = CONCLAVE_EEMPTY;
    } else if (error == 0) {
        error = cli->common.json ? queue_item_json(list[0].name, list[0].priority, list[0].attempts,
                                                   list[0].data, list[0].data_len)
                                 : queue_item_print(list[0].data, list[0].data_len);
    }
    conclave_queue_entries_free(list, count);
    code = error != 0 ? fail(QUEUE_COMMAND, cli->path, error) : 0;
    queue_session_close(&s);
    return code;
}

int queue_cli_requeue(const struct queue_cli *cli)
{
    struct queue_session s;
    int code = queue_session_open(&s, cli, NULL, NULL);
    if (code != 0) {
        return code;
    }
    int error = conclave_queue_requeue(s.queue, cli->data, answer_timeout(cli));
    code = error != 0 ? fail(QUEUE_COMMAND, cli->data, error) : 0;
    queue_session_close(&s);
    return code;
}
