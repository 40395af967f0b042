/* conclave redis-failover watch: prints a line for each change of the master and for each event, until a signal. */
#include "base/json.h"
#include "cli/common/command.h"
#include "cli/common/node_output.h"
#include "cli/common/waiter.h"
#include "redis/command/redis_failover.h"
#include "redis/manager/cluster_znodes.h"

#include <conclave/config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct failover_watching {
    const struct redis_cli *cli;
    struct waiter waiter;
    char newest[64]; /* name of the newest event that was shown or existed at the start */
    bool begun;
};

static void show_flushed(struct failover_watching *w, bool ok)
{
    if (!ok) {
        waiter_end(&w->waiter, CONCLAVE_EIO);
    }
}

static void show_line(struct failover_watching *w)
{
    show_flushed(w, printf("\n") >= 0 && fflush(stdout) == 0);
}

void redis_cli_print_event(const struct redis_event *event)
{
    /* Most texts begin with the server's name. */
    bool said =
        event->node[0] == '\0' || strncmp(event->text, event->node, strlen(event->node)) == 0;
    printf("%s%s%s: %s\n", event->name, said ? "" : " ", said ? "" : event->node, event->text);
}

void redis_cli_json_record(struct json *j, const char *key, const struct record_table *table,
                           const void *record)
{
    struct buf text;
    buf_init(&text, 0);
    json_key(j, key);
    if (record == NULL) {
        json_null(j);
    } else {
        record_write(&text, table, record);
        json_ready(j, buf_slice(&text));
    }
    buf_finish(&text);
}

static void show_current(struct failover_watching *w, const struct redis_current *c)
{
    if (w->cli->common.json) {
        struct json j;
        json_line_begin(&j);
        json_member_string(&j, "event", "current");
        redis_cli_json_record(&j, "current", &REDIS_CURRENT, c);
        show_flushed(w, json_line_print(&j, stdout) == 0);
        return;
    }
    printf("CURRENT\t%s\tepoch %lld\t%s%s%s", c->master[0] != '\0' ? c->master : "-",
           (long long)c->epoch, redis_state_name(c->state), c->reason[0] != '\0' ? ": " : "",
           c->reason);
    show_line(w);
}

static int on_current(struct conclave_config *config, const struct conclave_config_state *state,
                      void *ctx)
{
    struct redis_current current;
    if (state->count > 0 && record_read(&REDIS_CURRENT, state->nodes[0]->data,
                                        state->nodes[0]->data_len, &current) == 0) {
        show_current(ctx, &current);
    }
    return 0;
}

static void show_event(struct failover_watching *w, const struct conclave_config_node *node)
{
    struct redis_event event;
    if (w->cli->common.json) {
        printf("%.*s", (int)node->data_len, (const char *)node->data);
        show_line(w);
        return;
    }
    if (record_read(&REDIS_EVENT, node->data, node->data_len, &event) != 0) {
        return;
    }
    char when[TIME_TEXT_MAX];
    printf("EVENT\t%s\t", time_text(event.at_ms, when));
    redis_cli_print_event(&event);
    show_flushed(w, fflush(stdout) == 0);
}

/* Names of events are numbers of one length, so a later event has a greater name. */
static int on_events(struct conclave_config *config, const struct conclave_config_state *state,
                     void *ctx)
{
    struct failover_watching *w = ctx;
    for (size_t i = 0; i < state->count; i++) {
        const struct conclave_config_node *node = state->nodes[i];
        if (node->path[0] == '\0' || strcmp(node->path, w->newest) <= 0 || node->data == NULL) {
            continue;
        }
        if (w->begun) {
            show_event(w, node);
        }
        snprintf(w->newest, sizeof w->newest, "%s", node->path);
    }
    w->begun = true;
    return 0;
}

static void redis_failover_watch_on_closed(struct conclave_config *config, int why, void *ctx)
{
    struct failover_watching *w = ctx;
    if (why != CONCLAVE_ECLOSED) {
        waiter_end(&w->waiter, why);
    }
}

static int open_one(struct failover_watching *w, struct conclave_recipes *recipes,
                    const char *below, bool tree, struct conclave_config **ret)
{
    char path[REDIS_PATH_MAX];
    struct conclave_config_options options = CONCLAVE_CONFIG_OPTIONS_INIT;
    struct conclave_config_callbacks callbacks = {.size = sizeof callbacks,
                                                  .on_change = tree ? on_events : on_current,
                                                  .on_closed = redis_failover_watch_on_closed};
    options.path = redis_path(w->cli->root, below, path);
    options.tree = tree;
    return conclave_config_open(recipes, &options, &callbacks, w, ret);
}

static void close_one(struct conclave_config *config)
{
    if (config != NULL) {
        (void)conclave_config_close_wait(config, CONCLAVE_FOREVER);
        conclave_config_destroy(config);
    }
}

static int redis_failover_watch_watching_run(struct conclave_client *client,
                                             struct conclave_recipes *recipes, void *ctx)
{
    struct failover_watching *w = ctx;
    struct conclave_config *current = NULL;
    struct conclave_config *events = NULL;
    int number = 0;
    int error = open_one(w, recipes, "current", false, &current);
    error = error != 0 ? error : open_one(w, recipes, "events", true, &events);
    if (error == 0) {
        number = waiter_wait_end(&w->waiter);
        error = waiter_error(&w->waiter);
    }
    close_one(events);
    close_one(current);
    return error != 0    ? fail(REDIS_USAGE.name, w->cli->root, error)
           : number != 0 ? 128 + number
                         : 0;
}

int redis_cli_watch(const struct redis_cli *cli)
{
    struct failover_watching w = {.cli = cli};
    if (waiter_init(&w.waiter, WAITER_END_SIGNALS, false) != 0) {
        return fail(REDIS_USAGE.name, NULL, CONCLAVE_EIO);
    }
    int code = connection_run_recipes(REDIS_USAGE.name, &cli->common,
                                      redis_failover_watch_watching_run, &w);
    waiter_finish(&w.waiter);
    return code;
}
