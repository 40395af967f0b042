#include "cli/recipes/holders_output.h"

#include "base/json.h"
#include "cli/common/command.h"
#include "cli/common/node_output.h"

#include <conclave/semaphore.h>

#include <inttypes.h>
#include <stdio.h>

#define ANSWER_TIMEOUT_MS 5000

struct listed {
    const struct hold_options *options;
    bool semaphore;
    struct conclave_contender *list;
    size_t count;
    int32_t permits; /* 0: a lock */
};

static const char *kind_text(enum conclave_lock_kind kind)
{
    return kind == CONCLAVE_LOCK_READ    ? "read"
           : kind == CONCLAVE_LOCK_WRITE ? "write"
                                         : "exclusive";
}

static const char *role_text(const struct conclave_contender *c)
{
    if (!c->holds) {
        return "waiting";
    }
    return c->kind == CONCLAVE_LOCK_READ    ? "reader"
           : c->kind == CONCLAVE_LOCK_WRITE ? "writer"
                                            : "holder";
}

static void contender_json(struct json *j, const struct conclave_contender *c, bool semaphore)
{
    char time[TIME_TEXT_MAX];
    json_object_begin(j);
    json_member_string(j, "role", role_text(c));
    if (!semaphore) {
        json_member_string(j, "kind", kind_text(c->kind));
    }
    json_member_string(j, "node", c->node);
    json_member_int(j, "token", c->token.czxid);
    json_member_string(j, "since", time_text(c->since_ms, time));
    json_member_string(j, "id", c->id);
    json_member_hex(j, "session", c->session_id);
    json_object_end(j);
}

static int holders_print(const struct listed *l)
{
    const struct hold_options *options = l->options;
    char time[TIME_TEXT_MAX];
    struct json j;
    output_titles(&options->common, l->count, "ROLE\tNODE\tTOKEN\tSINCE\tID");
    if (!options->common.json) {
        for (size_t i = 0; i < l->count; i++) {
            const struct conclave_contender *c = &l->list[i];
            printf("%s\t%s\t%" PRId64 "\t%s\t%s\n", role_text(c), c->node, c->token.czxid,
                   time_text(c->since_ms, time), c->id);
        }
        return 0;
    }
    json_line_begin(&j);
    json_member_string(&j, "path", options->path);
    if (l->permits > 0) {
        json_member_int(&j, "permits", l->permits);
    }
    json_key(&j, "contenders");
    json_array_begin(&j);
    for (size_t i = 0; i < l->count; i++) {
        contender_json(&j, &l->list[i], l->permits > 0);
    }
    json_array_end(&j);
    return json_line_print(&j, stdout);
}

static int holders_run(struct conclave_recipes *recipes, void *ctx)
{
    struct listed *l = ctx;
    const struct hold_options *o = l->options;
    int64_t timeout_ms =
        o->common.timeout_ms == CONCLAVE_FOREVER ? ANSWER_TIMEOUT_MS : o->common.timeout_ms;
    int error = l->semaphore
                    ? conclave_semaphore_contenders(recipes, o->path, timeout_ms, &l->list,
                                                    &l->count, &l->permits)
                    : conclave_lock_contenders(recipes, o->path, timeout_ms, &l->list, &l->count);
    if (error == CONCLAVE_NO_NODE) {
        error = 0; /* the node comes with the first contender, and may go with the last */
    }
    error = error == 0 ? holders_print(l) : error;
    conclave_contenders_free(l->list, l->count);
    if (error == CONCLAVE_ECONFLICT) {
        fprintf(stderr, "conclave %s: %s: no semaphore: its data is not the number of places\n",
                o->usage->name, o->path);
        return CLI_EXIT_CONFIG;
    }
    return error == 0 ? 0 : fail(o->usage->name, o->path, error);
}

int holders_output(const struct hold_options *options, bool semaphore)
{
    struct common_options common = options->common;
    struct listed l = {.options = options, .semaphore = semaphore};
    if (common.timeout_ms == CONCLAVE_FOREVER) {
        common.timeout_ms = ANSWER_TIMEOUT_MS;
    }
    return output_end(options->usage->name,
                      connection_run_recipes(options->usage->name, &common, holders_run, &l));
}
