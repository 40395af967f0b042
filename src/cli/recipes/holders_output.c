#include "cli/recipes/holders_output.h"

#include "base/json.h"
#include "cli/common/command.h"
#include "cli/common/node_output.h"

#include <conclave/semaphore.h>

#include <inttypes.h>
#include <stdio.h>

#define ANSWER_TIMEOUT_MS 5000

struct listed {
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

static int print(const struct hold_options *options, const struct listed *l)
{
    char time[TIME_TEXT_MAX];
    struct json j;
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

int holders_output(const struct hold_options *options, bool semaphore)
{
    struct common_options common = options->common;
    struct conclave_client *client;
    struct conclave_recipes *recipes = NULL;
    struct listed l = {.list = NULL};
    const char *command = options->usage->name;
    if (common.timeout_ms == CONCLAVE_FOREVER) {
        common.timeout_ms = ANSWER_TIMEOUT_MS;
    }
    int code = connection_open(command, &common, NULL, NULL, &client);
    if (code != 0) {
        return code;
    }
    int error = conclave_recipes_create(client, &recipes);
    if (error == 0) {
        error = semaphore ? conclave_semaphore_contenders(recipes, options->path, common.timeout_ms,
                                                          &l.list, &l.count, &l.permits)
                          : conclave_lock_contenders(recipes, options->path, common.timeout_ms,
                                                     &l.list, &l.count);
    }
    if (error == CONCLAVE_NO_NODE) {
        error = 0; /* the node comes with the first contender, and may go with the last */
    }
    if (error == 0) {
        error = print(options, &l);
    }
    conclave_contenders_free(l.list, l.count);
    if (error == CONCLAVE_ECONFLICT) {
        fprintf(stderr, "conclave %s: %s: no semaphore: its data is not the number of places\n",
                command, options->path);
        code = CLI_EXIT_CONFIG;
    } else {
        code = error == 0 ? 0 : fail(command, options->path, error);
    }
    conclave_recipes_destroy(recipes);
    connection_close(client);
    return output_end(command, code);
}
