/* conclave elect --list and --watch: who stands for election, and who leads, without taking
 * part. */
#include "cli/recipes/elect.h"

#include "base/json.h"
#include "cli/common/command.h"
#include "cli/common/waiter.h"

#include <conclave/election.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#define ANSWER_TIMEOUT_MS 5000

/* Members of an open object. */
static void participant_json(struct json *j, const struct conclave_participant *p)
{
    json_member_string(j, "node", p->node);
    json_member_int(j, "token", p->token.czxid);
    json_member_string(j, "id", p->id);
    json_data(j, p->data_len > 0 ? p->data : NULL, p->data_len);
    json_member_hex(j, "session", p->session_id);
}

static int list_print(const struct elect_options *options, const struct conclave_participant *list,
                      size_t count)
{
    struct json j;
    if (!options->turn.common.json) {
        for (size_t i = 0; i < count; i++) {
            printf("%s\t%s\t%" PRId64 "\t%s\n", i == 0 ? "leader" : "waiting", list[i].node,
                   list[i].token.czxid, list[i].id);
        }
        return 0;
    }
    json_line_begin(&j);
    json_member_string(&j, "path", options->turn.path);
    json_key(&j, "participants");
    json_array_begin(&j);
    for (size_t i = 0; i < count; i++) {
        json_object_begin(&j);
        json_member_string(&j, "role", i == 0 ? "leader" : "waiting");
        participant_json(&j, &list[i]);
        json_object_end(&j);
    }
    json_array_end(&j);
    return json_line_print(&j, stdout);
}

int elect_list(const struct elect_options *options)
{
    struct common_options common = options->turn.common;
    struct conclave_client *client;
    struct conclave_recipes *recipes = NULL;
    struct conclave_participant *list = NULL;
    size_t count = 0;
    if (common.timeout_ms == CONCLAVE_FOREVER) {
        common.timeout_ms = ANSWER_TIMEOUT_MS;
    }
    int code = connection_open(ELECT_USAGE.name, &common, NULL, NULL, &client);
    if (code != 0) {
        return code;
    }
    int error = conclave_recipes_create(client, &recipes);
    if (error == 0) {
        error = conclave_election_participants(recipes, options->turn.path, common.timeout_ms,
                                               &list, &count);
    }
    if (error == CONCLAVE_NO_NODE) {
        error = 0; /* the node comes with the first candidate, and may go with the last */
    }
    if (error == 0) {
        error = list_print(options, list, count);
        conclave_participants_free(list, count);
    }
    code = error == 0 ? 0 : fail(ELECT_USAGE.name, options->turn.path, error);
    conclave_recipes_destroy(recipes);
    connection_close(client);
    return output_end(ELECT_USAGE.name, code);
}

/* --- watch ------------------------------------------------------------------------------------ */

struct watching {
    bool as_json;
    struct waiter waiter;
    atomic_int error; /* why it ended by itself, 0: it did not */
};

static void watching_end(struct watching *w, int error)
{
    atomic_store(&w->error, error);
    waiter_wake(&w->waiter);
}

static void on_leader(struct conclave_election *election, const struct conclave_participant *leader,
                      bool acked, void *ctx)
{
    struct watching *w = ctx;
    const char *event = leader == NULL ? "none" : acked ? "ready" : "leader";
    int error = 0;
    (void)election;
    if (w->as_json) {
        struct json j;
        json_line_begin(&j);
        json_member_string(&j, "event", event);
        if (leader != NULL) {
            participant_json(&j, leader);
        }
        error = json_line_print(&j, stdout);
    } else {
        int n = leader == NULL ? printf("none\n")
                               : printf("%s\t%s\t%" PRId64 "\t%s\n", event, leader->node,
                                        leader->token.czxid, leader->id);
        error = n < 0 || fflush(stdout) != 0 ? CONCLAVE_EIO : 0;
    }
    if (error != 0) {
        watching_end(w, error);
    }
}

static void on_closed(struct conclave_election *election, int why, void *ctx)
{
    (void)election;
    if (why != CONCLAVE_ECLOSED) {
        watching_end(ctx, why);
    }
}

static int watch_run(struct watching *w, struct conclave_recipes *recipes,
                     const struct elect_options *wanted, int *ret_signal)
{
    struct conclave_election_options options = CONCLAVE_ELECTION_OPTIONS_INIT;
    struct conclave_election_callbacks callbacks = {.on_leader = on_leader, .on_closed = on_closed};
    struct conclave_election *election;
    options.path = wanted->turn.path;
    options.naming = (enum conclave_naming)wanted->naming;
    options.observe_only = true;
    int error = conclave_election_start(recipes, &options, &callbacks, w, &election);
    if (error != 0) {
        return error;
    }
    while (waiter_wait(&w->waiter, -1, -1, ret_signal) == WAITER_TIMEOUT) {}
    conclave_election_close(election);
    error = conclave_election_close_wait(election, CONCLAVE_FOREVER);
    conclave_election_destroy(election);
    return atomic_load(&w->error) != 0 ? atomic_load(&w->error) : error;
}

int elect_watch(const struct elect_options *options)
{
    struct common_options common = options->turn.common;
    struct watching w = {.as_json = common.json};
    struct conclave_client *client;
    struct conclave_recipes *recipes = NULL;
    int number = 0;
    common.timeout_ms = options->turn.connect_timeout_ms;
    if (waiter_init(&w.waiter, WAITER_END_SIGNALS, false) != 0) {
        return fail(ELECT_USAGE.name, NULL, CONCLAVE_EIO);
    }
    int code = connection_open(ELECT_USAGE.name, &common, NULL, NULL, &client);
    if (code == 0) {
        int error = conclave_recipes_create(client, &recipes);
        if (error == 0) {
            error = watch_run(&w, recipes, options, &number);
        }
        code = error != 0 ? fail(ELECT_USAGE.name, options->turn.path, error)
                          : (number != 0 ? 128 + number : 0);
        conclave_recipes_destroy(recipes);
        connection_close(client);
    }
    waiter_finish(&w.waiter);
    return code;
}
