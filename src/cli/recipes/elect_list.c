/* conclave elect --list and --watch: who stands for election, and who leads, without taking
 * part. */
#include "cli/recipes/elect.h"

#include "base/json.h"
#include "cli/common/command.h"
#include "cli/common/waiter.h"

#include <conclave/election.h>

#include <inttypes.h>
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

static int elect_list_list_print(const struct elect_options *options,
                                 const struct conclave_participant *list, size_t count)
{
    struct json j;
    output_titles(&options->turn.common, count, "ROLE\tNODE\tTOKEN\tID");
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

static int elect_list_run(struct conclave_recipes *recipes, void *ctx)
{
    const struct elect_options *options = ctx;
    struct conclave_participant *list = NULL;
    size_t count = 0;
    int64_t timeout_ms = options->turn.common.timeout_ms;
    int error = conclave_election_participants(
        recipes, options->turn.path,
        timeout_ms == CONCLAVE_FOREVER ? ANSWER_TIMEOUT_MS : timeout_ms, &list, &count);
    if (error == CONCLAVE_NO_NODE) {
        error = 0; /* the node comes with the first candidate, and may go with the last */
    }
    error = error == 0 ? elect_list_list_print(options, list, count) : error;
    conclave_participants_free(list, count);
    return error == 0 ? 0 : fail(ELECT_USAGE.name, options->turn.path, error);
}

int elect_list(struct elect_options *options)
{
    struct common_options common = options->turn.common;
    if (common.timeout_ms == CONCLAVE_FOREVER) {
        common.timeout_ms = ANSWER_TIMEOUT_MS;
    }
    return output_end(ELECT_USAGE.name,
                      connection_run_recipes(ELECT_USAGE.name, &common, elect_list_run, options));
}

/* --- watch ------------------------------------------------------------------------------------ */

struct elect_watch {
    const struct elect_options *options;
    struct waiter waiter;
};

static void on_leader(struct conclave_election *election, const struct conclave_participant *leader,
                      bool acked, void *ctx)
{
    struct elect_watch *w = ctx;
    const char *event = leader == NULL ? "none" : acked ? "ready" : "leader";
    int error = 0;
    if (w->options->turn.common.json) {
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
        waiter_end(&w->waiter, error);
    }
}

static void elect_watch_on_closed(struct conclave_election *election, int why, void *ctx)
{
    struct elect_watch *w = ctx;
    if (why != CONCLAVE_ECLOSED) {
        waiter_end(&w->waiter, why);
    }
}

static int elect_watch_run(struct conclave_recipes *recipes, void *ctx)
{
    struct elect_watch *w = ctx;
    struct conclave_election_options options = CONCLAVE_ELECTION_OPTIONS_INIT;
    struct conclave_election_callbacks callbacks = {.on_leader = on_leader,
                                                    .on_closed = elect_watch_on_closed};
    struct conclave_election *election;
    int number = 0;
    options.path = w->options->turn.path;
    options.naming = (enum conclave_naming)w->options->naming;
    options.observe_only = true;
    int error = conclave_election_open(recipes, &options, &callbacks, w, &election);
    if (error == 0) {
        number = waiter_wait_end(&w->waiter);
        conclave_election_close(election);
        error = conclave_election_close_wait(election, CONCLAVE_FOREVER);
        conclave_election_destroy(election);
    }
    error = waiter_error(&w->waiter) != 0 ? waiter_error(&w->waiter) : error;
    return error != 0    ? fail(ELECT_USAGE.name, options.path, error)
           : number != 0 ? 128 + number
                         : 0;
}

int elect_watch(struct elect_options *options)
{
    struct common_options common = options->turn.common;
    struct elect_watch w = {.options = options};
    common.timeout_ms = options->turn.connect_timeout_ms;
    if (waiter_init(&w.waiter, WAITER_END_SIGNALS, false) != 0) {
        return fail(ELECT_USAGE.name, NULL, CONCLAVE_EIO);
    }
    int code = connection_run_recipes(ELECT_USAGE.name, &common, elect_watch_run, &w);
    waiter_finish(&w.waiter);
    return code;
}
