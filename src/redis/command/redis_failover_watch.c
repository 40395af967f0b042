/* conclave redis-failover watch: a line for each change of the master and for each event, until a signal. */
#include "base/json.h"
#include "cli/common/command.h"
#include "cli/common/waiter.h"
#include "redis/command/redis_failover.h"
#include "redis/manager/cluster_znodes.h"
#include "redis/records/event.h"
#include "redis/records/records.h"

#include <conclave/config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct failover_watching {
    const struct redis_cli *cli;
    struct waiter waiter;
    char newest[64]; /* name of the newest event that was shown or was there at the beginning */
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

void redis_cli_print_event(const char *name, const char *node, const char *text)
{
    /* Most texts begin with the server themselves. */
    bool said = node[0] == '\0' || strncmp(text, node, strlen(node)) == 0;
    printf("%s%s%s: %s\n", name, said ? "" : " ", said ? "" : node, text);
}

static void show_current(struct failover_watching *w, const struct redis_current *c)
{
    if (w->cli->common.json) {
        struct json j;
        struct buf record;
        buf_init(&record, 0);
        redis_current_write(&record, c);
        json_line_begin(&j);
        json_member_string(&j, "event", "current");
        json_key(&j, "current");
        json_ready(&j, buf_slice(&record));
        json_object_end(&j);
        if (json_print(&j, stdout) != 0) {
            waiter_end(&w->waiter, CONCLAVE_EIO);
        }
        json_finish(&j);
        buf_finish(&record);
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
    if (state->count > 0 &&
        redis_current_read(state->nodes[0].data, state->nodes[0].data_len, &current) == 0) {
        show_current(ctx, &current);
    }
    return 0;
}

static void show_event(struct failover_watching *w, const struct conclave_config_node *node)
{
    struct redis_event_read e;
    if (w->cli->common.json) {
        printf("%.*s", (int)node->data_len, (const char *)node->data);
        show_line(w);
        return;
    }
    if (redis_event_read(node->data, node->data_len, &e) != 0) {
        return;
    }
    char text[32];
    time_t seconds = (time_t)(e.at_ms / 1000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    printf("EVENT\t%s.%03dZ\t", text, (int)(e.at_ms % 1000));
    redis_cli_print_event(e.name, e.node, e.text);
    show_flushed(w, fflush(stdout) == 0);
}

/* Names of events are numbers of one length: those that are newer than the last are new. */
static int on_events(struct conclave_config *config, const struct conclave_config_state *state,
                     void *ctx)
{
    struct failover_watching *w = ctx;
    for (size_t i = 0; i < state->count; i++) {
        const struct conclave_config_node *node = &state->nodes[i];
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
    struct conclave_config_callbacks callbacks = {.on_change = tree ? on_events : on_current,
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

static int redis_failover_watch_watching_run(struct conclave_recipes *recipes, void *ctx)
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
